//! Every write of one run's life as a place where something goes wrong: before it, after it, with
//! and without knowing. Whatever happens, what was decided stands, and nothing runs twice unasked.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test says what is wrong by stopping"
)]

use std::{sync::Arc, time::Duration};

use dormouse_domain::{
    Entry, Fact, Run, RunId,
    decide::{Answer, Resolution},
    item::RunItem,
    message::Content,
    request::{DecisionKind, RequestKind},
    run::Status,
};
use dormouse_engine::{IdempotencyKey, Problem, StartRun, StepReport, ports::Clock};
use dormouse_testkit::{Fault, World, agent, answer, approve, call, say};

const AGENT: &str = r#"
    models = ["scripted:x"]
    [[tools]]
    name = "look"
    kind = "read"
    replay = "safe"
    http = { url = "http://tools/look" }
    [[tools]]
    name = "deploy"
    http = { url = "http://tools/deploy" }
"#;

fn key(name: &str) -> IdempotencyKey {
    IdempotencyKey { key: name.into(), fingerprint: dormouse_domain::Digest::of(name.as_bytes()) }
}

/// The invariants that any journal must keep, and that the item is the fold's.
fn check(world: &World, run: &RunId, what: &str) {
    let journal = world.memory.journal(run);
    let definition = Arc::new(agent("ops", AGENT));
    let mut folded = Run::start(run.clone(), definition, &journal[0]).unwrap();
    for entry in &journal[1..] {
        folded.apply(entry).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    let starts = journal.iter().flat_map(|entry: &Entry| match &entry.fact {
        Fact::CallDispatched { calls } => calls.clone(),
        _ => Vec::new(),
    });
    let mut attempts: Vec<_> = starts.map(|start| (start.call, start.attempt)).collect();
    attempts.sort_unstable();
    let before = attempts.len();
    attempts.dedup();
    assert_eq!(attempts.len(), before, "{what}: an attempt was announced twice");
}

async fn item_is_the_folds(world: &World, run: &RunId, what: &str) {
    let journal = world.memory.journal(run);
    let mut folded = Run::start(run.clone(), Arc::new(agent("ops", AGENT)), &journal[0]).unwrap();
    journal[1..].iter().for_each(|entry| folded.apply(entry).unwrap());
    let stored = dormouse_engine::ports::Store::item(world.memory.as_ref(), run).await.unwrap().unwrap();
    let right = RunItem::of(&folded, stored.updated_at);
    assert_eq!((stored.status, stored.pending, stored.turns), (right.status, right.pending, right.turns), "{what}");
    assert_eq!((stored.due_at, stored.outcome), (right.due_at, right.outcome), "{what}");
}

/// Drives a run to its end the way the world does: wakes, sweeps, a person who tries again.
async fn live(world: &World, faults: &[Fault], what: &str) -> RunId {
    world.agents.add(agent("ops", AGENT));
    world.models.reply(vec![call("a", "look", "{}"), call("b", "deploy", "{}"), call("c", "look", "{}")]);
    world.models.reply(vec![say("done")]);
    world.store.inject(faults);
    let ann = World::user("ann");
    let mut started = None;
    let mut answered = false;
    for round in 0..60 {
        if started.is_none() {
            let start = StartRun {
                agent: "ops".into(),
                input: vec![Content::text("go")],
                mode: None,
                metadata: std::collections::BTreeMap::new(),
            };
            started = world.engine.start(&ann, start, Some(&key("start"))).await.ok();
        }
        let Some(run) = started.as_ref().map(|started| started.run_id.clone()) else { continue };
        let _ = world.engine.step(&run, world.deadline()).await;
        check(world, &run, what);
        let view = world.view(&run).await;
        if view.item.status == Status::Completed {
            assert!(answered);
            return run;
        }
        if let Some(request) = view.pending.first() {
            assert_eq!(request.kind, RequestKind::Approval, "{what}");
            let approve = approve(request);
            let responded = world.engine.respond(&ann, &request.id, &approve, Some(&key("respond"))).await;
            match responded {
                Ok(_) => answered = true,
                Err(Problem::Unknown(_) | Problem::Unavailable(_)) => {
                    // B13, case 25: unknown is unknown; the same key says what happened.
                    world.engine.respond(&ann, &request.id, &approve, Some(&key("respond"))).await.unwrap();
                    answered = true;
                }
                Err(problem) => panic!("{what}: {problem:?}"),
            }
        }
        if round > 2 {
            world.clock.advance(60_000);
            world.engine.sweep().await.unwrap();
        }
    }
    panic!("{what}: the run never ended: {:?}", started.map(|started| world.memory.kinds(&started.run_id)));
}

/// B2, B13, E3, cases 25, 26, 28, 33, 38: one fault at each write of the run's life.
#[tokio::test(start_paused = true)]
async fn b13_e3_one_fault_at_every_write() {
    let mut reached = 0;
    for fault in [Fault::Refused, Fault::LostBefore, Fault::LostAfter, Fault::Contention] {
        for at in 0..16 {
            let what = format!("{fault:?} at write {at}");
            let world = World::default();
            let mut faults = vec![Fault::None; at];
            faults.push(fault);
            let run = live(&world, &faults, &what).await;
            assert_eq!(world.tools.count("deploy"), 1, "{what}: {:?}", world.memory.kinds(&run));
            assert_eq!(world.tools.count("look"), 2, "{what}");
            assert_eq!(world.models.asked().len(), 2, "{what}: a turn already answered was asked again");
            let decided = world.memory.kinds(&run).iter().filter(|kind| **kind == "RequestDecided").count();
            assert_eq!(decided, 1, "{what}");
            item_is_the_folds(&world, &run, &what).await;
            reached += 1;
        }
    }
    assert_eq!(reached, 64);
}

/// How long nobody may drive a run that has something to do: a step's time, and two minutes (D7).
const FOUND_WITHIN_MS: u64 = 180_000 + 120_000;

/// D7: the step is killed at each write, after the write landed or before it was made, and the wakes die
/// with it. The sweep, which comes each minute, finds the run in time, and the next step goes on.
#[tokio::test(start_paused = true)]
async fn d7_a_kill_at_every_write_is_found_in_time() {
    for landed in [false, true] {
        for at in 1..9_usize {
            let what = format!("killed at write {at}, landed: {landed}");
            let world = World::default();
            // The fault makes the engine pause before it tries again; that is when it is killed.
            let fault = if landed { Fault::LostAfter } else { Fault::LostBefore };
            let mut faults = vec![Fault::None; at];
            faults.push(fault);
            world.models.reply(vec![call("a", "look", "{}"), call("b", "deploy", "{}"), call("c", "look", "{}")]);
            world.models.reply(vec![say("done")]);
            world.store.inject(&faults);
            let ann = World::user("ann");
            let run = world.start(agent("ops", AGENT)).await;
            let mut last_driven = world.clock.now();
            for round in 0..40 {
                let alone_ms = world.clock.now().since(last_driven);
                assert!(
                    alone_ms <= FOUND_WITHIN_MS,
                    "{what}: alone for {alone_ms} ms at {:?}",
                    world.memory.kinds(&run)
                );
                if world.queue.take().iter().any(|(woken, _)| *woken == run) {
                    let other = world.other_host(&format!("host{round}"));
                    // 40 ms is less than the pause before a second try: the step dies in the fault.
                    let life = Duration::from_millis(40);
                    let stepped = tokio::time::timeout(life, other.step(&run, world.deadline())).await;
                    if !matches!(stepped, Ok(Ok(StepReport::Busy | StepReport::Idle))) {
                        last_driven = world.clock.now();
                    }
                    world.queue.take();
                }
                check(&world, &run, &what);
                let view = world.view(&run).await;
                if view.item.status == Status::Completed {
                    break;
                }
                assert!(round < 39, "{what}: stuck at {:?}", world.memory.kinds(&run));
                if view.item.status == Status::Waiting {
                    last_driven = world.clock.now(); // until the person answers there is nothing to do
                }
                for request in view.pending {
                    let answer = match request.kind {
                        RequestKind::Uncertain => {
                            Answer { resolution: Some(Resolution::Abort), ..answer(DecisionKind::Settle) }
                        }
                        _ => approve(&request),
                    };
                    // The fault may hit the decision instead: then the person tries again later.
                    let _ = world.engine.respond(&ann, &request.id, &answer, None).await;
                }
                world.clock.advance(60_000);
                world.engine.sweep().await.unwrap();
            }
            assert!(world.tools.count("deploy") <= 1, "{what}: {:?}", world.memory.kinds(&run));
            item_is_the_folds(&world, &run, &what).await;
        }
    }
}

/// E12: if the store is unavailable, wholly or for the write that decides, nothing is allowed, and nothing
/// is lost.
#[tokio::test(start_paused = true)]
async fn e12_without_a_store_nothing_is_allowed() {
    let world = World::default();
    world.models.reply(vec![call("b", "deploy", "{}")]);
    let run = world.start(agent("ops", AGENT)).await;
    world.engine.step(&run, world.deadline()).await.unwrap();
    let request = world.pending(&run).await.remove(0);
    world.store.set_down(true);
    let refused = world.engine.respond(&World::user("ann"), &request.id, &approve(&request), None).await;
    assert!(matches!(refused, Err(Problem::Unavailable(_))));
    assert!(world.engine.step(&run, world.deadline()).await.is_err());
    world.store.set_down(false);
    for fault in [Fault::Refused, Fault::LostBefore] {
        world.store.inject(&[fault]);
        let refused = world.engine.respond(&World::user("ann"), &request.id, &approve(&request), None).await;
        let unknown = matches!(refused, Err(Problem::Unknown(_)));
        assert!(unknown == (fault == Fault::LostBefore) && refused.is_err(), "{fault:?}: {refused:?}");
    }
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Idle);
    assert_eq!(world.tools.count("deploy"), 0);
    assert_eq!(world.pending(&run).await.len(), 1);
    world.engine.respond(&World::user("ann"), &request.id, &approve(&request), None).await.unwrap();
}
