//! The same call, made again (E8 to E10).

use dormouse_domain::run::Repeats;

use super::*;

fn deny() -> Decision {
    Decision::Deny { reason: None }
}

fn repeats(while_pending: u32, after_refusal: u32) -> Repeats {
    Repeats { while_pending, after_refusal }
}

/// A run that was told no to `do {"a":1}`, at entry 4, and goes on.
fn refused() -> Story {
    let mut story = Story::new();
    story.reply(vec![call("do", r#"{"a":1}"#)]);
    let request = story.request();
    assert_eq!(request.repeats, Repeats::default());
    story.decide(&request, deny()).drive();
    story
}

/// E10: each request says how often the agent asked for the very same before: after a no, or after nobody
/// said anything in time.
#[test]
fn e10_requests_after_a_refusal_are_counted() {
    for (other, expected) in
        [(call("do", "{\"a\":1.0}"), 1), (call("do", "{\"a\":2}"), 0), (call("ask_user", r#"{"question":"q"}"#), 0)]
    {
        let mut story = refused();
        story.reply(vec![other.clone()]);
        assert_eq!(story.request().repeats, repeats(0, expected), "{other:?}");
        assert_eq!(story.run.repeats, repeats(0, expected), "{other:?}");
    }
    let mut story = refused();
    story.reply(vec![call("do", r#"{"a":1}"#)]);
    let again = story.request();
    story.now = again.windows.expires_at();
    story.drive().put(Fact::RequestExpired { requests: vec![again.id.key] });
    story.reply(vec![call("do", r#"{"a":1}"#), call("do", r#"{"a":1}"#)]);
    let third = story.request();
    assert_eq!(third.repeats, repeats(0, 2));
    assert_eq!(story.run.repeats, repeats(0, 3), "both of them are asked about");
}

/// E10: a yes, and a settlement, are no refusals; nor is a call that nobody was asked about. What expires
/// after it may have run was refused once, not also when it was approved.
#[test]
fn e10_what_is_no_refusal() {
    let mut story = Story::new();
    story.reply(vec![call("do", "{}")]);
    let approval = story.request();
    story.decide(&approval, Decision::Approve).drive().dispatch().drive();
    let uncertain = story.request();
    assert_eq!(uncertain.repeats, Repeats::default(), "it is about the same call");
    let mut settled = story.clone();
    settled.decide(&uncertain, Decision::Settle { resolution: Resolution::Abort }).drive();
    settled.reply(vec![call("do", "{}")]);
    assert_eq!(settled.request().repeats, Repeats::default());
    story.now = uncertain.windows.expires_at();
    story.drive().put(Fact::RequestExpired { requests: vec![uncertain.id.key] });
    story.reply(vec![call("do", "{}")]);
    assert_eq!(story.request().repeats, repeats(0, 1));
}

/// E8, E10: while a call waits beside the conversation, the same call joins it, as often as it is made;
/// once it was refused and is made again, its request tells both.
#[test]
fn e8_e10_calls_that_join_are_counted() {
    let mut story = Story::new();
    story.reply(vec![call("do", r#"{"a":1}"#)]);
    let request = story.request();
    story.go_on().reply(vec![
        call("do", r#"{"a":1}"#),
        call("do", r#"{"a":2}"#),
        call("look", r#"{"a":1}"#),
        call("do", r#"{ "a": 1 }"#),
    ]);
    let keys = story.keys();
    let joins =
        |key| matches!(story.state(key), CallState::Done(Ending::Joined { request: of }) if *of == request.id.key);
    assert_eq!(keys.iter().map(|key| joins(*key)).collect::<Vec<_>>(), [true, false, false, true]);
    assert_eq!(story.run.repeats, repeats(2, 0));
    story.finish(keys[2], 1, returned("fine"));
    let other = story.request();
    assert_eq!(other.repeats, Repeats::default(), "{:?}", other.arguments);
    story.decide(&request, deny()).decide(&other, deny()).drive();
    story.reply(vec![call("do", r#"{"a":1}"#)]);
    let again = story.request();
    assert_eq!(again.repeats, repeats(2, 1));
}

/// E9: what became of a call that the model did not know of is handed to the same call, made again, once;
/// what it knew of is asked about anew.
#[test]
fn e9_an_ending_is_handed_on_once() {
    let mut story = Story::new();
    story.reply(vec![call("do", r#"{"a":1}"#)]);
    let request = story.request();
    let first = request.call.unwrap();
    story.go_on();
    let seen = story.run.len;
    story.put_by(Fact::MessageAdded { by: me(), content: vec![Content::text("hm")], supersedes: false }, None);
    story.decide(&request, deny());
    let again = || vec![call("do", r#"{"a":1}"#), call("do", r#"{"a":2}"#), call("do", r#"{"a":1}"#)];
    let plans = |seen| plan::plan_reply(&story.run, &again(), &StopReason::EndTurn, seen, &Anything);
    let asks = |plan: &Plan| matches!(plan, Plan::Ask { .. });
    let untold = plans(seen);
    assert!(untold[0] == Plan::Known { call: first } && asks(&untold[1]) && asks(&untold[2]), "{untold:?}");
    let told = plans(seen + 2);
    assert!(told.iter().all(asks), "{told:?}");

    let messages = |run: &Run| run.messages.iter().map(|message| message.late.is_some()).collect::<Vec<_>>();
    let mut unheard = story.clone();
    unheard.reply_to(seen, again());
    assert_eq!(unheard.state(unheard.keys()[0]), &CallState::Done(Ending::Declined { reason: None }));
    assert_eq!(messages(&unheard.run), [false, false], "it is not told a second time, and nothing else is lost");
    story.reply(vec![call("look", "{}")]);
    assert_eq!(messages(&story.run), [false, false, true]);
}

/// E8: a result of an idempotent tool that says so is used again, if it is no failure.
#[test]
fn e8_results_that_are_used_again() {
    let failed = CallResult::Returned { content: vec![Content::text("no")], is_error: true };
    for (tool, result, arguments, reused) in [
        ("put", returned("fine"), r#"{"a":1}"#, true),
        ("put", returned("fine"), r#"{"a":2}"#, false),
        ("put", failed, r#"{"a":1}"#, false),
        ("look", returned("fine"), r#"{"a":1}"#, false),
    ] {
        let mut story = Story::new();
        story.reply(vec![call(tool, r#"{"a":1}"#)]);
        let first = story.keys()[0];
        story.finish(first, 1, result.clone());
        story.reply(vec![call(tool, arguments)]);
        let plan = if reused {
            CallState::Done(Ending::Returned { content: vec![Content::text("fine")], is_error: false })
        } else {
            CallState::Running { attempt: 1 }
        };
        assert_eq!(story.state(story.keys()[0]), &plan, "{tool} {result:?} {arguments}");
    }
}
