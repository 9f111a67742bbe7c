//! When somebody looks at a run again.

use dormouse_domain::item::wake_at;

use super::*;

/// A timer rides on a message if that can be delayed so long: 15 minutes, and not a millisecond more. A run
/// that wants something now is woken now, one that wants nothing never.
#[test]
fn what_a_message_can_be_delayed_for() {
    let mut story = Story::of(&AGENT.replace("wait = \"1m\"\n    decide_within = \"10m\"", "decide_within = \"15m\""));
    story.reply(vec![call("do", "{}")]);
    let opened_at = story.now;
    let request = story.request();
    let due_at = request.windows.wait_until.plus(1);
    assert_eq!(due_at.since(opened_at), 900_001);
    assert_eq!(wake_at(&story.run, opened_at), None);
    assert_eq!(wake_at(&story.run, opened_at.plus(1)), Some(due_at));
    assert_eq!(wake_at(&story.run, due_at), Some(due_at));
    story.decide(&request, Decision::Approve);
    assert_eq!(wake_at(&story.run, story.now), Some(story.now));
    story.drive();
    assert_eq!(wake_at(&story.run, story.now), None, "whoever holds it sees what is written");
    story.dispatch().finish(CallKey::new(2, 0), 1, returned("fine")).reply(vec![]);
    assert_eq!(story.end(), FinalStatus::Completed);
    assert_eq!(wake_at(&story.run, story.now), None);
}
