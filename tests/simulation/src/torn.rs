//! Transactions that are being applied: a query is only read-committed against them, so it can see one of
//! their items without another. What has been seen once stays; a write that meets them is in conflict.

use serde_json::{Map, Value, json};

/// Partition and sort key.
pub(crate) type Key = (String, String);

/// The key of an item, or of what names one.
pub(crate) fn key(item: &Value) -> Option<Key> {
    let text = |name: &str| item[name]["S"].as_str().map(str::to_owned);
    Some((text("PK")?, text("SK")?))
}

/// An item whose new form cannot be seen yet.
#[derive(Debug)]
struct Unapplied {
    key: Key,
    before: Option<Value>,
    visible_at_ms: u64,
}

/// Items that are being written.
#[derive(Debug, Default)]
pub(crate) struct Torn(Vec<Unapplied>);

impl Torn {
    /// This item, which stood as `before`, is seen as it is from `visible_at_ms` on.
    pub(crate) fn enter(&mut self, key: Key, before: Option<Value>, visible_at_ms: u64) {
        self.0.push(Unapplied { key, before, visible_at_ms });
    }

    /// Forgets what can be seen; whether nothing else is left.
    pub(crate) fn is_over(&mut self, now_ms: u64) -> bool {
        self.0.retain(|item| item.visible_at_ms > now_ms);
        self.0.is_empty()
    }

    /// Whether a write touches one of them.
    pub(crate) fn meets(&self, operation: &str, request: &Value) -> bool {
        let named = |of: &Value| key(&of["Item"]).or_else(|| key(&of["Key"]));
        let is_unapplied = |key: Option<Key>| self.0.iter().any(|item| Some(&item.key) == key.as_ref());
        if operation != "TransactWriteItems" {
            return is_unapplied(named(request));
        }
        let actions = request["TransactItems"].as_array().into_iter().flatten();
        actions.filter_map(Value::as_object).any(|action| action.values().any(|one| is_unapplied(named(one))))
    }

    /// What a read answers that does not see them. A read of one item is known by its `request`: the
    /// answer need not hold the key.
    pub(crate) fn without(&self, request: &Value, answer: &mut Value) {
        let read = key(&request["Key"]);
        for item in &self.0 {
            if read.as_ref() == Some(&item.key) {
                *answer = before(item.before.as_ref(), &answer["Item"]);
            }
            let Some(items) = answer.get_mut("Items").and_then(Value::as_array_mut) else { continue };
            let Some(place) = items.iter().position(|seen| key(seen).as_ref() == Some(&item.key)) else { continue };
            match &item.before {
                Some(before) => items[place] = before.clone(),
                None => drop(items.remove(place)),
            }
        }
    }
}

/// The answer with the older form of an item, with the attributes that were asked for: those of `asked`.
fn before(item: Option<&Value>, asked: &Value) -> Value {
    let Some(item) = item.and_then(Value::as_object) else { return json!({}) };
    let item: Map<_, _> = item.clone().into_iter().filter(|(name, _)| asked.get(name).is_some()).collect();
    json!({ "Item": item })
}
