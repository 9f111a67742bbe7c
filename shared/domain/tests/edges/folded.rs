//! What the fold takes, and what it makes of calls whose outcome is not known.

use dormouse_domain::{entry::Replanned, request::RequestStatus};

use super::*;

fn mode(mode: Mode, call: CallKey, plan: Plan) -> Fact {
    Fact::ModeChanged { by: me(), mode, calls: vec![Replanned { call, plan }] }
}

fn ask() -> Plan {
    Plan::Ask { reason: "because".into(), floor: false }
}

fn refused() -> Plan {
    Plan::Deny { because: "no".into() }
}

/// Under a narrower mode, a call that may have run does not run again, and is not called "not run".
#[test]
fn a_call_that_may_have_run_is_not_planned_anew() {
    let mut lost = Story::new();
    lost.reply(vec![call("look", "{}")]).drive();
    let key = lost.keys()[0];
    assert_eq!((lost.state(key), lost.run.call(key).unwrap().attempts), (&CallState::Ready, 1));
    let mut fresh = Story::new();
    fresh.put(Fact::Paused { by: me() }).reply(vec![call("look", "{}")]).put(Fact::Resumed { by: me() });
    assert_eq!(
        (fresh.state(fresh.keys()[0]), fresh.run.call(fresh.keys()[0]).unwrap().attempts),
        (&CallState::Ready, 0)
    );
    for (story, plan, expected) in [
        (&lost, ask(), CallState::Unknown { attempt: 1, why: "because".into() }),
        (&lost, refused(), CallState::Done(Ending::GaveUp { why: "no".into() })),
        (&lost, Plan::Allow { rule: None }, CallState::Ready),
        (&fresh, ask(), CallState::Asking(AskWhy::Approval { reason: "because".into(), floor: false })),
        (&fresh, refused(), CallState::Done(Ending::Denied { because: "no".into() })),
        (&fresh, Plan::Allow { rule: None }, CallState::Ready),
    ] {
        let mut story = story.clone();
        let key = story.keys()[0];
        story.put(mode(Mode::Plan, key, plan.clone()));
        assert_eq!((story.state(key), story.run.mode), (&expected, Mode::Plan), "{plan:?}");
    }
    for plan in
        [Plan::Start { rule: None }, Plan::Question, Plan::Invalid { problem: "x".into() }, Plan::Known { call: key }]
    {
        assert!(lost.refuses(mode(Mode::Plan, key, plan.clone())), "{plan:?}");
    }
}

/// A message in place of what a person was asked: what was not run is left, what may have run stays unknown,
/// and what may run without anybody goes on.
#[test]
fn a_message_takes_the_place_of_what_waits() {
    let message = || Fact::MessageAdded { by: me(), content: vec![Content::text("no")], supersedes: true };
    let mut story = Story::new();
    story.reply(vec![
        call("do", "{}"),
        call("act", "{}"),
        call("look", "{}"),
        call("ask_user", "{\"question\":\"q\"}"),
    ]);
    story.drive().dispatch();
    let keys = story.keys();
    let mut unasked = story.clone();
    unasked.put(message());
    story.finish(keys[2], 2, returned("fine")).suspend();
    let opened = story.run.requests.len();
    story.put(message());
    for story in [&unasked, &story] {
        assert_eq!(story.state(keys[0]), &CallState::Done(Ending::Superseded));
        assert_eq!(story.state(keys[1]), &CallState::Done(Ending::Abandoned));
        assert_eq!(story.state(keys[3]), &CallState::Done(Ending::Superseded));
    }
    assert_eq!(unasked.state(keys[2]), &CallState::Running { attempt: 2 });
    assert!(matches!(story.state(keys[2]), CallState::Done(Ending::Returned { .. })));
    assert_eq!((opened, story.run.pending().count()), (3, 0));
    assert!(story.run.requests.values().all(|request| request.status == RequestStatus::Cancelled));
}

/// B4: a call is tried three times where that does no harm; whoever ran it last is the one to be believed.
#[test]
fn b4_attempts_by_replay_policy() {
    let unknown = || CallResult::Unknown { why: "lost".into() };
    for (tool, attempts) in [("look", 3), ("put", 3), ("act", 1)] {
        let mut story = Story::new();
        story.reply(vec![call(tool, "{}")]);
        let key = story.keys()[0];
        for attempt in 1..=attempts {
            assert_eq!(story.state(key), &CallState::Running { attempt }, "{tool}");
            story.finish(key, attempt, unknown());
            if attempt < attempts {
                assert_eq!(story.state(key), &CallState::Ready, "{tool}");
                let again = |attempt| Fact::CallDispatched { calls: vec![Dispatched { call: key, attempt }] };
                assert!(story.refuses(again(attempt)) && story.refuses(again(attempt + 2)), "{tool}");
                story.dispatch();
            }
        }
        let given_up = CallState::Done(Ending::GaveUp { why: "lost".into() });
        let asks = CallState::Unknown { attempt: attempts, why: "lost".into() };
        assert_eq!(story.state(key), if tool == "look" { &given_up } else { &asks }, "{tool}");
    }
}

/// Case 37: what is news of a call, by where it stands and which attempt it is.
#[test]
fn case_37_what_is_news_of_a_call() {
    let not_sent = || CallResult::NotSent { why: "x".into() };
    let unknown = || CallResult::Unknown { why: "x".into() };
    let news = |story: &Story, attempt| {
        let call = story.run.calls().next().unwrap();
        [returned("x"), not_sent(), unknown()].map(|result| call.takes(attempt, &result))
    };
    let mut fresh = Story::new();
    fresh.put(Fact::Paused { by: me() }).reply(vec![call("act", "{}")]);
    assert_eq!((news(&fresh, 0), news(&fresh, 1)), ([false; 3], [false; 3]), "it never started");
    let mut story = Story::new();
    story.reply(vec![call("act", "{}")]);
    assert_eq!((news(&story, 0), news(&story, 1), news(&story, 2)), ([false; 3], [true; 3], [false; 3]), "it runs");
    story.drive();
    assert_eq!(news(&story, 1), [true, true, false], "it is lost");
    let request = story.request();
    assert_eq!((news(&story, 0), news(&story, 1)), ([false; 3], [true, true, false]), "a person is asked");
    let retry = Decision::Settle { resolution: Resolution::Retry };
    story.decide(&request, retry).drive();
    assert_eq!(news(&story, 1), [true, false, false], "it is to run again");
    story.dispatch();
    assert_eq!((news(&story, 1), news(&story, 2)), ([false; 3], [true; 3]), "it runs again");
    story.drive();
    assert_eq!(news(&story, 2), [true, false, false], "it is lost again");
    let mut asked = Story::new();
    asked.reply(vec![call("do", "{}")]);
    assert_eq!((news(&asked, 0), news(&asked, 1)), ([false; 3], [false; 3]), "it asks");
    asked.suspend();
    assert_eq!((news(&asked, 0), news(&asked, 1)), ([false; 3], [false; 3]), "a person is asked whether it may run");
}

/// What a request went through once does not happen to it again.
#[test]
fn requests_are_closed_once_and_left_once() {
    let mut story = Story::new();
    story.reply(vec![call("do", "{}")]);
    let key = story.request().id.key;
    let left = || Fact::WaitExpired { requests: vec![key] };
    let expired = || Fact::RequestExpired { requests: vec![key] };
    let decided =
        || Fact::RequestDecided { request: key, decision: Decision::Approve, by: me(), digest: None, via: None };
    story.drive();
    assert!(!story.refuses(left()) && !story.refuses(expired()) && !story.refuses(decided()));
    let mut beside = story.clone();
    beside.put(left());
    assert!(beside.refuses(left()) && !beside.refuses(expired()) && !beside.refuses(decided()));
    for closes in [expired(), decided()] {
        let mut closed = story.clone();
        closed.put(closes);
        assert!(closed.refuses(left()) && closed.refuses(expired()) && closed.refuses(decided()));
    }
    let other = RequestKey::new(99, 0);
    assert!(story.refuses(Fact::WaitExpired { requests: vec![other] }));
    assert!(story.refuses(Fact::RequestExpired { requests: vec![other] }));
}
