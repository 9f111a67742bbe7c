//! Drivers that others took over from, or whose run somebody ended.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use dormouse_domain::{
    DriverId, Entry, EntryId, Fact, RunId, ToolDef,
    decide::{Answer, Resolution},
    entry::CallResult,
    item::TAKEOVER_MARGIN_MS,
    message::Content,
    request::{DecisionKind, Request, RequestKind, RequestStatus},
    run::Status,
};
use dormouse_engine::{
    Engine, Ports, Settings, StepReport,
    ports::{Clock, FileVersion, FileWrite, Store, ToolCall, ToolReply, Tools},
};
use dormouse_testkit::{World, answer, approve, call};
use serde_json::Value;

use crate::{
    ann,
    hooked::{At, hooked},
    start,
};

/// A driver whose tool call is still under way when another takes the run over and opens an
/// uncertain request for the call. Returns the old driver, whose call ends later, with `late`.
async fn overtaken(late: CallResult) -> (Arc<World>, RunId, tokio::task::JoinHandle<StepReport>, Request) {
    let world = Arc::new(World::default());
    let run = start(&world).await;
    world.models.reply(vec![call("a", "wipe", "{}")]);
    world.tools.slow("wipe", Duration::from_secs(10));
    world.tools.on("wipe", move |_| late.clone());
    let (other, id) = (world.clone(), run.clone());
    let old = tokio::spawn(async move { other.engine.step(&id, other.deadline()).await.unwrap() });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.tools.count("wipe"), 1);
    world.clock.advance(180_000 + TAKEOVER_MARGIN_MS);
    assert_eq!(world.other_host("second").step(&run, world.deadline()).await.unwrap(), StepReport::Suspended);
    let mut requests = world.pending(&run).await;
    assert_eq!((requests.len(), requests[0].kind), (1, RequestKind::Uncertain));
    world.tools.slow("wipe", Duration::ZERO);
    (world, run, old, requests.remove(0))
}

/// Case 37, I5, B6: a late "unknown" is no news about a call that is uncertain already. It must not
/// orphan the request that waits, nor open a second one for the same call.
#[tokio::test(start_paused = true)]
async fn b6_case_37_a_late_unknown_result_keeps_the_one_request() {
    let (world, run, old, request) = overtaken(CallResult::Unknown { why: "connection lost".into() }).await;
    assert_eq!(old.await.unwrap(), StepReport::TakenOver);
    // Whatever drives it next.
    world.engine.step(&run, world.deadline()).await.unwrap();
    let requests = world.pending(&run).await;
    let ids: Vec<_> = requests.iter().map(|request| request.id.to_string()).collect();
    assert_eq!(ids, [request.id.to_string()], "{:?}", world.memory.kinds(&run));
}

/// The consequence of the above: the call is settled by one request and run again by the other.
#[tokio::test(start_paused = true)]
async fn b6_case_37_a_late_unknown_result_does_not_let_a_call_be_settled_twice() {
    let (world, run, old, first) = overtaken(CallResult::Unknown { why: "connection lost".into() }).await;
    old.await.unwrap();
    world.engine.step(&run, world.deadline()).await.unwrap();
    let result = Resolution::Result("it was wiped".into());
    let settle = Answer { resolution: Some(result), ..answer(DecisionKind::Settle) };
    world.engine.respond(&ann(), &first.id, &settle, None).await.unwrap();
    world.tools.on("wipe", |_| CallResult::Returned { content: vec![Content::text("again")], is_error: false });
    if let Some(second) = world.pending(&run).await.first() {
        let digest = Some(second.digest.to_string());
        let retry = Answer { digest, resolution: Some(Resolution::Retry), ..answer(DecisionKind::Settle) };
        let _ = world.engine.respond(&ann(), &second.id, &retry, None).await;
    }
    world.engine.step(&run, world.deadline()).await.unwrap();
    assert_eq!(world.tools.count("wipe"), 1, "a settled call ran again");
    let asked = world.models.asked();
    assert!(asked.last().unwrap().contains("it was wiped"), "the recorded result is gone: {asked:?}");
}

/// I6, B6: "retry" was decided; a late "unknown" of the attempt before must not undo that decision.
#[tokio::test(start_paused = true)]
async fn b6_case_37_a_late_unknown_result_does_not_undo_a_decided_retry() {
    let (world, run, old, request) = overtaken(CallResult::Unknown { why: "connection lost".into() }).await;
    let digest = Some(request.digest.to_string());
    let retry = Answer { digest, resolution: Some(Resolution::Retry), ..answer(DecisionKind::Settle) };
    world.engine.respond(&ann(), &request.id, &retry, None).await.unwrap();
    old.await.unwrap();
    world.tools.on("wipe", |_| CallResult::Returned { content: vec![Content::text("ok")], is_error: false });
    world.engine.step(&run, world.deadline()).await.unwrap();
    assert_eq!(world.tools.count("wipe"), 2, "{:?}", world.memory.kinds(&run));
}

/// Case 37: an attempt whose time was over comes back with a result while the attempt after it runs. It
/// is not that one's result, and it is not written.
#[tokio::test(start_paused = true)]
async fn case_37_a_result_of_an_earlier_attempt_is_fenced() {
    let world = Arc::new(World::default());
    let run = start(&world).await;
    world.models.reply(vec![call("a", "edit", "{}")]);
    world.tools.slow("edit", Duration::from_secs(10));
    world.tools.on("edit", |call| {
        let text = format!("of attempt {}", call.attempt);
        CallResult::Returned { content: vec![Content::text(text)], is_error: false }
    });
    let (other, id) = (world.clone(), run.clone());
    let old = tokio::spawn(async move { other.engine.step(&id, other.deadline()).await.unwrap() });
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.clock.advance(180_000 + TAKEOVER_MARGIN_MS);
    world.tools.slow("edit", Duration::from_secs(30));
    let (other, id) = (world.clone(), run.clone());
    let new = tokio::spawn(async move {
        let second = other.other_host("second");
        second.step(&id, other.deadline()).await.unwrap()
    });
    assert_eq!(old.await.unwrap(), StepReport::TakenOver);
    assert_eq!(world.tools.count("edit"), 2);
    assert!(!world.memory.kinds(&run).contains(&"CallFinished"), "{:?}", world.memory.kinds(&run));
    assert_eq!(new.await.unwrap(), StepReport::Finished);
    let asked = world.models.asked().pop().unwrap();
    assert!(asked.contains("of attempt 2") && !asked.contains("of attempt 1"), "{asked}");
}

/// A late result that answers an uncertain request makes the run go on; somebody must be told.
#[tokio::test(start_paused = true)]
async fn d8_a_late_result_that_frees_the_run_wakes_it() {
    let late = CallResult::Returned { content: vec![Content::text("wiped")], is_error: false };
    let (world, run, old, request) = overtaken(late).await;
    world.queue.take();
    old.await.unwrap();
    let closed = world.engine.request(&ann(), &request.id).await.unwrap();
    assert_eq!(closed.status, RequestStatus::Cancelled);
    assert_eq!(world.view(&run).await.item.status, Status::Queued);
    assert!(world.queue.take().iter().any(|(woken, _)| *woken == run), "queued, and nobody told");
}

/// D4: a cancelling answer ends the run under a driver that is about to start an approved sibling.
/// The end is the end: nothing is appended to it.
#[tokio::test]
async fn d4_nothing_follows_the_end() {
    let world = Arc::new(World::default());
    let run = start(&world).await;
    let question = r#"{"question":"Which?","options":[{"value":"none","cancels":true}]}"#;
    world.models.reply(vec![call("a", "ask_user", question), call("b", "deploy", "{}")]);
    world.engine.step(&run, world.deadline()).await.unwrap();
    let requests = world.pending(&run).await;
    world.engine.respond(&ann(), &requests[1].id, &approve(&requests[1]), None).await.unwrap();
    let (other, id) = (world.clone(), requests[0].id.clone());
    let ports = hooked(&world, At::Dispatch, 0, move || async move {
        let none = Answer { answer: Some("none".into()), ..answer(DecisionKind::Answer) };
        let responded = other.engine.respond(&ann(), &id, &none, None).await.unwrap();
        assert_eq!(responded.run_status, Status::Cancelled);
    });
    let engine = Engine::new(ports, Settings::new("host".into(), 180_000));
    engine.step(&run, world.deadline()).await.unwrap();
    assert_eq!(world.tools.count("deploy"), 0);
    assert_eq!(*world.memory.kinds(&run).last().unwrap(), "RunFinished", "{:?}", world.memory.kinds(&run));
}

/// A tool whose every call writes the same new file.
struct Writers;

#[async_trait]
impl Tools for Writers {
    fn validate(&self, _: &ToolDef, _: &Value) -> Result<(), String> {
        Ok(())
    }
    async fn call(&self, call: &ToolCall) -> ToolReply {
        let file = FileWrite {
            workspace: call.workspace.clone(),
            path: "p".into(),
            content: "x".into(),
            expect: FileVersion::Absent,
        };
        let result = CallResult::Returned { content: vec![Content::text("ok")], is_error: false };
        ToolReply { files: vec![file], ..result.into() }
    }
}

/// I1, section 5: a driver that was taken over stops, also when the result that it still holds
/// meets a changed file.
#[tokio::test]
async fn a_taken_over_driver_stops_although_its_file_changed() {
    let world = Arc::new(World::default());
    let run = start(&world).await;
    world.models.reply(vec![call("a", "edit", "{}"), call("b", "edit", "{}")]);
    let (other, id) = (world.clone(), run.clone());
    // Both calls make the same file; the first result is stored, then another takes the run over.
    let ports = hooked(&world, At::FilesOfSecond, 1, move || async move {
        other.clock.advance(180_000 + TAKEOVER_MARGIN_MS);
        let index = u32::try_from(other.memory.journal(&id).len()).unwrap();
        let fact = Fact::DriverStarted { until: other.deadline() };
        let driver = Some(DriverId::new("second", "1"));
        let entry = Entry { index, entry_id: EntryId("theirs".into()), at: other.clock.now(), driver, fact };
        other.memory.append(&id, &entry).await.unwrap();
    });
    let engine = Engine::new(Ports { tools: Arc::new(Writers), ..ports }, Settings::new("host".into(), 180_000));
    let report = engine.step(&run, world.deadline()).await.unwrap();
    let journal = world.memory.journal(&run);
    let theirs = journal.iter().position(|entry| entry.entry_id.0 == "theirs").unwrap();
    let after: Vec<_> = journal[theirs + 1..].iter().map(|entry| entry.fact.kind()).collect();
    assert_eq!(report, StepReport::TakenOver, "it went on with {after:?}");
    assert!(after.iter().all(|kind| *kind == "CallFinished"), "{after:?}");
}
