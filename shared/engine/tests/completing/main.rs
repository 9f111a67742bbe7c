//! Calls that another system completes (X7, B5): from the tool's "later" to the result, and against everybody else who
//! could end them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test says what is wrong by stopping"
)]

mod against;

use std::{sync::Arc, time::Duration};

use dormouse_domain::{
    Caller, Entry, Fact, RunId, audit,
    entry::CallResult,
    message::Content,
    request::{DecisionKind, Request, RequestKind, RequestStatus},
    run::Status,
};
use dormouse_engine::{Completed, Engine, ForkRun, Ports, Problem, Settings, StepReport, ports::NoKeys};
use dormouse_testkit::{World, agent, call, say};

const AGENT: &str = r#"
    models = ["scripted:x"]
    wait = "1m"
    decide_within = "1h"
    max_mode = "yolo"
    mode = "yolo"
    [[tools]]
    name = "order"
    later = true
    http = { url = "http://tools/order" }
    [[tools]]
    name = "look"
    kind = "read"
    http = { url = "http://tools/look" }
"#;

fn ann() -> Caller {
    World::user("ann")
}

async fn step(world: &World, run: &RunId) -> StepReport {
    world.engine.step(run, world.deadline()).await.unwrap()
}

/// A world whose orders are completed later.
fn world() -> World {
    let world = World::default();
    world.tools.on("order", |_| CallResult::Later {});
    world
}

/// A run that waits for the completion of an order, the request that says so, and the token.
async fn waiting(world: &World) -> (RunId, Request, String) {
    let run = world.start(agent("ops", AGENT)).await;
    world.models.reply(vec![call("a", "order", "{}")]);
    world.models.reply(vec![say("done")]);
    assert_eq!(step(world, &run).await, StepReport::Suspended);
    let request = world.pending(&run).await.remove(0);
    (run.clone(), request, token(world))
}

/// The token that the last call took along.
fn token(world: &World) -> String {
    world.tools.calls().pop().unwrap().handover.unwrap().token
}

async fn complete(world: &World, token: &str, text: &str) -> Result<Completed, Problem> {
    world.engine.complete(token, vec![Content::text(text)], false, None).await
}

/// The results that are stored.
fn results(world: &World, run: &RunId) -> Vec<CallResult> {
    let entries = world.memory.journal(run).into_iter();
    let results = entries.filter_map(|entry| match entry.fact {
        Fact::CallFinished { result, .. } => Some(result),
        _ => None,
    });
    results.collect()
}

async fn audited(world: &World, run: &RunId) -> Vec<Entry> {
    let entries = world.memory.journal(run);
    let definition = world.engine.definition(&ann(), run).await.unwrap();
    assert_eq!(audit::journal(run, &definition, &entries).unwrap(), []);
    entries
}

fn last_prompt(world: &World) -> String {
    world.models.asked().pop().unwrap()
}

#[tokio::test]
async fn x7_b5_a_call_waits_for_another_system_and_goes_on_with_what_it_says() {
    let world = world();
    let (run, request, token) = waiting(&world).await;
    assert_eq!((request.kind, request.decisions), (RequestKind::External, vec![DecisionKind::Settle]));
    assert_eq!(world.status(&run).await, Status::Waiting);
    world.queue.take();
    let completed = complete(&world, &token, "ordered as no 7").await.unwrap();
    assert_eq!((completed.run_id, completed.run_status), (run.clone(), Status::Queued));
    assert_eq!(world.queue.take().len(), 1, "it wakes the run");
    assert_eq!(world.engine.request(&ann(), &request.id).await.unwrap().status, RequestStatus::Cancelled);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert!(last_prompt(&world).contains("ordered as no 7"));
    assert_eq!(world.tools.count("order"), 1);
    audited(&world, &run).await;
    // A second time: what stands.
    let again = complete(&world, &token, "again").await.unwrap_err();
    assert!(matches!(&again, Problem::WrongState(what) if what.contains("it has its result")), "{again:?}");
}

/// The completion is quicker than the tool's own answer that it will come.
#[tokio::test(start_paused = true)]
async fn x7_a_completion_comes_while_the_call_still_runs() {
    let world = world();
    world.tools.slow("order", Duration::from_secs(5));
    let run = world.start(agent("ops", AGENT)).await;
    world.models.reply(vec![call("a", "order", "{}")]);
    world.models.reply(vec![say("done")]);
    let completes = async {
        while world.tools.count("order") == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        complete(&world, &token(&world), "quick").await.unwrap();
    };
    let (report, ()) = tokio::join!(step(&world, &run), completes);
    assert_eq!(report, StepReport::Finished);
    assert_eq!(
        results(&world, &run),
        [CallResult::Returned { content: vec![Content::text("quick")], is_error: false }]
    );
    assert!(last_prompt(&world).contains("quick"));
    audited(&world, &run).await;
}

/// The step died before it stored the tool's answer: nobody knows what the call did, until the other system says.
#[tokio::test]
async fn x7_a_completion_answers_what_nobody_knew() {
    let world = world();
    world.tools.on("order", |_| CallResult::Unknown { why: "the connection broke".into() });
    let (run, request, token) = waiting(&world).await;
    assert_eq!(request.kind, RequestKind::Uncertain);
    complete(&world, &token, "it did").await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert!(last_prompt(&world).contains("it did"));
    audited(&world, &run).await;
}

/// E6, E7: the conversation has gone on, and even ended; it is told, as late decisions are.
#[tokio::test]
async fn x7_e7_a_completion_after_the_conversation_went_on_is_told() {
    let world = world();
    let (run, request, token) = waiting(&world).await;
    world.models.reply(vec![say("and thanks")]);
    world.clock.advance(60_001);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert!(last_prompt(&world).contains("another system has taken this call, and has not completed it yet"));
    complete(&world, &token, "no 7").await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let told = last_prompt(&world);
    assert!(told.contains(&request.id.to_string()) && told.contains("no 7"), "{told}");
    audited(&world, &run).await;
}

/// B8: a paused run keeps the result, and does nothing until it is resumed.
#[tokio::test]
async fn x7_b8_a_completion_of_a_paused_run_is_kept() {
    let world = world();
    let (run, _, token) = waiting(&world).await;
    world.engine.pause(&ann(), &run, None).await.unwrap();
    let completed = complete(&world, &token, "no 7").await.unwrap();
    assert_eq!(completed.run_status, Status::Paused);
    assert_eq!(step(&world, &run).await, StepReport::Idle);
    world.engine.resume(&ann(), &run, None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert!(last_prompt(&world).contains("no 7"));
}

/// B6: a person can say what it did, in the other system's place, or have it made again; then the token of the attempt
/// before is of no use, and the new one is.
#[tokio::test]
async fn x7_b6_case_37_a_retry_fences_the_attempt_before() {
    use dormouse_domain::decide::{Answer, Resolution};
    let world = world();
    let (run, request, first) = waiting(&world).await;
    let retry = Answer {
        digest: Some(request.digest.to_string()),
        resolution: Some(Resolution::Retry),
        ..Answer::new(DecisionKind::Settle)
    };
    world.engine.respond(&ann(), &request.id, &retry, None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    let second = token(&world);
    assert_ne!(first, second);
    let stale = complete(&world, &first, "of the first").await.unwrap_err();
    assert!(matches!(&stale, Problem::WrongState(what) if what.contains("a later attempt")), "{stale:?}");
    complete(&world, &second, "of the second").await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert_eq!(world.tools.count("order"), 2);
    audited(&world, &run).await;
}

/// C7: the request's end is the call's, and says that nobody knows; the token has no more to say.
#[tokio::test]
async fn x7_c7_nobody_completes_it_in_time() {
    let world = world();
    let (run, request, token) = waiting(&world).await;
    world.models.reply(vec![say("so be it")]);
    world.models.reply(vec![say("I see")]);
    step(&world, &run).await;
    world.clock.set(request.windows.expires_at());
    step(&world, &run).await;
    step(&world, &run).await;
    assert_eq!(world.engine.request(&ann(), &request.id).await.unwrap().status, RequestStatus::Expired);
    assert!(matches!(complete(&world, &token, "late").await, Err(Problem::WrongState(_))));
    world.clock.advance(24 * 3_600_000);
    assert!(matches!(complete(&world, &token, "later").await, Err(Problem::Gone(_))));
    audited(&world, &run).await;
}

/// Only tools that may answer later are given a token; and without keys such a tool is not called, since nobody could
/// complete it.
#[tokio::test]
async fn x7_only_what_may_be_completed_has_a_token() {
    let world = world();
    let run = world.start(agent("ops", AGENT)).await;
    world.models.reply(vec![call("a", "look", "{}")]);
    world.models.reply(vec![call("b", "order", "{}")]);
    world.models.reply(vec![say("done")]);
    let ports = Ports { keys: Arc::new(NoKeys), ..world.engine.ports().clone() };
    let engine = Engine::new(ports, Settings::new("host".into(), 180_000));
    assert_eq!(engine.step(&run, world.deadline()).await.unwrap(), StepReport::Finished);
    assert_eq!((world.tools.count("look"), world.tools.count("order")), (1, 0));
    assert!(world.tools.calls()[0].handover.is_none());
    assert!(last_prompt(&world).contains("no token can be made"), "{}", last_prompt(&world));
}

/// X8: a fork's call may have run in the other run; who completes it completes that one.
#[tokio::test]
async fn x7_x8_a_fork_is_not_completed_by_the_token_of_another_run() {
    let world = world();
    let (run, _, token) = waiting(&world).await;
    let at = u32::try_from(world.memory.journal(&run).len()).unwrap() - 1;
    let fork = ForkRun { at, message: None, mode: None, metadata: None };
    let fork = world.engine.fork(&ann(), &run, fork, None).await.unwrap().run_id;
    assert_eq!(step(&world, &fork).await, StepReport::Suspended);
    assert_eq!(world.pending(&fork).await[0].kind, RequestKind::Uncertain);
    complete(&world, &token, "no 7").await.unwrap();
    assert_eq!(world.status(&fork).await, Status::Waiting);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    audited(&world, &run).await;
}
