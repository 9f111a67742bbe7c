//! Calls that the conversation went on without.

use super::*;

/// A run that went on, at entry 5, without its call of `do`.
pub(crate) fn went_on() -> Vec<Written> {
    let windows = Windows { wait_until: Millis(4_500), decide_by: Millis(60_000) };
    let (call, kind) = (CallKey::new(2, 0), RequestKind::Approval);
    let opened = Opened { call, kind, windows, decisions: DecisionKind::offered(kind) };
    vec![
        run_started(),
        started("d"),
        replied(2, vec![("do", ask())]),
        ("d", Fact::Suspended { requests: vec![opened], until: None }),
        started("d2"),
        ("d2", Fact::WaitExpired { requests: vec![RequestKey::new(3, 0)] }),
    ]
}

/// A later reply of `d2` that makes these calls.
fn replied_later(seen: u32, calls: Vec<(&str, Plan)>) -> Written {
    ("d2", replied(seen, calls).1)
}

/// What the conversation went on without: good journals, and rows that break one promise each.
#[test]
fn beside_the_conversation() {
    let (joins, known) = (Plan::Joins { call: CallKey::new(2, 0) }, Plan::Known { call: CallKey::new(2, 0) });
    let deny = || decided(3, Decision::Deny { reason: None }, None);
    let approve = || decided(3, Decision::Approve, Some("do"));
    let expires = |driver| (driver, Fact::WaitExpired { requests: vec![RequestKey::new(3, 0)] });
    let completed = || with(went_on(), [replied_later(6, vec![]), ("d2", over(FinalStatus::Completed))]);
    let good = [
        with(completed(), [approve(), started("d3"), ("d3", dispatched(1)), ("d3", finished(1, returned()))]),
        with(went_on(), [replied_later(6, vec![("do", joins.clone())])]),
        with(went_on(), [deny(), replied_later(6, vec![("do", known.clone())])]),
        with(completed(), [deny(), started("d3"), ("d3", Fact::Reopened {})]),
    ];
    for facts in good {
        assert_eq!(last(facts), []);
    }
    let mut waits = went_on();
    waits.pop();
    let bad: Vec<(&str, &str, Vec<Written>)> = vec![
        ("E6", "it goes on twice", with(went_on(), [expires("d2")])),
        ("E6", "it goes on without what was decided", with(waits.clone(), [approve(), expires("d2")])),
        ("I1", "one without the run goes on", with(waits.clone(), [expires("d9")])),
        ("E8", "another call joins", with(went_on(), [replied_later(6, vec![("look", joins.clone())])])),
        ("E9", "a call joins what is over", with(went_on(), [deny(), replied_later(6, vec![("do", joins)])])),
        (
            "E9",
            "a call is given what is known",
            with(went_on(), [deny(), replied_later(7, vec![("do", known.clone())])]),
        ),
        (
            "E9",
            "a refusal is handed on twice",
            with(went_on(), [deny(), replied_later(6, vec![("do", known.clone()), ("do", known)])]),
        ),
        ("E7", "a run is reopened that had not completed", with(went_on(), [("d2", Fact::Reopened {})])),
        ("I4", "a reply after the end", with(completed(), [approve(), started("d3"), ("d3", replied(9, vec![]).1)])),
        ("I3", "what was declined runs late", with(completed(), [deny(), started("d3"), ("d3", dispatched(1))])),
    ];
    for (invariant, what, facts) in bad {
        let found = last(facts);
        assert!(found.iter().any(|violation| violation.invariant == invariant), "{what}: {found:?}");
    }
}
