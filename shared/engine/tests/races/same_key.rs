//! The same write under the same key, twice at the same time.

use std::sync::Arc;

use dormouse_engine::{Engine, Settings};
use dormouse_testkit::{World, approve, call};

use crate::{
    ann,
    hooked::{At, hooked},
    key, start,
};

/// C4, case 25: the same decision under the same key, sent again while the first is under way.
#[tokio::test]
async fn c4_the_same_key_at_the_same_time_is_the_same_answer() {
    let world = Arc::new(World::default());
    let run = start(&world).await;
    world.models.reply(vec![call("a", "deploy", "{}")]);
    world.engine.step(&run, world.deadline()).await.unwrap();
    let request = world.pending(&run).await.remove(0);
    let (other, again) = (world.clone(), request.clone());
    // The first is stored after the second has looked for a receipt, and before it reads the run.
    let ports = hooked(&world, At::Load, 0, move || async move {
        other.engine.respond(&ann(), &again.id, &approve(&again), Some(&key("k"))).await.unwrap();
    });
    let engine = Engine::new(ports, Settings::new("host".into(), 180_000));
    let second = engine.respond(&ann(), &request.id, &approve(&request), Some(&key("k"))).await;
    assert!(second.is_ok(), "{second:?}");
}

/// The same for a control.
#[tokio::test]
async fn the_same_key_at_the_same_time_pauses_once() {
    let world = Arc::new(World::default());
    let run = start(&world).await;
    let (other, id) = (world.clone(), run.clone());
    let ports = hooked(&world, At::Load, 0, move || async move {
        other.engine.pause(&ann(), &id, Some(&key("k"))).await.unwrap();
    });
    let engine = Engine::new(ports, Settings::new("host".into(), 180_000));
    let second = engine.pause(&ann(), &run, Some(&key("k"))).await;
    assert!(second.is_ok(), "{second:?}");
}

/// The same for the run's one request.
#[tokio::test]
async fn c4_the_same_key_at_the_same_time_decides_the_runs_request_once() {
    let world = Arc::new(World::default());
    let run = start(&world).await;
    world.models.reply(vec![call("a", "deploy", "{}")]);
    world.engine.step(&run, world.deadline()).await.unwrap();
    let request = world.pending(&run).await.remove(0);
    let (other, id, again) = (world.clone(), run.clone(), approve(&request));
    let ports = hooked(&world, At::Overview, 0, move || async move {
        other.engine.respond_to_run(&ann(), &id, &again, Some(&key("k"))).await.unwrap();
    });
    let engine = Engine::new(ports, Settings::new("host".into(), 180_000));
    let second = engine.respond_to_run(&ann(), &run, &approve(&request), Some(&key("k"))).await;
    assert!(second.is_ok(), "{second:?}");
}
