//! What a model reads: of each ending, of what is pending, and in which place.

use dormouse_domain::{
    RequestId,
    message::ModelRef,
    request::RequestKind,
    transcript::{AssistantBlock, Message, UserBlock, prompt},
};
use serde_json::json;

use super::*;

/// The texts of a prompt, `user` and `model` by turns; results in brackets, failures with `!`.
fn read(run: &Run) -> Vec<String> {
    let text = |content: &Content| match content {
        Content::Text { text } => text.clone(),
        Content::Image { media_type, .. } => media_type.clone(),
    };
    let shown = prompt(run).messages.into_iter().map(|message| match message {
        Message::User(blocks) => {
            let blocks = blocks.iter().map(|block| match block {
                UserBlock::Result { content, is_error, .. } => {
                    let content = content.iter().map(|part| text(part)).collect::<Vec<_>>().join("|");
                    format!("[{}{content}]", if *is_error { "!" } else { "" })
                }
                UserBlock::Said(content) => text(content),
            });
            format!("user {}", blocks.collect::<Vec<_>>().join(" + "))
        }
        Message::Assistant { model, blocks } => {
            let blocks = blocks.iter().map(|block| match block {
                AssistantBlock::Call { block, .. } | AssistantBlock::Plain(block) => match block {
                    ReplyBlock::Text { text, .. } => text.clone(),
                    ReplyBlock::ToolCall { name, .. } => format!("{name}()"),
                    ReplyBlock::Reasoning { raw } | ReplyBlock::Opaque { raw } => raw.clone(),
                },
            });
            format!("{model} {}", blocks.collect::<Vec<_>>().join(" + "))
        }
    });
    shown.collect()
}

/// C7: what a model reads of a call's ending, and whether it is a failure. "Not run" is said only of
/// what did not run; of what may have run, that its outcome is unknown.
#[test]
fn c7_what_a_model_reads_of_each_ending() {
    use Ending as E;
    let expired = |kind| E::Expired { kind };
    let text = |text: &str| Content::text(text);
    let request = RequestKey::new(9, 0);
    let returned = |content, is_error| E::Returned { content, is_error };
    let declined = |reason: Option<&str>| E::Declined { reason: reason.map(str::to_owned) };
    let rows = [
        (returned(vec![text("a"), text(" "), text("b")], false), "[a|b]"),
        (returned(vec![text("no")], true), "[!no]"),
        (returned(vec![text(" \n")], false), "[(no output)]"),
        (returned(vec![], true), "[!(no output)]"),
        (E::Answered { answer: json!("yes") }, "[yes]"),
        (E::Answered { answer: json!(0) }, "[0]"),
        (E::Answered { answer: json!(" ") }, "[(the person answered \" \")]"),
        (E::Settled { result: "done".into() }, "[A person recorded this result: done]"),
        (E::Settled { result: " ".into() }, "[A person recorded this result: (no output)]"),
        (E::NotSent { why: "refused".into() }, "[!Not run: the tool could not be reached (refused).]"),
        (E::Denied { because: "x".into() }, "[!Not run: refused by policy; x.]"),
        (E::Invalid { problem: "x".into() }, "[!Not run: x]"),
        (declined(Some("why")), "[!Not run: a person declined this call and said: why]"),
        (declined(Some(" ")), "[!Not run: a person declined this call.]"),
        (declined(None), "[!Not run: a person declined this call.]"),
        (expired(RequestKind::Approval), "[!Not run: the request for approval expired.]"),
        (expired(RequestKind::Question), "[!Not answered: nobody answered in time.]"),
        (
            expired(RequestKind::Uncertain),
            "[!Outcome unknown: the call may have run, and nobody said in time what it did.]",
        ),
        (E::Abandoned, "[!Outcome unknown: the call may have run; a person chose to leave it.]"),
        (E::GaveUp { why: "x".into() }, "[!Outcome unknown after the last attempt: x.]"),
        (E::Superseded, "[!Not run: the person sent a message instead of deciding.]"),
        (E::Cancelled, "[!Not run: the run ended before anybody decided.]"),
        (
            E::Joined { request },
            "[!Pending, not confirmed: you made this call before, and what becomes of it is not known yet (run \
             run_00000000000000000000000000000007, request run_00000000000000000000000000000007.9.0); this one adds \
             nothing to it. Do not ask again. Go on without it; you will be told if that changes.]",
        ),
    ];
    for (ending, expected) in rows {
        let mut story = Story::new();
        story.reply(vec![call("do", "{}")]);
        story.run.turns[0].calls[0].state = CallState::Done(ending.clone());
        assert_eq!(read(&story.run)[2], format!("user {expected}"), "{ending:?}");
    }
}

/// E6, E7: a call that the conversation went on without stays "pending, not confirmed" where it stands, and
/// what became of it is told as news, with its request and what it was.
#[test]
fn e6_e7_what_a_model_reads_of_what_it_went_on_without() {
    let asked = vec![call("do", r#"{"a":1}"#), call("ask_user", r#"{"question":"q"}"#), call("act", "{}")];
    let mut story = Story::new();
    // The third call is lost, so that a person is asked what it did.
    story.reply(asked).drive();
    let opened = story.suspend();
    let id = |key: RequestKey| RequestId { run: story.run.id.clone(), key }.to_string();
    let ids: Vec<_> = opened.iter().map(|key| id(*key)).collect();
    story.go_on();
    let pending = |what: &str, id: &str| {
        format!(
            "[!Pending, not confirmed: {what} (run {}, request {id}). Go on without it; you will be told if that \
             changes.]",
            story.run.id
        )
    };
    let expected = [
        pending("this call has not run, and nobody has said yet whether it may", &ids[0]),
        pending("nobody has answered this question yet", &ids[1]),
        pending("it is not known whether this call has run, and the person who was asked has not said yet", &ids[2]),
    ];
    let before = format!("user {}", expected.join(" + "));
    assert_eq!(read(&story.run)[2], before);

    let decide = |story: &mut Story, n: usize, decision| {
        story.put(Fact::RequestDecided { request: opened[n], decision, by: me(), digest: None, via: None });
        (story.run.len - 1, read(&story.run)[2].strip_prefix(&before).unwrap().to_owned())
    };
    let mut denied = story.clone();
    let (_, news) = decide(&mut denied, 0, Decision::Deny { reason: None });
    let head = |n: usize, made: &str, failed: &str| {
        format!(" + News of request {}, which was pending before: {made}.{failed} Its result now: + ", ids[n])
    };
    assert_eq!(news, head(0, "do(a: 1)", "") + "Not run: a person declined this call.");
    let mut answered = story.clone();
    let (_, news) = decide(&mut answered, 1, Decision::Answer { answer: json!("yes"), cancels: false });
    assert_eq!(news, head(1, "ask_user(question: \"q\")", "") + "yes");
    let mut settled = story.clone();
    let (_, news) = decide(&mut settled, 2, Decision::Settle { resolution: Resolution::Result("done".into()) });
    assert_eq!(news, head(2, "act()", "") + "A person recorded this result: done");

    // Only what a tool returned can have failed.
    for (is_error, failed) in [(false, ""), (true, " It failed.")] {
        let mut ran = story.clone();
        decide(&mut ran, 0, Decision::Approve);
        ran.dispatch();
        let result = CallResult::Returned { content: vec![Content::text("x")], is_error };
        ran.finish(CallKey::new(2, 0), 1, result);
        assert_eq!(read(&ran.run)[2], format!("{before}{}x", head(0, "do(a: 1)", failed)));
    }
}

/// What was said while a model thought comes after that turn's results; what is blank is left out, and
/// a reply without anything leaves no trace.
#[test]
fn what_was_said_meanwhile_comes_after_the_results() {
    let text = |text: &str| ReplyBlock::Text { text: text.into(), raw: None };
    let says = |text: &str| {
        let content = vec![Content::text(" "), Content::text(text)];
        Fact::MessageAdded { by: me(), content, supersedes: false }
    };
    let mut story = Story::new();
    story.put_by(says("before"), None);
    let seen = story.run.len;
    story.put_by(says("meanwhile"), None);
    story.reply_to(seen, vec![text("I look"), text(" "), call("look", "{}")]);
    story.finish(CallKey::new(story.run.len - 1, 0), 1, returned("fine"));
    story.reply(vec![text("\n")]);
    story.put_by(says("after"), None);
    let model = ModelRef { provider: "a".into(), name: "one".into() };
    let expected = ["user go + before", &format!("{model} I look + look()"), "user [fine] + meanwhile + after"];
    assert_eq!(read(&story.run), expected);
    assert_eq!(story.run.output(), "");
    story.reply(vec![text("one"), text(" "), call("look", "{}"), text("two")]);
    assert_eq!(story.run.output(), "one\n\ntwo");
}
