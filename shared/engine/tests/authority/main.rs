//! What people may let a call do, and what then runs.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test says what is wrong by stopping"
)]

mod always;
mod budget;
mod editing;
mod widening;

use dormouse_domain::{RunId, request::Request};
use dormouse_engine::StepReport;
use dormouse_testkit::{World, agent, call};

const AGENT: &str = r#"
    models = ["scripted:x"]
    [[tools]]
    name = "deploy"
    input_schema = { type = "object", required = ["env"] }
    http = { url = "http://tools/deploy" }
    [[tools]]
    name = "pay"
    permission = "ask"
    replay = "idempotent"
    reuse_result = true
    http = { url = "http://tools/pay" }
"#;

/// A run of `file`'s agent whose model made this one call, which waits for a person.
async fn waiting(world: &World, file: &str, tool: &str, arguments: &str) -> (RunId, Request) {
    let run = world.start(agent("ops", file)).await;
    world.models.reply(vec![call("a", tool, arguments)]);
    step(world, &run).await;
    let request = world.pending(&run).await.remove(0);
    (run, request)
}

async fn step(world: &World, run: &RunId) -> StepReport {
    world.engine.step(run, world.deadline()).await.unwrap()
}
