//! Forks (X8): from every entry of recorded runs, driven to their end; and the copy, with a fault at every write.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test says what is wrong by stopping"
)]

mod copying;
mod everywhere;
mod files;
mod refusing;

use dormouse_domain::{
    Caller, Entry, RunId, audit,
    decide::{Answer, Resolution},
    entry::CallResult,
    message::Content,
    request::{DecisionKind, Request, RequestKind},
};
use dormouse_engine::{ForkRun, Problem, StepReport};
use dormouse_testkit::{World, agent, answer, approve};

const AGENT: &str = r#"
    models = ["scripted:x"]
    max_mode = "auto_edit"
    [[tools]]
    name = "look"
    kind = "read"
    http = { url = "http://tools/look" }
    [[tools]]
    name = "peek"
    kind = "read"
    permission = "ask"
    http = { url = "http://tools/peek" }
    [[tools]]
    name = "deploy"
    http = { url = "http://tools/deploy" }
    [[tools]]
    name = "ping"
    permission = "allow"
    replay = "safe"
    http = { url = "http://tools/ping" }
    [[tools]]
    name = "check"
    replay = "safe"
    http = { url = "http://tools/check" }
    [[tools]]
    name = "pay"
    permission = "allow"
    replay = "idempotent"
    http = { url = "http://tools/pay" }
    [[tools]]
    name = "wipe"
    permission = "allow"
    http = { url = "http://tools/wipe" }
    [[tools]]
    builtin = "ask_user"
"#;

async fn start(world: &World) -> RunId {
    world.start(agent("ops", AGENT)).await
}

async fn step(world: &World, run: &RunId) -> StepReport {
    world.engine.step(run, world.deadline()).await.unwrap()
}

fn ann() -> Caller {
    World::user("ann")
}

fn at(at: u32) -> ForkRun {
    ForkRun { at, message: None, mode: None, metadata: None }
}

fn saying(text: &str, fork: ForkRun) -> ForkRun {
    ForkRun { message: Some(vec![Content::text(text)]), ..fork }
}

async fn fork(world: &World, run: &RunId, fork: ForkRun) -> Result<RunId, Problem> {
    world.engine.fork(&ann(), run, fork, None).await.map(|started| started.run_id)
}

fn returned(text: &str) -> CallResult {
    CallResult::Returned { content: vec![Content::text(text)], is_error: false }
}

/// Settles and approves whatever waits, and drives the run, until it has come to rest with nothing that waits.
async fn drive_to_the_end(world: &World, run: &RunId) {
    for _ in 0..20 {
        step(world, run).await;
        let pending = world.pending(run).await;
        if pending.is_empty() {
            return;
        }
        for request in pending {
            let given = decision(&request);
            world.engine.respond(&ann(), &request.id, &given, None).await.unwrap();
        }
    }
    panic!("it does not end: {:?}", world.memory.kinds(run));
}

/// Yes, blue, and "leave it".
fn decision(request: &Request) -> Answer {
    match request.kind {
        RequestKind::Approval => approve(request),
        RequestKind::Question => Answer { answer: Some("blue".into()), ..answer(DecisionKind::Answer) },
        _ => Answer { resolution: Some(Resolution::Abort), ..answer(DecisionKind::Settle) },
    }
}

/// The auditor has nothing against the run's journal.
async fn audited(world: &World, run: &RunId) -> Vec<Entry> {
    let entries = world.memory.journal(run);
    let definition = world.engine.definition(&ann(), run).await.unwrap();
    assert_eq!(audit::journal(run, &definition, &entries).unwrap(), [], "{entries:#?}");
    entries
}
