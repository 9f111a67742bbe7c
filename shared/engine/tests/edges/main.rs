//! What the engine does at its edges: times, counts and conditions that are off by one elsewhere.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test says what is wrong by stopping"
)]

mod controls;
mod files;
mod steps;
mod sweeping;
mod tasks;

use dormouse_domain::{Caller, Digest, RunId};
use dormouse_engine::IdempotencyKey;
use dormouse_testkit::{World, agent};

const AGENT: &str = r#"
    models = ["scripted:x", "scripted:y"]
    wait = "1m"
    decide_within = "1h"
    max_mode = "auto_edit"
    [[tools]]
    name = "look"
    kind = "read"
    timeout = "30s"
    http = { url = "http://tools/look" }
    [[tools]]
    name = "deploy"
    http = { url = "http://tools/deploy" }
    [[tools]]
    name = "wipe"
    permission = "allow"
    http = { url = "http://tools/wipe" }
    [[tools]]
    name = "edit"
    permission = "allow"
    replay = "safe"
    http = { url = "http://tools/edit" }
"#;

async fn start(world: &World) -> RunId {
    world.start(agent("ops", AGENT)).await
}

fn ann() -> Caller {
    World::user("ann")
}

fn key(name: &str) -> IdempotencyKey {
    IdempotencyKey { key: name.into(), fingerprint: Digest::of(name.as_bytes()) }
}
