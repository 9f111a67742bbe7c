//! The auditor finds each kind of bad journal, and nothing in a good one. Entries are entered without
//! the fold, which refuses most of these journals; what the fold could get wrong is tried on a state
//! that was tampered with.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by stopping")]

mod beside;
mod edges;
mod forked;
mod states;

use std::{collections::BTreeMap, sync::Arc};

use dormouse_domain::{
    CallKey, Definition, Digest, DriverId, Entry, EntryId, Fact, Millis, Mode, Principal, RequestKey, Run, RunId,
    agent_file,
    audit::{self, Audit, Violation},
    decide::{Decision, Resolution},
    entry::{CallResult, Dispatched, DriverStop, FinalStatus, Opened, Outcome, Replanned},
    kv::{KvPatch, State},
    message::{Content, ReplyBlock, StopReason, Usage},
    plan::{self, Plan},
    request::{DecisionKind, RequestKind, RequestStatus},
    run::{CallState, Ending},
    windows::Windows,
};
use serde_json::json;

const START: Plan = Plan::Start { rule: None };
const ALLOW: Plan = Plan::Allow { rule: None };

const AGENT: &str = r#"
    models = ["a:one"]
    [[tools]]
    name = "look"
    kind = "read"
    replay = "safe"
    http = { url = "http://x" }
    [[tools]]
    name = "do"
    http = { url = "http://x" }
    [[tools]]
    name = "act"
    permission = "allow"
    http = { url = "http://x" }
    [[tools]]
    name = "wait"
    permission = "allow"
    later = true
    http = { url = "http://x" }
    [[tools]]
    name = "never"
    permission = "deny"
    http = { url = "http://x" }
    [[tools]]
    name = "put"
    permission = "allow"
    replay = "idempotent"
    http = { url = "http://x" }
    [[tools]]
    builtin = "ask_user"
"#;

fn definition() -> Arc<Definition> {
    Arc::new(agent_file::parse(AGENT, "a", 600_000).unwrap())
}

fn run_id() -> RunId {
    RunId::from_bits(7)
}

fn me() -> Principal {
    Principal { tenant: "t".into(), subject: "s".into() }
}

/// A fact and the driver that writes it.
type Written = (&'static str, Fact);

/// The entries of these facts, each a second after the one before it. `~` is no driver.
fn entries(facts: Vec<Written>) -> Vec<Entry> {
    let entry = |(index, (driver, fact)): (u32, Written)| Entry {
        index,
        entry_id: EntryId(format!("e{index}")),
        at: Millis(1000 * u64::from(index)),
        driver: (driver != "~").then(|| DriverId(driver.to_owned())),
        fact,
    };
    (0..).zip(facts).map(entry).collect()
}

fn run_started() -> Written {
    let definition = definition().digest().unwrap();
    let (owner, agent, input) = (me(), "a".into(), vec![Content::text("go")]);
    (
        "~",
        Fact::RunStarted {
            owner,
            agent,
            definition,
            mode: Mode::Normal,
            input,
            metadata: BTreeMap::new(),
            parent: None,
        },
    )
}

fn started(driver: &'static str) -> Written {
    (driver, Fact::DriverStarted { until: Millis(900_000) })
}

fn stopped(driver: &'static str) -> Written {
    (driver, Fact::DriverStopped { stop: DriverStop::HandedOff })
}

fn replied(seen: u32, calls: Vec<(&str, Plan)>) -> Written {
    let (names, plans): (Vec<_>, Vec<_>) = calls.into_iter().unzip();
    let block =
        |name: &str| ReplyBlock::ToolCall { id: "c".into(), name: name.into(), arguments: "{}".into(), raw: None };
    let content = names.into_iter().map(block).collect();
    let (model, stop, usage) = ("a:one".parse().unwrap(), StopReason::ToolUse, Usage::default());
    ("d", Fact::ModelReplied { model, content, stop, usage, seen, calls: plans })
}

fn ask() -> Plan {
    Plan::Ask { reason: "because".into(), floor: false }
}

fn dispatched(attempt: u32) -> Fact {
    Fact::CallDispatched { calls: vec![Dispatched { call: CallKey::new(2, 0), attempt }] }
}

fn finished(attempt: u32, result: CallResult) -> Fact {
    Fact::CallFinished { call: CallKey::new(2, 0), attempt, result, kv: KvPatch::new(), used: None }
}

fn returned() -> CallResult {
    CallResult::Returned { content: vec![Content::text("fine")], is_error: false }
}

fn unknown() -> CallResult {
    CallResult::Unknown { why: "lost".into() }
}

fn not_sent() -> CallResult {
    CallResult::NotSent { why: "refused".into() }
}

fn suspended(kind: RequestKind) -> Written {
    let windows = Windows { wait_until: Millis(60_000), decide_by: Millis(60_000) };
    let opened = Opened { call: Some(CallKey::new(2, 0)), kind, windows, decisions: DecisionKind::offered(kind) };
    ("d", Fact::Suspended { requests: vec![opened], until: None })
}

fn digest_of(tool: &str) -> Digest {
    plan::call_digest(&me(), &run_id(), tool, &json!({})).unwrap()
}

fn decided(entry: u32, decision: Decision, tool: Option<&str>) -> Written {
    let digest = tool.map(digest_of);
    ("~", Fact::RequestDecided { request: RequestKey::new(entry, 0), decision, by: me(), digest, via: None })
}

fn retry() -> Decision {
    Decision::Settle { resolution: Resolution::Retry }
}

fn over(status: FinalStatus) -> Fact {
    Fact::RunFinished(Outcome { status, why: "x".into(), by: None, unknown_calls: vec![] })
}

fn cancel() -> Written {
    ("~", Fact::CancelRequested { by: me(), reason: None })
}

fn mode(mode: Mode, plan: Option<Plan>) -> Written {
    let calls = plan.map(|plan| Replanned { call: CallKey::new(2, 0), plan }).into_iter().collect();
    ("~", Fact::ModeChanged { by: me(), mode, calls })
}

/// A run whose one call of `do` waits for a person.
fn waiting() -> Vec<Written> {
    vec![run_started(), started("d"), replied(2, vec![("do", ask())]), suspended(RequestKind::Approval)]
}

/// A run whose one call of `tool` runs.
fn running(tool: &str) -> Vec<Written> {
    vec![run_started(), started("d"), replied(2, vec![(tool, START)])]
}

/// A run whose one call of `do` was approved, ran, was lost, and waits for a person again.
fn uncertain() -> Vec<Written> {
    let mut facts = waiting();
    facts.extend([decided(3, Decision::Approve, Some("do")), started("d2"), ("d2", dispatched(1)), started("d3")]);
    let (_, asked) = suspended(RequestKind::Uncertain);
    facts.push(("d3", asked));
    facts
}

/// What the auditor says of the last of these entries. It must have nothing against the others.
fn last(facts: Vec<Written>) -> Vec<Violation> {
    let mut audit = Audit::new(run_id(), definition());
    let entries = entries(facts);
    let (last, earlier) = entries.split_last().unwrap();
    for entry in earlier {
        assert_eq!(audit.entry(entry), [], "{entry:?}");
    }
    audit.entry(last)
}

fn with(mut facts: Vec<Written>, more: impl IntoIterator<Item = Written>) -> Vec<Written> {
    facts.extend(more);
    facts
}

#[test]
fn good_journals() {
    let done = [("d3", finished(2, returned())), ("d3", over(FinalStatus::Failed))];
    let retried =
        with(uncertain(), [decided(8, retry(), Some("do")), started("d4"), ("d4", dispatched(2)), started("d5")]);
    let late = ("d4", finished(2, returned()));
    for (what, facts) in [
        ("waits", waiting()),
        (
            "runs",
            with(
                running("look"),
                [("d", finished(1, unknown())), ("d", dispatched(2)), ("d", finished(2, returned()))],
            ),
        ),
        (
            "is tried again by another driver",
            with(running("look"), [started("d3"), ("d3", dispatched(2)), done[0].clone(), done[1].clone()]),
        ),
        ("is retried, lost, and heard of after all", with(retried, [late])),
        ("is cancelled", with(waiting(), [cancel(), started("d2"), ("d2", over(FinalStatus::Cancelled))])),
        (
            "may not run any more",
            with(
                vec![run_started(), started("d"), replied(2, vec![("do", ask())])],
                [mode(Mode::Plan, Some(Plan::Deny { because: "x".into() }))],
            ),
        ),
    ] {
        let found = audit::journal(&run_id(), &definition(), &entries(facts));
        assert_eq!(found.unwrap(), [], "{what}");
    }
}

/// Each row breaks one invariant, by its last entry.
#[test]
fn bad_entries() {
    let expired = |at: u32| ("d2", Fact::RequestExpired { requests: vec![RequestKey::new(at, 0)] });
    let deny = || Decision::Deny { reason: None };
    let answer = || Decision::Answer { answer: json!("x"), cancels: false };
    let message = || ("~", Fact::MessageAdded { by: me(), content: vec![Content::text("hm")], supersedes: false });
    let by_another = (
        "~",
        Fact::RequestDecided {
            request: RequestKey::new(3, 0),
            decision: deny(),
            by: Principal { tenant: "t".into(), subject: "other".into() },
            digest: None,
            via: None,
        },
    );
    let two_plans = {
        let (by, fact) = replied(2, vec![("look", START)]);
        let Fact::ModelReplied { model, content, stop, usage, seen, mut calls } = fact else { panic!() };
        calls.push(ALLOW);
        (by, Fact::ModelReplied { model, content, stop, usage, seen, calls })
    };
    let begun = || vec![run_started(), started("d")];
    let cases: Vec<(&str, &str, Vec<Written>)> = vec![
        ("I1", "a second start of the run", with(begun(), [run_started()])),
        ("I1", "a driver without a name", vec![run_started(), started("~")]),
        ("I1", "a reply of a driver that lost the run", with(begun(), [started("d2"), replied(3, vec![])])),
        ("I1", "a result by another driver", with(running("act"), [("e", finished(1, returned()))])),
        ("I2", "a call of no stored reply", with(begun(), [("d", dispatched(1))])),
        ("I2", "a result of an attempt that was not announced", with(running("act"), [("d", finished(2, returned()))])),
        (
            "I2",
            "an attempt that skips a number",
            with(running("look"), [("d", finished(1, unknown())), ("d", dispatched(3))]),
        ),
        ("I2", "an attempt before the last one ended", with(running("look"), [("d", dispatched(2))])),
        ("I2", "plans without calls", with(begun(), [two_plans])),
        ("I3", "two results", with(running("act"), [("d", finished(1, returned())), ("d", finished(1, returned()))])),
        (
            "I3",
            "a result after a settlement",
            with(
                uncertain(),
                [decided(8, Decision::Settle { resolution: Resolution::Abort }, None), ("d2", finished(1, returned()))],
            ),
        ),
        (
            "I3",
            "a result of an earlier attempt",
            with(running("look"), [started("d2"), ("d2", dispatched(2)), ("d", finished(1, returned()))]),
        ),
        ("I3", "one loss twice", with(running("act"), [("d", finished(1, unknown())), ("d", finished(1, unknown()))])),
        (
            "I3",
            "a fresh start after a result",
            with(running("look"), [("d", finished(1, returned())), ("d", dispatched(2))]),
        ),
        ("I3", "a reply while a call runs", with(running("look"), [replied(3, vec![])])),
        ("I3", "an end while a call runs", with(running("look"), [("d", over(FinalStatus::Failed))])),
        (
            "I3",
            "a complete run with a call that waits",
            with(waiting(), [started("d2"), ("d2", over(FinalStatus::Completed))]),
        ),
        ("I4", "a driver that stopped goes on", with(begun(), [stopped("d"), replied(2, vec![])])),
        ("I4", "a driver that suspended goes on", with(waiting(), [stopped("d")])),
        (
            "I4",
            "a driver that ended the run goes on",
            with(begun(), [("d", over(FinalStatus::Failed)), message(), replied(2, vec![])]),
        ),
        ("I4", "a driver starts twice", with(begun(), [stopped("d"), started("d")])),
        ("I4", "something after the end", with(begun(), [("d", over(FinalStatus::Failed)), started("d2")])),
        (
            "I5",
            "a request for a call that needs none",
            with(begun(), [replied(2, vec![("look", ALLOW)]), suspended(RequestKind::Approval)]),
        ),
        (
            "I5",
            "a request of another kind",
            with(begun(), [replied(2, vec![("do", ask())]), suspended(RequestKind::Uncertain)]),
        ),
        (
            "I5",
            "two requests for one call",
            with(waiting(), [started("d2"), ("d2", suspended(RequestKind::Approval).1)]),
        ),
        ("I5", "a decision on no request", with(waiting(), [decided(2, deny(), None)])),
        ("I6", "two decisions", with(waiting(), [decided(3, deny(), None), decided(3, deny(), None)])),
        ("I6", "a decision after a cancellation", with(waiting(), [cancel(), decided(3, deny(), None)])),
        (
            "I6",
            "a decision after the end",
            with(waiting(), [started("d2"), ("d2", over(FinalStatus::Failed)), message(), decided(3, deny(), None)]),
        ),
        ("I6", "an approval of other arguments", with(waiting(), [decided(3, Decision::Approve, Some("look"))])),
        ("I6", "an approval of nothing in particular", with(waiting(), [decided(3, Decision::Approve, None)])),
        ("I6", "a decision that is not on offer", with(waiting(), [decided(3, answer(), None)])),
        ("I6", "a stranger's decision", with(waiting(), [by_another])),
        ("I6", "an expiry before its time", with(waiting(), [started("d2"), expired(3)])),
        ("I7", "an unasked start", with(waiting(), [started("d2"), ("d2", dispatched(1))])),
        (
            "I7",
            "a start under an earlier verdict",
            with(begun(), [replied(2, vec![("act", ALLOW)]), mode(Mode::Normal, Some(ask())), ("d", dispatched(1))]),
        ),
        ("I7", "a start of what policy asks about", with(begun(), [replied(2, vec![("do", START)])])),
        ("I7", "a start of what policy refuses", with(begun(), [replied(2, vec![("never", START)])])),
        (
            "I7",
            "a verdict wider than the mode",
            with(begun(), [replied(2, vec![("do", ask())]), mode(Mode::Plan, Some(ALLOW))]),
        ),
        ("I7", "another verdict for an open request", with(waiting(), [mode(Mode::Yolo, Some(ALLOW))])),
        ("I8", "a manual call repeated after a crash", with(running("act"), [started("d2"), ("d2", dispatched(2))])),
        (
            "I8",
            "a manual call repeated on an earlier retry",
            with(
                uncertain(),
                [
                    decided(8, retry(), Some("do")),
                    started("d4"),
                    ("d4", dispatched(2)),
                    started("d5"),
                    ("d5", dispatched(3)),
                ],
            ),
        ),
        ("I10", "a prompt of the future", with(begun(), [replied(4, vec![])])),
        ("I10", "a prompt without the last reply", with(begun(), [replied(2, vec![]), message(), replied(2, vec![])])),
        (
            "B8",
            "a start while it is paused",
            with(begun(), [replied(2, vec![("look", ALLOW)]), ("~", Fact::Paused { by: me() }), ("d", dispatched(1))]),
        ),
        ("B8", "a cancelled run that nobody cancelled", with(begun(), [("d", over(FinalStatus::Cancelled))])),
    ];
    for (invariant, what, facts) in cases {
        let found = last(facts);
        let names: Vec<_> = found.iter().map(|violation| violation.invariant).collect();
        assert_eq!(names, [invariant], "{what}: {found:?}");
    }
}

/// The edges in the decision's own time, the place of an entry, and its name.
#[test]
fn bad_times_and_places() {
    let judge = |change: fn(&mut Entry)| {
        let mut entries = entries(with(waiting(), [decided(3, Decision::Approve, Some("do"))]));
        change(entries.last_mut().unwrap());
        let mut audit = Audit::new(run_id(), definition());
        let found: Vec<_> = entries.iter().flat_map(|entry| audit.entry(entry)).collect();
        found.into_iter().map(|violation| violation.invariant).collect::<Vec<_>>()
    };
    assert!(judge(|entry| entry.at = Millis(60_000)).is_empty());
    assert_eq!(judge(|entry| entry.at = Millis(60_001)), ["I6"]);
    assert_eq!(judge(|entry| entry.index = 5), ["I1"]);
    assert_eq!(judge(|entry| entry.entry_id = EntryId("e1".into())), ["I1"]);
    let other = Arc::new(agent_file::parse(&AGENT.replace("safe", "manual"), "a", 600_000).unwrap());
    let found = Audit::new(run_id(), other).entry(&entries(vec![run_started()])[0]);
    assert_eq!(found[0].invariant, "I10");
}

fn fold(entries: &[Entry]) -> Run {
    let mut run = Run::start(run_id(), definition(), &entries[0]).unwrap();
    entries[1..].iter().for_each(|entry| run.apply(entry).unwrap());
    run
}

type Tamper = fn(&mut Run);

/// What the fold could make of a good journal, and must not.
#[test]
fn bad_states() {
    let suspended = || with(waiting(), []);
    let cases: [(&str, Vec<Written>, Tamper); 10] = [
        ("I1", suspended(), |run| run.len += 1),
        ("I4", suspended(), |run| {
            run.driver =
                Some(dormouse_domain::run::Driver { id: DriverId("d".into()), since: Millis(0), until: Millis(0) })
        }),
        ("I5", suspended(), |run| {
            run.requests.values_mut().for_each(|request| request.status = RequestStatus::Expired)
        }),
        ("I7", suspended(), |run| run.turns[0].calls[0].state = CallState::Ready),
        ("I2", running("act"), |run| run.turns[0].calls[0].attempts = 2),
        ("I3", running("act"), |run| run.turns[0].calls[0].state = CallState::Done(Ending::Cancelled)),
        ("I9", suspended(), |run| {
            run.requests.values_mut().for_each(|request| request.windows.wait_until = Millis(70_000))
        }),
        ("E7", beside::went_on(), |run| run.moved_on.clear()),
        ("E7", with(beside::went_on(), [decided(3, Decision::Deny { reason: None }, None)]), |run| {
            run.messages.retain(|message| message.late.is_none())
        }),
        ("B8", suspended(), |run| run.paused = true),
    ];
    for (invariant, facts, tamper) in cases {
        let mut audit = Audit::new(run_id(), definition());
        let entries = entries(facts);
        let mut run = fold(&entries);
        for entry in &entries {
            assert_eq!(audit.entry(entry), [], "{entry:?}");
        }
        let at = entries.last().unwrap().at;
        assert_eq!(audit.state(&run, at), [], "{invariant}");
        tamper(&mut run);
        let found = audit.state(&run, at);
        assert!(found.iter().any(|violation| violation.invariant == invariant), "{invariant}: {found:?}");
    }
}

/// A prompt that lost what an earlier one began with.
#[test]
fn a_prompt_that_does_not_grow() {
    let message = ("~", Fact::MessageAdded { by: me(), content: vec![Content::text("hm")], supersedes: false });
    let entries = entries(vec![run_started(), started("d"), replied(2, vec![]), message, replied(4, vec![])]);
    for (forgets, expected) in [(false, 0), (true, 1)] {
        let mut audit = Audit::new(run_id(), definition());
        let mut found = Vec::new();
        for entry in &entries {
            let mut run = fold(&entries[..=entry.index as usize]);
            if forgets && entry.index == 3 {
                run.messages.remove(0);
            }
            found.extend(audit.check(entry, &run));
        }
        assert_eq!(found.len(), expected, "{found:?}");
        assert!(found.iter().all(|violation| violation.invariant == "I10"));
    }
}

/// Case 37: a further attempt that was not sent says nothing about the one before it. While a person
/// is asked, it is no news: the request stays, and the call keeps waiting for it.
#[test]
fn a_later_attempt_that_was_not_sent_is_no_news_afterwards() {
    let asked = ("d5", suspended(RequestKind::Uncertain).1);
    let again = [decided(8, retry(), Some("do")), started("d4"), ("d4", dispatched(2)), started("d5"), asked];
    let mut run = fold(&entries(with(uncertain(), again)));
    let call = run.call(CallKey::new(2, 0)).unwrap();
    assert!(matches!(call.state, CallState::Pending { .. }) && call.takes(2, &returned()));
    assert!(!call.takes(2, &not_sent()) && !call.takes(2, &unknown()));
    let (index, at) = (run.len, Millis(50_000));
    let late = Entry { index, entry_id: EntryId("late".into()), at, driver: None, fact: finished(2, not_sent()) };
    assert!(run.apply(&late).is_err(), "one call would have two requests");
}
