//! Outcomes that nobody knows.

use dormouse_domain::{
    decide::{Answer, Resolution},
    entry::CallResult,
    request::{DecisionKind, RequestKind},
};
use dormouse_testkit::{World, answer, call};

use crate::{ann, start};

/// B4: the first attempt may have run; that the next one did not reach the tool does not change
/// that. To say "not run" makes a model pay again, under another execution key.
#[tokio::test]
async fn b4_an_attempt_that_was_not_sent_says_nothing_of_the_one_before() {
    let world = World::default();
    let run = start(&world).await;
    world.tools.on("pay", |call| match call.attempt {
        1 => CallResult::Unknown { why: "no answer in time".into() },
        _ => CallResult::NotSent { why: "connection refused".into() },
    });
    world.models.reply(vec![call("a", "pay", "{}")]);
    world.engine.step(&run, world.deadline()).await.unwrap();
    let asked = world.models.asked();
    assert!(!asked.last().unwrap().contains("Not run"), "{}", asked.last().unwrap());
    let kinds: Vec<_> = world.pending(&run).await.iter().map(|request| request.kind).collect();
    assert_eq!(kinds, [RequestKind::Uncertain]);
}

/// Section 6: the end of a cancelled run lists the calls whose outcome is unknown, also those that
/// nobody will try or ask about again.
#[tokio::test]
async fn a_cancelled_run_lists_every_call_of_unknown_outcome() {
    let world = World::default();
    let run = start(&world).await;
    world.tools.on("edit", |_| CallResult::Unknown { why: "no answer in time".into() });
    world.tools.on("wipe", |_| CallResult::Unknown { why: "no answer in time".into() });
    world.models.reply(vec![call("a", "edit", "{}"), call("b", "wipe", "{}"), call("c", "deploy", "{}")]);
    world.engine.step(&run, world.deadline()).await.unwrap();
    let requests = world.pending(&run).await;
    let uncertain = requests.iter().find(|request| request.kind == RequestKind::Uncertain).unwrap();
    let abort = Answer { resolution: Some(Resolution::Abort), ..answer(DecisionKind::Settle) };
    world.engine.respond(&ann(), &uncertain.id, &abort, None).await.unwrap();
    world.engine.cancel(&ann(), &run, None, None).await.unwrap();
    world.engine.step(&run, world.deadline()).await.unwrap();
    let outcome = world.view(&run).await.item.outcome.unwrap();
    let unknown: Vec<_> = outcome.unknown_calls.iter().map(ToString::to_string).collect();
    assert_eq!(unknown, ["2.0", "2.1"]);
}
