//! Results that are stored together with files, and what is too large to store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use dormouse_domain::{RunId, ToolDef, entry::CallResult, item::TAKEOVER_MARGIN_MS, message::Content};
use dormouse_engine::{
    Engine, Ports, Settings, StepReport,
    ports::{Clock, FileVersion, FileWrite, Files, ToolCall, ToolReply, Tools},
};
use dormouse_testkit::{Fault, World, call};
use serde_json::Value;

use crate::start;

/// A tool that writes file `p`, which must be at the version it names, in its time; it counts its calls.
struct Writer {
    expect: FileVersion,
    takes: Duration,
    calls: AtomicU32,
}

#[async_trait]
impl Tools for Writer {
    fn validate(&self, _: &ToolDef, _: &Value) -> Result<(), String> {
        Ok(())
    }
    async fn call(&self, call: &ToolCall) -> ToolReply {
        self.calls.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(self.takes).await;
        let (workspace, path, content) = (call.workspace.clone(), "p".into(), "text".into());
        let file = FileWrite { workspace, path, content, expect: self.expect };
        let result = CallResult::Returned { content: vec![Content::text("written")], is_error: false };
        ToolReply { files: vec![file], ..result.into() }
    }
}

async fn edit(expect: FileVersion, faults: &[Fault]) -> (World, RunId, Arc<Writer>) {
    let world = World::default();
    let run = start(&world).await;
    world.models.reply(vec![call("a", "edit", "{}")]);
    let writer = Arc::new(Writer { expect, takes: Duration::ZERO, calls: AtomicU32::new(0) });
    let ports = Ports { tools: writer.clone(), ..world.engine.ports().clone() };
    world.store.inject(faults);
    let engine = Engine::new(ports, Settings::new("host".to_owned(), 180_000));
    assert_eq!(engine.step(&run, world.deadline()).await.unwrap(), StepReport::Finished);
    (world, run, writer)
}

/// A result and its files are one transaction: both are there.
#[tokio::test]
async fn a_result_is_stored_with_its_files() {
    let (world, run, writer) = edit(FileVersion::Absent, &[]).await;
    let file = world.memory.file(run.to_string().as_str(), "p").await.unwrap().unwrap();
    assert_eq!((file.content.as_str(), file.version), ("text", 1));
    assert_eq!(writer.calls.load(Ordering::SeqCst), 1);
    assert!(world.models.asked()[1].contains("written"));
}

/// X3: a result with files is written with these and nothing else: the run's item stays as it was claimed.
#[tokio::test(start_paused = true)]
async fn x3_a_result_with_files_leaves_the_item_alone() {
    let world = Arc::new(World::default());
    let run = start(&world).await;
    let claimed = world.clock.now();
    world.models.reply(vec![call("a", "edit", "{}")]);
    let (takes, calls) = (Duration::from_secs(10), AtomicU32::new(0));
    let writer = Arc::new(Writer { expect: FileVersion::Absent, takes, calls });
    let ports = Ports { tools: writer, ..world.engine.ports().clone() };
    let engine = Engine::new(ports, Settings::new("host".to_owned(), 180_000));
    let (other, id) = (world.clone(), run.clone());
    let looks = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        other.clock.advance(5_000);
        let (inner, models) = (other.clone(), other.models.clone());
        models.before_reply(move || async move {
            assert!(inner.memory.kinds(&id).contains(&"CallFinished"));
            assert_eq!(inner.view(&id).await.item.updated_at, claimed);
        });
    });
    assert_eq!(engine.step(&run, world.deadline()).await.unwrap(), StepReport::Finished);
    looks.await.unwrap();
}

/// Case 37: a result that comes from a driver which lost the run is stored with its files too, and answers
/// the request that was opened for it.
#[tokio::test(start_paused = true)]
async fn case_37_a_late_result_is_stored_with_its_files() {
    let world = Arc::new(World::default());
    let run = start(&world).await;
    world.models.reply(vec![call("a", "wipe", "{}")]);
    let writer =
        Arc::new(Writer { expect: FileVersion::Absent, takes: Duration::from_secs(10), calls: AtomicU32::new(0) });
    let ports = Ports { tools: writer.clone(), ..world.engine.ports().clone() };
    let engine = Engine::new(ports, Settings::new("host".to_owned(), 180_000));
    let (id, deadline) = (run.clone(), world.deadline());
    let old = tokio::spawn(async move { engine.step(&id, deadline).await.unwrap() });
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.clock.advance(180_000 + TAKEOVER_MARGIN_MS);
    assert_eq!(world.other_host("second").step(&run, world.deadline()).await.unwrap(), StepReport::Suspended);
    assert_eq!(world.pending(&run).await.len(), 1);
    assert_eq!(old.await.unwrap(), StepReport::TakenOver);
    assert!(world.pending(&run).await.is_empty());
    let file = world.memory.file(run.to_string().as_str(), "p").await.unwrap().unwrap();
    assert_eq!((file.content.as_str(), writer.calls.load(Ordering::SeqCst)), ("text", 1));
}

/// A file that others keep changing is tried three times; then the call says that it did nothing.
#[tokio::test]
async fn a_file_that_keeps_changing_is_given_up() {
    let (world, run, writer) = edit(FileVersion::At(7), &[]).await;
    assert_eq!(writer.calls.load(Ordering::SeqCst), 3);
    assert!(world.memory.file(run.to_string().as_str(), "p").await.unwrap().is_none());
    let told = world.models.asked().pop().unwrap();
    assert!(told.contains("Not done: p keeps being changed by others"), "{told}");
}

/// What is too large to store says so in place of the result: with files, nothing was done; without, the
/// tool ran.
#[tokio::test]
async fn results_that_are_too_large_say_so() {
    // The claim and the reply are stored.
    let faults = [Fault::None, Fault::None, Fault::TooLarge];
    let (world, run, writer) = edit(FileVersion::Absent, &faults).await;
    assert_eq!(writer.calls.load(Ordering::SeqCst), 1);
    assert!(world.memory.file(run.to_string().as_str(), "p").await.unwrap().is_none());
    let told = world.models.asked().pop().unwrap();
    assert!(told.contains("Not done: too large to store"), "{told}");

    let world = World::default();
    let run = start(&world).await;
    world.models.reply(vec![call("a", "look", "{}")]);
    world.store.inject(&faults);
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Finished);
    assert_eq!(world.tools.count("look"), 1);
    let told = world.models.asked().pop().unwrap();
    assert!(told.contains("The tool ran, but its result is too large to store"), "{told}");
}

/// A reply that is too large to store is a failed model call: the model is asked again.
#[tokio::test]
async fn a_reply_that_is_too_large_is_a_failure() {
    let world = World::default();
    let run = start(&world).await;
    world.store.inject(&[Fault::None, Fault::TooLarge]);
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Suspended);
    let kinds = world.memory.kinds(&run);
    assert_eq!(kinds, ["RunStarted", "DriverStarted", "ModelFailed", "Suspended"]);
    world.clock.advance(2_000);
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Finished);
}
