//! Making the copy: in batches, and broken off at each of its writes.

use dormouse_domain::{Digest, Fact, run::Status};
use dormouse_engine::IdempotencyKey;
use dormouse_testkit::{Fault, World, call};

use super::*;

/// Writes of a fork of that run: a batch of the most entries, two of the most bytes, and the last.
const WRITES: usize = 4;

fn key() -> IdempotencyKey {
    IdempotencyKey { key: "k".into(), fingerprint: Digest::of(b"fork") }
}

/// A finished run whose journal takes several batches, by number and by size; all of it but its end.
async fn long(world: &World) -> (RunId, u32) {
    world.agents.add(agent("ops", &format!("{AGENT}\n[limits]\nturns = 100")));
    let run = start(world).await;
    let large = "x".repeat(900_000);
    world.tools.on("look", move |call| if call.call.entry > 52 { returned(&large) } else { returned("ok") });
    for turn in 0..30 {
        world.models.reply(vec![call(&format!("c{turn}"), "look", "{}")]);
    }
    step(world, &run).await;
    let last = u32::try_from(world.memory.journal(&run).len()).unwrap() - 2;
    (run, last)
}

async fn runs(world: &World) -> Vec<RunId> {
    let page = world.engine.runs(&ann(), None, 100).await.unwrap();
    page.items.into_iter().map(|item| item.run_id).collect()
}

/// X8: a journal larger than a transaction is copied whole, and the fork is a run with the last write.
#[tokio::test]
async fn x8_a_long_journal_is_copied_in_batches() {
    let world = World::default();
    let (run, last) = long(&world).await;
    world.memory.take_writes();
    let of = fork(&world, &run, at(last)).await.unwrap();
    assert_eq!(world.memory.take_writes(), vec!["transaction"; WRITES]);
    let (journal, copy) = (world.memory.journal(&of), world.memory.journal(&run));
    assert_eq!(journal[..=last as usize], copy[..=last as usize]);
    assert_eq!(journal.len(), last as usize + 2);
    audited(&world, &of).await;
}

/// X8: a copy that is broken off at any of its writes is no run: no list shows it, nothing is due, nobody is
/// woken. Under the same key the fork is made once, whatever was heard of it.
#[tokio::test]
async fn x8_a_copy_that_is_broken_off_is_no_run() {
    for fault in [Fault::Refused, Fault::LostBefore, Fault::LostAfter] {
        for write in 0..WRITES {
            let world = World::default();
            let (run, last) = long(&world).await;
            world.queue.take();
            let mut faults = vec![Fault::None; write];
            faults.push(fault);
            world.store.inject(&faults);
            let broken = world.engine.fork(&ann(), &run, at(last), Some(&key())).await;
            let is_last = write == WRITES - 1;
            match broken {
                Err(Problem::Unknown(_)) if is_last => {}
                Err(Problem::Unavailable(_)) if !is_last || matches!(fault, Fault::Refused) => {}
                other => panic!("{fault:?} at {write}: {other:?}"),
            }
            let made = is_last && matches!(fault, Fault::LostAfter);
            assert_eq!(runs(&world).await.len(), if made { 2 } else { 1 }, "{fault:?} at {write}");
            assert_eq!(world.queue.take(), []);
            assert_eq!(world.engine.sweep().await.unwrap().due, u32::from(made), "{fault:?} at {write}");

            let again = world.engine.fork(&ann(), &run, at(last), Some(&key())).await.unwrap();
            let repeated = world.engine.fork(&ann(), &run, at(last), Some(&key())).await.unwrap();
            assert_eq!(again, repeated);
            assert_eq!(runs(&world).await.len(), 2, "{fault:?} at {write}");
            assert!(world.queue.take().iter().any(|(woken, _)| *woken == again.run_id));
            step(&world, &again.run_id).await;
            assert_eq!(world.status(&again.run_id).await, Status::Completed);
            let (journal, copy) = (world.memory.journal(&again.run_id), world.memory.journal(&run));
            assert_eq!(journal[..=last as usize], copy[..=last as usize]);
        }
    }
}

/// What is left of a copy that was broken off is no run to anybody who names it.
#[tokio::test]
async fn x8_what_is_left_of_a_copy_does_nothing() {
    let world = World::default();
    let (run, last) = long(&world).await;
    world.store.inject(&[Fault::None, Fault::None, Fault::Refused]);
    fork(&world, &run, at(last)).await.unwrap_err();
    // The fork's name is the number after those of all entries and drivers before it: find it by what is stored.
    let left = (1..10_000).map(RunId::from_bits).find(|id| *id != run && !world.memory.journal(id).is_empty()).unwrap();
    assert!(matches!(world.memory.journal(&left)[0].fact, Fact::RunStarted { .. }));
    assert!(matches!(world.engine.run_view(&ann(), &left).await, Err(Problem::NotFound(_))));
    assert!(matches!(world.engine.entries(&ann(), &left, 0, 1).await, Err(Problem::NotFound(_))));
    assert!(matches!(fork(&world, &left, at(0)).await, Err(Problem::NotFound(_))));
    assert!(world.engine.add_message(&ann(), &left, vec![Content::text("hi")], None).await.is_err());
    assert_eq!(runs(&world).await, [run]);
}

/// The same key for another fork is an error; two at once under one key make one fork.
#[tokio::test]
async fn x8_a_key_is_for_one_fork() {
    let world = World::default();
    let run = start(&world).await;
    step(&world, &run).await;
    let (key, user) = (key(), ann());
    let (one, other) = tokio::join!(
        world.engine.fork(&user, &run, at(1), Some(&key)),
        world.engine.fork(&user, &run, at(1), Some(&key)),
    );
    assert_eq!(one.unwrap(), other.unwrap());
    assert_eq!(runs(&world).await.len(), 2);
    let reused = IdempotencyKey { fingerprint: Digest::of(b"other"), ..key };
    let refused = world.engine.fork(&ann(), &run, at(0), Some(&reused)).await;
    assert!(matches!(refused, Err(Problem::KeyReused)), "{refused:?}");
}
