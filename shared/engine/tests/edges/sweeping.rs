//! The sweep, and what a host wakes when it starts.

use std::{collections::BTreeSet, time::Duration};

use dormouse_domain::{Millis, RunId, run::Status};
use dormouse_engine::{Engine, Settings, StepReport, Swept, ports::Clock};
use dormouse_testkit::{World, call, say};

use crate::start;

async fn start_many(world: &World, count: usize) -> BTreeSet<RunId> {
    let mut runs = BTreeSet::new();
    for _ in 0..count {
        runs.insert(start(world).await);
    }
    world.queue.take();
    runs
}

fn woken(world: &World) -> BTreeSet<RunId> {
    world.queue.take().into_iter().map(|(run, _)| run).collect()
}

/// D7: every run that is due is woken, however many there are, once; the next sweep finds none.
#[tokio::test]
async fn d7_a_sweep_wakes_all_that_is_due() {
    let world = World::default();
    let runs = start_many(&world, 250).await;
    assert_eq!(world.engine.sweep().await.unwrap(), Swept { due: 250, woken: 250 });
    let sent = world.queue.take();
    assert_eq!((sent.len(), sent.into_iter().map(|(run, _)| run).collect::<BTreeSet<_>>()), (250, runs));
    assert_eq!(world.engine.sweep().await.unwrap(), Swept::default());
}

/// A queue that takes nothing is asked for one page; all of it is still due.
#[tokio::test]
async fn a_sweep_gives_up_where_nothing_can_be_sent() {
    let world = World::default();
    let runs = start_many(&world, 120).await;
    world.queue.set_broken(true);
    assert_eq!(world.engine.sweep().await.unwrap(), Swept { due: 100, woken: 0 });
    world.queue.set_broken(false);
    assert_eq!(world.engine.sweep().await.unwrap(), Swept { due: 120, woken: 120 });
    assert_eq!(woken(&world), runs);
}

/// D7: a host that starts wakes all runs that were queued or held, also one whose step had the whole quarter
/// of an hour that a step can have; not one that has no more than a timer further away than that.
#[tokio::test]
async fn d7_a_host_that_starts_wakes_what_lost_its_driver() {
    let world = World::default();
    let mut runs = start_many(&world, 160).await;
    let held = runs.pop_first().unwrap();
    let beside = runs.pop_first().unwrap();
    world.models.reply(vec![call("a", "deploy", "{}")]);
    world.models.reply(vec![say("I went on")]);
    world.engine.step(&beside, world.deadline()).await.unwrap();
    world.clock.advance(60_001);
    assert_eq!(world.engine.step(&beside, world.deadline()).await.unwrap(), StepReport::Finished);

    world.models.reply(vec![call("a", "look", "{}")]);
    world.tools.slow("look", Duration::from_secs(3600));
    let longest = world.clock.now().plus(15 * 60 * 1000);
    let dead = tokio::time::timeout(Duration::from_millis(50), world.engine.step(&held, longest)).await;
    assert!(dead.is_err());
    assert_eq!(world.status(&held).await, Status::Running);
    world.queue.take();

    let swept = world.other_host("next").wake_orphans().await.unwrap();
    runs.insert(held);
    assert_eq!(woken(&world), runs);
    assert_eq!(swept, Swept { due: 159, woken: 159 });
    world.queue.set_broken(true);
    assert_eq!(world.other_host("next").wake_orphans().await.unwrap(), Swept { due: 159, woken: 0 });
}

/// D7: the only host there is knows that another's driver is gone, and takes its run at once; its own it
/// leaves alone. One of several waits for the driver's time to be over.
#[tokio::test]
async fn d7_a_sole_host_takes_over_at_once() {
    for (sole_host, name, expected) in
        [(true, "next", StepReport::Suspended), (true, "host", StepReport::Busy), (false, "next", StepReport::Busy)]
    {
        let world = World::default();
        let run = start(&world).await;
        world.models.reply(vec![call("a", "edit", "{}"), call("b", "deploy", "{}")]);
        world.tools.slow("edit", Duration::from_secs(3600));
        let dead = tokio::time::timeout(Duration::from_millis(50), world.engine.step(&run, world.deadline())).await;
        assert!(dead.is_err());
        world.tools.slow("edit", Duration::ZERO);
        let settings = Settings { sole_host, ..Settings::new(name.to_owned(), 180_000) };
        let next = Engine::new(world.engine.ports().clone(), settings);
        assert_eq!(next.step(&run, world.deadline()).await.unwrap(), expected, "{name}, sole: {sole_host}");
    }
}

/// I9: an item that says another time than the journal is set right by whoever is woken for nothing, and
/// what is due later gets its wake. With nothing wrong, nothing is written.
#[tokio::test]
async fn i9_an_item_that_is_due_at_a_wrong_time_is_set_right() {
    let world = World::default();
    let run = start(&world).await;
    world.models.reply(vec![call("a", "deploy", "{}")]);
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Suspended);
    let right = world.view(&run).await.item.due_at.unwrap();
    world.memory.take_writes();
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Idle);
    assert!(world.memory.take_writes().is_empty());
    for _ in 0..2 {
        world.clock.set(right);
        assert_eq!(world.engine.sweep().await.unwrap().woken, 1, "somebody looks, a moment too early for the run");
        world.clock.set(Millis(right.0 - 1_000));
        world.queue.take();
        assert_ne!(world.view(&run).await.item.due_at, Some(right));
        assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Idle);
        assert_eq!(world.view(&run).await.item.due_at, Some(right));
        assert_eq!(world.queue.take(), [(run.clone(), Duration::from_secs(1))]);
    }
}
