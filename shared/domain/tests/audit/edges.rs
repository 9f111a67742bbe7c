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
    let by_another = Fact::RequestDecided { request: RequestKey::new(3, 0), decision, by, digest: None, via: None };
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
    let start = |seen| replied(seen, vec![("look", Plan::Start { rule: None })]);
    assert_eq!(names(with(begun(), [paused(), start(3)])), ["B8"]);
    assert_eq!(names(with(begun(), [cancel(), start(3)])), ["B8"]);
    let ready = || with(begun(), [replied(2, vec![("look", Plan::Allow { rule: None })])]);
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

/// A reply of `d` that makes one call with these arguments.
fn with_arguments(tool: &str, arguments: &str, plan: Plan) -> Written {
    let (by, fact) = replied(2, vec![(tool, plan)]);
    let Fact::ModelReplied { model, stop, usage, seen, calls, .. } = fact else { panic!() };
    let call = ReplyBlock::ToolCall { id: "c".into(), name: tool.into(), arguments: arguments.into(), raw: None };
    (by, Fact::ModelReplied { model, content: vec![call], stop, usage, seen, calls })
}

fn asks(driver: &'static str, kind: RequestKind) -> Written {
    (driver, suspended(kind).1)
}

fn answer(cancels: bool) -> Decision {
    Decision::Answer { answer: json!("x"), cancels }
}

/// I5: what is asked about, and in which state: each row is one reason why nobody is to be asked.
#[test]
fn i5_who_is_asked_about_what() {
    use RequestKind::{Approval, Question, Uncertain};
    let begun = || vec![run_started(), started("d")];
    let deny = || decided(3, Decision::Deny { reason: None }, None);
    let approved = || with(waiting(), [decided(3, Decision::Approve, Some("do")), started("d2")]);
    let lost = |tool| with(running(tool), [started("d2")]);
    let narrowed = || with(lost("look"), [mode(Mode::Normal, Some(ask()))]);
    let question = || with(begun(), [with_arguments("ask_user", r#"{"question":"q"}"#, Plan::Question)]);
    for (what, facts, expected) in [
        ("an approval", with(begun(), [replied(2, vec![("do", ask())]), asks("d", Approval)]), vec![]),
        ("an approval of what was approved", with(approved(), [asks("d2", Approval)]), vec!["I5"]),
        ("an approval of what was refused", with(waiting(), [deny(), started("d2"), asks("d2", Approval)]), vec!["I5"]),
        ("an approval of what may have run", with(narrowed(), [asks("d2", Approval)]), vec!["I5"]),
        ("what a call did that may not run again", with(narrowed(), [asks("d2", Uncertain)]), vec![]),
        ("what a lost manual call did", with(lost("act"), [asks("d2", Uncertain)]), vec![]),
        ("what a call did that can be tried again", with(lost("look"), [asks("d2", Uncertain)]), vec!["I5"]),
        ("what a call did that has not run", with(approved(), [asks("d2", Uncertain)]), vec!["I5"]),
        ("a question", with(question(), [asks("d", Question)]), vec![]),
        ("a question of a call that is none", with(lost("act"), [asks("d2", Question)]), vec!["I5"]),
        (
            "in a cancelled run",
            with(begun(), [replied(2, vec![("do", ask())]), cancel(), asks("d", Approval)]),
            vec!["I5"],
        ),
    ] {
        assert_eq!(names(facts), expected, "{what}");
    }
    let windows = Windows { wait_until: Millis(60_001), decide_by: Millis(60_000) };
    let opened = Opened { call: Some(CallKey::new(2, 0)), kind: Approval, windows, decisions: vec![] };
    let crossed = ("d", Fact::Suspended { requests: vec![opened], until: None });
    assert_eq!(names(with(begun(), [replied(2, vec![("do", ask())]), crossed])), ["I5"]);
}

/// X7: what comes later comes of tools that may say so, is asked about as such, and is completed in nobody's name, once.
#[test]
fn x7_i1_i5_who_completes_what() {
    use RequestKind::{External, Uncertain};
    let later = |tool| with(running(tool), [("d", finished(1, CallResult::Later {}))]);
    let waits = || with(later("wait"), [asks("d", External)]);
    let completed = || ("~", finished(1, returned()));
    let retried = || with(waits(), [decided(4, retry(), Some("wait")), started("d2"), ("d2", dispatched(2))]);
    for (what, facts, expected) in [
        ("while it runs", with(running("wait"), [completed()]), vec![]),
        ("before anybody is asked", with(later("wait"), [completed()]), vec![]),
        ("while its request waits", with(waits(), [completed()]), vec![]),
        ("what a crash left unknown", with(running("wait"), [started("d2"), completed()]), vec![]),
        ("a second time", with(waits(), [completed(), completed()]), vec!["I3"]),
        ("the attempt before", with(retried(), [completed()]), vec!["I3"]),
        ("the attempt after", with(retried(), [("~", finished(2, returned()))]), vec![]),
        ("a call that nobody else completes", with(running("act"), [completed()]), vec!["I1"]),
        ("nobody says that nobody knows", with(running("wait"), [("~", finished(1, unknown()))]), vec!["I1"]),
        ("a tool that has no such answer", later("act"), vec!["I3"]),
        ("asked about as uncertain", with(later("wait"), [asks("d", Uncertain)]), vec!["I5"]),
        ("a lost one, asked about as later", with(running("wait"), [started("d2"), asks("d2", External)]), vec!["I5"]),
    ] {
        assert_eq!(names(facts), expected, "{what}");
    }
}

/// I6: the digest is right or absent, and not absent where the decision is about arguments.
#[test]
fn i6_digests_of_decisions() {
    let deny = || Decision::Deny { reason: None };
    let unreadable = || {
        let reply = with_arguments("do", "{\"a\":", ask());
        vec![run_started(), started("d"), reply, suspended(RequestKind::Approval)]
    };
    for (what, facts, expected) in [
        ("a refusal without one", with(waiting(), [decided(3, deny(), None)]), vec![]),
        ("a refusal of these arguments", with(waiting(), [decided(3, deny(), Some("do"))]), vec![]),
        ("a refusal of others", with(waiting(), [decided(3, deny(), Some("look"))]), vec!["I6"]),
        ("a retry without one", with(uncertain(), [decided(8, retry(), None)]), vec!["I6"]),
        ("a retry of others", with(uncertain(), [decided(8, retry(), Some("look"))]), vec!["I6"]),
        ("an approval of what cannot be read", with(unreadable(), [decided(3, Decision::Approve, None)]), vec!["I6"]),
    ] {
        assert_eq!(names(facts), expected, "{what}");
    }
}

/// I2, I3, I7: which start and which end of an attempt follow.
#[test]
fn i2_i3_i7_attempts() {
    let begun = || vec![run_started(), started("d")];
    let asked = || with(begun(), [replied(2, vec![("do", ask())])]);
    for (what, facts, expected) in [
        ("a start before anybody was asked", with(asked(), [("d", dispatched(1))]), vec!["I7"]),
        (
            "a start of attempt 0",
            with(begun(), [replied(2, vec![("look", Plan::Allow { rule: None })]), ("d", dispatched(0))]),
            vec!["I2"],
        ),
        ("an end of attempt 0", with(running("act"), [("d", finished(0, returned()))]), vec!["I2"]),
        ("a first attempt that was not sent", with(running("act"), [("d", finished(1, not_sent()))]), vec![]),
        (
            "what was not sent starts again",
            with(running("look"), [("d", finished(1, not_sent())), ("d", dispatched(2))]),
            vec!["I3"],
        ),
        (
            "a start of what cannot be read",
            with(begun(), [with_arguments("look", "[1", Plan::Start { rule: None })]),
            vec!["I7"],
        ),
    ] {
        assert_eq!(names(facts), expected, "{what}");
    }
}

/// I7: another verdict is for calls that nothing has happened to.
#[test]
fn i7_which_calls_get_another_verdict() {
    let begun = || vec![run_started(), started("d")];
    let refuse = || Plan::Deny { because: "x".into() };
    let narrow = || mode(Mode::Plan, Some(refuse()));
    let ready = || with(begun(), [replied(2, vec![("act", Plan::Allow { rule: None })])]);
    let approved = || with(waiting(), [decided(3, Decision::Approve, Some("do"))]);
    let question = with_arguments("ask_user", r#"{"question":"q"}"#, Plan::Question);
    let ended = with(running("look"), [("d", finished(1, returned()))]);
    for (what, facts, expected) in [
        ("one that is ready", with(ready(), [narrow()]), vec![]),
        ("one that was lost and is to be tried again", with(running("look"), [started("d2"), narrow()]), vec![]),
        ("one that runs", with(running("act"), [narrow()]), vec!["I7"]),
        ("one that has its result", with(ended, [narrow()]), vec!["I7"]),
        ("one that waits", with(waiting(), [narrow()]), vec!["I7"]),
        ("one that was approved", with(approved(), [narrow()]), vec!["I7"]),
        ("a question", with(begun(), [question, narrow()]), vec!["I7"]),
        ("refused, it starts", with(ready(), [narrow(), ("d", dispatched(1))]), vec!["I3"]),
        ("it starts with the verdict", with(ready(), [mode(Mode::Yolo, Some(Plan::Start { rule: None }))]), vec!["I2"]),
        (
            "it is taken for another",
            with(ready(), [mode(Mode::Yolo, Some(Plan::Known { call: CallKey::new(2, 0) }))]),
            vec!["I2"],
        ),
    ] {
        assert_eq!(names(facts), expected, "{what}");
    }
}

/// D4: an answer that cancels closes what waits and lets the run be ended as cancelled; beside a run that
/// has completed it cancels nothing.
#[test]
fn d4_answers_that_cancel() {
    let asked = with_arguments("ask_user", r#"{"question":"q"}"#, Plan::Question);
    let asked = || vec![run_started(), started("d"), asked.clone(), suspended(RequestKind::Question)];
    let chosen = || decided(3, answer(true), None);
    assert!(names(with(asked(), [chosen(), ("~", over(FinalStatus::Cancelled))])).is_empty());
    assert_eq!(names(with(asked(), [decided(3, answer(false), None), ("~", over(FinalStatus::Cancelled))])), ["B8"]);
    let message = || ("~", Fact::MessageAdded { by: me(), content: vec![Content::text("hm")], supersedes: false });
    assert_eq!(names(with(asked(), [chosen(), message()])), ["B8"]);
}

/// A12: a standing rule allows what would ask: not what is refused, and nothing that the floor asks about.
#[test]
fn a12_a_rule_allows_what_would_ask_alone() {
    let ruled = |tool| {
        let plan = Plan::Start { rule: Some("run.x".into()) };
        vec![run_started(), started("d"), replied(2, vec![(tool, plan)])]
    };
    assert!(names(ruled("do")).is_empty());
    assert_eq!(names(ruled("never")), ["I7"]);
    let floor = format!("{AGENT}[[policy.floor]]\ntool = \"do\"\nbecause = \"it is precious\"\n");
    let guarded = Arc::new(agent_file::parse(&floor, "a", 600_000).unwrap());
    let found = audit::journal(&run_id(), &guarded, &entries(ruled("do"))).unwrap();
    assert!(found.iter().any(|violation| violation.invariant == "I7"), "{found:?}");
}

/// A16: where a group decides, anybody of the tenant may have been in it, the requester aside if the file says so;
/// a question is the owner's.
#[test]
fn a16_a_group_decides_as_far_as_a_journal_shows_it() {
    let person = |tenant: &str, subject: &str| Principal { tenant: tenant.into(), subject: subject.into() };
    let own = me();
    let colleague = person(&own.tenant, "colleague");
    let refused = |file: &str, kind: RequestKind, tool, plan: Plan, by: &Principal| {
        let guarded = Arc::new(agent_file::parse(&format!("{file}\n{AGENT}"), "a", 600_000).unwrap());
        let decision = match kind == RequestKind::Question {
            true => Decision::Answer { answer: "yes".into(), cancels: false },
            false => Decision::Deny { reason: None },
        };
        let request = RequestKey::new(3, 0);
        let decided = Fact::RequestDecided { request, decision, by: by.clone(), digest: None, via: None };
        let facts = vec![run_started(), started("d"), replied(2, vec![(tool, plan)]), suspended(kind), ("~", decided)];
        let found = audit::journal(&run_id(), &guarded, &entries(facts)).unwrap();
        found.iter().any(|violation| violation.what.contains("to decide"))
    };
    let (group, others) = ("approvers = { group = \"g\" }", "approvers = { group = \"g\", not_requester = true }");
    let (approval, question) = (RequestKind::Approval, RequestKind::Question);
    for (file, kind, tool, plan, by, expected) in [
        ("", approval, "do", ask(), &own, false),
        ("", approval, "do", ask(), &colleague, true),
        (group, approval, "do", ask(), &own, false),
        (group, approval, "do", ask(), &colleague, false),
        (group, approval, "do", ask(), &person("elsewhere", "colleague"), true),
        (others, approval, "do", ask(), &own, true),
        (others, approval, "do", ask(), &colleague, false),
        (others, question, "ask_user", Plan::Question, &own, false),
        (others, question, "ask_user", Plan::Question, &colleague, true),
    ] {
        assert_eq!(refused(file, kind, tool, plan, by), expected, "{file} {kind:?} {by}");
    }
}
