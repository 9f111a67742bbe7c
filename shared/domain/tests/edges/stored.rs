//! Entries as they are stored and shown.

use dormouse_domain::entry::DriverStop;
use serde_json::json;

use super::*;

/// API clients read an entry flat: its fact's fields beside its place, kind, time and driver.
#[test]
fn an_entry_is_shown_flat() {
    let driver = Some(DriverId("d1".into()));
    let agent = agent_file::parse(AGENT, "a", 60_000).unwrap();
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
        assert_eq!(entry(fact, driver).view(&agent), expected);
    }
}

/// B9: tokens of all kinds are added up; what one call does not tell is not told of the sum.
#[test]
fn b9_usage_is_added_up() {
    let usage = |n: u64, incomplete| Usage {
        input_tokens: n,
        output_tokens: 10 * n,
        cache_read_tokens: 100 * n,
        cache_write_tokens: 1_000 * n,
        incomplete,
    };
    let mut sum = Usage::default();
    for (n, incomplete, expected) in
        [(1, false, usage(1, false)), (2, true, usage(3, true)), (4, false, usage(7, true))]
    {
        sum.add(&usage(n, incomplete));
        assert_eq!((sum, sum.tokens()), (expected, 1_111 * expected.input_tokens));
    }
}

/// A18: what has its default is left out of what is stored, and read as that.
#[test]
fn a18_defaults_are_not_stored() {
    let stored = |usage: Usage| serde_json::to_value(usage).unwrap();
    let plain = Usage { input_tokens: 0, output_tokens: 2, ..Usage::default() };
    assert_eq!(stored(plain), json!({"input_tokens": 0, "output_tokens": 2}));
    let cached = Usage { cache_read_tokens: 3, cache_write_tokens: 4, incomplete: true, ..plain };
    let full = json!({"input_tokens": 0, "output_tokens": 2, "cache_read_tokens": 3, "cache_write_tokens": 4,
        "incomplete": true});
    assert_eq!(stored(cached), full);
    for usage in [plain, cached] {
        assert_eq!(serde_json::from_value::<Usage>(stored(usage)).unwrap(), usage);
    }
    let message = |supersedes| Fact::MessageAdded { by: me(), content: vec![], supersedes };
    assert!(!message(false).encode().unwrap().1.contains("supersedes"));
    assert!(message(true).encode().unwrap().1.contains("\"supersedes\":true"));
}

/// Case 55: what is stored under a kind is one JSON value: nothing stands beside it, or after it.
#[test]
fn case_55_a_body_is_one_value() {
    let body = "{\"until\":1}";
    assert!(Fact::decode("DriverStarted", body).is_ok());
    for more in [",\"more\":1", ",\"kind\":\"Reopened\"", "}", "},{", " 1"] {
        assert!(Fact::decode("DriverStarted", &format!("{body}{more}")).is_err(), "{more}");
    }
}

/// C5: a clock that is off by ages makes a long time of work, and no panic.
#[test]
fn c5_work_beyond_the_end_of_time_is_added_up() {
    let mut story = Story::new();
    story.run.worked_ms = u64::MAX;
    story.drive();
    let later = story.now.plus(1);
    assert_eq!(dormouse_domain::budget::Budget::of(&story.run, later).used.wall_ms, u64::MAX);
}
