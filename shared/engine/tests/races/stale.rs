//! What was read is no longer all there is when something is written because of it.

use std::sync::Arc;

use dormouse_domain::{Millis, run::Status};
use dormouse_engine::{
    Engine, Settings, StepReport,
    ports::{Due, Store},
};
use dormouse_testkit::{World, approve, call};

use crate::{
    ann,
    hooked::{At, hooked},
    start,
};

/// I9: an item that is due at a wrong time is set right only while the journal is still the one that it was
/// derived from: a decision that comes between is not written over.
#[tokio::test]
async fn i9_an_item_is_not_set_right_from_what_is_old() {
    let world = Arc::new(World::default());
    let run = start(&world).await;
    world.models.reply(vec![call("a", "deploy", "{}")]);
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Suspended);
    let view = world.view(&run).await;
    let due = Due { run: run.clone(), due_at: view.item.due_at.unwrap(), status: Status::Waiting, wakes: 0 };
    assert!(world.memory.postpone(&due, Millis(1)).await.unwrap());
    let (other, request) = (world.clone(), view.pending[0].clone());
    let ports = hooked(&world, At::Item, 0, move || async move {
        other.engine.respond(&ann(), &request.id, &approve(&request), None).await.unwrap();
    });
    let engine = Engine::new(ports, Settings::new("host".into(), 180_000));
    assert_eq!(engine.step(&run, world.deadline()).await.unwrap(), StepReport::Idle);
    assert_eq!(world.status(&run).await, Status::Queued);
    assert_eq!(world.engine.sweep().await.unwrap().woken, 1);
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Finished);
}
