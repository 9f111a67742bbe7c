//! What AWS does around the functions: Lambda's event source mapping, which hands each message to an
//! invocation of the step function, and the schedule of the sweep.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use dormouse_domain::{Millis, item::RunItem};
use dormouse_engine::{
    StepError, StepReport,
    ports::{Clock, Wake},
};

use crate::{actor::Life, hosts::Host, queue::Message, sim::locked, time::pause, world::World};

/// How often the sweep runs, in milliseconds.
const SWEEP_EVERY_MS: u64 = 60_000;
/// A timer that is no further away than this rides on a message, in milliseconds.
const NEAR_MS: u64 = 15 * 60_000;
/// How overdue a run can be that is being woken by a message, in milliseconds.
const LEFT_TO_THE_SWEEP_MS: u64 = 30_000;
/// How long the sweep stands still in some simulations, in milliseconds.
const SWEEP_STANDS_MS: u64 = 5 * 60_000;

/// Delivers messages, for ever.
pub(crate) async fn deliver(world: Arc<World>) {
    let hidden_ms = u64::try_from(world.step.as_millis()).unwrap_or(u64::MAX) * 6;
    loop {
        while let Some(host) = take_host(&world) {
            let Some(message) = world.queue.take(hidden_ms) else {
                locked(&world.idle).push(host);
                break;
            };
            world.busy.fetch_add(1, Ordering::Relaxed);
            let world = Arc::clone(&world);
            tokio::spawn(async move {
                let invoked = tokio::spawn(invoke(Arc::clone(&world), Arc::clone(&host), message)).await;
                world.sim.ensure(invoked.is_ok(), || "a step panicked outside its drive".to_owned());
                world.busy.fetch_sub(1, Ordering::Relaxed);
                world.free(host);
            });
        }
        let wait_ms = world.queue.next_visible_ms().map(|at_ms| at_ms.saturating_sub(world.sim.time.elapsed_ms()));
        // What is visible already waits for a machine, not for time.
        let wait = Duration::from_millis(wait_ms.filter(|wait_ms| *wait_ms > 0).unwrap_or(SWEEP_EVERY_MS));
        tokio::select! {
            biased;
            () = world.queue.changed.notified() => {}
            () = world.freed.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

fn take_host(world: &World) -> Option<Arc<Host>> {
    let mut idle = locked(&world.idle);
    let last = idle.len().checked_sub(1)?;
    let place = usize::try_from(world.sim.dice.range(0..=last as u64)).unwrap_or(0);
    Some(idle.remove(place))
}

async fn invoke(world: Arc<World>, host: Arc<Host>, message: Message) {
    let Ok(wake) = serde_json::from_str::<Wake>(&message.body) else {
        return world.sim.accuse(format!("a message that is no wake: {:?}", message.body));
    };
    let actor = host.invocation(false);
    *locked(&host.tools.invocation) = Some(Arc::clone(&actor));
    let span_ms = u64::try_from(world.step.as_millis()).unwrap_or(u64::MAX);
    let deadline = host.clock.now().plus(span_ms);
    let stepped = Box::pin(actor.live(world.step, host.engine.step(&wake.run_id, deadline))).await;
    let kind = match &stepped {
        Life::Done(Ok(report)) => {
            world.queue.delete(message.id);
            // A sweep can be quicker than the transaction that makes a run; who made it sends a wake too.
            let known = *report != StepReport::NoSuchRun || world.books.of(&wake.run_id, |_| ()).is_some();
            world.sim.ensure(known, || format!("a wake for {}, which does not exist", wake.run_id));
            locked(&world.cut_off).remove(&wake.run_id);
            format!("step {report:?}")
        }
        Life::Done(Err(StepError::Load(error))) => {
            let corrupt = error.to_string().contains("corrupt") || error.to_string().contains("cannot be read");
            world.sim.ensure(!corrupt, || format!("I1: {error}"));
            "step could not load".to_owned()
        }
        Life::Done(Err(StepError::Write(_) | StepError::Beside(_))) => "step could not write".to_owned(),
        Life::Done(Err(StepError::Bug(bug))) => {
            world.sim.accuse(format!("the engine contradicts itself: {bug}"));
            "step bug".to_owned()
        }
        Life::Died => "step died".to_owned(),
        Life::TimedOut => {
            locked(&world.cut_off).insert(wake.run_id);
            "step timed out".to_owned()
        }
    };
    world.sim.say(format_args!("{} ends: {kind}", actor.name));
    world.sim.count(kind);
}

/// Sweeps every minute, for ever. A sweep that would find nothing is left out: it changes nothing.
pub(crate) async fn sweep(world: Arc<World>) {
    loop {
        pause(SWEEP_EVERY_MS).await;
        let stands = world.sim.swarm.sweep_stands && world.sim.time.elapsed_ms() < SWEEP_STANDS_MS;
        let now = world.sweeper.clock.now();
        let due = due(&world, now);
        if (stands && world.sim.has_faults()) || due.is_empty() {
            continue;
        }
        // D8: where no message is lost and nobody dies, only far timers are left to the sweep. A step that is ended
        // at its deadline dies: these agents have tools that take as long as the shortest step.
        let alive = due.iter().filter(|item| !locked(&world.cut_off).contains(&item.run_id));
        let near = alive.filter_map(|item| item.due_at.filter(|at| at.since(item.updated_at) <= NEAR_MS));
        let left = near.into_iter().find(|due_at| now.since(*due_at) > LEFT_TO_THE_SWEEP_MS);
        let left = left.filter(|_| world.sim.swarm.calm);
        world
            .sim
            .ensure(left.is_none(), || format!("D8: a run wants a step since {left:?}, and no message brought it"));
        let actor = world.sweeper.invocation(false);
        match actor.live(Duration::from_millis(SWEEP_EVERY_MS), world.sweeper.engine.sweep()).await {
            Life::Done(Ok(swept)) => {
                world.sim.count(if swept.woken > 0 { "sweep woke" } else { "sweep woke nobody" });
                world.sim.say(format_args!("{swept:?}"));
            }
            Life::Done(Err(_)) | Life::TimedOut => world.sim.count("sweep failed"),
            Life::Died => world.sim.count("sweep died"),
        }
    }
}

/// The items of the runs that are due.
fn due(world: &World, now: Millis) -> Vec<RunItem> {
    let runs = world.books.runs().into_iter();
    let items = runs.filter_map(|run| world.books.of(&run, |book| book.item.clone()).flatten());
    items.filter(|item| item.due_at.is_some_and(|due_at| due_at <= now)).collect()
}
