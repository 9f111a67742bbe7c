//! The same call, made again (E8 to E10).

use dormouse_domain::{
    decide::Answer,
    request::{DecisionKind, RequestStatus},
    run::{Repeats, Status},
};
use dormouse_engine::StepReport;
use dormouse_testkit::{World, agent, answer, approve, call, say};

use super::{AGENT, MINUTE, completed_without, last_prompt, prompts_grow, step};

/// A repeat while the first can still be decided joins it: nobody is asked twice.
#[tokio::test]
async fn e8_e10_a_repeat_joins_the_open_request() {
    let world = World::default();
    let run = world.start(agent("ops", AGENT)).await;
    // The same arguments in another order and notation are the same call.
    world.models.reply(vec![call("a", "deploy", r#"{"b":2.0, "a":1}"#)]);
    world.models.reply(vec![call("b", "deploy", r#"{"a":1.0,"b":2}"#)]);
    world.models.reply(vec![say("I wait then")]);
    step(&world, &run).await;
    let request = world.pending(&run).await.remove(0);
    world.clock.advance(MINUTE + 1);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let told = last_prompt(&world);
    assert_eq!(told.matches("Pending, not confirmed").count(), 2, "{told}");
    assert_eq!(told.matches(&request.id.to_string()).count(), 2, "{told}");
    assert_eq!(world.memory.all_requests(&run).len(), 1);
    assert_eq!(world.view(&run).await.item.repeats, Repeats { while_pending: 1, after_refusal: 0 });
    // The one decision runs the one call.
    world.engine.respond(&World::user("ann"), &request.id, &approve(&request), None).await.unwrap();
    step(&world, &run).await;
    assert_eq!(world.tools.count("deploy"), 1);
    assert!(prompts_grow(&world));
}

/// E9: a refusal that the model does not know of is handed to the repeat, once, by no second path;
/// the next repeat asks a person again, who is told how often that happened (E10).
#[tokio::test]
async fn e9_e10_an_untold_refusal_is_handed_on_once() {
    let world = World::default();
    let run = world.start(agent("ops", AGENT)).await;
    world.models.reply(vec![call("a", "deploy", "{}")]);
    step(&world, &run).await;
    let request = world.pending(&run).await.remove(0);
    world.clock.advance(MINUTE + 1);
    let (engine, id) = (world.engine.clone(), request.id.clone());
    world.models.before_reply(move || async move {
        let no = Answer { reason: Some("never".into()), ..answer(DecisionKind::Deny) };
        engine.respond(&World::user("ann"), &id, &no, None).await.unwrap();
    });
    // Two repeats in one reply: one takes the refusal, the other is a new question to the person.
    world.models.reply(vec![call("b", "deploy", "{}"), call("c", "deploy", "{}")]);
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    let again = world.pending(&run).await;
    assert_eq!(again.len(), 1);
    assert_ne!(again[0].id, request.id);
    assert_eq!(again[0].repeats, Repeats { while_pending: 0, after_refusal: 1 });
    world.engine.respond(&World::user("ann"), &again[0].id, &approve(&again[0]), None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let told = last_prompt(&world);
    assert_eq!(told.matches("never").count(), 1, "{told}");
    assert_eq!(told.matches("News of request").count(), 0, "{told}");
    assert_eq!(world.tools.count("deploy"), 1);
    assert_eq!(world.view(&run).await.item.repeats, Repeats { while_pending: 0, after_refusal: 1 });
    assert!(prompts_grow(&world));
}

/// Other arguments, or another tool, make another call: a person is asked about it.
#[tokio::test]
async fn e8_what_is_not_the_same_asks() {
    for (tool, arguments) in
        [("deploy", r#"{"env":"test"}"#), ("deploy", r#"{"env":["prod"]}"#), ("wipe", r#"{"env":"prod"}"#)]
    {
        let world = World::default();
        let file = format!("{AGENT}\n[[tools]]\nname = \"wipe\"\nhttp = {{ url = \"http://tools/wipe\" }}");
        let (run, request) = completed_without(&world, &file).await;
        let content = vec![dormouse_domain::message::Content::text("again")];
        world.engine.add_message(&World::user("ann"), &run, content, None).await.unwrap();
        world.models.reply(vec![call("b", tool, arguments)]);
        assert_eq!(step(&world, &run).await, StepReport::Suspended);
        let pending = world.pending(&run).await;
        assert_eq!(pending.len(), 2, "{tool} {arguments}");
        assert!(pending.iter().any(|one| one.id == request.id && one.status == RequestStatus::Pending));
        assert_eq!(world.view(&run).await.item.repeats, Repeats::default());
    }
}

/// What was approved and has not run yet is joined as well: an approved deploy does not run a second
/// time because the model had not heard of the approval.
#[tokio::test]
async fn e8_a_repeat_of_what_is_about_to_run_joins_it() {
    let world = World::default();
    let (run, request) = completed_without(&world, &super::with("late_decision = \"next_turn\"")).await;
    let content = vec![dormouse_domain::message::Content::text("again")];
    world.engine.add_message(&World::user("ann"), &run, content, None).await.unwrap();
    // Approved while the model thinks; the reply repeats the call without knowing.
    let (engine, id, yes) = (world.engine.clone(), request.id.clone(), approve(&request));
    world.models.before_reply(move || async move {
        engine.respond(&World::user("ann"), &id, &yes, None).await.unwrap();
    });
    world.models.reply(vec![call("b", "deploy", r#"{"env":"prod"}"#)]);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    // It was approved and had not run yet, so the repeat joined it.
    assert_eq!(world.tools.count("deploy"), 1);
    assert_eq!(world.memory.all_requests(&run).len(), 1);
    assert_eq!(last_prompt(&world).matches("News of request").count(), 1);
}

/// After a refusal that the model knows of, a repeat asks again.
#[tokio::test]
async fn e9_e10_a_repeat_after_a_told_refusal_asks_again() {
    let world = World::default();
    let run = world.start(agent("ops", AGENT)).await;
    world.models.reply(vec![call("a", "deploy", "{}")]);
    world.models.reply(vec![call("b", "deploy", "{}")]);
    step(&world, &run).await;
    let first = world.pending(&run).await.remove(0);
    world.engine.respond(&World::user("ann"), &first.id, &answer(DecisionKind::Deny), None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    let second = world.pending(&run).await.remove(0);
    assert_eq!(second.repeats, Repeats { while_pending: 0, after_refusal: 1 });
    assert_eq!((second.status, world.status(&run).await), (RequestStatus::Pending, Status::Waiting));
}

/// E9: a late refusal that reached the model as news was delivered by that; a repeat of the call is not
/// handed it a second time, but asks a person anew. E10: likewise after an expiry.
#[tokio::test]
async fn e9_e10_a_repeat_after_the_news_asks_again() {
    for expires in [false, true] {
        let world = World::default();
        let (run, request) = completed_without(&world, AGENT).await;
        if expires {
            world.clock.set(request.windows.expires_at());
            assert_eq!(step(&world, &run).await, StepReport::Suspended);
            let content = vec![dormouse_domain::message::Content::text("and?")];
            world.engine.add_message(&World::user("ann"), &run, content, None).await.unwrap();
        } else {
            world.engine.respond(&World::user("ann"), &request.id, &answer(DecisionKind::Deny), None).await.unwrap();
        }
        world.models.reply(vec![call("b", "deploy", r#"{"env":"prod"}"#)]);
        assert_eq!(step(&world, &run).await, StepReport::Suspended);
        assert_eq!(last_prompt(&world).matches("News of request").count(), 1);
        let again = world.pending(&run).await;
        assert_eq!(again.len(), 1, "expired: {expires}");
        assert_ne!(again[0].id, request.id);
        let repeats = Repeats { while_pending: 0, after_refusal: 1 };
        assert_eq!((again[0].repeats, world.view(&run).await.item.repeats), (repeats, repeats));
        world.engine.respond(&World::user("ann"), &again[0].id, &approve(&again[0]), None).await.unwrap();
        assert_eq!(step(&world, &run).await, StepReport::Finished);
        assert_eq!(last_prompt(&world).matches("News of request").count(), 1, "told once");
        assert_eq!(world.tools.count("deploy"), 1);
    }
}

/// E8: an idempotent tool whose agent file says so gives a recorded result again without running.
#[tokio::test]
async fn e8_a_recorded_result_is_used_again() {
    let tool = |more: &str| {
        format!(
            "models = [\"scripted:x\"]\n[[tools]]\nname = \"book\"\npermission = \"allow\"\nreplay = \"idempotent\"\n{more}\nhttp = {{ url = \"http://x\" }}"
        )
    };
    for (more, expected) in [("reuse_result = true", 2), ("", 3)] {
        let world = World::default();
        let run = world.start(agent("ops", &tool(more))).await;
        world.models.reply(vec![call("a", "book", r#"{"n":1}"#)]);
        world.models.reply(vec![call("b", "book", r#"{"n":1.0}"#), call("c", "book", r#"{"n":2}"#)]);
        assert_eq!(step(&world, &run).await, StepReport::Finished);
        assert_eq!(world.tools.count("book"), expected, "{more}");
        assert!(prompts_grow(&world));
    }
}
