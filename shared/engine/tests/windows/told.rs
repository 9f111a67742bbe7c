//! What a model is told of what it went on without is true.

use dormouse_domain::{
    entry::CallResult,
    message::Content,
    request::{RequestKind, RequestStatus},
    retry::FailureClass,
    run::Status,
};
use dormouse_engine::StepReport;
use dormouse_testkit::{World, agent, approve, call, say};

use super::{AGENT, MINUTE, completed_without, last_prompt, prompts_grow, step};

/// A repeat joins what was approved late and whose outcome is not known: it is not told that this has
/// not run, nor that nobody has said whether it may.
#[tokio::test]
async fn a_repeat_of_what_may_have_run_is_not_told_that_it_has_not() {
    let world = World::default();
    let (run, request) = completed_without(&world, AGENT).await;
    world.engine.respond(&World::user("ann"), &request.id, &approve(&request), None).await.unwrap();
    world.tools.on("deploy", |_| CallResult::Unknown { why: "the connection broke".into() });
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    assert_eq!(world.pending(&run).await[0].kind, RequestKind::Uncertain);
    world.engine.add_message(&World::user("ann"), &run, vec![Content::text("again")], None).await.unwrap();
    world.models.reply(vec![call("b", "deploy", r#"{"env":"prod"}"#)]);
    world.models.reply(vec![say("I wait then")]);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let told = last_prompt(&world);
    assert_eq!(told.matches("Pending, not confirmed").count(), 2, "{told}");
    // Once: the first call was told so, and then it was true.
    assert_eq!(told.matches("this call has not run, and nobody has said").count(), 1, "{told}");
    assert!(prompts_grow(&world));
}

/// A run that failed and goes on was not cancelled, and its agent is not told that it was.
#[tokio::test]
async fn what_a_failure_closed_is_not_called_cancelled() {
    let world = World::default();
    let (run, request) = completed_without(&world, AGENT).await;
    world.engine.add_message(&World::user("ann"), &run, vec![Content::text("and now?")], None).await.unwrap();
    world.models.fail(FailureClass::Rejected);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert_eq!(world.status(&run).await, Status::Failed);
    let rows = world.memory.all_requests(&run);
    assert_eq!((rows[0].id.clone(), rows[0].status), (request.id, RequestStatus::Cancelled));
    world.engine.add_message(&World::user("ann"), &run, vec![Content::text("once more")], None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let told = last_prompt(&world);
    assert!(told.contains("News of request") && told.contains("Not run"), "{told}");
    assert!(!told.contains("the run was cancelled"), "{told}");
}

/// E6 holds however many requests wait: the conversation is not kept waiting for a call that nobody can
/// be asked about.
#[tokio::test]
async fn e6_more_calls_than_requests_can_be_open() {
    let world = World::default();
    let run = world.start(agent("ops", AGENT)).await;
    let calls = (0..70).map(|i| call(&format!("c{i}"), "deploy", &format!(r#"{{"n":{i}}}"#)));
    world.models.reply(calls.collect());
    world.models.reply(vec![say("I went on")]);
    step(&world, &run).await;
    for _ in 0..3 {
        world.clock.advance(MINUTE + 1);
        step(&world, &run).await;
    }
    assert_eq!(world.status(&run).await, Status::Completed);
    let told = last_prompt(&world);
    let counts = [told.matches("Pending, not confirmed").count(), told.matches("no more are opened").count()];
    assert_eq!(counts, [48, 22]);
}
