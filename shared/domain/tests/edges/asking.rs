//! What a person is shown.

use dormouse_domain::request::{RequestStatus, closed};

use super::*;

/// C3: a request says why it asks: in the words of policy, that the agent asks, or what is not known and
/// what a retry can do.
#[test]
fn c3_requests_say_why_they_ask() {
    let reasons = |story: &mut Story| story.request().reasons;
    let mut approval = Story::new();
    approval.reply(vec![call("do", "{}")]);
    let CallState::Asking(AskWhy::Approval { reason, .. }) = approval.state(approval.keys()[0]).clone() else {
        panic!()
    };
    assert!(!reason.is_empty());
    assert_eq!(reasons(&mut approval), [reason]);
    let mut question = Story::new();
    question.reply(vec![call("ask_user", r#"{"question":"really?\nyes?"}"#)]);
    let asked = question.request();
    assert_eq!(
        (asked.summary.as_str(), asked.reasons.as_slice()),
        ("really?\\u{a}yes?", &["the agent asks".to_owned()][..])
    );
    assert_eq!(asked.question.unwrap().question, "really?\nyes?");
    let mut lost = Story::new();
    lost.reply(vec![call("act", "{}")]).drive();
    let expected = [
        "it is not known what attempt 1 did: the step that ran it ended before its result was stored",
        "a retry can make it happen twice",
    ];
    assert_eq!(reasons(&mut lost), expected);
}

/// I5: what an entry closes undecided, and how, so that the rows are closed with it.
#[test]
fn i5_what_an_entry_closes() {
    let mut story = Story::new();
    story.reply(vec![call("do", "{\"a\":1}"), call("do", "{\"a\":2}")]);
    let keys = story.suspend();
    let closes = |fact: Fact| {
        let mut after = story.clone();
        after.put(fact);
        closed(&story.run, &after.run)
    };
    let decided =
        Fact::RequestDecided { request: keys[0], decision: Decision::Approve, by: me(), digest: None, via: None };
    assert_eq!(closes(decided), [], "its row is written with the decision");
    let cancelled: Vec<_> = keys.iter().map(|key| (*key, RequestStatus::Cancelled)).collect();
    assert_eq!(closes(Fact::CancelRequested { by: me(), reason: None }), cancelled);
    assert_eq!(closes(Fact::MessageAdded { by: me(), content: vec![], supersedes: true }), cancelled);
    assert_eq!(closes(Fact::MessageAdded { by: me(), content: vec![], supersedes: false }), []);
    let mut late = story.clone();
    late.now = late.now.plus(600_001);
    late.drive();
    let before = late.run.clone();
    late.put(Fact::RequestExpired { requests: vec![keys[1]] });
    assert_eq!(closed(&before, &late.run), [(keys[1], RequestStatus::Expired)]);
}
