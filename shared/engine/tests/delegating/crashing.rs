//! A step that dies anywhere between a parent and its child loses neither.

use std::time::Duration;

use dormouse_domain::{
    CallKey, Fact, Run, RunId,
    decide::{Answer, Resolution},
    item::RunItem,
    request::{DecisionKind, Request, RequestKind},
    run::Status,
};
use dormouse_engine::{
    Problem, StepReport,
    ports::{Commit, ItemWrite, Store},
};
use dormouse_testkit::{Fault, World, agent, answer, approve, call, say};

use super::{HELPER, LEAD, agents, ann, audited, delegate, step};

fn decision(request: &Request) -> Answer {
    match request.kind {
        RequestKind::Approval => approve(request),
        RequestKind::Uncertain => {
            let resolution = Some(Resolution::Result("it did".to_owned()));
            Answer { resolution, ..answer(DecisionKind::Settle) }
        }
        other => panic!("nobody is asked {other:?} here"),
    }
}

/// Drives a run and its child until the run is over, as the world does: by wakes, sweeps and a person who tries again.
/// `kills`: a step that meets a fault dies of it.
async fn live(world: &World, run: &RunId, kills: bool, what: &str) -> RunId {
    for _ in 0..40 {
        let replied = world.memory.kinds(run).iter().position(|kind| *kind == "ModelReplied").unwrap_or_default();
        let child = RunId::of_child(run, CallKey::new(u32::try_from(replied).unwrap(), 0));
        for id in [run, &child] {
            let stepped = world.engine.step(id, world.deadline());
            // Less than the engine's pause before it tries a write again.
            let limit = Duration::from_millis(if kills { 40 } else { 60_000 });
            let _ = tokio::time::timeout(limit, stepped).await;
            let Ok(view) = world.engine.run_view(&ann(), id).await else { continue };
            for request in view.pending {
                assert_eq!(request.id.run, child, "{what}: {request:?}");
                let responded = world.engine.respond(&ann(), &request.id, &decision(&request), None).await;
                let met = matches!(responded, Ok(_) | Err(Problem::Unknown(_) | Problem::Unavailable(_)));
                assert!(met, "{what}: {responded:?}");
            }
        }
        if world.status(run).await == Status::Completed {
            return child;
        }
        world.clock.advance(200_000);
        let _ = world.engine.sweep().await;
    }
    panic!("{what}: it never ended: {:?}", world.memory.kinds(run));
}

/// D6, B13: one fault at each write of the two lives, heard of or not, survived or not.
#[tokio::test(start_paused = true)]
async fn d6_b13_one_fault_at_every_write() {
    for kills in [false, true] {
        for fault in [Fault::Refused, Fault::LostBefore, Fault::LostAfter, Fault::Contention] {
            for at in 0..24 {
                let what = format!("{fault:?} at write {at}, kills: {kills}");
                let world = World::default();
                agents(&world, LEAD, HELPER);
                let run = world.start(agent("lead", LEAD)).await;
                // By what was asked, because whose turn it is depends on the fault.
                world.models.answer(|prompt| match (prompt.contains("\"go\""), prompt.matches("Result {").count()) {
                    (true, 0) => vec![delegate("work", "helper")],
                    (true, _) => vec![say("done")],
                    (false, 0) => vec![call("w", "wipe", "{}")],
                    (false, _) => vec![say("wiped")],
                });
                let mut faults = vec![Fault::None; at];
                faults.push(fault);
                world.store.inject(&faults);
                let child = live(&world, &run, kills, &what).await;

                let reads = |prompt: &String| prompt.contains("\"go\"") && prompt.contains("wiped");
                assert!(world.models.asked().iter().any(reads), "{what}");
                // A step that dies between announcing it and making it leaves a person to say what it did.
                let made = world.tools.count("wipe");
                assert!(made == 1 || (kills && made == 0), "{what}: {made} calls");
                let told = world.memory.journal(&run).into_iter().filter(|entry| match &entry.fact {
                    Fact::CallFinished { used, .. } => used.is_some(),
                    _ => false,
                });
                assert_eq!(told.count(), 1, "{what}: told once");
                assert_eq!(world.engine.runs(&ann(), None, 20).await.unwrap().items.len(), 2, "{what}: one child");
                audited(&world, &run).await;
                audited(&world, &child).await;
            }
        }
    }
}

/// A child whose start was thought lost, and that is there only when its parent was cancelled, ends at once.
#[tokio::test(start_paused = true)]
async fn d6_a_child_that_comes_too_late_does_nothing() {
    // The very same run twice: the first time to see what the child begins with.
    let (seen, run, children) = {
        let world = World::default();
        let (run, children) = super::delegating(&world, LEAD, HELPER, &["work"]).await;
        (world, run, children)
    };
    let child = &children[0];
    let first = seen.memory.journal(child).remove(0);
    let definition = seen.engine.definition(&ann(), child).await.unwrap();
    let started = Run::start(child.clone(), definition.clone(), &first).unwrap();

    let world = World::default();
    agents(&world, LEAD, HELPER);
    assert_eq!(world.start(agent("lead", LEAD)).await, run);
    world.models.reply(vec![delegate("work", "helper")]);
    // Claim and reply stand; the child's start is on its way, and so is that this is not known, when the step dies.
    world.store.inject(&[Fault::None, Fault::None, Fault::LostBefore, Fault::LostBefore]);
    let dies = tokio::time::timeout(Duration::from_millis(40), world.engine.step(&run, world.deadline())).await;
    assert!(dies.is_err());
    world.engine.cancel(&ann(), &run, None, None).await.unwrap_or_else(|problem| panic!("{problem:?}"));
    world.clock.advance(200_000);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert!(world.memory.journal(child).is_empty(), "{:?}", world.memory.kinds(&run));

    world.memory.put_definition(&started.definition_digest, &definition).await.unwrap();
    let item = Some(ItemWrite::Create(RunItem::of(&started, first.at)));
    let commit = Commit { item, ..Commit::new(child.clone(), first.entry_id.clone()) };
    world.memory.commit(&Commit { entries: vec![first], ..commit }).await.unwrap();
    let asked = world.models.asked().len();
    assert_eq!(step(&world, child).await, StepReport::Finished);
    assert_eq!((world.status(child).await, world.models.asked().len()), (Status::Cancelled, asked));
    audited(&world, child).await;
}
