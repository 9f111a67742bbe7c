//! Decisions on runs that have ended.

use dormouse_domain::{
    Fact,
    decide::{Answer, Refusal, Resolution},
    entry::CallResult,
    message::Content,
    request::{DecisionKind, RequestKind, RequestStatus},
    retry::FailureClass,
    run::Status,
};
use dormouse_engine::{Problem, StepReport, ports::Clock};
use dormouse_testkit::{World, agent, answer, approve, call, say};

use super::{AGENT, MINUTE, completed_without, last_prompt, prompts_grow, step, with};

/// E7: a late approval takes effect from the stored arguments; the status stays final while the call
/// runs; then the agent is woken and told.
#[tokio::test]
async fn e5_e7_a_late_approval_runs_and_wakes_the_agent() {
    let world = World::default();
    let (run, request) = completed_without(&world, AGENT).await;
    world.queue.take();
    let responded = world.engine.respond(&World::user("ann"), &request.id, &approve(&request), None).await.unwrap();
    assert_eq!((responded.status, responded.run_status), (RequestStatus::Decided, Status::Completed));
    assert_eq!(world.queue.take().len(), 1);
    assert_eq!(world.view(&run).await.item.due_at, Some(world.clock.now()));

    let seen = std::sync::Arc::new(std::sync::Mutex::new(None));
    let during = seen.clone();
    let memory = world.memory.clone();
    let name = run.clone();
    world.tools.on("deploy", move |made| {
        *during.lock().unwrap() = Some((made.arguments.clone(), memory.kinds(&name).last().copied()));
        CallResult::Returned { content: vec![Content::text("deployed 7")], is_error: false }
    });
    world.models.reply(vec![say("it is deployed")]);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let (arguments, last) = seen.lock().unwrap().clone().unwrap();
    assert_eq!((arguments, last), (serde_json::json!({"env": "prod"}), Some("CallDispatched")));
    let told = last_prompt(&world);
    assert!(told.contains("News of request") && told.contains("deployed 7"), "{told}");
    assert!(told.contains(&request.id.to_string()), "{told}");
    assert!(prompts_grow(&world));
    let kinds = world.memory.kinds(&run);
    let tail: Vec<_> = kinds.iter().rev().take(7).rev().copied().collect();
    assert_eq!(
        tail,
        [
            "RequestDecided",
            "DriverStarted",
            "CallDispatched",
            "CallFinished",
            "Reopened",
            "ModelReplied",
            "RunFinished"
        ]
    );
    let view = world.view(&run).await;
    assert_eq!(
        (view.item.status, view.item.due_at, view.output.as_deref()),
        (Status::Completed, None, Some("it is deployed"))
    );
    // A doubled wake finds nothing to do.
    assert_eq!(step(&world, &run).await, StepReport::Idle);
    assert_eq!(world.tools.count("deploy"), 1);
}

/// What still waits when a run completes has its timer as before: a delayed message, if it fits one.
#[tokio::test]
async fn a_run_that_completes_is_woken_when_its_request_expires() {
    let world = World::default();
    let file = with("").replace("1h", "10m");
    let (run, _) = completed_without(&world, &file).await;
    let (woken, delay) = world.queue.take().pop().unwrap();
    assert_eq!(woken, run);
    world.clock.advance(u64::try_from(delay.as_millis()).unwrap());
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    assert_eq!((world.pending(&run).await.len(), world.memory.kinds(&run).contains(&"RequestExpired")), (0, true));
}

/// With `next_turn` the call runs all the same; the agent learns of it when it next runs.
#[tokio::test]
async fn e7_a_late_decision_waits_for_the_next_turn() {
    let world = World::default();
    let (run, request) = completed_without(&world, &with("late_decision = \"next_turn\"")).await;
    world.engine.respond(&World::user("ann"), &request.id, &approve(&request), None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    assert_eq!((world.tools.count("deploy"), world.models.asked().len()), (1, 2));
    let view = world.view(&run).await;
    assert_eq!((view.item.status, view.item.due_at), (Status::Completed, None));
    world.engine.add_message(&World::user("ann"), &run, vec![Content::text("well?")], None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let told = last_prompt(&world);
    assert!(told.find("News of request") < told.find("well?"), "{told}");
    assert_eq!(told.matches("News of request").count(), 1);
}

/// A late refusal is told too, and nothing runs.
#[tokio::test]
async fn e7_a_late_refusal_is_told() {
    let world = World::default();
    let (run, request) = completed_without(&world, AGENT).await;
    let no = Answer { reason: Some("not on a Friday".into()), ..answer(DecisionKind::Deny) };
    world.engine.respond(&World::user("ann"), &request.id, &no, None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let told = last_prompt(&world);
    assert!(told.contains("News of request") && told.contains("not on a Friday"), "{told}");
    assert_eq!(world.tools.count("deploy"), 0);
}

/// Nobody ever decides: the end of the request is written, but nobody is woken for it; the agent
/// learns of it when it next runs.
#[tokio::test]
async fn an_expiry_after_the_end() {
    let world = World::default();
    let (run, request) = completed_without(&world, AGENT).await;
    world.clock.set(request.windows.decide_by);
    assert_eq!(world.pending(&run).await.len(), 1);
    world.clock.advance(1);
    assert_eq!(world.engine.sweep().await.unwrap().woken, 1);
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    assert_eq!(world.models.asked().len(), 2);
    let view = world.view(&run).await;
    assert_eq!((view.item.status, view.item.due_at, view.item.pending), (Status::Completed, None, 0));
    world.engine.add_message(&World::user("ann"), &run, vec![Content::text("so?")], None).await.unwrap();
    step(&world, &run).await;
    let told = last_prompt(&world);
    assert!(told.contains("News of request") && told.contains("expired"), "{told}");
}

/// I8 holds after the end as before it: a step that dies while it runs a late approval leaves a
/// person to say what now.
#[tokio::test]
async fn a_late_call_whose_step_dies() {
    let world = World::default();
    let (run, request) = completed_without(&world, AGENT).await;
    world.engine.respond(&World::user("ann"), &request.id, &approve(&request), None).await.unwrap();
    world.tools.on("deploy", |_| CallResult::Unknown { why: "the connection broke".into() });
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    let pending = world.pending(&run).await;
    assert_eq!((pending.len(), pending[0].kind), (1, RequestKind::Uncertain));
    assert_eq!(world.status(&run).await, Status::Completed);
    let settle = Answer { resolution: Some(Resolution::Result("it is up".into())), ..answer(DecisionKind::Settle) };
    world.engine.respond(&World::user("ann"), &pending[0].id, &settle, None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let told = last_prompt(&world);
    assert!(told.contains("News of request") && told.contains("it is up"), "{told}");
    assert_eq!(world.tools.count("deploy"), 1);
}

/// A run that is at its ceiling stays completed: a late decision must not make a failure of it.
#[tokio::test]
async fn a_late_decision_at_the_ceiling() {
    let world = World::default();
    let (run, request) = completed_without(&world, &format!("{AGENT}\n[limits]\nturns = 2")).await;
    world.engine.respond(&World::user("ann"), &request.id, &approve(&request), None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    assert_eq!((world.tools.count("deploy"), world.status(&run).await), (1, Status::Completed));
}

/// A message to a run that completed at its ceiling is read when somebody raised that.
#[tokio::test]
async fn a_message_at_the_ceiling_asks_first() {
    let world = World::default();
    let (run, request) = completed_without(&world, &format!("{AGENT}\n[limits]\nturns = 2")).await;
    let said = vec![Content::text("and now?")];
    let ann = World::user("ann");
    world.engine.add_message(&ann, &run, said, None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    assert_eq!(world.status(&run).await, Status::Waiting);
    world.engine.respond(&ann, &request.id, &approve(&request), None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    assert_eq!(world.tools.count("deploy"), 1);
    let budget = world.pending(&run).await.remove(0);
    let by = Some(dormouse_domain::budget::Amounts { turns: 1, ..Default::default() });
    let raise = Answer { by, ..answer(DecisionKind::Raise) };
    world.engine.respond(&ann, &budget.id, &raise, None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert!(last_prompt(&world).contains("and now?"));
}

/// An agent that cannot be told of a late decision, because its model fails for good, does not make a
/// failure of a good end, nor take from people what they can still decide. It is told later.
#[tokio::test]
async fn a_late_decision_that_cannot_be_told() {
    let world = World::default();
    let run = world.start(agent("ops", AGENT)).await;
    let calls = ["qa", "prod", "test"].map(|env| call(env, "deploy", &format!(r#"{{"env":"{env}"}}"#)));
    world.models.reply(calls.into());
    world.models.reply(vec![say("I went on")]);
    step(&world, &run).await;
    world.clock.advance(MINUTE + 1);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let pending = world.pending(&run).await;
    world.models.fail(FailureClass::Rejected);
    world.engine.respond(&World::user("ann"), &pending[0].id, &answer(DecisionKind::Deny), None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert_eq!((world.status(&run).await, world.pending(&run).await.len()), (Status::Completed, 2));
    assert_eq!(step(&world, &run).await, StepReport::Idle);
    // The next decision wakes it again, and it is told of both.
    world.engine.respond(&World::user("ann"), &pending[1].id, &approve(&pending[1]), None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let told = last_prompt(&world);
    assert_eq!((told.matches("News of request").count(), world.tools.count("deploy")), (2, 1), "{told}");
    assert_eq!((world.status(&run).await, world.pending(&run).await.len()), (Status::Completed, 1));
}

/// Decisions on a cancelled run: what the conversation went on without is closed as well.
#[tokio::test]
async fn a_cancelled_run_takes_no_decision() {
    let world = World::default();
    let run = world.start(agent("ops", AGENT)).await;
    world.models.reply(vec![call("a", "deploy", "{}")]);
    step(&world, &run).await;
    let request = world.pending(&run).await.remove(0);
    world.clock.advance(MINUTE + 1);
    let (engine, name) = (world.engine.clone(), run.clone());
    world.models.before_reply(move || async move {
        engine.cancel(&World::user("ann"), &name, None, None).await.unwrap();
    });
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert_eq!(world.status(&run).await, Status::Cancelled);
    let late = world.engine.respond(&World::user("ann"), &request.id, &approve(&request), None).await;
    assert!(matches!(late, Err(Problem::Refused(Refusal::Gone(RequestStatus::Cancelled)))), "{late:?}");
    assert_eq!((world.tools.count("deploy"), world.view(&run).await.item.due_at), (0, None));
}

/// D4 after the end: a cancelling answer closes what still waits, and the model is not asked.
#[tokio::test]
async fn d4_a_late_answer_that_cancels() {
    let world = World::default();
    let run = world.start(agent("ops", AGENT)).await;
    let question = r#"{"question":"Go on?","options":[{"value":"stop","cancels":true},{"value":"go"}]}"#;
    world.models.reply(vec![call("a", "deploy", "{}"), call("q", "ask_user", question)]);
    world.models.reply(vec![say("I went on")]);
    step(&world, &run).await;
    world.clock.advance(MINUTE + 1);
    step(&world, &run).await;
    let pending = world.pending(&run).await;
    let asked = pending.iter().find(|request| request.kind == RequestKind::Question).unwrap();
    let stop = Answer { answer: Some("stop".into()), ..answer(DecisionKind::Answer) };
    world.engine.respond(&World::user("ann"), &asked.id, &stop, None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Idle);
    assert!(world.pending(&run).await.is_empty());
    assert_eq!((world.status(&run).await, world.models.asked().len()), (Status::Completed, 2));
    let closed: Vec<_> = world.memory.all_requests(&run).iter().map(|row| row.status).collect();
    assert_eq!(closed, [RequestStatus::Cancelled, RequestStatus::Decided]);
}

/// A follow-up on a run that completed with a request open; then the decision comes in the middle.
#[tokio::test]
async fn a_follow_up_beside_an_open_request() {
    let world = World::default();
    let (run, request) = completed_without(&world, AGENT).await;
    world.engine.add_message(&World::user("ann"), &run, vec![Content::text("and now?")], None).await.unwrap();
    world.models.reply(vec![call("b", "look", "{}")]);
    world.models.reply(vec![say("still pending")]);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert_eq!(world.pending(&run).await.len(), 1);
    let decided = world.memory.journal(&run).iter().any(|entry| matches!(entry.fact, Fact::RequestDecided { .. }));
    assert!(!decided);
    world.engine.respond(&World::user("ann"), &request.id, &approve(&request), None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert_eq!(world.tools.count("deploy"), 1);
    assert!(prompts_grow(&world));
}

/// B8: a paused run decides and expires, but starts nothing until it is resumed.
#[tokio::test]
async fn b8_a_wait_that_ends_while_paused() {
    let world = World::default();
    let run = world.start(agent("ops", AGENT)).await;
    world.models.reply(vec![call("a", "deploy", "{}")]);
    step(&world, &run).await;
    let request = world.pending(&run).await.remove(0);
    world.engine.pause(&World::user("ann"), &run, None).await.unwrap();
    world.clock.advance(MINUTE + 1);
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    world.engine.respond(&World::user("ann"), &request.id, &approve(&request), None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Idle);
    assert_eq!((world.tools.count("deploy"), world.models.asked().len()), (0, 1));
    world.engine.resume(&World::user("ann"), &run, None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert_eq!(world.tools.count("deploy"), 1);
}
