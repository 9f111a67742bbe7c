//! What comes before all that it is about is there: an answer, and a pause.

use std::sync::Arc;

use dormouse_domain::{
    RequestId,
    decide::Answer,
    plan::call_digest,
    request::{DecisionKind, RequestStatus},
};
use dormouse_engine::{Engine, Problem, Settings, StepReport};
use dormouse_testkit::{World, answer, call};
use serde_json::json;

use crate::{
    ann,
    hooked::{At, hooked},
    start,
};

/// Case 28: the answer is so early that its request is seen and the entry that opened it is not. It is
/// neither taken nor lost, nor is the request called unknown or gone: the person is told to try again,
/// and then the very same answer is taken.
#[tokio::test]
async fn case_28_an_answer_before_the_suspension_is_visible_is_not_dropped() {
    let world = Arc::new(World::default());
    let run = start(&world).await;
    world.models.reply(vec![call("a", "deploy", "{}")]);
    let id: RequestId = format!("{run}.3.0").parse().unwrap();
    let digest = call_digest(&ann().principal, &run, "deploy", &json!({})).unwrap();
    let yes = Answer { digest: Some(digest.to_string()), ..answer(DecisionKind::Approve) };
    // The journal has been read, the request's row has not.
    let (other, name) = (world.clone(), run.clone());
    let ports = hooked(&world, At::Row, 0, move || async move {
        assert_eq!(other.engine.step(&name, other.deadline()).await.unwrap(), StepReport::Suspended);
    });
    let engine = Engine::new(ports, Settings::new("host".into(), 180_000));
    let early = engine.respond(&ann(), &id, &yes, None).await;
    assert!(matches!(early, Err(Problem::Unavailable(_))), "{early:?}");
    assert_eq!(world.pending(&run).await[0].status, RequestStatus::Pending);
    engine.respond(&ann(), &id, &yes, None).await.unwrap();
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Finished);
    assert_eq!(world.tools.count("deploy"), 1);
}

/// I2, B8: a pause that is written right before a call is announced holds. The announcement lost its index,
/// so nothing starts.
#[tokio::test]
async fn b8_a_call_whose_announcement_comes_too_late_is_not_started() {
    let world = Arc::new(World::default());
    let run = start(&world).await;
    world.models.reply(vec![call("a", "deploy", "{}")]);
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Suspended);
    let request = world.pending(&run).await.remove(0);
    let yes = Answer { digest: Some(request.digest.to_string()), ..answer(DecisionKind::Approve) };
    world.engine.respond(&ann(), &request.id, &yes, None).await.unwrap();
    let (other, name) = (world.clone(), run.clone());
    let ports = hooked(&world, At::Dispatch, 0, move || async move {
        other.engine.pause(&ann(), &name, None).await.unwrap();
    });
    let engine = Engine::new(ports, Settings::new("host".into(), 180_000));
    assert_eq!(engine.step(&run, world.deadline()).await.unwrap(), StepReport::Suspended);
    assert_eq!(world.tools.count("deploy"), 0);
    world.engine.resume(&ann(), &run, None).await.unwrap();
    assert_eq!(world.engine.step(&run, world.deadline()).await.unwrap(), StepReport::Finished);
    assert_eq!(world.tools.count("deploy"), 1);
}
