//! One run, from start to answer and back, on a world in memory.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test says what is wrong by stopping"
)]

mod calls;
mod state;

use dormouse_domain::{
    Mode, RequestId, RunId,
    decide::{Answer, Resolution},
    entry::CallResult,
    message::Content,
    request::{DecisionKind, RequestKind, RequestStatus},
    run::Status,
};
use dormouse_engine::{Problem, StepReport};
use dormouse_testkit::{World, agent, answer, approve, call, say};

const AGENT: &str = r#"
    models = ["scripted:x"]
    [[tools]]
    name = "look"
    kind = "read"
    http = { url = "http://tools/look" }
    [[tools]]
    name = "deploy"
    http = { url = "http://tools/deploy" }
    [[tools]]
    name = "ping"
    permission = "allow"
    replay = "safe"
    http = { url = "http://tools/ping" }
    [[tools]]
    name = "pay"
    permission = "allow"
    replay = "idempotent"
    http = { url = "http://tools/pay" }
    [[tools]]
    name = "wipe"
    permission = "allow"
    http = { url = "http://tools/wipe" }
    [[tools]]
    builtin = "ask_user"
"#;

async fn start(world: &World) -> RunId {
    world.start(agent("ops", AGENT)).await
}

async fn step(world: &World, run: &RunId) -> StepReport {
    world.engine.step(run, world.deadline()).await.unwrap()
}

/// A1 to A5, A11, case 29: reads run, the gated call waits, nothing is asked twice, what runs is
/// what was stored, and each sibling runs once.
#[tokio::test]
async fn a3_a11_e5_case_29_a_gated_call_between_two_reads() {
    let world = World::default();
    let run = start(&world).await;
    world.models.reply(vec![
        call("a", "look", "{}"),
        call("b", "deploy", r#"{"env":"prod","n":1.0}"#),
        call("c", "look", "{}"),
    ]);
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    assert_eq!(world.status(&run).await, Status::Waiting);
    assert_eq!(world.tools.count("look"), 2);
    assert_eq!(world.tools.count("deploy"), 0);
    let requests = world.pending(&run).await;
    assert_eq!(requests.len(), 1);
    assert_eq!((requests[0].kind, requests[0].tool.as_deref()), (RequestKind::Approval, Some("deploy")));
    let shown = requests[0].arguments.clone();

    // Another machine takes the answer and goes on.
    let other = world.other_host("elsewhere");
    let responded = other.respond(&World::user("ann"), &requests[0].id, &approve(&requests[0]), None).await.unwrap();
    assert_eq!((responded.status, responded.run_status), (RequestStatus::Decided, Status::Queued));
    assert_eq!(world.queue.take().last().unwrap().0, run);
    assert_eq!(other.step(&run, world.deadline()).await.unwrap(), StepReport::Finished);

    let calls = world.tools.calls();
    let deploy: Vec<_> = calls.iter().filter(|call| call.tool.name == "deploy").collect();
    assert_eq!(deploy.len(), 1);
    assert_eq!(deploy[0].arguments, serde_json::json!({"env": "prod", "n": 1}));
    assert_eq!(deploy[0].arguments, shown, "what the person saw");
    assert_eq!(deploy[0].execution_key, format!("{run}.2.1"));
    assert_eq!(world.tools.count("look"), 2);
    let asked = world.models.asked();
    assert_eq!(asked.len(), 2);
    assert!(asked[1].starts_with(asked[0].trim_end_matches(']')), "{} then {}", asked[0], asked[1]);
    assert_eq!(world.status(&run).await, Status::Completed);
    assert_eq!(
        world.memory.kinds(&run),
        [
            "RunStarted",
            "DriverStarted",
            "ModelReplied",
            "CallFinished",
            "CallFinished",
            "Suspended",
            "RequestDecided",
            "DriverStarted",
            "CallDispatched",
            "CallFinished",
            "ModelReplied",
            "RunFinished",
        ]
    );
}

/// X3: two conditional puts for a turn with one allowed tool, none of them a transaction.
#[tokio::test]
async fn x3_a_turn_with_one_allowed_tool_is_two_puts() {
    let world = World::default();
    let run = start(&world).await;
    world.models.reply(vec![call("a", "look", "{}")]);
    world.models.reply(vec![call("b", "look", "{}")]);
    world.models.reply(vec![say("done")]);
    world.memory.take_writes();
    step(&world, &run).await;
    let expected = ["transaction", "put", "put", "put", "put", "put", "transaction"];
    assert_eq!(world.memory.take_writes(), expected);
}

/// B7, C7: a declined call is not run, the model is told why, and the run goes on.
#[tokio::test]
async fn b7_c7_x5_a_declined_call_tells_the_model() {
    let world = World::default();
    let run = start(&world).await;
    world.models.reply(vec![call("a", "deploy", r#"{"env":"prod"}"#)]);
    step(&world, &run).await;
    let request = world.pending(&run).await.remove(0);
    let deny = Answer { reason: Some("use staging".into()), ..answer(DecisionKind::Deny) };
    world.engine.respond(&World::user("ann"), &request.id, &deny, None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert_eq!(world.tools.count("deploy"), 0);
    assert!(world.models.asked()[1].contains("a person declined this call and said: use staging"));
}

/// Cases 31, 32, B5: requests of one turn are distinct, decided in any order, each reaches its call.
#[tokio::test]
async fn x5_case_3_case_31_case_32_several_requests_of_one_turn() {
    let world = World::default();
    let run = start(&world).await;
    world.models.reply(vec![
        call("x", "deploy", r#"{"env":"a"}"#),
        call("x", "deploy", r#"{"env":"b"}"#),
        call("", "deploy", r#"{"env":"b"}"#),
    ]);
    step(&world, &run).await;
    let requests = world.pending(&run).await;
    assert_eq!(requests.len(), 3);
    // Case 3: two identical calls have one digest and two requests.
    assert_eq!(requests[1].digest, requests[2].digest);
    assert_ne!(requests[1].id, requests[2].id);
    let ann = World::user("ann");
    world.engine.respond(&ann, &requests[2].id, &approve(&requests[2]), None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    assert_eq!(world.tools.calls()[0].call.to_string(), "2.2");
    assert_eq!(world.pending(&run).await.len(), 2);
    let denied = world.engine.respond(&ann, &requests[0].id, &answer(DecisionKind::Deny), None).await.unwrap();
    // The other still waits: nothing to do yet.
    assert_eq!(denied.run_status, Status::Waiting);
    assert_eq!(step(&world, &run).await, StepReport::Idle);
    world.engine.respond(&ann, &requests[1].id, &approve(&requests[1]), None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert_eq!(world.tools.count("deploy"), 2);
}

/// Cases 1 and 2: of many who decide at once, one stands and the others are told what does.
#[tokio::test(flavor = "multi_thread")]
async fn e2_case_1_one_decision_of_sixteen() {
    for _ in 0..20 {
        let world = std::sync::Arc::new(World::default());
        let run = start(&world).await;
        world.models.reply(vec![call("a", "deploy", r#"{"env":"prod"}"#)]);
        step(&world, &run).await;
        let request = world.pending(&run).await.remove(0);
        let racers: Vec<_> = (0..16)
            .map(|i| {
                let (world, request) = (world.clone(), request.clone());
                tokio::spawn(async move {
                    let answer = if i % 2 == 0 { approve(&request) } else { answer(DecisionKind::Deny) };
                    world.engine.respond(&World::user("ann"), &request.id, &answer, None).await
                })
            })
            .collect();
        let mut won = 0;
        for racer in racers {
            match racer.await.unwrap() {
                Ok(_) => won += 1,
                Err(Problem::Refused(dormouse_domain::decide::Refusal::AlreadyDecided(_))) => {}
                Err(problem) => panic!("{problem:?}"),
            }
        }
        assert_eq!(won, 1);
        assert_eq!(world.memory.kinds(&run).iter().filter(|kind| **kind == "RequestDecided").count(), 1);
    }
}

/// Case 2: who loses the race through the run's endpoint is told what stands, as through the other.
#[tokio::test]
async fn c4_case_2_what_stands_is_named_through_either_endpoint() {
    let world = World::default();
    let run = start(&world).await;
    let ann = World::user("ann");
    let deny = answer(DecisionKind::Deny);
    let early = world.engine.respond_to_run(&ann, &run, &deny, None).await;
    assert!(matches!(early, Err(Problem::WrongState(_))));
    world.models.reply(vec![call("a", "deploy", r#"{"env":"prod"}"#)]);
    step(&world, &run).await;
    let request = world.pending(&run).await.remove(0);
    world.engine.respond_to_run(&ann, &run, &approve(&request), None).await.unwrap();
    let late = world.engine.respond_to_run(&ann, &run, &deny, None).await;
    assert!(matches!(late, Err(Problem::Refused(dormouse_domain::decide::Refusal::AlreadyDecided(_)))));
}

/// Case 5, A16: to another user or tenant nothing of it exists.
#[tokio::test]
async fn a16_case_5_to_others_it_does_not_exist() {
    let world = World::default();
    let run = start(&world).await;
    world.models.reply(vec![call("a", "deploy", r#"{"env":"prod"}"#)]);
    step(&world, &run).await;
    let request = world.pending(&run).await.remove(0);
    let entries = world.memory.journal(&run).len();
    let foreign: dormouse_domain::Caller =
        dormouse_domain::Principal { tenant: "other".into(), subject: "ann".into() }.into();
    for stranger in [World::user("bob"), foreign] {
        let engine = &world.engine;
        assert!(matches!(engine.run_view(&stranger, &run).await, Err(Problem::NotFound(_))));
        assert!(matches!(engine.request(&stranger, &request.id).await, Err(Problem::NotFound(_))));
        assert!(matches!(engine.entries(&stranger, &run, 0, 10).await, Err(Problem::NotFound(_))));
        assert!(matches!(engine.cancel(&stranger, &run, None, None).await, Err(Problem::NotFound(_))));
        let refused = engine.respond(&stranger, &request.id, &approve(&request), None).await;
        assert!(matches!(refused, Err(Problem::Refused(dormouse_domain::decide::Refusal::NotFound))));
        assert!(engine.inbox(&stranger, None, 10).await.unwrap().items.is_empty());
    }
    assert_eq!(world.memory.journal(&run).len(), entries);
    world.engine.respond(&World::user("ann"), &request.id, &approve(&request), None).await.unwrap();
}

/// D2 to D4: a question suspends; a cancelling option ends the run in the deciding transaction.
#[tokio::test]
async fn d2_d4_a_cancelling_option_ends_the_run_at_once() {
    let world = World::default();
    let run = start(&world).await;
    let question = r#"{"question":"Which?","options":[{"value":"1.0"},{"value":"none","cancels":true}]}"#;
    world.models.reply(vec![call("a", "ask_user", question), call("b", "deploy", r#"{"env":"x"}"#)]);
    step(&world, &run).await;
    let requests = world.pending(&run).await;
    assert_eq!(requests[0].kind, RequestKind::Question);
    let none = Answer { answer: Some("none".into()), ..answer(DecisionKind::Answer) };
    let responded = world.engine.respond(&World::user("ann"), &requests[0].id, &none, None).await.unwrap();
    assert_eq!(responded.run_status, Status::Cancelled);
    let kinds = world.memory.kinds(&run);
    assert_eq!(&kinds[kinds.len() - 2..], ["RequestDecided", "RunFinished"]);
    // Cancelled runs have no open requests.
    let statuses: Vec<_> = world.memory.all_requests(&run).iter().map(|request| request.status).collect();
    assert_eq!(statuses, [RequestStatus::Decided, RequestStatus::Cancelled]);
    assert_eq!(world.models.asked().len(), 1);
    assert_eq!(step(&world, &run).await, StepReport::Idle);
}

/// E1, E11, cases 20 and 22: at the edge it is offered, can be decided, and is left alone by the sweep;
/// after it none of that holds. The run goes on by itself, and no approval is on record.
#[tokio::test]
async fn e1_e11_case_20_case_22_expiry_moves_the_run_on() {
    let world = World::default();
    let run = start(&world).await;
    world.models.reply(vec![call("a", "deploy", r#"{"env":"prod"}"#)]);
    step(&world, &run).await;
    let request = world.pending(&run).await.remove(0);
    let other = start(&world).await;
    world.models.reply(vec![call("a", "deploy", r#"{"env":"prod"}"#)]);
    step(&world, &other).await;
    let in_time = world.pending(&other).await.remove(0);
    world.clock.set(request.windows.decide_by);
    assert_eq!(world.engine.inbox(&World::user("ann"), None, 10).await.unwrap().items.len(), 2);
    assert_eq!(world.engine.sweep().await.unwrap().due, 0);
    world.engine.respond(&World::user("ann"), &in_time.id, &approve(&in_time), None).await.unwrap();
    assert_eq!(step(&world, &other).await, StepReport::Finished);
    world.clock.advance(1);
    assert!(world.engine.inbox(&World::user("ann"), None, 10).await.unwrap().items.is_empty());
    let late = world.engine.respond(&World::user("ann"), &request.id, &approve(&request), None).await;
    assert!(matches!(late, Err(Problem::Refused(dormouse_domain::decide::Refusal::Gone(RequestStatus::Expired)))));
    assert_eq!(world.engine.sweep().await.unwrap().woken, 1);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert_eq!(world.tools.calls().into_iter().filter(|call| call.run == run).count(), 0);
    assert!(world.models.asked().pop().unwrap().contains("Not run: the request for approval expired"));
    let kinds = world.memory.kinds(&run);
    assert!(kinds.contains(&"RequestExpired") && !kinds.contains(&"RequestDecided"), "{kinds:?}");
}

/// B4, case 36: after a crash the replay policy decides.
#[tokio::test]
async fn b3_b4_case_36_a_crash_between_dispatch_and_result() {
    let world = World::default();
    let run = start(&world).await;
    world.models.reply(vec![call("a", "ping", "{}"), call("b", "pay", "{}"), call("c", "wipe", "{}")]);
    // The store is gone as soon as the reply is stored: no result can be written.
    world.tools.slow("ping", std::time::Duration::from_secs(3600));
    world.tools.slow("pay", std::time::Duration::from_secs(3600));
    world.tools.slow("wipe", std::time::Duration::from_secs(3600));
    let dead = tokio::time::timeout(std::time::Duration::from_millis(100), world.engine.step(&run, world.deadline()));
    assert!(dead.await.is_err());
    assert_eq!(world.tools.calls().len(), 3);
    for tool in ["ping", "pay", "wipe"] {
        world.tools.slow(tool, std::time::Duration::ZERO);
    }
    let other = world.other_host("second");
    assert_eq!(other.step(&run, world.deadline()).await.unwrap(), StepReport::Busy);
    world.clock.advance(180_000 + dormouse_domain::item::TAKEOVER_MARGIN_MS);
    assert_eq!(world.engine.sweep().await.unwrap().woken, 1);
    assert_eq!(other.step(&run, world.deadline()).await.unwrap(), StepReport::Suspended);
    assert_eq!((world.tools.count("ping"), world.tools.count("pay"), world.tools.count("wipe")), (2, 2, 1));
    let pays: Vec<_> = world.tools.calls().into_iter().filter(|call| call.tool.name == "pay").collect();
    assert_eq!(pays[0].execution_key, pays[1].execution_key);
    assert_eq!((pays[0].attempt, pays[1].attempt), (1, 2));
    let requests = world.pending(&run).await;
    assert_eq!((requests.len(), requests[0].kind), (1, RequestKind::Uncertain));
    let settle = Answer { resolution: Some(Resolution::Result("it was wiped".into())), ..answer(DecisionKind::Settle) };
    world.engine.respond(&World::user("ann"), &requests[0].id, &settle, None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert_eq!(world.tools.count("wipe"), 1);
    assert!(world.models.asked()[1].contains("A person recorded this result: it was wiped"));
}

/// The same with an outcome that the tool itself does not know.
#[tokio::test]
async fn b4_an_unknown_outcome_is_called_unknown() {
    let world = World::default();
    let run = start(&world).await;
    for tool in ["ping", "pay", "wipe"] {
        world.tools.on(tool, |_| CallResult::Unknown { why: "connection lost".into() });
    }
    world.models.reply(vec![call("a", "ping", "{}"), call("b", "pay", "{}"), call("c", "wipe", "{}")]);
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    assert_eq!((world.tools.count("ping"), world.tools.count("pay"), world.tools.count("wipe")), (3, 3, 1));
    let kinds: Vec<_> = world.pending(&run).await.iter().map(|r| (r.tool.clone().unwrap(), r.kind)).collect();
    assert_eq!(kinds, [("pay".to_owned(), RequestKind::Uncertain), ("wipe".to_owned(), RequestKind::Uncertain)]);
}

/// Case 26, D8: the decision is stored, and its wake is not sent, because the queue fails or because the
/// process is gone by then. The sweep sends it.
#[tokio::test]
async fn d8_case_26_a_lost_wake_is_repaired() {
    for queue_fails in [true, false] {
        let world = World::default();
        let run = start(&world).await;
        world.models.reply(vec![call("a", "deploy", r#"{"env":"prod"}"#)]);
        step(&world, &run).await;
        let request = world.pending(&run).await.remove(0);
        world.queue.take();
        if queue_fails {
            world.queue.set_broken(true);
        } else {
            world.store.inject(&[dormouse_testkit::Fault::LostAfter]);
        }
        let responded = world.engine.respond(&World::user("ann"), &request.id, &approve(&request), None).await;
        assert_eq!(responded.is_ok(), queue_fails, "one who does not hear that it is stored does not wake");
        world.queue.set_broken(false);
        assert_eq!(world.queue.take(), []);
        assert_eq!(world.engine.sweep().await.unwrap().woken, 1);
        assert_eq!(world.queue.take()[0].0, run);
        // It is not woken every minute if nothing comes of it.
        assert_eq!(world.engine.sweep().await.unwrap().woken, 0);
        assert_eq!(step(&world, &run).await, StepReport::Finished);
        assert_eq!(world.tools.count("deploy"), 1);
    }
}

/// D12: what a person says during a model call comes after that turn's results.
#[tokio::test]
async fn d12_steering_is_never_lost_and_never_early() {
    let world = std::sync::Arc::new(World::default());
    let run = start(&world).await;
    world.models.reply(vec![call("a", "look", "{}")]);
    let (other, id) = (world.clone(), run.clone());
    world.models.before_reply(move || async move {
        other.engine.add_message(&World::user("ann"), &id, vec![Content::text("and hurry")], None).await.unwrap();
    });
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let asked = world.models.asked();
    assert!(!asked[0].contains("and hurry"));
    let (result, said) = (asked[1].find("Result").unwrap(), asked[1].find("and hurry").unwrap());
    assert!(result < said);
    // A follow-up after the end goes on with the same run.
    world.engine.add_message(&World::user("ann"), &run, vec![Content::text("again")], None).await.unwrap();
    assert_eq!(world.status(&run).await, Status::Queued);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert!(world.models.asked()[2].contains("again"));
}

/// B8: cancelling closes what waits and is final; pausing starts nothing.
#[tokio::test]
async fn b8_pause_and_cancel() {
    let world = World::default();
    let run = start(&world).await;
    let ann = World::user("ann");
    world.models.reply(vec![call("a", "deploy", r#"{"env":"prod"}"#)]);
    step(&world, &run).await;
    world.engine.pause(&ann, &run, None).await.unwrap();
    let request = world.pending(&run).await.remove(0);
    let responded = world.engine.respond(&ann, &request.id, &approve(&request), None).await.unwrap();
    assert_eq!(responded.run_status, Status::Paused);
    assert_eq!(step(&world, &run).await, StepReport::Idle);
    assert_eq!(world.tools.count("deploy"), 0);
    world.engine.resume(&ann, &run, None).await.unwrap();
    world.engine.cancel(&ann, &run, Some("no".into()), None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert_eq!(world.tools.count("deploy"), 0);
    assert_eq!(world.status(&run).await, Status::Cancelled);
    assert!(matches!(world.engine.resume(&ann, &run, None).await, Err(Problem::WrongState(_))));
    let message = world.engine.add_message(&ann, &run, vec![Content::text("hi")], None).await;
    assert!(matches!(message, Err(Problem::WrongState(_))));
}

/// C1, case 14: a change of mode holds from the next call, in a process that has never seen the run too, and
/// decides no open request.
#[tokio::test]
async fn c1_case_14_a_change_of_mode() {
    let world = World::default();
    let run = start(&world).await;
    let ann = World::user("ann");
    world.models.reply(vec![call("a", "deploy", r#"{"env":"1"}"#)]);
    step(&world, &run).await;
    world.engine.set_mode(&ann, &run, Mode::Yolo, None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Idle);
    let request = world.pending(&run).await.remove(0);
    world.engine.respond(&ann, &request.id, &answer(DecisionKind::Deny), None).await.unwrap();
    world.models.reply(vec![call("b", "deploy", r#"{"env":"2"}"#)]);
    let cold = world.other_host("cold");
    assert_eq!(cold.step(&run, world.deadline()).await.unwrap(), StepReport::Finished);
    assert_eq!(world.tools.count("deploy"), 1);
}

/// An unknown request of a run that exists.
#[tokio::test]
async fn unknown_ids() {
    let world = World::default();
    let run = start(&world).await;
    let id: RequestId = format!("{run}.7.0").parse().unwrap();
    let refused = world.engine.respond(&World::user("ann"), &id, &answer(DecisionKind::Deny), None).await;
    assert!(matches!(refused, Err(Problem::NotFound("request"))));
    let missing = RunId::from_bits(99);
    assert_eq!(step(&world, &missing).await, StepReport::NoSuchRun);
    assert!(matches!(world.engine.run_view(&World::user("ann"), &missing).await, Err(Problem::NotFound("run"))));
}
