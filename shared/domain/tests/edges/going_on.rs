//! Whether a run goes on, waits or ends.

use dormouse_domain::{
    entry::{DriverStop, Outcome},
    item::standing,
    request::RequestKind,
    retry::{self, Failure, FailureClass},
    run::Status,
};

use super::*;

/// A run that completed while its call of `do` waits beside it.
fn completed_beside(agent: &str) -> (Story, Request) {
    let mut story = Story::of(agent);
    story.reply(vec![call("do", "{}")]);
    let request = story.request();
    story.go_on().reply(vec![]);
    assert_eq!(story.end(), FinalStatus::Completed);
    (story, request)
}

fn deny() -> Decision {
    Decision::Deny { reason: None }
}

fn rests(story: &Story) -> bool {
    matches!(story.next(), Next::Rest { ref open, until: None } if open.is_empty())
}

/// E7: a run that has completed is reopened for a late decision, once, if its agent is to be woken and can
/// be asked; not for a request that ran out, which nobody decided.
#[test]
fn e7_when_a_completed_run_is_reopened() {
    let (mut woken, request) = completed_beside(AGENT);
    assert!(matches!(woken.next(), Next::Rest { until: Some(_), .. }));
    woken.decide(&request, deny()).drive();
    assert_eq!(woken.next(), Next::Reopen);
    woken.put(Fact::Reopened {});
    assert_eq!(woken.next(), Next::CallModel);
    woken.reply(vec![]);
    assert_eq!(woken.end(), FinalStatus::Completed);
    assert!(rests(&woken), "{:?}", woken.next());

    let (mut told_later, request) = completed_beside(&format!("late_decision = \"next_turn\"\n{AGENT}"));
    told_later.decide(&request, deny());
    assert!(rests(&told_later), "{:?}", told_later.next());

    let (mut ran_out, request) = completed_beside(AGENT);
    ran_out.now = request.windows.expires_at();
    ran_out.drive().put(Fact::RequestExpired { requests: vec![request.id.key] });
    assert!(rests(&ran_out), "{:?}", ran_out.next());

    let (mut at_its_limit, request) = completed_beside(&AGENT.replace("turns = 50", "turns = 2"));
    at_its_limit.decide(&request, deny());
    assert!(rests(&at_its_limit), "{:?}", at_its_limit.next());

    let (mut given_up, request) = completed_beside(AGENT);
    given_up.decide(&request, deny());
    given_up.run.trouble.gave_up = Some("no".into());
    assert!(rests(&given_up), "{:?}", given_up.next());
}

/// A reply ends the run unless somebody said something since its prompt, or its provider paused it. What
/// ran out meanwhile is told later, and asks for no reply.
#[test]
fn what_a_reply_ends() {
    let mut story = Story::new();
    let seen = story.run.len;
    story.put_by(Fact::MessageAdded { by: me(), content: vec![Content::text("hm")], supersedes: false }, None);
    let mut unheard = story.clone();
    unheard.reply_to(seen, vec![]);
    assert_eq!(unheard.next(), Next::CallModel);
    story.reply(vec![]);
    assert!(matches!(story.next(), Next::Finish(Outcome { status: FinalStatus::Completed, .. })));

    let mut paused = Story::new();
    let (model, usage, seen) = (paused.run.model().clone(), Usage::default(), paused.run.len);
    paused.put(Fact::ModelReplied { model, content: vec![], stop: StopReason::Pause, usage, seen, calls: vec![] });
    assert_eq!(paused.next(), Next::CallModel);

    let mut beside = Story::new();
    beside.reply(vec![call("do", "{}")]);
    let request = beside.request();
    beside.go_on();
    let (seen, mut decided) = (beside.run.len, beside.clone());
    beside.now = request.windows.expires_at();
    beside.put(Fact::RequestExpired { requests: vec![request.id.key] }).reply_to(seen, vec![]);
    assert!(matches!(beside.next(), Next::Finish(_)), "nobody decided it");
    decided.decide(&request, deny()).reply_to(seen, vec![]);
    assert_eq!(decided.next(), Next::CallModel, "the agent is told of the decision");
}

/// The time of work is what earlier drivers held the run for and what this one has so far.
#[test]
fn the_time_of_work_is_added_up() {
    let mut story = Story::of(&AGENT.replace("turns = 50", "wall = \"10s\""));
    story.now = story.now.plus(5_000);
    story.put(Fact::DriverStopped { stop: DriverStop::HandedOff });
    assert_eq!(story.run.worked_ms, 6_000);
    assert_eq!(story.next(), Next::CallModel);
    story.now = story.now.plus(1_000_000);
    story.drive();
    let since = story.now;
    story.now = since.plus(3_999);
    assert_eq!(story.next(), Next::CallModel);
    story.now = since.plus(4_000);
    let Next::Rest { open, .. } = story.next() else { panic!("{:?}", story.next()) };
    assert_eq!(open[0].kind, RequestKind::Budget);
}

/// Of the calls that a failed run leaves behind, those are named that may have run.
#[test]
fn a_failed_run_names_what_may_have_run() {
    let mut story = Story::new();
    story.reply(vec![call("act", "{}"), call("look", "{}"), call("put", "{}"), call("do", "{}"), call("do", "[]")]);
    let keys = story.keys();
    story.finish(keys[2], 1, returned("fine"));
    story.put(Fact::Paused { by: me() }).drive();
    // Lost: `act` waits for a person, `look` is to be tried again; `do` was never started.
    assert!(matches!(story.state(keys[0]), CallState::Unknown { .. }));
    assert_eq!(story.state(keys[1]), &CallState::Ready);
    story.put(Fact::Resumed { by: me() });
    let mut asked = story.clone();
    asked.dispatch().finish(keys[1], 2, returned("fine")).suspend();
    assert!(matches!(asked.state(keys[0]), CallState::Pending { .. }));
    for (mut story, expected) in [(story, vec![keys[0], keys[1]]), (asked, vec![keys[0]])] {
        for _ in 0..5 {
            story.drive().put(Fact::DriverStopped { stop: DriverStop::Crashed { message: "x".into() } });
        }
        let Next::Finish(outcome) = story.next() else { panic!("{:?}", story.next()) };
        assert_eq!((outcome.status, outcome.unknown_calls), (FinalStatus::Failed, expected));
    }
}

/// Of the calls that have their ending, those are named whose ending says that nobody knows.
#[test]
fn b8_a_cancelled_run_names_what_ended_unknown() {
    let expired = |kind| Ending::Expired { kind };
    let returned = Ending::Returned { content: vec![], is_error: true };
    for (ending, unknown) in [
        (Ending::Abandoned, true),
        (Ending::GaveUp { why: "x".into() }, true),
        (expired(RequestKind::Uncertain), true),
        (expired(RequestKind::Approval), false),
        (expired(RequestKind::Question), false),
        (returned, false),
        (Ending::NotSent { why: "x".into() }, false),
        (Ending::Declined { reason: None }, false),
        (Ending::Settled { result: "x".into() }, false),
        (Ending::Superseded, false),
        (Ending::Cancelled, false),
    ] {
        let mut story = Story::new();
        story.reply(vec![call("act", "{}")]);
        let key = story.keys()[0];
        story.run.turns[0].calls[0].state = CallState::Done(ending.clone());
        story.put(Fact::CancelRequested { by: me(), reason: None });
        let Next::Finish(outcome) = story.next() else { panic!("{:?}", story.next()) };
        let expected = if unknown { vec![key] } else { vec![] };
        assert_eq!((outcome.status, outcome.unknown_calls), (FinalStatus::Cancelled, expected), "{ending:?}");
    }
}

/// Between two tries of a model nothing happens before the time; at that moment the model is asked.
#[test]
fn a_pause_between_tries_is_over_at_its_end() {
    let mut story = Story::new();
    let failure = Failure::new(FailureClass::Server, "no");
    let fact = retry::after(&story.run, &failure, story.now, story.now);
    story.put(fact);
    let retry_at = story.run.trouble.retry_at.unwrap();
    for (now, asks) in [(retry_at.0 - 1, false), (retry_at.0, true), (retry_at.0 + 1, true)] {
        story.now = Millis(now);
        assert_eq!(story.next() == Next::CallModel, asks, "at {now}");
    }
}

/// B8, D7: a paused run has its calls settle, and then rests until it is resumed or its request is over.
#[test]
fn b8_a_paused_run_settles_and_rests() {
    let mut story = Story::new();
    story.reply(vec![call("look", "{}"), call("do", "{}")]);
    let keys = story.keys();
    story.put(Fact::Paused { by: me() });
    assert_eq!(story.next(), Next::Await);
    story.finish(keys[0], 1, returned("fine"));
    assert_eq!(story.next(), Next::Rest { open: vec![], until: None }, "nobody is asked while it is paused");
    story.put(Fact::Resumed { by: me() });
    let request = story.request();
    story.put(Fact::Paused { by: me() });
    let until = Some(request.windows.stops_waiting_at());
    assert_eq!(story.next(), Next::Rest { open: vec![], until });
    assert_eq!(standing(&story.run, story.now), (Status::Paused, until));
}

/// A run whose step crashed is tried again after a while, or before that where a request runs out.
#[test]
fn d7_a_crashed_run_rests_until_the_first_of_its_times() {
    let mut story = Story::new();
    story.reply(vec![call("do", "{}")]);
    let request = story.request();
    let crash = || Fact::DriverStopped { stop: DriverStop::Crashed { message: "x".into() } };
    story.drive().put(crash());
    let again = story.now.plus(1_000);
    assert_eq!(story.next(), Next::Rest { open: vec![], until: Some(again) });
    story.now = Millis(request.windows.wait_until.0 - 3_500);
    story.drive().put(crash());
    let until = Some(request.windows.stops_waiting_at());
    assert_eq!(story.next(), Next::Rest { open: vec![], until }, "its second pause is longer");
    story.drive();
    assert_eq!(story.next(), Next::Rest { open: vec![], until }, "whoever drives it does not wait for that");
}
