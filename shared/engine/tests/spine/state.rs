//! What tools keep for a run (A13).

use std::time::Duration;

use dormouse_domain::{
    RunId,
    entry::CallResult,
    item::TAKEOVER_MARGIN_MS,
    kv::{KvPatch, MAX_VALUE_BYTES, State},
    message::Content,
    request::DecisionKind,
};
use dormouse_engine::{
    StepReport,
    ports::{Store as _, ToolCall, ToolReply},
};
use dormouse_testkit::{Fault, World, answer, approve, call};
use serde_json::{Value, json};

use super::{start, step};

fn keeping(text: &str, entries: &[(&str, Value)]) -> ToolReply {
    let mut kv = KvPatch::new();
    entries.iter().for_each(|(name, value)| kv.set(name, value).unwrap());
    let result = CallResult::Returned { content: vec![Content::text(text)], is_error: false };
    ToolReply { kv, ..result.into() }
}

/// One more than the run has.
fn counting(call: &ToolCall) -> ToolReply {
    let count = call.state.get("count").and_then(Value::as_u64).unwrap_or(0) + 1;
    keeping(&format!("counted {count}"), &[("count", json!(count))])
}

/// What the run keeps, by its journal as another machine folds it.
async fn kept(world: &World, run: &RunId) -> State {
    let entries = world.memory.load(run, 0).await.unwrap();
    let (first, rest) = entries.split_first().unwrap();
    let definition = world.engine.definition(&World::user("ann"), run).await.unwrap();
    let mut folded = dormouse_domain::Run::start(run.clone(), definition, first).unwrap();
    rest.iter().for_each(|entry| folded.apply(entry).unwrap());
    folded.state
}

fn json_of(state: &State) -> Value {
    serde_json::to_value(state).unwrap()
}

/// A13: what a tool keeps is there for the next call, after a suspend, on another machine, and never in a prompt.
#[tokio::test]
async fn a13_state_survives_suspend_and_resume() {
    let world = World::default();
    let run = start(&world).await;
    for tool in ["look", "deploy"] {
        world.tools.on(tool, counting);
    }
    world.models.reply(vec![call("a", "look", "{}")]);
    world.models.reply(vec![call("b", "deploy", r#"{"secret-of-tools":1}"#)]);
    world.models.reply(vec![call("c", "look", "{}")]);
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    assert_eq!(json_of(&kept(&world, &run).await), json!({"count": 1}));
    let other = world.other_host("elsewhere");
    let request = world.pending(&run).await.remove(0);
    other.respond(&World::user("ann"), &request.id, &approve(&request), None).await.unwrap();
    assert_eq!(other.step(&run, world.deadline()).await.unwrap(), StepReport::Finished);
    let seen: Vec<_> = world.tools.calls().iter().map(|call| json_of(&call.state)).collect();
    assert_eq!(seen, [json!({}), json!({"count": 1}), json!({"count": 2})]);
    assert_eq!(json_of(&kept(&world, &run).await), json!({"count": 3}));
    assert!(world.models.asked().iter().all(|prompt| !prompt.contains("\"count\"")), "{:?}", world.models.asked());
}

/// A13: siblings start from the same state; on a name that several set, the last result in the journal counts.
#[tokio::test(start_paused = true)]
async fn a13_of_siblings_the_last_in_the_journal_counts() {
    let world = World::default();
    let run = start(&world).await;
    world.tools.on("ping", |_| keeping("slow", &[("last", json!("ping")), ("ping", json!(true))]));
    world.tools.on("pay", |_| keeping("quick", &[("last", json!("pay")), ("pay", json!(true))]));
    world.tools.slow("ping", Duration::from_secs(5));
    world.models.reply(vec![call("a", "ping", "{}"), call("b", "pay", "{}")]);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert!(world.tools.calls().iter().all(|call| call.state.is_empty()));
    assert_eq!(json_of(&kept(&world, &run).await), json!({"last": "ping", "pay": true, "ping": true}));
}

/// A13: what does not fit beside what is there is refused as a whole, and the result says so, and what the tool
/// answered.
#[tokio::test]
async fn a13_what_does_not_fit_is_refused_visibly_and_as_a_whole() {
    let world = World::default();
    let run = start(&world).await;
    let large = json!("x".repeat(MAX_VALUE_BYTES - 2));
    world.tools.on("look", move |call| {
        let name = call.arguments["n"].to_string();
        keeping("looked", &[(&name, large.clone()), ("small", json!(name))])
    });
    let looks = (0..5).map(|n| call(&format!("c{n}"), "look", &format!(r#"{{"n":{n}}}"#)));
    for look in looks {
        world.models.reply(vec![look]);
    }
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let state = kept(&world, &run).await;
    assert_eq!(state.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>(), ["0", "1", "2", "small"]);
    assert_eq!(state.get("small"), Some(&json!("2")), "nothing of what was refused is kept");
    let told = world.models.asked().pop().unwrap();
    assert_eq!(told.matches("what it set in the run's state was refused, all of it").count(), 2, "{told}");
    assert!(told.contains("at most 65536 are kept") && told.matches("looked").count() == 5, "{told}");
}

/// A13: a result without a known outcome keeps nothing, and says so.
#[tokio::test]
async fn a13_what_is_not_known_to_have_happened_keeps_nothing() {
    let world = World::default();
    let run = start(&world).await;
    world.tools.on("wipe", |_| {
        let kv = keeping("", &[("wiped", json!(true))]).kv;
        ToolReply { kv, ..CallResult::Unknown { why: "lost".to_owned() }.into() }
    });
    world.models.reply(vec![call("a", "wipe", "{}")]);
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    assert!(kept(&world, &run).await.is_empty());
    let request = world.pending(&run).await.remove(0);
    assert!(request.reasons[0].contains("what it set in the run's state is not kept"), "{:?}", request.reasons);
}

/// A13: state is written with the result: the counter is the number of results that were taken, whatever write
/// failed, or landed unheard.
#[tokio::test(start_paused = true)]
async fn a13_a_counter_equals_the_results_that_were_taken() {
    for fault in [Fault::Refused, Fault::LostBefore, Fault::LostAfter, Fault::Contention] {
        for place in 0..8 {
            let world = World::default();
            let run = start(&world).await;
            world.tools.on("ping", counting);
            for id in ["a", "b", "c"] {
                world.models.reply(vec![call(id, "ping", "{}")]);
            }
            let mut faults = vec![Fault::None; place];
            faults.push(fault);
            world.store.inject(&faults);
            assert_eq!(step(&world, &run).await, StepReport::Finished, "{fault:?} at {place}");
            let taken = world.memory.kinds(&run).iter().filter(|kind| **kind == "CallFinished").count();
            assert_eq!((taken, json_of(&kept(&world, &run).await)), (3, json!({"count": 3})), "{fault:?} at {place}");
        }
    }
}

/// A13, case 36: what a tool set before its outcome was lost is lost with it; the attempt after it starts from
/// what is stored.
#[tokio::test]
async fn a13_case_36_what_was_set_and_never_stored_is_not_there() {
    let world = World::default();
    let run = start(&world).await;
    world.models.reply(vec![call("a", "ping", "{}")]);
    world.models.reply(vec![call("b", "ping", "{}")]);
    // The first call is stored. Nobody hears what the second set.
    let stored = world.memory.clone();
    let id = run.clone();
    world.tools.on("ping", move |call| {
        let reply = counting(call);
        if stored.kinds(&id).contains(&"CallFinished") && call.attempt == 1 {
            return CallResult::Unknown { why: "its step is gone".to_owned() }.into();
        }
        reply
    });
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let seen: Vec<_> = world.tools.calls().iter().map(|call| (call.attempt, json_of(&call.state))).collect();
    assert_eq!(seen, [(1, json!({})), (1, json!({"count": 1})), (2, json!({"count": 1}))]);
    assert_eq!(json_of(&kept(&world, &run).await), json!({"count": 2}));
}

/// A13, case 37: a result that comes from a driver that was overtaken keeps what it set, if it is taken at all; what
/// a person settles keeps nothing.
#[tokio::test(start_paused = true)]
async fn a13_case_37_a_late_result_keeps_what_it_set_if_it_is_taken() {
    for settled in [false, true] {
        let world = std::sync::Arc::new(World::default());
        let run = start(&world).await;
        world.models.reply(vec![call("a", "wipe", "{}")]);
        world.tools.on("wipe", counting);
        world.tools.slow("wipe", Duration::from_secs(10));
        let (other, id) = (world.clone(), run.clone());
        let old = tokio::spawn(async move { other.engine.step(&id, other.deadline()).await.unwrap() });
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.clock.advance(180_000 + TAKEOVER_MARGIN_MS);
        assert_eq!(world.other_host("second").step(&run, world.deadline()).await.unwrap(), StepReport::Suspended);
        if settled {
            let request = world.pending(&run).await.remove(0);
            let resolution = Some(dormouse_domain::decide::Resolution::Result("wiped".into()));
            let settle = dormouse_domain::decide::Answer { resolution, ..answer(DecisionKind::Settle) };
            world.engine.respond(&World::user("ann"), &request.id, &settle, None).await.unwrap();
        }
        old.await.unwrap();
        let expected = if settled { json!({}) } else { json!({"count": 1}) };
        assert_eq!(json_of(&kept(&world, &run).await), expected, "settled: {settled}");
    }
}
