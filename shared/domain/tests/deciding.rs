//! Answers against persisted requests, and the plans of calls.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by stopping")]

use std::{collections::BTreeMap, sync::Arc};

use dormouse_domain::{
    CallKey, Digest, Entry, EntryId, Fact, Millis, Mode, Principal, RequestId, RequestKey, Run, RunId, ToolDef,
    agent_file,
    decide::{Answer, Decision, MAX_EDIT_BYTES, MAX_TEXT_BYTES, Refusal, Resolution, check},
    message::{Content, ReplyBlock, StopReason},
    plan::{self, Circumstances, Plan, Question, Rules},
    request::{DecisionKind, Request, RequestKind, RequestStatus, Settled},
    windows::Windows,
};
use serde_json::{Value, json};

fn who(tenant: &str, subject: &str) -> Principal {
    Principal { tenant: tenant.into(), subject: subject.into() }
}

fn request(kind: RequestKind, question: Option<Value>) -> Request {
    Request {
        id: RequestId { run: RunId::from_bits(1), key: RequestKey::new(5, 0) },
        call: Some(CallKey::new(2, 0)),
        kind,
        status: RequestStatus::Pending,
        owner: who("acme", "ann"),
        approvers: None,
        tool: Some("t".into()),
        budget: None,
        summary: "t()".into(),
        arguments: json!({}),
        digest: Digest::of(b"arguments"),
        secret: vec![],
        builtin: None,
        mutates: true,
        question: question.map(|asked| Question::read(&asked).unwrap()),
        always: None,
        decisions: DecisionKind::offered(kind),
        reasons: vec![],
        agents: vec![],
        repeats: dormouse_domain::run::Repeats::default(),
        opened_at: Millis(0),
        windows: Windows { wait_until: Millis(100), decide_by: Millis(100) },
        decision: None,
    }
}

fn answer(body: Value) -> Answer {
    serde_json::from_value(body).unwrap()
}

fn any(_: &Value) -> Result<(), String> {
    Ok(())
}

fn judge(request: &Request, body: Value) -> Result<Decision, Refusal> {
    check(request, &answer(body), &who("acme", "ann").into(), Millis(50), &any)
}

fn digest() -> String {
    Digest::of(b"arguments").to_string()
}

#[test]
fn approvals() {
    let approval = request(RequestKind::Approval, None);
    assert_eq!(judge(&approval, json!({"decision": "approve", "digest": digest()})), Ok(Decision::Approve));
    assert_eq!(judge(&approval, json!({"decision": "approve"})), Err(Refusal::DigestMissing));
    let other = Digest::of(b"other").to_string();
    assert_eq!(judge(&approval, json!({"decision": "approve", "digest": other})), Err(Refusal::DigestMismatch));
    // A refusal needs no digest, but a wrong one shows that something else was seen.
    assert_eq!(judge(&approval, json!({"decision": "deny"})), Ok(Decision::Deny { reason: None }));
    assert_eq!(judge(&approval, json!({"decision": "deny", "digest": other})), Err(Refusal::DigestMismatch));
    for not_offered in ["answer", "settle", "always", "raise", "stop"] {
        let refused = judge(&approval, json!({"decision": not_offered, "digest": digest()}));
        assert!(matches!(refused, Err(Refusal::NotOffered { .. })), "{not_offered}: {refused:?}");
    }
    let stray = judge(&approval, json!({"decision": "approve", "digest": digest(), "reason": "yes"}));
    assert!(matches!(stray, Err(Refusal::Invalid(_))), "{stray:?}");
    let long = "x".repeat(MAX_TEXT_BYTES + 1);
    assert!(matches!(judge(&approval, json!({"decision": "deny", "reason": long})), Err(Refusal::Invalid(_))));
}

/// E5, X5: arguments that a person puts in the place of the model's are taken whole, in canonical form, if the
/// tool takes them, and only by someone who saw what they replace.
#[test]
fn e5_x5_edits() {
    let approval = Request { arguments: json!({"env": "prod", "n": 1}), ..request(RequestKind::Approval, None) };
    let edit = |arguments: Value| json!({"decision": "edit", "digest": digest(), "arguments": arguments});
    let decided = judge(&approval, edit(json!({"n": 2.0, "env": "staging"}))).unwrap();
    assert_eq!(decided, Decision::Edit { arguments: json!({"env": "staging", "n": 2}) });
    assert_eq!(judge(&approval, edit(json!({"n": 1.0, "env": "prod"}))), Ok(Decision::Approve), "nothing was changed");
    let unseen = judge(&approval, json!({"decision": "edit", "arguments": {"env": "staging"}}));
    assert_eq!(unseen, Err(Refusal::DigestMissing));
    let missing = judge(&approval, json!({"decision": "edit", "digest": digest()}));
    assert!(matches!(missing, Err(Refusal::Invalid(_))), "{missing:?}");
    let long = json!({"x": "y".repeat(MAX_EDIT_BYTES)});
    for bad in [json!([]), json!("x"), json!(null), long] {
        let refused = judge(&approval, edit(bad.clone()));
        assert!(matches!(refused, Err(Refusal::BadEdit(_) | Refusal::Invalid(_))), "{refused:?}");
    }
    let stray = json!({"decision": "approve", "digest": digest(), "arguments": {}});
    assert!(matches!(judge(&approval, stray), Err(Refusal::Invalid(_))));
    let no = |_: &Value| Err("env: \"moon\" is not one of them".to_owned());
    let refused = check(&approval, &answer(edit(json!({"env": "moon"}))), &who("acme", "ann").into(), Millis(50), &no);
    let told = refused.unwrap_err().to_string();
    assert!(told.contains("moon") && told.contains("still waits"), "{told}");
    for kind in [RequestKind::Question, RequestKind::Uncertain] {
        let refused = judge(&request(kind, None), edit(json!({})));
        assert!(matches!(refused, Err(Refusal::NotOffered { .. })), "{kind:?}: {refused:?}");
    }
}

/// D3, case 23: an option exactly as it was stored, `false`, `0` and `""` included.
#[test]
fn d3_case_23_answers() {
    let options = json!([{"value": false}, {"value": 0}, {"value": ""}, {"value": "no", "cancels": true}]);
    let fixed = request(RequestKind::Question, Some(json!({"question": "q", "options": options})));
    for value in [json!(false), json!(0), json!("")] {
        let decided = judge(&fixed, json!({"decision": "answer", "answer": value})).unwrap();
        assert_eq!(decided, Decision::Answer { answer: value, cancels: false });
    }
    let cancelling = judge(&fixed, json!({"decision": "answer", "answer": "no"})).unwrap();
    assert_eq!(cancelling, Decision::Answer { answer: json!("no"), cancels: true });
    for value in [
        json!("No"),
        json!("no "),
        json!("false"),
        json!(1),
        json!("0"),
        json!(true),
        json!(null),
        json!({}),
        json!([]),
    ] {
        let refused = judge(&fixed, json!({"decision": "answer", "answer": value}));
        assert!(matches!(refused, Err(Refusal::Invalid(_))), "{value}: {refused:?}");
    }
    assert!(matches!(judge(&fixed, json!({"decision": "answer"})), Err(Refusal::Invalid(_))));

    // `1.0` is the option `1` in another notation: beside free text it must not miss that it cancels.
    let numbers = json!({"question": "q", "options": [{"value": 1, "cancels": true}], "allow_free_text": true});
    let numbers = request(RequestKind::Question, Some(numbers));
    for one in [json!(1), json!(1.0)] {
        let decided = judge(&numbers, json!({"decision": "answer", "answer": one}));
        assert_eq!(decided, Ok(Decision::Answer { answer: json!(1), cancels: true }));
    }

    let free = request(RequestKind::Question, Some(json!({"question": "q"})));
    for value in [json!(""), json!("anything"), json!(0), json!(false)] {
        assert!(judge(&free, json!({"decision": "answer", "answer": value})).is_ok(), "{value}");
    }
    let long = "é".repeat(MAX_TEXT_BYTES / 2 + 1);
    assert!(matches!(judge(&free, json!({"decision": "answer", "answer": long})), Err(Refusal::Invalid(_))));
}

/// B6: one way, and only one.
#[test]
fn b6_settlements() {
    let uncertain = request(RequestKind::Uncertain, None);
    let settle = |resolution: Value| judge(&uncertain, json!({"decision": "settle", "resolution": resolution}));
    assert_eq!(settle(json!("abort")), Ok(Decision::Settle { resolution: Resolution::Abort }));
    let result = Resolution::Result("done".into());
    assert_eq!(settle(json!({"result": "done"})), Ok(Decision::Settle { resolution: result }));
    assert_eq!(settle(json!("retry")), Err(Refusal::DigestMissing));
    let retry = judge(&uncertain, json!({"decision": "settle", "resolution": "retry", "digest": digest()}));
    assert_eq!(retry, Ok(Decision::Settle { resolution: Resolution::Retry }));
    assert!(matches!(judge(&uncertain, json!({"decision": "settle"})), Err(Refusal::Invalid(_))));
    for contradiction in [json!({"result": "x", "retry": true}), json!("both"), json!({})] {
        let body = json!({"decision": "settle", "resolution": contradiction});
        assert!(serde_json::from_value::<Answer>(body.clone()).is_err(), "{body}");
    }
}

/// A16, E1, E2, C4: whose it is comes first, then whether it is open, to the very edge.
#[test]
fn a16_c4_e1_who_and_when() {
    let approval = request(RequestKind::Approval, None);
    let approve = answer(json!({"decision": "approve", "digest": digest()}));
    for stranger in [who("acme", "bob"), who("other", "ann")] {
        assert_eq!(check(&approval, &approve, &stranger.clone().into(), Millis(50), &any), Err(Refusal::NotFound));
    }
    assert!(check(&approval, &approve, &who("acme", "ann").into(), Millis(100), &any).is_ok());
    let late = check(&approval, &approve, &who("acme", "ann").into(), Millis(101), &any);
    assert_eq!(late, Err(Refusal::Gone(RequestStatus::Expired)));
    for status in [RequestStatus::Expired, RequestStatus::Cancelled] {
        let gone = Request { status, ..approval.clone() };
        assert_eq!(judge(&gone, json!({"decision": "deny"})), Err(Refusal::Gone(status)));
    }
    let settled = Settled { decision: Decision::Approve, by: who("acme", "ann"), at: Millis(7), via: None };
    let decided = Request { status: RequestStatus::Decided, decision: Some(settled.clone()), ..approval };
    assert_eq!(judge(&decided, json!({"decision": "deny"})), Err(Refusal::AlreadyDecided(Box::new(settled))));
}

struct Fits(bool);

impl Circumstances for Fits {
    fn rules(&self) -> Rules<'_> {
        Rules::none()
    }
    fn validate(&self, tool: &ToolDef, arguments: &Value) -> Result<(), String> {
        let strict = tool.name == "strict" && arguments.get("x").is_none();
        if strict { Err("/: \"x\" is required".into()) } else { Ok(()) }
    }
    fn fits(&self, _: &ToolDef) -> bool {
        self.0
    }
}

fn run(mode: Mode) -> Run {
    let file = r#"
        models = ["a:b"]
        [[tools]]
        name = "look"
        kind = "read"
        http = { url = "http://x" }
        [[tools]]
        name = "strict"
        permission = "allow"
        http = { url = "http://x" }
        [[tools]]
        name = "do"
        http = { url = "http://x" }
        [[tools]]
        name = "never"
        permission = "deny"
        http = { url = "http://x" }
        [[tools]]
        builtin = "ask_user"
    "#;
    let definition = Arc::new(agent_file::parse(file, "a", 600_000).unwrap());
    let entry = Entry {
        index: 0,
        entry_id: EntryId("e".into()),
        at: Millis(0),
        driver: None,
        fact: Fact::RunStarted {
            owner: who("acme", "ann"),
            agent: "a".into(),
            definition: definition.digest().unwrap(),
            mode,
            input: vec![Content::text("go")],
            metadata: BTreeMap::new(),
            parent: None,
        },
    };
    Run::start(RunId::from_bits(1), definition, &entry).unwrap()
}

fn plans(run: &Run, calls: &[(&str, &str)], fits: bool) -> Vec<Plan> {
    let block = |(name, arguments): &(&str, &str)| ReplyBlock::ToolCall {
        id: "x".into(),
        name: (*name).into(),
        arguments: (*arguments).into(),
        raw: None,
    };
    plan::plan_reply(run, &calls.iter().map(block).collect::<Vec<_>>(), &StopReason::ToolUse, run.len, &Fits(fits))
}

/// I11, case 50: what cannot be read does not run; what is allowed starts if there is time and room.
#[test]
fn i11_case_50_plans_of_calls() {
    let normal = run(Mode::Normal);
    let plan = |name, arguments| plans(&normal, &[(name, arguments)], true).remove(0);
    assert_eq!(plan("look", "{}"), Plan::Start { rule: None });
    assert_eq!(plan("look", ""), Plan::Start { rule: None });
    assert!(matches!(plan("do", "{}"), Plan::Ask { .. }));
    assert!(matches!(plan("never", "{}"), Plan::Deny { .. }));
    assert_eq!(plan("strict", r#"{"x":1}"#), Plan::Start { rule: None });
    let invalid = [
        ("nope", "{}"),
        ("strict", "{}"),
        ("look", "{\"a\":"),
        ("look", "[1]"),
        ("look", "\"text\""),
        ("look", "null"),
        ("look", "{} {}"),
        ("look", r#"{"n":9007199254740993}"#),
        ("ask_user", r#"{"question":" "}"#),
        ("ask_user", r#"{"question":"q","options":[{"value":1},{"value":1}]}"#),
        ("ask_user", r#"{"question":"q","allow_free_text":false}"#),
    ];
    for (name, arguments) in invalid {
        assert!(matches!(plan(name, arguments), Plan::Invalid { .. }), "{name} {arguments}");
    }
    let large = format!("{{\"x\":\"{}\"}}", "y".repeat(plan::MAX_ARGUMENT_BYTES));
    assert!(matches!(plan("do", &large), Plan::Invalid { .. }));
    assert_eq!(plan("ask_user", r#"{"question":"q"}"#), Plan::Question);
    // A question changes nothing, so every mode lets it be asked, and none answers it.
    for mode in [Mode::Plan, Mode::AutoEdit, Mode::Yolo] {
        assert_eq!(plans(&run(mode), &[("ask_user", r#"{"question":"q"}"#)], true), [Plan::Question]);
    }
    assert_eq!(plans(&normal, &[("look", "{}")], false), [Plan::Allow { rule: None }]);
    let many = plans(&normal, &[("look", "{}"); 20], true);
    assert_eq!(many.iter().filter(|plan| plan.starts()).count(), plan::MAX_RUNNING);
    let mut paused = run(Mode::Normal);
    paused.paused = true;
    assert_eq!(plans(&paused, &[("look", "{}")], true), [Plan::Allow { rule: None }]);
}

/// I11: the last call of a reply that was cut off may be half a call though it parses; a refusal asks
/// for nothing.
#[test]
fn i11_calls_of_replies_that_did_not_end_well() {
    let normal = run(Mode::Normal);
    let text = ReplyBlock::Text { text: "x".into(), raw: None };
    let look = ReplyBlock::ToolCall { id: "x".into(), name: "look".into(), arguments: "{}".into(), raw: None };
    let starts = |content: &[ReplyBlock], stop: StopReason| {
        let plans = plan::plan_reply(&normal, content, &stop, normal.len, &Fits(true));
        plans.iter().map(|plan| plan.starts()).collect::<Vec<_>>()
    };
    let two = [look.clone(), look.clone()];
    for (stop, expected) in [
        (StopReason::ToolUse, [true, true]),
        (StopReason::EndTurn, [true, true]),
        (StopReason::MaxTokens, [true, false]),
        (StopReason::Other("model_context_window_exceeded".into()), [true, false]),
        (StopReason::Refusal, [false, false]),
    ] {
        assert_eq!(starts(&two, stop.clone()), expected, "{stop:?}");
    }
    // What was cut off was the text behind it.
    assert_eq!(starts(&[look, text], StopReason::MaxTokens), [true]);
}

/// Cases 7 and 8: one digest for what is one call, another for everything else.
#[test]
fn e8_case_7_case_8_digests_of_calls() {
    let ann = who("acme", "ann");
    let digest = |owner: &Principal, run: u128, tool: &str, arguments: &str| {
        let arguments = plan::arguments(arguments).unwrap();
        plan::call_digest(owner, &RunId::from_bits(run), tool, &arguments).unwrap()
    };
    let one = digest(&ann, 1, "t", r#"{"a":1.0,"b":"\u00e9"}"#);
    assert_eq!(one, digest(&ann, 1, "t", r#"{ "b":"é", "a":1 }"#));
    for other in [
        digest(&ann, 2, "t", r#"{"a":1,"b":"é"}"#),
        digest(&ann, 1, "u", r#"{"a":1,"b":"é"}"#),
        digest(&who("acme", "bob"), 1, "t", r#"{"a":1,"b":"é"}"#),
        digest(&who("acmea", "nn"), 1, "t", r#"{"a":1,"b":"é"}"#),
        digest(&ann, 1, "t", r#"{"a":1,"b":"e"}"#),
        digest(&ann, 1, "t", r#"{"a":"1","b":"é"}"#),
        digest(&ann, 1, "t", r#"{"a":1,"b":"é\n"}"#),
    ] {
        assert_ne!(one, other);
    }
}

/// Texts of people have 16 KiB at most, that many included; a refusal says what is on offer.
#[test]
fn limits_and_words_of_refusals() {
    assert_eq!(MAX_TEXT_BYTES, 16_384);
    let approval = request(RequestKind::Approval, None);
    let reason = "x".repeat(MAX_TEXT_BYTES);
    assert!(judge(&approval, json!({"decision": "deny", "reason": reason})).is_ok());
    let refused = judge(&approval, json!({"decision": "settle"})).unwrap_err().to_string();
    assert_eq!(refused, "the decision settle is not on offer here; offered: approve, edit, deny");
}

/// E4: what each decision promises, and what it does not, in words.
#[test]
fn e4_decisions_say_what_they_promise() {
    let settle = |resolution| Decision::Settle { resolution };
    let answer = |cancels| Decision::Answer { answer: json!(1), cancels };
    for (decision, words) in [
        (Decision::Approve, "repeated only if its tool allows that or a person says so"),
        (Decision::Edit { arguments: json!({}) }, "exactly the arguments that you gave"),
        (Decision::Deny { reason: None }, "does not run"),
        (answer(false), "the agent gets this answer"),
        (answer(true), "nothing is undone"),
        (settle(Resolution::Retry), "it has then run twice"),
        (settle(Resolution::Result("x".into())), "nothing runs"),
        (settle(Resolution::Abort), "nobody knows"),
    ] {
        let note = decision.note();
        assert!(note.starts_with("decided once and for all; ") && note.contains(words), "{decision:?}: {note}");
    }
}
