//! What a decision writes.

use serde_json::json;

use super::*;

/// I6: the digest is a condition of the write, and stands in the entry, exactly where the decision is about
/// the arguments: an approval, or that the call runs once more.
#[test]
fn i6_decisions_about_arguments_carry_their_digest() {
    let mut asked = Story::new();
    asked.reply(vec![call("do", "{}")]);
    let approval = asked.request();
    let mut question = Story::new();
    question.reply(vec![call("ask_user", r#"{"question":"q"}"#)]);
    let answer = question.request();
    let mut lost = Story::new();
    lost.reply(vec![call("act", "{}")]).drive();
    let uncertain = lost.request();
    let settle = |resolution| Decision::Settle { resolution };
    for (story, request, decision, about_arguments) in [
        (&asked, &approval, Decision::Approve, true),
        (&asked, &approval, Decision::Deny { reason: None }, false),
        (&question, &answer, Decision::Answer { answer: json!("a"), cancels: false }, false),
        (&lost, &uncertain, settle(Resolution::Retry), true),
        (&lost, &uncertain, settle(Resolution::Abort), false),
        (&lost, &uncertain, settle(Resolution::Result("x".into())), false),
    ] {
        let deciding = story.deciding(request, decision.clone());
        let expected = about_arguments.then(|| request.digest.clone());
        assert_eq!(deciding.digest, expected, "{decision:?}");
        let settled = &deciding.settled;
        assert_eq!((&settled.decision, &settled.by, settled.at), (&decision, &me(), story.now));
        let fact = Fact::RequestDecided { request: request.id.key, decision, by: me(), digest: expected, via: None };
        assert_eq!(deciding.facts, [fact]);
    }
}

/// D4: an option that cancels ends the run in the same transaction, unless something runs that must settle
/// first.
#[test]
fn d4_an_answer_that_cancels_ends_the_run_at_once() {
    let cancels = Decision::Answer { answer: json!("stop"), cancels: true };
    let question = call("ask_user", r#"{"question":"q","options":[{"value":"stop","cancels":true}]}"#);
    let mut story = Story::new();
    story.reply(vec![question.clone()]);
    let request = story.request();
    let facts = story.deciding(&request, cancels.clone()).facts;
    let Fact::RunFinished(outcome) = &facts[1] else { panic!("{facts:?}") };
    assert_eq!((facts.len(), outcome.status, outcome.by.as_ref()), (2, FinalStatus::Cancelled, Some(&me())));
    story.decide(&request, cancels.clone());
    assert!(story.run.is_over());

    // It waits beside the conversation, in which a call runs.
    let mut busy = Story::new();
    busy.reply(vec![question]);
    let request = busy.request();
    busy.go_on().reply(vec![call("act", "{}")]);
    let facts = busy.deciding(&request, cancels).facts;
    assert_eq!(facts.len(), 1, "{facts:?}");
}
