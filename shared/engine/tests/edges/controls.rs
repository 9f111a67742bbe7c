//! What people do from outside, and the keys that they do it under.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use dormouse_domain::{Mode, decide::MAX_TEXT_BYTES, message::Content, run::Status};
use dormouse_engine::{Problem, StartRun, StepReport};
use dormouse_testkit::{World, agent, call, say};

use crate::{AGENT, ann, key, start};

fn go(mode: Option<Mode>) -> StartRun {
    StartRun { agent: "ops".into(), input: vec![Content::text("go")], mode, metadata: BTreeMap::new() }
}

/// An answer is kept under its key for a day, to the millisecond: after that the key is new.
#[tokio::test]
async fn c4_a_key_is_kept_for_a_day() {
    let world = World::default();
    world.agents.add(agent("ops", AGENT));
    let first = world.engine.start(&ann(), go(None), Some(&key("k"))).await.unwrap();
    let pause = world.engine.pause(&ann(), &first.run_id, Some(&key("p"))).await.unwrap();
    world.clock.advance(86_400_000);
    assert_eq!(world.engine.start(&ann(), go(None), Some(&key("k"))).await.unwrap(), first);
    assert_eq!(world.engine.pause(&ann(), &first.run_id, Some(&key("p"))).await.unwrap(), pause);
    world.clock.advance(1);
    assert_ne!(world.engine.start(&ann(), go(None), Some(&key("k"))).await.unwrap().run_id, first.run_id);
    let refused = world.engine.pause(&ann(), &first.run_id, Some(&key("p"))).await;
    assert!(matches!(refused, Err(Problem::WrongState(_))), "{refused:?}");
}

/// C1: a run starts in any mode up to the agent's widest, and is set to any of them, not beyond.
#[tokio::test]
async fn c1_modes_up_to_the_widest() {
    let world = World::default();
    world.agents.add(agent("ops", AGENT));
    for (mode, taken) in [(Mode::Plan, true), (Mode::Normal, true), (Mode::AutoEdit, true), (Mode::Yolo, false)] {
        let started = world.engine.start(&ann(), go(Some(mode)), None).await;
        assert_eq!(started.is_ok(), taken, "{mode}");
        let run = world.engine.start(&ann(), go(None), None).await.unwrap().run_id;
        let changed = world.engine.set_mode(&ann(), &run, mode, None).await;
        assert_eq!(changed.is_ok(), taken, "{mode}");
        assert_eq!(world.view(&run).await.item.mode, if taken { mode } else { Mode::Normal });
    }
}

/// A reason to cancel has 16 KiB at most, that many included.
#[tokio::test]
async fn how_long_a_reason_may_be() {
    for (bytes, taken) in [(1, true), (MAX_TEXT_BYTES, true), (MAX_TEXT_BYTES + 1, false)] {
        let world = World::default();
        let run = start(&world).await;
        let cancelled = world.engine.cancel(&ann(), &run, Some("x".repeat(bytes)), None).await;
        assert_eq!(cancelled.is_ok(), taken, "{bytes} bytes: {cancelled:?}");
    }
}

/// A message takes the place of what waits only where the agent says so, nobody drives the run, and it
/// waits for a person.
#[tokio::test(start_paused = true)]
async fn which_messages_supersede() {
    let says = || vec![Content::text("forget it")];
    let supersede = format!("on_message = \"supersede\"\n{AGENT}");
    for (file, expected) in [(AGENT, false), (supersede.as_str(), true)] {
        let world = World::default();
        let run = world.start(agent("ops", file)).await;
        let superseded = |world: &World| {
            let journal = world.memory.journal(&run);
            matches!(journal.last().unwrap().fact, dormouse_domain::Fact::MessageAdded { supersedes: true, .. })
        };
        world.engine.add_message(&ann(), &run, says(), None).await.unwrap();
        assert!(!superseded(&world), "it waits for nobody");
        world.models.reply(vec![call("a", "deploy", "{}")]);
        world.engine.step(&run, world.deadline()).await.unwrap();
        world.engine.add_message(&ann(), &run, says(), None).await.unwrap();
        assert_eq!(superseded(&world), expected, "{file}");
    }
    // While a driver holds the run, it is the driver's to go on.
    let world = Arc::new(World::default());
    let run = world.start(agent("ops", &supersede)).await;
    world.models.reply(vec![call("a", "look", "{}"), call("b", "deploy", "{}")]);
    world.tools.slow("look", Duration::from_secs(10));
    let (other, id) = (world.clone(), run.clone());
    let driver = tokio::spawn(async move { other.engine.step(&id, other.deadline()).await.unwrap() });
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.engine.add_message(&ann(), &run, says(), None).await.unwrap();
    assert_eq!(driver.await.unwrap(), StepReport::Suspended);
    assert_eq!((world.status(&run).await, world.pending(&run).await.len()), (Status::Waiting, 1));
}

/// A16: a run's frozen agent and its journal are its owner's.
#[tokio::test]
async fn a16_the_agent_and_the_journal_are_the_owners() {
    let world = World::default();
    let run = start(&world).await;
    assert_eq!(*world.engine.definition(&ann(), &run).await.unwrap(), agent("ops", AGENT));
    assert_eq!(world.engine.entries(&ann(), &run, 0, 9).await.unwrap(), world.memory.journal(&run));
    let elsewhere = dormouse_domain::Principal { tenant: "other".into(), ..ann().principal };
    for stranger in [World::user("bob"), elsewhere.into()] {
        assert!(matches!(world.engine.definition(&stranger, &run).await, Err(Problem::NotFound("run"))));
        assert!(matches!(world.engine.entries(&stranger, &run, 0, 9).await, Err(Problem::NotFound("run"))));
    }
}

/// A run's output is the text of its last reply; one without text has none.
#[tokio::test]
async fn outputs() {
    let world = World::default();
    let run = start(&world).await;
    assert_eq!(world.view(&run).await.output, None);
    world.models.reply(vec![say("first"), call("a", "deploy", "{}")]);
    world.engine.step(&run, world.deadline()).await.unwrap();
    assert_eq!(world.view(&run).await.output.as_deref(), Some("first"));
    world.clock.advance(60_001);
    world.models.reply(vec![]);
    world.engine.step(&run, world.deadline()).await.unwrap();
    assert_eq!((world.view(&run).await.output, world.status(&run).await), (None, Status::Completed));
}
