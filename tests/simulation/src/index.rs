//! Indexes as they stood a while ago: DynamoDB's are eventually consistent, dynoxide's are not.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The key attributes of each index, and whether the second is a number.
const INDEXES: [(&str, &str, &str); 2] = [("listing", "LP", "LS"), ("due", "DP", "DA")];
/// What a query of an index says, and one of the table does not.
const INDEX_NAME: &[u8] = b"IndexName";
/// What each index has of an item.
const PROJECTED: [&str; 8] = ["PK", "SK", "LP", "LS", "DP", "DA", "status", "wakes"];

/// Everything that ever stood in an indexed item, and from when on.
#[derive(Default)]
pub(crate) struct Past(BTreeMap<(String, String), Vec<(u64, Value)>>);

fn text(item: &Value, name: &str) -> Option<String> {
    item[name]["S"].as_str().or_else(|| item[name]["N"].as_str()).map(str::to_owned)
}

/// Text that sorts as the sort key does.
fn order(item: &Value, name: &str) -> Option<String> {
    match item[name]["N"].as_str() {
        Some(digits) => Some(format!("{digits:0>20}")),
        None => text(item, name),
    }
}

impl Past {
    /// What stands in an item from `now_ms` on.
    pub(crate) fn enter(&mut self, now_ms: u64, item: &Value) {
        let (Some(pk), Some(sk)) = (text(item, "PK"), text(item, "SK")) else { return };
        if sk == "RUN" || sk.starts_with("Q#") {
            let projected: Map<String, Value> = PROJECTED
                .iter()
                .filter_map(|name| item.get(*name).map(|value| ((*name).to_owned(), value.clone())))
                .collect();
            self.0.entry((pk, sk)).or_default().push((now_ms, Value::Object(projected)));
        }
    }

    /// The answer to a query of an index as it stood at `at_ms`; none if the query is of no index.
    pub(crate) fn query(&self, at_ms: u64, body: &[u8]) -> Option<Vec<u8>> {
        body.windows(INDEX_NAME.len()).find(|window| *window == INDEX_NAME)?;
        let request: Value = serde_json::from_slice(body).ok()?;
        let (_, hash, range) = INDEXES.into_iter().find(|(index, ..)| request["IndexName"] == *index)?;
        let values = &request["ExpressionAttributeValues"];
        let partition = text(values, if hash == "LP" { ":lp" } else { ":dp" })?;
        let most = order(values, ":now");
        let then = self.0.values().filter_map(|versions| {
            let (_, item) = versions.iter().rev().find(|(from_ms, _)| *from_ms <= at_ms)?;
            let place = (order(item, range)?, text(item, "SK")?);
            let within = text(item, hash)? == partition && most.as_ref().is_none_or(|most| place.0 <= *most);
            within.then_some((place, item))
        });
        let mut found: Vec<_> = then.collect();
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        if request["ScanIndexForward"] == false {
            found.reverse();
        }
        if let Some(after) = order(values, ":after") {
            let backward = request["ScanIndexForward"] == false;
            found.retain(|((at, _), _)| if backward { *at < after } else { *at > after });
        }
        let limit = request["Limit"].as_u64().map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let more = found.len() > limit;
        found.truncate(limit);
        let items: Vec<&Value> = found.iter().map(|(_, item)| *item).collect();
        let mut answer = json!({ "Items": items, "Count": items.len(), "ScannedCount": items.len() });
        if let Some(last) = items.last().filter(|_| more) {
            let key: Map<String, Value> =
                ["PK", "SK", hash, range].iter().map(|name| ((*name).to_owned(), last[*name].clone())).collect();
            answer["LastEvaluatedKey"] = Value::Object(key);
        }
        Some(answer.to_string().into_bytes())
    }
}
