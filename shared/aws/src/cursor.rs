//! Cursors of lists. A cursor names its list, so that one list's never works, or tells anything, in
//! another; and it holds a place in the index's order, so that a forged one can only name a place in its
//! owner's own list.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use dormouse_domain::{Digest, RequestId, RunId};
use dormouse_engine::ports::StoreError;
use serde::{Deserialize, Serialize};

/// Which of the two lists of the listing index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    /// Runs by owner.
    Runs,
    /// Pending requests by inbox.
    Inbox,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cursor {
    list: String,
    after: String,
}

/// The cursor behind the item at `after` in `list`.
pub(crate) fn encode(list: &str, after: &str) -> String {
    let cursor = serde_json::json!({ "list": list, "after": after });
    BASE64_URL_SAFE_NO_PAD.encode(cursor.to_string())
}

/// The name of the list of these partitions of the index.
pub(crate) fn name(partitions: &[String]) -> String {
    match partitions {
        [one] => one.clone(),
        // No partition key has a line break in it: the names of people and groups have no control characters.
        several => Digest::of(several.join("\n").as_bytes()).to_string(),
    }
}

/// The place after which the page behind `cursor` starts.
pub(crate) fn decode(list: List, name: &str, cursor: &str) -> Result<String, StoreError> {
    let place = || {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let cursor: Cursor = serde_json::from_slice(&bytes).ok()?;
        let (at, item) = cursor.after.split_once('#')?;
        let is_own = cursor.list == name && at.len() >= 15 && at.bytes().all(|byte| byte.is_ascii_digit());
        let names_one = match list {
            List::Runs => item.parse::<RunId>().is_ok(),
            List::Inbox => item.parse::<RequestId>().is_ok(),
        };
        (is_own && names_one).then_some(cursor.after)
    };
    place().ok_or(StoreError::BadCursor)
}

#[cfg(test)]
mod tests {
    use dormouse_domain::Millis;

    use super::*;
    use crate::keys;

    #[test]
    fn a_cursor_names_the_place_it_was_made_of() {
        let after = keys::runs_ls(Millis(5), &RunId::from_bits(7));
        assert_eq!(decode(List::Runs, "RUNS#t/s", &encode("RUNS#t/s", &after)).unwrap(), after);
    }

    #[test]
    fn lists_of_several_partitions_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> = [vec!["a"], vec!["a", "b"], vec!["b", "a"], vec!["a", "b", "c"]]
            .into_iter()
            .map(|parts| name(&parts.into_iter().map(str::to_owned).collect::<Vec<_>>()))
            .collect();
        assert_eq!(names.len(), 4);
    }

    #[test]
    fn anything_else_is_refused() {
        let after = keys::runs_ls(Millis(5), &RunId::from_bits(7));
        let own = encode("RUNS#t/s", &after);
        for (list, lp, cursor) in [
            (List::Runs, "RUNS#t/other", own.as_str()),
            (List::Inbox, "INBOX#t/s", own.as_str()),
            (List::Inbox, "RUNS#t/s", own.as_str()),
            (List::Runs, "RUNS#t/s", ""),
            (List::Runs, "RUNS#t/s", "%%%"),
            (List::Runs, "RUNS#t/s", &own[..own.len() - 4]),
            (List::Runs, "RUNS#t/s", &encode("RUNS#t/s", "5#run_7")),
            (List::Runs, "RUNS#t/s", &encode("RUNS#t/s", &format!("x{after}"))),
        ] {
            assert!(matches!(decode(list, lp, cursor), Err(StoreError::BadCursor)), "{cursor}");
        }
    }
}
