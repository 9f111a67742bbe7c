//! The conversation's window.

use dormouse_domain::{
    Fact,
    decide::Refusal,
    message::Content,
    request::{DecisionKind, RequestKind, RequestStatus},
    run::Status,
};
use dormouse_engine::{Problem, StepReport, ports::Clock};
use dormouse_testkit::{World, agent, answer, approve, call, say};

use super::{AGENT, MINUTE, completed_without, last_prompt, prompts_grow, step, with};

/// A10, E6: no result is made up while the conversation waits; then the model is told "pending, not confirmed", with run and request named; the request stays.
#[tokio::test]
async fn a10_e1_e6_the_wait_ends_before_the_request() {
    let world = World::default();
    let run = world.start(agent("ops", AGENT)).await;
    world.models.reply(vec![call("a", "deploy", "{}"), call("b", "look", "{}")]);
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    let request = world.pending(&run).await.remove(0);
    assert_eq!(request.windows.wait_until, world.clock.now().plus(MINUTE));
    assert_eq!(request.windows.decide_by, world.clock.now().plus(60 * MINUTE));

    // At the edge it still waits (inclusive); one later it does not.
    world.clock.advance(MINUTE);
    assert_eq!(step(&world, &run).await, StepReport::Idle);
    assert_eq!(world.view(&run).await.item.due_at, Some(request.windows.stops_waiting_at()));
    let of_the_call = |entry: &dormouse_domain::Entry| match &entry.fact {
        Fact::CallFinished { call, .. } => Some(*call) == request.call,
        _ => false,
    };
    assert!(!world.memory.journal(&run).iter().any(of_the_call), "a result that nobody gave");
    assert_eq!(world.models.asked().len(), 1);
    world.clock.advance(1);
    world.models.reply(vec![call("c", "look", "{}")]);
    assert_eq!(step(&world, &run).await, StepReport::Finished);

    let told = last_prompt(&world);
    assert!(told.contains("Pending, not confirmed") && told.contains(&request.id.to_string()), "{told}");
    assert!(told.contains(&format!("run {run}")), "{told}");
    assert_eq!(world.tools.count("deploy"), 0);
    assert!(prompts_grow(&world));
    let pending = world.pending(&run).await;
    assert_eq!(pending.len(), 1);
    assert_eq!((pending[0].status, &pending[0].id), (RequestStatus::Pending, &request.id));
    let view = world.view(&run).await;
    assert_eq!((view.item.status, view.item.pending), (Status::Completed, 1));
    // I9: the run has ended, and still its request's end will be seen to.
    assert_eq!(view.item.due_at, Some(request.windows.expires_at()));
    assert!(world.memory.kinds(&run).contains(&"WaitExpired"));
}

/// Where both edges are one, only the expiry is written; likewise where the end of the wait denies.
#[tokio::test]
async fn e1_case_20_case_21_equal_edges_write_only_the_expiry() {
    for file in [AGENT.replace("\"1h\"", "\"1m\""), with("on_wait_expired = \"deny\"")] {
        let world = World::default();
        let run = world.start(agent("ops", &file)).await;
        world.models.reply(vec![call("a", "deploy", "{}")]);
        step(&world, &run).await;
        let request = world.pending(&run).await.remove(0);
        assert_eq!(request.windows.wait_until, request.windows.decide_by);
        world.clock.advance(MINUTE + 1);
        assert_eq!(step(&world, &run).await, StepReport::Finished);
        let kinds = world.memory.kinds(&run);
        assert!(!kinds.contains(&"WaitExpired") && kinds.contains(&"RequestExpired"), "{kinds:?}");
        // Case 21: after the expiry it says so, never that it is pending.
        let told = last_prompt(&world);
        assert!(told.contains("Not run") && told.contains("expired") && !told.contains("Pending"), "{told}");
        // Case 20: an approval afterwards is refused, and nothing runs.
        let late = world.engine.respond(&World::user("ann"), &request.id, &approve(&request), None).await;
        assert!(matches!(late, Err(Problem::Refused(_))), "{late:?}");
        assert_eq!(world.tools.count("deploy"), 0);
        assert_eq!(world.view(&run).await.item.due_at, None);
    }
}

/// A question that nobody answered in time is pending like anything else; the late answer is told.
#[tokio::test]
async fn e7_a_question_is_answered_late() {
    let world = World::default();
    let run = world.start(agent("ops", AGENT)).await;
    world.models.reply(vec![call("q", "ask_user", r#"{"question":"Which one?","options":[{"value":"blue"}]}"#)]);
    world.models.reply(vec![say("I took red for now")]);
    step(&world, &run).await;
    world.clock.advance(MINUTE + 1);
    step(&world, &run).await;
    assert!(last_prompt(&world).contains("nobody has answered this question yet"));
    let request = world.pending(&run).await.remove(0);
    assert_eq!(request.kind, RequestKind::Question);
    let blue = dormouse_domain::decide::Answer { answer: Some("blue".into()), ..answer(DecisionKind::Answer) };
    world.engine.respond(&World::user("ann"), &request.id, &blue, None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let told = last_prompt(&world);
    assert!(told.contains("News of request") && told.contains("blue") && told.contains("Which one?"), "{told}");
}

/// E7: a decision that arrives while the model thinks is told after that reply's results, once.
#[tokio::test]
async fn e7_a_decision_while_the_model_thinks() {
    let world = World::default();
    let run = world.start(agent("ops", AGENT)).await;
    world.models.reply(vec![call("a", "deploy", "{}")]);
    step(&world, &run).await;
    let request = world.pending(&run).await.remove(0);
    world.clock.advance(MINUTE + 1);
    let (engine, id, yes) = (world.engine.clone(), request.id.clone(), approve(&request));
    world.models.before_reply(move || async move {
        engine.respond(&World::user("ann"), &id, &yes, None).await.unwrap();
    });
    world.models.reply(vec![call("b", "look", "{}")]);
    world.models.reply(vec![say("done")]);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert_eq!((world.tools.count("deploy"), world.tools.count("look")), (1, 1));
    let told = last_prompt(&world);
    assert_eq!(told.matches("News of request").count(), 1, "{told}");
    assert_eq!(told.matches("Pending, not confirmed").count(), 1, "{told}");
    assert!(prompts_grow(&world));
    assert_eq!(world.models.asked().len(), 3);
}

/// A message can take the place of the decision that a run waits for.
#[tokio::test]
async fn a_message_supersedes_what_waits() {
    let world = World::default();
    let run = world.start(agent("ops", &with("on_message = \"supersede\""))).await;
    world.models.reply(vec![call("a", "deploy", "{}")]);
    world.models.reply(vec![say("then not")]);
    step(&world, &run).await;
    let request = world.pending(&run).await.remove(0);
    let content = vec![Content::text("forget it")];
    world.engine.add_message(&World::user("ann"), &run, content, None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let told = last_prompt(&world);
    assert!(told.contains("sent a message instead of deciding") && told.contains("forget it"), "{told}");
    assert!(world.pending(&run).await.is_empty());
    let rows = world.memory.all_requests(&run);
    assert_eq!(rows[0].status, RequestStatus::Cancelled);
    let late = world.engine.respond(&World::user("ann"), &request.id, &approve(&request), None).await;
    assert!(matches!(late, Err(Problem::Refused(_))), "{late:?}");
    assert_eq!(world.tools.count("deploy"), 0);
}

/// By default a message waits its turn behind the decision.
#[tokio::test]
async fn d12_a_message_queues_behind_what_waits() {
    let world = World::default();
    let run = world.start(agent("ops", AGENT)).await;
    world.models.reply(vec![call("a", "deploy", "{}")]);
    step(&world, &run).await;
    let content = vec![Content::text("hurry")];
    world.engine.add_message(&World::user("ann"), &run, content, None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Idle);
    assert_eq!((world.status(&run).await, world.models.asked().len()), (Status::Waiting, 1));
}

/// B10: the time that a model has for its reply is counted over all attempts and pauses.
#[tokio::test]
async fn b10_a_model_that_does_not_reply_in_time_is_given_up() {
    let world = World::default();
    let file = with("reply_within = \"5s\"").replace("[\"scripted:x\"]", "[\"scripted:x\", \"scripted:y\"]");
    let run = world.start(agent("ops", &file)).await;
    for _ in 0..2 {
        world.models.fail(dormouse_domain::retry::FailureClass::Overloaded);
    }
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    world.clock.advance(2_000);
    // The next pause would be 8 s: the second model is asked at once.
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let failures = world.memory.journal(&run).into_iter().filter_map(|entry| match entry.fact {
        Fact::ModelFailed { waited_ms, next_model, attempt, .. } => Some((attempt, waited_ms, next_model)),
        _ => None,
    });
    assert_eq!(failures.collect::<Vec<_>>(), [(1, 0, 0), (2, 2_000, 1)]);
}

/// What runs after the end is no longer anybody's to pause.
#[tokio::test]
async fn a_completed_run_is_not_paused() {
    let world = World::default();
    let (run, request) = completed_without(&world, AGENT).await;
    world.engine.respond(&World::user("ann"), &request.id, &approve(&request), None).await.unwrap();
    let refused = world.engine.pause(&World::user("ann"), &run, None).await;
    assert!(matches!(refused, Err(Problem::WrongState(_))), "{refused:?}");
}

/// D7, D8: the sweep woke it because its wait was over, and the message was lost with the host. The
/// next host knows that there are no messages, and wakes it at once; one that nobody woke stays alone.
#[tokio::test]
async fn d7_d8_a_waiting_run_whose_wake_was_lost_with_its_host_goes_on_at_once() {
    let world = World::default();
    let run = world.start(agent("ops", AGENT)).await;
    world.models.reply(vec![call("a", "deploy", "{}")]);
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    world.queue.take();
    assert_eq!(world.engine.wake_orphans().await.unwrap().woken, 0);
    world.clock.advance(MINUTE + 1);
    assert_eq!(world.engine.sweep().await.unwrap().woken, 1);
    world.queue.take();
    assert_eq!(world.engine.sweep().await.unwrap().woken, 0, "it was woken, and is given time");
    assert_eq!(world.other_host("next").wake_orphans().await.unwrap().woken, 1);
    assert_eq!(world.queue.take().len(), 1);
}

/// C4, cases 2 and 20: an answer through the run's name that comes too late is told what became of the
/// request, as through the request's own.
#[tokio::test]
async fn c4_case_2_case_20_both_names_tell_the_late_the_same() {
    let world = World::default();
    let ann = World::user("ann");
    let run = world.start(agent("ops", &with("on_wait_expired = \"deny\""))).await;
    world.models.reply(vec![call("a", "deploy", "{}")]);
    world.models.reply(vec![say("done")]);
    step(&world, &run).await;
    let request = world.pending(&run).await.remove(0);
    world.clock.set(request.windows.expires_at());
    for written in [false, true] {
        if written {
            assert_eq!(step(&world, &run).await, StepReport::Finished);
        }
        let by_request = world.engine.respond(&ann, &request.id, &approve(&request), None).await;
        let by_run = world.engine.respond_to_run(&ann, &run, &approve(&request), None).await;
        for told in [by_request, by_run] {
            let gone = matches!(told, Err(Problem::Refused(Refusal::Gone(RequestStatus::Expired))));
            assert!(gone, "{told:?}, the expiry being written: {written}");
        }
    }
}
