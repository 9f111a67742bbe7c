//! Where the auditor's rules begin and end: rows beside those that `bad_entries` breaks.

use super::*;

fn paused() -> Written {
    ("~", Fact::Paused { by: me() })
}

fn names(facts: Vec<Written>) -> Vec<&'static str> {
    last(facts).iter().map(|violation| violation.invariant).collect()
}

/// A whole journal is judged with its states, and each violation says where and what.
#[test]
fn a_journal_is_judged_as_a_whole() {
    let by = Principal { tenant: "t".into(), subject: "other".into() };
    let decision = Decision::Deny { reason: None };
    let by_another = Fact::RequestDecided { request: RequestKey::new(3, 0), decision, by, digest: None };
    let facts = with(waiting(), [("~", by_another), started("d2")]);
    let found = audit::journal(&run_id(), &definition(), &entries(facts)).unwrap();
    let found: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found, ["entry 4 breaks I6: 3.0 is not t/other's to decide"]);
}

/// Who ends a run: its holder, or a decision that cancels, in nobody's name.
#[test]
fn who_ends_a_run() {
    use FinalStatus::{Cancelled, Completed, Failed};
    let begun = || vec![run_started(), started("d")];
    for (what, facts, expected) in [
        ("its holder", with(begun(), [("d", over(Failed))]), vec![]),
        ("a cancellation, in nobody's name", with(waiting(), [cancel(), ("~", over(Cancelled))]), vec![]),
        ("nobody, and it is no cancellation", with(begun(), [("~", over(Failed))]), vec!["I1"]),
        ("another's cancellation", with(waiting(), [cancel(), started("d2"), ("d9", over(Cancelled))]), vec!["I1"]),
        (
            "its second holder, by failing",
            with(begun(), [("d", over(Completed)), started("d2"), ("d2", over(Failed))]),
            vec![],
        ),
        (
            "its second holder, by completing once more",
            with(begun(), [("d", over(Completed)), started("d2"), ("d2", over(Completed))]),
            vec!["I4"],
        ),
    ] {
        assert_eq!(names(facts), expected, "{what}");
    }
}

/// Nothing starts while a run is paused or cancelled, with a reply or after it.
#[test]
fn nothing_starts_in_a_run_that_is_held() {
    let begun = || vec![run_started(), started("d")];
    let start = |seen| replied(seen, vec![("look", Plan::Start)]);
    assert_eq!(names(with(begun(), [paused(), start(3)])), ["B8"]);
    assert_eq!(names(with(begun(), [cancel(), start(3)])), ["B8"]);
    let ready = || with(begun(), [replied(2, vec![("look", Plan::Allow)])]);
    assert_eq!(names(with(ready(), [paused(), ("d", dispatched(1))])), ["B8"]);
    assert_eq!(names(with(ready(), [cancel(), ("d", dispatched(1))])), ["B8"]);
    assert!(names(with(ready(), [paused(), ("~", Fact::Resumed { by: me() }), ("d", dispatched(1))])).is_empty());
}

/// A request expires after its last moment, not at it.
#[test]
fn when_a_request_expires() {
    for (at, expected) in [(60_000, vec!["I6"]), (60_001, vec![])] {
        let expired = ("d2", Fact::RequestExpired { requests: vec![RequestKey::new(3, 0)] });
        let mut entries = entries(with(waiting(), [started("d2"), expired]));
        entries.last_mut().unwrap().at = Millis(at);
        let mut audit = Audit::new(run_id(), definition());
        let found: Vec<_> = entries.iter().flat_map(|entry| audit.entry(entry)).collect();
        assert_eq!(found.iter().map(|violation| violation.invariant).collect::<Vec<_>>(), expected, "at {at}");
    }
}
