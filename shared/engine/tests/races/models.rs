//! Model calls that fail, panic or count nonsense while others write.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use dormouse_domain::{
    Fact, RunId,
    message::{Content, ModelRef, StopReason, Usage},
    retry::{Failure, FailureClass},
    transcript::Prompt,
};
use dormouse_engine::{
    Engine, Ports, Settings, StepReport,
    ports::{Models, Reply},
};
use dormouse_testkit::{World, agent, approve, call, say};

use crate::{
    AGENT, ann, folded,
    hooked::{At, hooked},
    start,
};

/// B9: a model call that was interrupted by a panic may have cost something; nobody knows what.
#[tokio::test]
async fn b9_a_panic_in_a_model_call_leaves_usage_incomplete() {
    let world = World::default();
    let run = start(&world).await;
    world.models.before_reply(|| async { panic!("in the model's adapter") });
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Crashed);
    world.clock.advance(1_000);
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Finished);
    assert!(world.view(&run).await.item.usage.incomplete);
}

/// B9, B10: a model call that failed did so, also if somebody paused the run meanwhile.
#[tokio::test]
async fn b9_b10_a_failure_during_a_pause_is_recorded() {
    let world = Arc::new(World::default());
    let run = start(&world).await;
    let (other, id) = (world.clone(), run.clone());
    world.models.before_reply(move || async move {
        other.engine.pause(&ann(), &id, None).await.unwrap();
    });
    world.models.fail(FailureClass::Server);
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Suspended);
    world.engine.resume(&ann(), &run, None).await.unwrap();
    world.clock.advance(10_000);
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Finished);
    let usage = world.view(&run).await.item.usage;
    assert!(usage.incomplete, "{:?}", world.memory.kinds(&run));
}

/// B10: a step that comes early because an earlier one panicked sends the wake for the later time.
#[tokio::test]
async fn b10_a_pause_between_two_tries_outlasts_a_panic() {
    let world = World::default();
    let run = start(&world).await;
    world.models.fail(FailureClass::Overloaded); // again in 2 s
    let ports = hooked(&world, At::Suspend, 0, || async { panic!("in the store's client") });
    let engine = Engine::new(ports, Settings::new("host".to_owned(), 180_000));
    assert_eq!(engine.step(&run, world.deadline()).await.unwrap(), StepReport::Crashed); // again in 1 s
    world.clock.advance(1_000);
    world.queue.take();
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Idle);
    assert_eq!(world.queue.take(), [(run.clone(), Duration::from_secs(1))]);
    world.clock.advance(1_000);
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Finished);
}

/// B12: the journal names the model that failed, not the one that a message made the next.
#[tokio::test]
async fn b12_a_failure_names_the_model_that_failed() {
    let world = Arc::new(World::default());
    let run = start(&world).await;
    world.models.fail(FailureClass::Rejected); // x: so y is asked
    world.models.fail(FailureClass::Rejected); // y
    assert_eq!(folded(&world, &run).model().name, "x");
    let (other, id) = (world.clone(), run.clone());
    let ports = Ports { models: Arc::new(Second { world: other, run: id }), ..world.engine.ports().clone() };
    let engine = Engine::new(ports, Settings::new("host".into(), 180_000));
    engine.step(&run, world.deadline()).await.unwrap();
    let failed = world.memory.journal(&run).into_iter().filter_map(|entry| match entry.fact {
        Fact::ModelFailed { model, .. } => Some(model.name),
        _ => None,
    });
    let failed: Vec<_> = failed.collect();
    assert_eq!(failed[..2], ["x", "y"]);
}

/// x and y refuse; a message arrives while y is asked.
struct Second {
    world: Arc<World>,
    run: RunId,
}

#[async_trait]
impl Models for Second {
    async fn call(&self, model: &ModelRef, prompt: &Prompt<'_>, timeout: Duration) -> Result<Reply, Failure> {
        if model.name == "y" && !format!("{:?}", prompt.messages).contains("hurry") {
            let hurry = vec![Content::text("hurry")];
            self.world.engine.add_message(&ann(), &self.run, hurry, None).await.unwrap();
        }
        self.world.models.call(model, prompt, timeout).await
    }
}

/// A provider that counts nonsense.
struct Nonsense;

#[async_trait]
impl Models for Nonsense {
    async fn call(&self, _: &ModelRef, _: &Prompt<'_>, _: Duration) -> Result<Reply, Failure> {
        let usage = Usage { input_tokens: u64::MAX, output_tokens: 2, ..Usage::default() };
        Ok(Reply { content: vec![call("a", "look", "{}"), say("…")], stop: StopReason::ToolUse, usage })
    }
}

/// A provider that is overloaded; how long each call of it might have taken.
#[derive(Default)]
struct Overloaded(Mutex<Vec<Duration>>);

#[async_trait]
impl Models for Overloaded {
    async fn call(&self, _: &ModelRef, _: &Prompt<'_>, timeout: Duration) -> Result<Reply, Failure> {
        self.0.lock().unwrap().push(timeout);
        Err(Failure::new(FailureClass::Overloaded, "later"))
    }
}

/// B10: an attempt has what is left of the time for a reply, also where a pause lies in between.
#[tokio::test]
async fn b10_an_attempt_has_what_is_left_of_the_time() {
    let world = World::default();
    let run = world.start(agent("ops", &format!("reply_within = \"10s\"\n{AGENT}"))).await;
    let models = Arc::new(Overloaded::default());
    let ports = Ports { models: models.clone(), ..world.engine.ports().clone() };
    let engine = Engine::new(ports, Settings::new("host".into(), 180_000));
    for _ in 0..2 {
        assert_eq!(engine.step(&run, world.deadline()).await.unwrap(), StepReport::Suspended);
        world.clock.advance(2_000);
    }
    assert_eq!(*models.0.lock().unwrap(), [Duration::from_secs(10), Duration::from_secs(8)]);
}

/// D7, C5: a usage beyond all bounds reaches the ceiling; it neither wraps around nor breaks the run.
#[tokio::test]
async fn c5_a_nonsense_usage_is_a_ceiling_that_is_reached() {
    let world = World::default();
    let run = start(&world).await;
    let ports = Ports { models: Arc::new(Nonsense), ..world.engine.ports().clone() };
    let engine = Engine::new(ports, Settings::new("host".into(), 180_000));
    assert_eq!(engine.step(&run, world.deadline()).await.unwrap(), StepReport::Suspended);
    let request = engine.run_view(&ann(), &run).await.unwrap().pending.remove(0);
    assert!(request.budget.unwrap().used.tokens > 1 << 53, "more than JSON's numbers hold exactly: {request:?}");
}

/// Case 27: a run that was decided is resumed twice. The wake that arrives while the first is served does
/// nothing and writes nothing; likewise one that arrives when all is done.
#[tokio::test]
async fn case_27_a_second_wake_while_the_first_is_served() {
    let world = Arc::new(World::default());
    let run = start(&world).await;
    world.models.reply(vec![call("a", "deploy", "{}")]);
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Suspended);
    let request = world.pending(&run).await.remove(0);
    world.engine.respond(&ann(), &request.id, &approve(&request), None).await.unwrap();
    let (other, id) = (world.clone(), run.clone());
    world.models.before_reply(move || async move {
        let before = other.memory.kinds(&id);
        let second = other.other_host("elsewhere").step(&id, other.deadline()).await.unwrap();
        assert_eq!((second, other.memory.kinds(&id)), (StepReport::Busy, before));
    });
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Finished);
    let kinds = world.memory.kinds(&run);
    let third = world.other_host("elsewhere").step(&run, world.deadline()).await.unwrap();
    assert_eq!((third, world.memory.kinds(&run)), (StepReport::Idle, kinds));
    assert_eq!((world.tools.count("deploy"), world.models.asked().len()), (1, 2));
}
