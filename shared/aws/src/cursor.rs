//! Cursors of lists. A cursor names its list, so that one list's never works, or tells anything, in
//! another; and it holds a place in the index, from which the whole key is made again, so that a
//! forged one can only name a place in its owner's own list.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use dormouse_domain::{RequestId, RunId};
use dormouse_engine::ports::StoreError;
use serde::{Deserialize, Serialize};

use crate::{
    attrs::{Item, s},
    keys::{self, LP, LS},
    request_row::request_key,
    run_row::run_key,
};

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

/// The key at which the page after `cursor` starts.
pub(crate) fn decode(list: List, lp: &str, cursor: &str) -> Result<Item, StoreError> {
    let start = || {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let cursor: Cursor = serde_json::from_slice(&bytes).ok()?;
        let (at, name) = cursor.after.split_once('#')?;
        let is_own = cursor.list == lp && at.len() >= 15 && at.bytes().all(|byte| byte.is_ascii_digit());
        let mut start = match list {
            List::Runs => run_key(&name.parse::<RunId>().ok()?),
            List::Inbox => request_key(&name.parse::<RequestId>().ok()?),
        };
        start.insert(LP.to_owned(), s(lp));
        start.insert(LS.to_owned(), s(cursor.after.as_str()));
        is_own.then_some(start)
    };
    if keys::fits(lp, "") { start().ok_or(StoreError::BadCursor) } else { Err(StoreError::BadCursor) }
}

#[cfg(test)]
mod tests {
    use dormouse_domain::Millis;

    use super::*;
    use crate::keys::{PK, SK};

    #[test]
    fn a_cursor_names_the_key_it_was_made_of() {
        let run = RunId::from_bits(7);
        let cursor = encode("RUNS#t/s", &keys::runs_ls(Millis(5), &run));
        let start = decode(List::Runs, "RUNS#t/s", &cursor).unwrap();
        assert_eq!(start[PK], s(keys::run_pk(&run)));
        assert_eq!(start[SK], s("RUN"));
        assert_eq!(start[LS], s(keys::runs_ls(Millis(5), &run)));
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
