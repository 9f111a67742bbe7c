//! No task outlives its step, nor the time that a call has: a frozen one would thaw in somebody else's.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use dormouse_domain::{ToolDef, entry::CallResult, message::Content};
use dormouse_engine::{
    Engine, Ports, Settings, StepReport,
    ports::{ToolCall, ToolReply, Tools},
};
use dormouse_testkit::{World, call};
use serde_json::Value;

use crate::start;

/// Tools whose calls take five seconds, those of `look` forty; they count how many are under way and how many
/// came to their end.
#[derive(Default)]
struct Slow {
    alive: AtomicU32,
    ended: AtomicU32,
}

struct Alive<'a>(&'a AtomicU32);

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Tools for Slow {
    fn validate(&self, _: &ToolDef, _: &Value) -> Result<(), String> {
        Ok(())
    }
    async fn call(&self, call: &ToolCall) -> ToolReply {
        self.alive.fetch_add(1, Ordering::SeqCst);
        let _alive = Alive(&self.alive);
        tokio::time::sleep(Duration::from_secs(if call.tool.name == "look" { 40 } else { 5 })).await;
        self.ended.fetch_add(1, Ordering::SeqCst);
        CallResult::Returned { content: vec![Content::text("ok")], is_error: false }.into()
    }
}

fn engine(world: &World, tools: &Arc<Slow>) -> Engine {
    let ports = Ports { tools: tools.clone(), ..world.engine.ports().clone() };
    Engine::new(ports, Settings::new("host".to_owned(), 180_000))
}

/// A2: a call whose time is over is ended, not only given up.
#[tokio::test(start_paused = true)]
async fn a2_a_call_that_takes_too_long_is_ended() {
    let (world, tools) = (World::default(), Arc::new(Slow::default()));
    let run = start(&world).await;
    world.models.reply(vec![call("a", "look", "{}")]);
    // It may take thirty seconds, and is not known to have done anything.
    assert_eq!(engine(&world, &tools).step(&run, world.deadline()).await.unwrap(), StepReport::Suspended);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((tools.alive.load(Ordering::SeqCst), tools.ended.load(Ordering::SeqCst)), (0, 0));
}

/// A2: a step that fails while calls run has ended them when it returns.
#[tokio::test(start_paused = true)]
async fn a2_a_step_that_fails_has_ended_its_calls() {
    let (world, tools) = (Arc::new(World::default()), Arc::new(Slow::default()));
    let run = start(&world).await;
    world.models.reply(vec![call("a", "look", "{}"), call("b", "edit", "{}")]);
    let down = world.store.clone();
    let other = world.clone();
    // The reply and its announcements are stored, and then nothing is.
    let went = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        down.set_down(true);
        other.clock.advance(179_990);
    });
    let (engine, deadline) = (engine(&world, &tools), world.deadline());
    let stepped = engine.step(&run, deadline).await;
    assert_eq!((tools.alive.load(Ordering::SeqCst), tools.ended.load(Ordering::SeqCst)), (0, 1));
    went.await.unwrap();
    assert!(stepped.is_err(), "{stepped:?}");
}
