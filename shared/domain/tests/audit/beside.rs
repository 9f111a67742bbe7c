//! Calls that the conversation went on without.

use super::*;

/// A run that went on, at entry 5, without its call of `do`.
pub(crate) fn went_on() -> Vec<Written> {
    let windows = Windows { wait_until: Millis(4_500), decide_by: Millis(60_000) };
    let (call, kind) = (CallKey::new(2, 0), RequestKind::Approval);
    let opened = Opened { call: Some(call), kind, windows, decisions: DecisionKind::offered(kind) };
    vec![
        run_started(),
        started("d"),
        replied(2, vec![("do", ask())]),
        ("d", Fact::Suspended { requests: vec![opened], until: None }),
        started("d2"),
        ("d2", Fact::WaitExpired { requests: vec![RequestKey::new(3, 0)] }),
    ]
}

/// The same, and the run has completed.
pub(crate) fn completed() -> Vec<Written> {
    with(went_on(), [replied_later(6, vec![]), ("d2", over(FinalStatus::Completed))])
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

/// E1: the conversation goes on after the last moment of its wait, and before the request expires.
#[test]
fn e1_when_the_conversation_goes_on() {
    for (at, expected) in [(4_500, vec!["E1"]), (4_501, vec![]), (60_000, vec![]), (60_001, vec!["E1"])] {
        let mut entries = entries(went_on());
        entries.last_mut().unwrap().at = Millis(at);
        let mut audit = Audit::new(run_id(), definition());
        let found: Vec<_> = entries.iter().flat_map(|entry| audit.entry(entry)).collect();
        assert_eq!(found.iter().map(|violation| violation.invariant).collect::<Vec<_>>(), expected, "at {at}");
    }
}

/// E8, E9: what is recognised has something to hand on.
#[test]
fn e8_e9_what_is_recognised() {
    let known = || Plan::Known { call: CallKey::new(2, 0) };
    let ran = |tool| with(running(tool), [("d", finished(1, returned()))]);
    let again = |seen, tool, plan| ("d", replied(seen, vec![(tool, plan)]).1);
    let both = |first: Plan, tool| vec![run_started(), started("d"), replied(2, vec![(tool, first), (tool, known())])];
    for (what, facts, expected) in [
        ("a result that can be used again", with(ran("put"), [again(4, "put", known())]), vec![]),
        ("one that can not", with(ran("act"), [again(4, "act", known())]), vec!["E9"]),
        ("one that its reply had not seen", with(ran("act"), [again(3, "act", known())]), vec!["E9"]),
        ("one that is yet to come", both(Plan::Start { rule: None }, "put"), vec!["E9"]),
    ] {
        let found = last(facts);
        let names: Vec<_> = found.iter().map(|violation| violation.invariant).collect();
        assert_eq!(names, expected, "{what}: {found:?}");
    }
}

/// A message takes the place of what is awaited and cannot go on by itself, and of nothing else.
#[test]
fn what_a_message_takes_the_place_of() {
    let message = || ("~", Fact::MessageAdded { by: me(), content: vec![Content::text("no")], supersedes: true });
    let begun = || vec![run_started(), started("d")];
    let deny = |entry| decided(entry, Decision::Deny { reason: None }, None);
    let start = |driver, attempt| (driver, dispatched(attempt));
    let approved = || with(waiting(), [decided(3, Decision::Approve, Some("do")), started("d2")]);
    let second = with(went_on(), [replied_later(6, vec![("act", Plan::Start { rule: None })]), started("d3")]);
    for (what, facts, expected) in [
        (
            "a call that is ready goes on",
            with(begun(), [replied(2, vec![("act", Plan::Allow { rule: None })]), message(), start("d", 1)]),
            vec![],
        ),
        ("a call that runs goes on", with(running("act"), [message(), ("d", finished(1, returned()))]), vec![]),
        ("a call that was approved goes on", with(approved(), [message(), start("d2", 1)]), vec![]),
        (
            "a call that is to be tried again goes on",
            with(running("look"), [started("d2"), message(), start("d2", 2)]),
            vec![],
        ),
        (
            "a call that asks does not",
            with(begun(), [replied(2, vec![("do", ask())]), message(), start("d", 1)]),
            vec!["I3"],
        ),
        ("a call that waits does not", with(waiting(), [message(), deny(3)]), vec!["I6"]),
        (
            "a lost call does not",
            with(running("act"), [started("d2"), message(), ("d", finished(1, returned()))]),
            vec!["I3"],
        ),
        (
            "what a lost call waits for does not",
            with(uncertain(), [message(), decided(8, retry(), Some("do"))]),
            vec!["I6"],
        ),
        ("what waits beside it stays", with(second, [message(), deny(3)]), vec![]),
    ] {
        let found = last(facts);
        let names: Vec<_> = found.iter().map(|violation| violation.invariant).collect();
        assert_eq!(names, expected, "{what}: {found:?}");
    }
}
