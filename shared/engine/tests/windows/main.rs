//! The two windows of a request, and decisions that come after the conversation went on (E1, E6 to
//! E10, cases 20 to 22).

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test says what is wrong by stopping"
)]

mod again;
mod ended;
mod told;
mod waiting;

use dormouse_domain::{RunId, request::Request, run::Status};
use dormouse_engine::StepReport;
use dormouse_testkit::{World, agent, call, say};

/// Waits a minute, can be decided for an hour.
const AGENT: &str = r#"
    models = ["scripted:x"]
    wait = "1m"
    decide_within = "1h"
    [[tools]]
    name = "look"
    kind = "read"
    http = { url = "http://tools/look" }
    [[tools]]
    name = "deploy"
    http = { url = "http://tools/deploy" }
    [[tools]]
    builtin = "ask_user"
"#;

const MINUTE: u64 = 60_000;

/// The agent with more at its head.
fn with(more: &str) -> String {
    format!("{more}\n{AGENT}")
}

async fn step(world: &World, run: &RunId) -> StepReport {
    world.engine.step(run, world.deadline()).await.unwrap()
}

/// A run of `file` that asked to deploy, went on after a minute, and completed.
async fn completed_without(world: &World, file: &str) -> (RunId, Request) {
    let run = world.start(agent("ops", file)).await;
    world.models.reply(vec![call("a", "deploy", r#"{"env":"prod"}"#)]);
    world.models.reply(vec![say("I went on")]);
    assert_eq!(step(world, &run).await, StepReport::Suspended);
    world.clock.advance(MINUTE + 1);
    assert_eq!(step(world, &run).await, StepReport::Finished);
    assert_eq!(world.status(&run).await, Status::Completed);
    let request = world.pending(&run).await.remove(0);
    (run, request)
}

/// The last prompt.
fn last_prompt(world: &World) -> String {
    world.models.asked().pop().unwrap()
}

/// Whether each prompt begins with the one before it (I10).
fn prompts_grow(world: &World) -> bool {
    let asked = world.models.asked();
    asked.windows(2).all(|pair| {
        // The last message of a prompt can be longer in the next one.
        let head = pair[0].trim_end_matches([']', ')', '}', ' ']);
        pair[1].starts_with(head)
    })
}
