//! Writers that race, drivers that are overtaken, failures that overlap.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test says what is wrong by stopping"
)]

mod early;
mod hooked;
mod models;
mod overtaken;
mod same_key;
mod stale;
mod unknown;

use std::sync::Arc;

use dormouse_domain::{Caller, Digest, Run, RunId};
use dormouse_engine::IdempotencyKey;
use dormouse_testkit::{World, agent};

const AGENT: &str = r#"
    models = ["scripted:x", "scripted:y"]
    [[tools]]
    name = "look"
    kind = "read"
    http = { url = "http://tools/look" }
    [[tools]]
    name = "deploy"
    http = { url = "http://tools/deploy" }
    [[tools]]
    name = "wipe"
    permission = "allow"
    http = { url = "http://tools/wipe" }
    [[tools]]
    name = "pay"
    permission = "allow"
    replay = "idempotent"
    http = { url = "http://tools/pay" }
    [[tools]]
    name = "edit"
    permission = "allow"
    replay = "safe"
    http = { url = "http://tools/edit" }
    [[tools]]
    builtin = "ask_user"
"#;

async fn start(world: &World) -> RunId {
    world.start(agent("ops", AGENT)).await
}

fn ann() -> Caller {
    World::user("ann")
}

fn folded(world: &World, run: &RunId) -> Run {
    let journal = world.memory.journal(run);
    let mut folded = Run::start(run.clone(), Arc::new(agent("ops", AGENT)), &journal[0]).unwrap();
    journal[1..].iter().for_each(|entry| folded.apply(entry).unwrap());
    folded
}

fn key(name: &str) -> IdempotencyKey {
    IdempotencyKey { key: name.into(), fingerprint: Digest::of(name.as_bytes()) }
}
