//! Entries as they are stored and shown.

use dormouse_domain::entry::DriverStop;
use serde_json::json;

use super::*;

/// API clients read an entry flat: its fact's fields beside its place, kind, time and driver.
#[test]
fn an_entry_is_shown_flat() {
    let driver = Some(DriverId("d1".into()));
    let entry = |fact, driver| Entry { index: 4, entry_id: EntryId("e".into()), at: Millis(7), driver, fact };
    for (fact, driver, expected) in [
        (
            Fact::DriverStarted { until: Millis(9) },
            driver.clone(),
            json!({"index": 4, "kind": "DriverStarted", "at": 7, "driver": "d1", "until": 9}),
        ),
        (
            Fact::DriverStopped { stop: DriverStop::Crashed { message: "x".into() } },
            driver,
            json!({"index": 4, "kind": "DriverStopped", "at": 7, "driver": "d1", "reason": "crashed", "message": "x"}),
        ),
        (Fact::Reopened {}, None, json!({"index": 4, "kind": "Reopened", "at": 7})),
        (
            Fact::Paused { by: me() },
            None,
            json!({"index": 4, "kind": "Paused", "at": 7, "by": {"tenant": "t", "subject": "s"}}),
        ),
    ] {
        assert_eq!(entry(fact, driver).view(), expected);
    }
}
