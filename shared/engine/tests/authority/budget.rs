//! A run that reaches a ceiling asks whether it may go on (C5).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use dormouse_domain::{
    Caller, RunId, audit,
    budget::Amounts,
    decide::{Answer, Decision, Refusal},
    message::Content,
    price::{Cost, ModelPrice},
    request::{DecisionKind, Request, RequestKind, RequestStatus},
    retry::FailureClass,
    run::Status,
};
use dormouse_engine::{Problem, StartRun, StepReport, ports::Clock};
use dormouse_testkit::{Fault, World, agent, answer, approve, call, say};

use super::{AGENT, step, waiting};

const LOOKS: &str = r#"
    models = ["scripted:x"]
    decide_within = "1h"
    wait = "1m"
    [limits]
    turns = 2
    [[tools]]
    name = "look"
    kind = "read"
    http = { url = "http://tools/look" }
    [[tools]]
    name = "deploy"
    http = { url = "http://tools/deploy" }
"#;

fn raise(by: Amounts) -> Answer {
    Answer { by: Some(by), ..answer(DecisionKind::Raise) }
}

fn turns(turns: u32) -> Amounts {
    Amounts { turns, ..Amounts::default() }
}

/// A run that has made as many turns as it may, and wants another.
async fn at_its_ceiling(world: &World, file: &str) -> (RunId, Request) {
    let run = world.start(agent("ops", file)).await;
    for id in ["a", "b"] {
        world.models.reply(vec![call(id, "look", "{}")]);
    }
    assert_eq!(step(world, &run).await, StepReport::Suspended);
    let request = world.pending(&run).await.remove(0);
    (run, request)
}

async fn audited(world: &World, run: &RunId) {
    let definition = world.engine.definition(&World::user("ann"), run).await.unwrap();
    assert_eq!(audit::journal(run, &Arc::clone(&definition), &world.memory.journal(run)).unwrap(), []);
}

async fn respond(world: &World, by: &Caller, request: &Request, answer: &Answer) -> Result<Decision, Problem> {
    world.engine.respond(by, &request.id, answer, None).await.map(|responded| responded.decision.decision)
}

#[tokio::test]
async fn c5_b5_at_a_ceiling_the_run_asks_and_goes_on_when_it_is_raised() {
    let world = World::default();
    let (run, request) = at_its_ceiling(&world, LOOKS).await;
    assert_eq!((request.kind, request.call, request.tool.as_ref()), (RequestKind::Budget, None, None));
    assert_eq!(request.decisions, [DecisionKind::Raise, DecisionKind::Stop]);
    assert_eq!(request.reasons, ["the limit of 2 turns is reached"]);
    assert_eq!(request.summary, "the limit of 2 turns is reached");
    let budget = request.budget.unwrap();
    assert_eq!((budget.used.turns, budget.ceilings.turns, budget.used.tokens), (2, 2, 30));
    let view = world.view(&run).await;
    assert_eq!(view.item.status, Status::Waiting);
    assert_eq!(view.item.due_at, Some(request.windows.expires_at()), "the conversation cannot go on without it");
    assert_eq!(step(&world, &run).await, StepReport::Idle, "nothing more is spent meanwhile");
    assert_eq!(world.models.asked().len(), 2);

    world.models.reply(vec![call("c", "look", "{}")]);
    respond(&world, &World::user("ann"), &request, &raise(turns(1))).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    let again = world.pending(&run).await.remove(0);
    assert_eq!(again.reasons, ["the limit of 3 turns is reached"]);
    assert_eq!(world.tools.count("look"), 3);
    respond(&world, &World::user("ann"), &again, &raise(turns(5))).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert_eq!(world.status(&run).await, Status::Completed);
    audited(&world, &run).await;
}

#[tokio::test]
async fn c5_stop_ends_the_run_with_the_decision() {
    let world = World::default();
    let (run, request) = at_its_ceiling(&world, LOOKS).await;
    respond(&world, &World::user("ann"), &request, &answer(DecisionKind::Stop)).await.unwrap();
    let outcome = world.view(&run).await.item.outcome.unwrap();
    assert_eq!((outcome.by, outcome.unknown_calls.len()), (Some(World::user("ann").principal), 0));
    assert!(outcome.why.contains("ceiling"), "{}", outcome.why);
    assert_eq!(world.status(&run).await, Status::Cancelled);
    let kinds = world.memory.kinds(&run);
    assert_eq!(kinds[kinds.len() - 2..], ["RequestDecided", "RunFinished"], "in one transaction");
    assert_eq!(step(&world, &run).await, StepReport::Idle);
    audited(&world, &run).await;
}

#[tokio::test]
async fn c5_a_ceiling_that_nobody_raises_in_time_fails_the_run() {
    let world = World::default();
    let (run, request) = at_its_ceiling(&world, LOOKS).await;
    world.clock.advance(request.windows.decide_by.since(world.clock.now()));
    assert_eq!(step(&world, &run).await, StepReport::Idle, "at its edge it can still be raised");
    world.clock.advance(1);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let outcome = world.view(&run).await.item.outcome.unwrap();
    assert_eq!(outcome.why, "the limit of 2 turns is reached, and nobody raised it in time");
    assert_eq!(world.status(&run).await, Status::Failed);
    let late = respond(&world, &World::user("ann"), &request, &raise(turns(1))).await;
    assert!(matches!(late, Err(Problem::Refused(Refusal::Gone(RequestStatus::Expired)))), "{late:?}");
    audited(&world, &run).await;
}

/// What would only ask again is refused, and the request still waits.
#[tokio::test]
async fn c5_a_raise_lifts_what_is_reached() {
    let world = World::default();
    let (run, request) = at_its_ceiling(&world, &LOOKS.replace("turns = 2", "turns = 2\ntokens = 20")).await;
    assert_eq!(request.reasons, ["the limit of 2 turns is reached", "the limit of 20 tokens is reached"]);
    let ann = World::user("ann");
    let tokens = |turns, tokens| raise(Amounts { turns, tokens, ..Amounts::default() });
    for (wrong, says) in [
        (answer(DecisionKind::Raise), "send `by`"),
        (raise(Amounts::default()), "send `by`"),
        (raise(turns(10)), "the limit of 20 tokens is reached"),
        (tokens(0, 100), "the limit of 2 turns is reached"),
        (tokens(1, 10), "the limit of 30 tokens is reached"),
        (Answer { by: Some(turns(1)), ..answer(DecisionKind::Stop) }, "`by` does not go with the decision stop"),
        (Answer { reason: Some("no".into()), ..answer(DecisionKind::Stop) }, "`reason` does not go"),
        (approve(&request), "approve is not on offer"),
        (answer(DecisionKind::Deny), "deny is not on offer"),
        (Answer { digest: Some("sha256:0".into()), ..tokens(1, 100) }, "digest"),
    ] {
        let refused = respond(&world, &ann, &request, &wrong).await.unwrap_err().to_string();
        assert!(refused.contains(says), "{refused} should say {says:?}");
        assert_eq!(world.pending(&run).await.len(), 1);
    }
    respond(&world, &ann, &request, &tokens(1, 11)).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    audited(&world, &run).await;
}

/// The agent's approvers raise its ceilings, not the person whose run it is; a tool's own are about its calls.
#[tokio::test]
async fn c5_a16_who_may_raise_a_ceiling() {
    let guarded = format!("approvers = {{ group = \"sre\", not_requester = true }}\n{LOOKS}");
    let (ann, requester) = (World::user("ann"), World::member("ann", &["sre"]));
    let (sue, stranger) = (World::member("sue", &["sre"]), World::member("sam", &["dba"]));
    let world = World::default();
    let (run, request) = at_its_ceiling(&world, &guarded).await;
    for by in [&ann, &requester] {
        let refused = respond(&world, by, &request, &raise(turns(5))).await;
        assert!(matches!(refused, Err(Problem::Refused(Refusal::NotEntitled(_)))), "{refused:?}");
    }
    let refused = respond(&world, &stranger, &request, &raise(turns(5))).await;
    assert!(matches!(refused, Err(Problem::Refused(Refusal::NotFound))), "{refused:?}");
    respond(&world, &sue, &request, &raise(turns(5))).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    audited(&world, &run).await;

    let of_a_tool = LOOKS.replace("name = \"deploy\"", "name = \"deploy\"\napprovers = { group = \"sre\" }");
    let world = World::default();
    let (_, request) = at_its_ceiling(&world, &of_a_tool).await;
    respond(&world, &ann, &request, &raise(turns(5))).await.unwrap();
}

/// C4, E2: two who race raise once; pause and cancel do as they do to any request.
#[tokio::test]
async fn c5_e2_one_decision_stands() {
    let world = World::default();
    let (run, request) = at_its_ceiling(&world, LOOKS).await;
    let ann = World::user("ann");
    world.engine.pause(&ann, &run, None).await.unwrap();
    let (more, stop) = (raise(turns(1)), answer(DecisionKind::Stop));
    let (one, other) = tokio::join!(respond(&world, &ann, &request, &more), respond(&world, &ann, &request, &stop));
    assert_eq!(usize::from(one.is_ok()) + usize::from(other.is_ok()), 1, "{one:?} {other:?}");
    audited(&world, &run).await;

    let world = World::default();
    let (run, request) = at_its_ceiling(&world, LOOKS).await;
    world.engine.cancel(&ann, &run, None, None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let refused = respond(&world, &ann, &request, &raise(turns(1))).await;
    assert!(matches!(refused, Err(Problem::Refused(Refusal::Gone(RequestStatus::Cancelled)))), "{refused:?}");
    audited(&world, &run).await;
}

/// A message does not pass a ceiling, and does not take the place of the decision.
#[tokio::test]
async fn c5_a_message_at_a_ceiling_waits_with_the_run() {
    for on_message in ["queue", "supersede"] {
        let world = World::default();
        let (run, request) = at_its_ceiling(&world, &format!("on_message = \"{on_message}\"\n{LOOKS}")).await;
        let ann = World::user("ann");
        world.engine.add_message(&ann, &run, vec![Content::text("hurry")], None).await.unwrap();
        assert_eq!(step(&world, &run).await, StepReport::Idle);
        assert_eq!((world.models.asked().len(), world.pending(&run).await.len()), (2, 1), "{on_message}");
        respond(&world, &ann, &request, &raise(turns(1))).await.unwrap();
        assert_eq!(step(&world, &run).await, StepReport::Finished);
        assert!(world.models.asked().pop().unwrap().contains("hurry"));
        audited(&world, &run).await;
    }
}

/// What the conversation went on without can be decided, and runs, while the run waits at its ceiling.
#[tokio::test]
async fn c5_a_late_approval_runs_beside_it() {
    let world = World::default();
    let (run, deploy) = waiting(&world, LOOKS, "deploy", "{}").await;
    world.clock.advance(60_001);
    world.models.reply(vec![call("b", "look", "{}")]);
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    let pending = world.pending(&run).await;
    assert_eq!(
        pending.iter().map(|request| request.kind).collect::<Vec<_>>(),
        [RequestKind::Approval, RequestKind::Budget]
    );
    let ann = World::user("ann");
    respond(&world, &ann, &deploy, &approve(&deploy)).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    assert_eq!((world.tools.count("deploy"), world.models.asked().len()), (1, 2));
    assert_eq!(world.pending(&run).await.len(), 1, "it is asked about its ceiling once");
    respond(&world, &ann, &pending[1], &raise(turns(1))).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert!(world.models.asked().pop().unwrap().contains("News of request"));
    audited(&world, &run).await;
}

async fn priced(world: &World, cost_usd: f64) -> RunId {
    priced_with(world, cost_usd, "").await
}

/// A run whose model costs a dollar for each token of output, three for each of input, and can reply with 100 at most.
async fn priced_with(world: &World, cost_usd: f64, tools: &str) -> RunId {
    let file = LOOKS.replace("turns = 2", &format!("cost_usd = {cost_usd:?}"));
    let mut definition = agent("ops", &format!("{file}\n{tools}"));
    for ModelPrice { price, .. } in &mut definition.prices {
        (price.input, price.output) = (Cost::of_dollars(3.0), Cost::of_dollars(1.0));
        (price.cache_read, price.cache_write, price.max_output) = (price.input, price.input, 100);
    }
    world.agents.add(definition);
    let input = vec![Content::text("go")];
    let start = StartRun { agent: "ops".into(), input, mode: None, metadata: BTreeMap::new() };
    world.engine.start(&World::user("ann"), start, None).await.unwrap().run_id
}

/// Each prepared reply uses 10 tokens of input and 5 of output.
#[tokio::test]
async fn c5_cost_is_counted_and_stops_the_run() {
    let world = World::default();
    let run = priced(&world, 70.0).await;
    for id in ["a", "b", "c"] {
        world.models.reply(vec![call(id, "look", "{}")]);
    }
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    let request = world.pending(&run).await.remove(0);
    assert_eq!(request.reasons, ["the limit of $70.00 is reached"]);
    let item = world.view(&run).await.item;
    assert_eq!((item.cost.total, item.cost.at_most, item.turns), (Cost::of_dollars(70.0), false, 2));
    let dollar = Amounts { cost: Cost::of_dollars(1.0), ..Amounts::default() };
    respond(&world, &World::user("ann"), &request, &raise(dollar)).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    assert_eq!(world.view(&run).await.item.cost.total, Cost::of_dollars(105.0));
    audited(&world, &run).await;
}

/// A call whose provider may have worked on it counts at the most that it can have cost; one that it refused, at nothing.
#[tokio::test]
async fn case_54_an_unknown_cost_is_counted_at_its_ceiling() {
    for (class, costs) in [
        (FailureClass::Network, true),
        (FailureClass::BadReply, true),
        (FailureClass::Overloaded, false),
        (FailureClass::RateLimited, false),
        (FailureClass::Server, false),
    ] {
        let world = World::default();
        let run = priced(&world, 100.0).await;
        world.models.fail(class);
        assert_eq!(step(&world, &run).await, StepReport::Suspended);
        let item = world.view(&run).await.item;
        assert_eq!((item.usage.incomplete, item.cost.at_most), (true, costs), "{class:?}");
        // At least a prompt of some tokens, and 100 of output.
        assert_eq!(item.cost.total > Cost::of_dollars(100.0), costs, "{class:?}: {}", item.cost.total);
        let asks = world.pending(&run).await;
        assert_eq!(asks.len(), usize::from(costs), "{class:?}");
        if let Some(request) = asks.first() {
            assert!(request.reasons[0].contains("counted at the most"), "{:?}", request.reasons);
            assert!(request.budget.unwrap().at_most);
        }
        audited(&world, &run).await;
    }
}

/// A step that dies while it asks a model leaves a call of which nobody knows what it cost.
#[tokio::test]
async fn case_54_a_step_that_died_counts_too() {
    let world = World::default();
    let run = priced(&world, 100.0).await;
    world.models.before_reply(|| async { panic!("the step dies") });
    assert_eq!(step(&world, &run).await, StepReport::Crashed);
    let item = world.view(&run).await.item;
    assert!(item.usage.incomplete && item.cost.at_most && item.cost.total > Cost::of_dollars(100.0), "{item:?}");
    world.clock.advance(10_000);
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    assert_eq!(world.pending(&run).await[0].kind, RequestKind::Budget);
    assert_eq!(world.models.asked().len(), 1);
    audited(&world, &run).await;
}

/// A run with a tool that asks is not asked about its ceiling before that is settled: the reply is paid already.
#[tokio::test]
async fn c5_what_was_replied_is_done_first() {
    let world = World::default();
    let file = AGENT.replacen("[[tools]]", "[limits]\nturns = 1\n[[tools]]", 1);
    let (run, request) = waiting(&world, &file, "deploy", r#"{"env":"prod"}"#).await;
    assert_eq!(request.kind, RequestKind::Approval);
    respond(&world, &World::user("ann"), &request, &approve(&request)).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    assert_eq!((world.tools.count("deploy"), world.pending(&run).await[0].kind), (1, RequestKind::Budget));
    world.models.reply(vec![say("done")]);
    let opened = world
        .memory
        .journal(&run)
        .into_iter()
        .filter(|entry| matches!(entry.fact, dormouse_domain::Fact::Suspended { .. }));
    assert_eq!(opened.count(), 2);
}

/// B9, case 54: somebody's answer ends the run while a model is being asked. That call is not counted as nothing.
#[tokio::test]
async fn case_54_b9_a_call_that_a_cancelling_answer_cuts_off() {
    let world = World::default();
    let asks = "[[tools]]\nbuiltin = \"ask_user\"\n";
    let run = priced_with(&world, 1000.0, asks).await;
    let question = r#"{"question":"go on?","options":[{"value":"no","cancels":true},{"value":"yes"}]}"#;
    world.models.reply(vec![call("q", "ask_user", question)]);
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    let request = world.pending(&run).await.remove(0);
    world.clock.advance(60_001);
    let (engine, id) = (world.engine.clone(), request.id.clone());
    world.models.before_reply(move || async move {
        let no = Answer { answer: Some("no".into()), ..answer(DecisionKind::Answer) };
        engine.respond(&World::user("ann"), &id, &no, None).await.unwrap();
    });
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let item = world.view(&run).await.item;
    assert_eq!((item.status, item.usage.incomplete, item.cost.at_most), (Status::Cancelled, true, true));
    assert!(item.cost.total > Cost::of_dollars(35.0 + 100.0), "{}", item.cost.total);
    audited(&world, &run).await;
}

/// A step that dies when the last reply is stored has asked nobody since.
#[tokio::test(start_paused = true)]
async fn case_54_a_death_after_the_last_reply_costs_nothing() {
    let world = World::default();
    let run = priced(&world, 1000.0).await;
    world.models.reply(vec![say("done")]);
    world.store.inject(&[Fault::None, Fault::None, Fault::LostBefore, Fault::LostBefore]);
    let dies = tokio::time::timeout(Duration::from_millis(40), world.engine.step(&run, world.deadline())).await;
    assert!(dies.is_err());
    world.clock.advance(200_000);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let item = world.view(&run).await.item;
    assert_eq!((item.cost.total, item.cost.at_most, item.usage.incomplete), (Cost::of_dollars(35.0), false, false));
}

/// B10: the time that a model has for its reply does not run while a person is asked, or the run is paused.
#[tokio::test]
async fn b10_people_take_none_of_a_models_time() {
    for pauses in [false, true] {
        let world = World::default();
        let file = format!("reply_within = \"10m\"\n{}", LOOKS.replace("turns = 2", "turns = 9"));
        let mut definition = agent("ops", &file);
        if !pauses {
            definition.prices[0].price.max_output = 100;
            definition.prices[0].price.output = Cost::of_dollars(1.0);
        }
        let ann = World::user("ann");
        let run = world.start(definition).await;
        world.models.fail(FailureClass::Network);
        assert_eq!(step(&world, &run).await, StepReport::Suspended);
        if pauses {
            world.engine.pause(&ann, &run, None).await.unwrap();
        }
        world.clock.advance(30 * 60_000);
        if pauses {
            world.engine.resume(&ann, &run, None).await.unwrap();
        } else {
            let request = world.pending(&run).await.remove(0);
            let more = Amounts { cost: Cost::of_dollars(5_000.0), ..Amounts::default() };
            respond(&world, &ann, &request, &raise(more)).await.unwrap();
        }
        world.models.fail(FailureClass::Network);
        assert_eq!(step(&world, &run).await, StepReport::Suspended, "it is tried again: {pauses}");
        world.clock.advance(60_000);
        assert_eq!(step(&world, &run).await, StepReport::Finished);
        assert_eq!(world.status(&run).await, Status::Completed);
    }
}

/// Amounts of any size are shown and raised; a raise is judged by what the run has used by then.
#[tokio::test(start_paused = true)]
async fn c5_a_raise_is_judged_by_what_is_used_now() {
    let world = World::default();
    let (run, request) = at_its_ceiling(&world, LOOKS).await;
    let ann = World::user("ann");
    let huge = Amounts { turns: 1, tokens: u64::MAX, wall_ms: u64::MAX, ..Amounts::default() };
    world.models.reply(vec![call("c", "look", "{}")]);
    respond(&world, &ann, &request, &raise(huge)).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    let again = world.pending(&run).await.remove(0);
    assert_eq!(again.budget.unwrap().ceilings.tokens, u64::MAX);
    audited(&world, &run).await;
}
