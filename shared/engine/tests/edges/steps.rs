//! What a step does as its time runs out, and while the store has a bad moment.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use dormouse_domain::{
    Fact, Millis, RunId, ToolDef,
    entry::{CallResult, DriverStop},
    message::Content,
};
use dormouse_engine::{
    Engine, Ports, Settings, StepReport,
    ports::{Clock, ToolCall, ToolReply, Tools},
};
use dormouse_testkit::{Fault, World, agent, call};
use serde_json::Value;
use tokio::time::Instant;

use crate::{ann, start};

fn results(world: &World, run: &RunId) -> Vec<CallResult> {
    let results = world.memory.journal(run).into_iter().filter_map(|entry| match entry.fact {
        Fact::CallFinished { result, .. } => Some(result),
        _ => None,
    });
    results.collect()
}

/// B4: a tool is waited for as long as its file says and a second more; what it does after that is unknown.
#[tokio::test(start_paused = true)]
async fn b4_how_long_a_tool_is_waited_for() {
    for (takes_ms, answered) in [(29_000, true), (30_900, true), (31_100, false)] {
        let world = World::default();
        let run = start(&world).await;
        world.models.reply(vec![call("a", "look", "{}")]);
        world.tools.slow("look", Duration::from_millis(takes_ms));
        world.engine.step(&run, world.deadline()).await.unwrap();
        let expected = if answered {
            CallResult::Returned { content: vec![Content::text("ok")], is_error: false }
        } else {
            CallResult::Unknown { why: "the tool did not answer within 30000 ms".into() }
        };
        assert_eq!(results(&world, &run)[0], expected, "after {takes_ms} ms");
    }
}

/// F3: a call is made if its time fits what is left to the millisecond, with a margin for the stop entry; a
/// model call needs half a minute. What does not fit is handed on, by a step that has done anything.
#[tokio::test]
async fn f3_what_fits_the_time_left() {
    const MARGIN_MS: u64 = 5_000;
    for (left_ms, announced) in [(30_000, true), (29_999, false)] {
        let world = World::default();
        let run = start(&world).await;
        world.models.reply(vec![call("a", "look", "{}")]);
        let deadline = world.clock.now().plus(left_ms + MARGIN_MS);
        world.engine.step(&run, deadline).await.unwrap();
        assert_eq!(world.tools.count("look"), usize::from(announced), "{left_ms} ms left");
    }
    for (left_ms, asked) in [(30_000, 2), (29_999, 1)] {
        let world = Arc::new(World::default());
        let run = world.start(agent("ops", crate::AGENT)).await;
        world.models.reply(vec![call("a", "look", "{}")]);
        let deadline = world.deadline();
        let clock = world.clock.clone();
        world.tools.on("look", move |_| {
            clock.set(Millis(deadline.0 - MARGIN_MS - left_ms));
            CallResult::Returned { content: vec![], is_error: false }
        });
        let report = world.engine.step(&run, deadline).await.unwrap();
        assert_eq!(world.models.asked().len(), asked, "{left_ms} ms left");
        assert_eq!(report, if asked == 2 { StepReport::Finished } else { StepReport::HandedOff });
    }
}

/// I4, E12: a write is tried again while time is left, after pauses that double up to five seconds; a step
/// gives up when the next pause would outlast its deadline.
#[tokio::test(start_paused = true)]
async fn i4_writes_are_tried_again_after_longer_and_longer_pauses() {
    let world = World::default();
    let run = start(&world).await;
    world.store.inject(&[Fault::Refused; 10]);
    let began = Instant::now();
    world.engine.step(&run, world.deadline()).await.unwrap();
    let pauses = [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000];
    assert_eq!(began.elapsed().as_millis(), pauses.iter().sum::<u128>());

    for (left_ms, tries_again) in [(50, false), (51, true)] {
        let world = World::default();
        let run = start(&world).await;
        world.store.inject(&[Fault::Refused]);
        let stepped = world.engine.step(&run, world.clock.now().plus(left_ms)).await;
        assert_eq!(stepped.is_ok(), tries_again, "{left_ms} ms left: {stepped:?}");
    }
}

/// D7: what a step panicked with stands in the journal.
#[tokio::test]
async fn d7_a_crash_says_what_happened() {
    for owned in [false, true] {
        let world = World::default();
        let run = start(&world).await;
        world
            .models
            .before_reply(move || async move { if owned { panic!("with {}", "words") } else { panic!("with words") } });
        assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Crashed);
        let last = world.memory.journal(&run).pop().unwrap();
        let stop = DriverStop::Crashed { message: "with words".into() };
        assert_eq!(last.fact, Fact::DriverStopped { stop });
    }
}

/// Writers that lose to each other pause between their tries, a few milliseconds each; who loses to nobody
/// does not.
#[tokio::test(start_paused = true)]
async fn writers_that_lose_pause() {
    for (lost, least, most) in [(0, 0, 0), (1, 1, 10), (7, 7, 1_000)] {
        let world = World::default();
        let run = start(&world).await;
        world.store.inject(&vec![Fault::Contention; lost]);
        let began = Instant::now();
        world.engine.pause(&ann(), &run, None).await.unwrap();
        let paused = began.elapsed().as_millis();
        assert!((least..=most).contains(&paused), "after {lost} losses: {paused} ms");
    }
}

/// A tool that refuses arguments without `x`.
struct Strict(Arc<dyn Tools>);

#[async_trait]
impl Tools for Strict {
    fn validate(&self, _: &ToolDef, arguments: &Value) -> Result<(), String> {
        if arguments.get("x").is_some() { Ok(()) } else { Err("\"x\" is required".to_owned()) }
    }
    async fn call(&self, call: &ToolCall) -> ToolReply {
        self.0.call(call).await
    }
}

/// I11: what does not fit a tool's schema does not run, and the model is told why.
#[tokio::test]
async fn i11_arguments_that_do_not_fit_do_not_run() {
    let world = World::default();
    let run = start(&world).await;
    world.models.reply(vec![call("a", "look", "{}"), call("b", "look", "{\"x\":1}")]);
    let ports = Ports { tools: Arc::new(Strict(world.tools.clone())), ..world.engine.ports().clone() };
    let engine = Engine::new(ports, Settings::new("host".to_owned(), 180_000));
    assert_eq!(engine.step(&run, world.deadline()).await.unwrap(), StepReport::Finished);
    assert_eq!(world.tools.count("look"), 1);
    assert!(world.models.asked()[1].contains("Not run: \\\"x\\\" is required"), "{:?}", world.models.asked());
}
