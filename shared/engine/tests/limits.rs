//! Time and room that run short.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test says what is wrong by stopping"
)]

use std::{fmt::Write as _, time::Duration};

use dormouse_domain::{RunId, entry::CallResult, request::DecisionKind, retry::FailureClass, run::Status};
use dormouse_engine::{StepReport, ports::Clock};
use dormouse_testkit::{World, agent, answer, call, say};

const TOOLS: &str = r#"
    [[tools]]
    name = "look"
    kind = "read"
    timeout = "60s"
    http = { url = "http://tools/look" }
    [[tools]]
    name = "deploy"
    http = { url = "http://tools/deploy" }
"#;

async fn start(world: &World, head: &str) -> RunId {
    world.start(agent("ops", &format!("{head}\n{TOOLS}"))).await
}

const ONE: &str = r#"models = ["scripted:x"]"#;

/// Near the deadline a step hands the run on, and never before it has done something itself.
#[tokio::test]
async fn f3_hand_off_before_the_deadline() {
    let world = World::default();
    let run = start(&world, ONE).await;
    world.models.reply(vec![call("a", "look", "{}")]);
    world.models.reply(vec![say("done")]);
    // Too short for a model call by the settings, but a step that did nothing goes on regardless.
    let short = world.clock.now().plus(20_000);
    assert_eq!(world.engine.step(&run, short).await.unwrap(), StepReport::HandedOff);
    assert_eq!(world.memory.kinds(&run), ["RunStarted", "DriverStarted", "ModelReplied", "DriverStopped"]);
    assert_eq!(world.status(&run).await, Status::Queued);
    assert!(world.queue.take().iter().any(|(woken, _)| *woken == run));
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Finished);
    assert_eq!(world.tools.count("look"), 1);
}

/// 300 parallel calls: at most 64 requests are open, the rest wait their turn, and every call is
/// decided once.
#[tokio::test]
async fn more_requests_than_a_transaction_holds() {
    let world = World::default();
    let run = start(&world, ONE).await;
    world.models.reply((0..300).map(|i| call(&format!("c{i}"), "deploy", &format!("{{\"n\":{i}}}"))).collect());
    let ann = World::user("ann");
    let mut decided = 0;
    for _ in 0..20 {
        world.engine.step(&run, world.deadline()).await.unwrap();
        let view = world.view(&run).await;
        assert!(view.pending.len() <= 64);
        for request in view.pending {
            world.engine.respond(&ann, &request.id, &answer(DecisionKind::Deny), None).await.unwrap();
            decided += 1;
        }
    }
    assert_eq!((decided, world.status(&run).await), (300, Status::Completed));
}

/// Requests whose arguments do not fit one transaction are opened by several.
#[tokio::test]
async fn requests_with_large_arguments() {
    let world = World::default();
    let run = start(&world, ONE).await;
    let mut large = String::new();
    write!(large, "{{\"text\":\"{}\"}}", "x".repeat(200_000)).unwrap();
    world.models.reply((0..8).map(|i| call(&format!("c{i}"), "deploy", &large)).collect());
    world.engine.step(&run, world.deadline()).await.unwrap();
    world.queue.take();
    let first = world.pending(&run).await.len();
    assert!((1..8).contains(&first), "{first}");
    world.engine.step(&run, world.deadline()).await.unwrap();
    assert_eq!(world.pending(&run).await.len(), 8);
    assert_eq!(world.status(&run).await, Status::Waiting);
}

/// B10, B11: a failing model is waited for without compute; then the next in the list is asked.
#[tokio::test]
async fn b10_b11_model_failures_back_off_and_fall_back() {
    let world = World::default();
    let run = start(&world, r#"models = ["scripted:x", "scripted:y"]"#).await;
    world.models.fail(FailureClass::Overloaded);
    world.models.fail(FailureClass::Rejected);
    world.models.reply(vec![say("done")]);
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Suspended);
    let woken = world.queue.take();
    assert_eq!(woken.last().unwrap().1, Duration::from_millis(2_000));
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Idle);
    world.clock.advance(2_000);
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Finished);
    let view = world.view(&run).await;
    assert!(view.item.usage.incomplete);
    let replied = world.memory.journal(&run).into_iter().find_map(|entry| match entry.fact {
        dormouse_domain::Fact::ModelReplied { model, .. } => Some(model.to_string()),
        _ => None,
    });
    assert_eq!(replied.unwrap(), "scripted:y");
}

/// D1: at the cap on turns no model is asked; the run says so, and ends if nobody raises it.
#[tokio::test]
async fn d1_the_turn_limit_stops_the_run() {
    let world = World::default();
    let run = start(&world, "models = [\"scripted:x\"]\nlimits = { turns = 3 }").await;
    for i in 0..5 {
        world.models.reply(vec![call(&format!("c{i}"), "look", "{}")]);
    }
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Suspended);
    assert!(world.pending(&run).await[0].summary.contains("3 turns"));
    world.clock.advance(24 * 3600 * 1000 + 1);
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Finished);
    let outcome = world.view(&run).await.item.outcome.unwrap();
    assert!(outcome.why.contains("3 turns"), "{outcome:?}");
    assert_eq!(world.models.asked().len(), 3);
}

/// A tool that panics is a failed call; a step that keeps dying ends in a clean failure.
#[tokio::test]
async fn d7_panics() {
    let world = World::default();
    let run = start(&world, ONE).await;
    world.tools.on("look", |_| -> CallResult { panic!("in the tool") });
    world.models.reply(vec![call("a", "look", "{}")]);
    world.models.before_reply(|| async { panic!("in the model's adapter") });
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Crashed);
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Idle);
    world.clock.advance(1_000);
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Finished);
    assert!(world.models.asked()[2].contains("it panicked"));

    let run = start(&world, ONE).await;
    for _ in 0..5 {
        world.models.before_reply(|| async { panic!("again") });
        world.clock.advance(1_000_000);
        assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Crashed);
        // What panics backs off, unless it was the last time.
        assert_eq!(world.status(&run).await, Status::Queued);
    }
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Finished);
    assert_eq!(world.status(&run).await, Status::Failed);
}
