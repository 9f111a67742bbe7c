//! Approving with other arguments than the model's.

use dormouse_domain::{
    decide::{Answer, Refusal},
    entry::CallResult,
    request::{DecisionKind, Request, RequestKind, RequestStatus},
};
use dormouse_engine::{Problem, StepReport};
use dormouse_testkit::{World, answer, approve, call, say};
use serde_json::{Value, json};

use super::{AGENT, step, waiting};

fn edit(request: &Request, arguments: Value) -> Answer {
    Answer { digest: Some(request.digest.to_string()), arguments: Some(arguments), ..answer(DecisionKind::Edit) }
}

/// E5, X5: what a person made of the arguments runs, nothing else, and the model is told so before it reads
/// the result. Its own call stays in the conversation as it made it (D9).
#[tokio::test]
async fn e5_x5_the_edited_arguments_run_and_the_model_is_told() {
    let world = World::default();
    let (run, request) = waiting(&world, AGENT, "deploy", r#"{"env":"prod"}"#).await;
    let staging = edit(&request, json!({"env": "staging"}));
    world.engine.respond(&World::user("ann"), &request.id, &staging, None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let calls = world.tools.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].arguments, json!({"env": "staging"}));
    assert_eq!(calls[0].execution_key, format!("{run}.2.0"));
    let asked = world.models.asked().remove(1);
    let told = r#"A person changed the arguments of this call and approved it with these: {\"env\":\"staging\"}"#;
    assert!(asked.contains(told), "{asked}");
    assert!(asked.contains("prod"), "the model's own call is replayed as it was: {asked}");
}

/// E5: what the tool does not take is refused with the reason, and the request waits on.
#[tokio::test]
async fn e5_arguments_that_do_not_fit_leave_the_request_open() {
    let world = World::default();
    let (run, request) = waiting(&world, AGENT, "deploy", r#"{"env":"prod"}"#).await;
    let ann = World::user("ann");
    for bad in [json!({"service": "shop"}), json!(["env"])] {
        let refused = world.engine.respond(&ann, &request.id, &edit(&request, bad.clone()), None).await;
        assert!(matches!(refused, Err(Problem::Refused(Refusal::BadEdit(_)))), "{bad}: {refused:?}");
    }
    assert_eq!(world.pending(&run).await.len(), 1);
    assert_eq!(world.tools.count("deploy"), 0);
    world.engine.respond(&ann, &request.id, &approve(&request), None).await.unwrap();
    step(&world, &run).await;
    assert_eq!(world.tools.calls()[0].arguments, json!({"env": "prod"}));
}

/// E5, I8: an edited call whose outcome is not known is asked about with the arguments that ran, and a retry
/// runs those again.
#[tokio::test]
async fn e5_b6_an_edited_call_of_unknown_outcome_shows_what_ran() {
    let world = World::default();
    let (run, request) = waiting(&world, AGENT, "deploy", r#"{"env":"prod"}"#).await;
    world.tools.on("deploy", |_| CallResult::Unknown { why: "lost on the way".to_owned() });
    let ann = World::user("ann");
    world.engine.respond(&ann, &request.id, &edit(&request, json!({"env": "staging"})), None).await.unwrap();
    step(&world, &run).await;
    let uncertain = world.pending(&run).await.remove(0);
    assert_eq!((uncertain.kind, uncertain.status), (RequestKind::Uncertain, RequestStatus::Pending));
    assert_eq!(uncertain.arguments, json!({"env": "staging"}));
    assert_ne!(uncertain.digest, request.digest);
    let retry = Answer {
        digest: Some(uncertain.digest.to_string()),
        resolution: Some(dormouse_domain::decide::Resolution::Retry),
        ..answer(DecisionKind::Settle)
    };
    world.engine.respond(&ann, &uncertain.id, &retry, None).await.unwrap();
    step(&world, &run).await;
    let arguments: Vec<_> = world.tools.calls().into_iter().map(|call| call.arguments).collect();
    assert_eq!(arguments, [json!({"env": "staging"}), json!({"env": "staging"})]);
}

/// E8: the result of edited arguments is not that of the call that the model made, nor of a later call of
/// those arguments: only what ran as it was asked is used again.
#[tokio::test]
async fn e8_the_result_of_an_edited_call_is_not_used_again() {
    let world = World::default();
    let (run, request) = waiting(&world, AGENT, "pay", r#"{"n":1}"#).await;
    let ann = World::user("ann");
    world.engine.respond(&ann, &request.id, &edit(&request, json!({"n": 2})), None).await.unwrap();
    world.models.reply(vec![call("b", "pay", r#"{"n":1}"#)]);
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    let again = world.pending(&run).await.remove(0);
    world.engine.respond(&ann, &again.id, &approve(&again), None).await.unwrap();
    world.models.reply(vec![call("c", "pay", r#"{"n":1}"#)]);
    world.models.reply(vec![say("done")]);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let arguments: Vec<_> = world.tools.calls().into_iter().map(|call| call.arguments).collect();
    assert_eq!(arguments, [json!({"n": 2}), json!({"n": 1})], "the third had a result of its own");
}
