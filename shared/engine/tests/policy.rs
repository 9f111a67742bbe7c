//! Rules that are added while a run is under way: what may not run any more does not, whoever approved it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test says what is wrong by stopping"
)]

use dormouse_domain::{
    Entry, Fact, Mode, RunId, audit,
    decide::{Answer, Refusal, Resolution},
    entry::CallResult,
    plan::Plan,
    policy::Policy,
    request::{DecisionKind, RequestKind},
    run::Status,
};
use dormouse_engine::{Problem, StepReport};
use dormouse_testkit::{World, agent, answer, approve, call, say};
use serde_json::json;

const AGENT: &str = r#"
    models = ["scripted:x"]
    wait = "1m"
    decide_within = "1h"
    [[tools]]
    name = "deploy"
    http = { url = "http://tools/deploy" }
    [[tools]]
    name = "ping"
    permission = "allow"
    replay = "safe"
    http = { url = "http://tools/ping" }
    [[tools]]
    name = "wipe"
    permission = "allow"
    http = { url = "http://tools/wipe" }
"#;

const NO_PROD: &str =
    "[[policy.deny]]\ntool = \"deploy\"\nargs = { env = \"prod*\" }\nbecause = \"production is frozen\"\n";
const NO_PING: &str = "[[policy.deny]]\ntool = \"ping\"\nbecause = \"it is noisy\"\n";
const ASK_PING: &str = "[[policy.floor]]\ntool = \"ping\"\nbecause = \"it is noisy\"\n";

async fn step(world: &World, run: &RunId) -> StepReport {
    world.engine.step(run, world.deadline()).await.unwrap()
}

/// A deploy of the same agent with more rules.
fn deploy(world: &World, rules: &str) {
    world.agents.add(agent("ops", &format!("{AGENT}{rules}")));
}

fn replanned(world: &World, run: &RunId) -> Vec<Plan> {
    let facts = world.memory.journal(run).into_iter().filter_map(|entry| match entry.fact {
        Fact::CallsReplanned { calls } => Some(calls),
        _ => None,
    });
    facts.flatten().map(|change| change.plan).collect()
}

fn last_prompt(world: &World) -> String {
    world.models.asked().pop().unwrap()
}

fn audited(world: &World, run: &RunId) -> Vec<Entry> {
    let entries = world.memory.journal(run);
    let found = audit::journal(run, &std::sync::Arc::new(agent("ops", AGENT)), &entries).unwrap();
    assert_eq!(found, []);
    entries
}

/// A7, I7, case 12: a deploy during the wait forbids what a person then approves. It is not announced, not
/// run, and the model is told why.
#[tokio::test]
async fn a7_case_12_a_rule_of_today_stops_an_approved_call() {
    let world = World::default();
    let run = world.start(agent("ops", AGENT)).await;
    world.models.reply(vec![call("a", "deploy", r#"{"env":"prod-eu"}"#), call("b", "deploy", r#"{"env":"dev"}"#)]);
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    deploy(&world, NO_PROD);
    for request in world.pending(&run).await {
        world.engine.respond(&World::user("ann"), &request.id, &approve(&request), None).await.unwrap();
    }
    world.models.reply(vec![say("ok")]);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert_eq!(world.tools.count("deploy"), 1);
    assert!(
        matches!(replanned(&world, &run).as_slice(), [Plan::Deny { because }] if because.contains("production is frozen"))
    );
    assert!(last_prompt(&world).contains("production is frozen"), "{}", last_prompt(&world));
    let entries = audited(&world, &run);
    let dispatched = entries.iter().filter_map(|entry| match &entry.fact {
        Fact::CallDispatched { calls } => Some(calls.len()),
        _ => None,
    });
    assert_eq!(dispatched.sum::<usize>(), 1);
}

/// E5, case 12: a person's edit is held to the deny rules, those of the run and those of today; then the
/// request still waits.
#[tokio::test]
async fn e5_case_12_an_edit_is_no_way_around_a_deny_rule() {
    for (frozen, today) in [(NO_PROD, ""), ("", NO_PROD)] {
        let world = World::default();
        let run = world.start(agent("ops", &format!("{AGENT}{frozen}"))).await;
        world.models.reply(vec![call("a", "deploy", r#"{"env":"dev"}"#)]);
        step(&world, &run).await;
        deploy(&world, today);
        let request = world.pending(&run).await.remove(0);
        let edit = |env: &str| Answer {
            digest: Some(request.digest.to_string()),
            arguments: Some(json!({"env": env})),
            ..answer(DecisionKind::Edit)
        };
        let ann = World::user("ann");
        let refused = world.engine.respond(&ann, &request.id, &edit("PROD-eu"), None).await;
        let told =
            matches!(&refused, Err(Problem::Refused(Refusal::BadEdit(why))) if why.contains("production is frozen"));
        assert!(told, "{refused:?}");
        assert_eq!(world.pending(&run).await.len(), 1);
        world.engine.respond(&ann, &request.id, &edit("qa"), None).await.unwrap();
        world.models.reply(vec![say("ok")]);
        step(&world, &run).await;
        assert_eq!((world.tools.count("deploy"), replanned(&world, &run)), (1, vec![]));
    }
}

/// E5, case 12: what was allowed as edited and is forbidden by now does not run either: what counts is what
/// would run.
#[tokio::test]
async fn e5_case_12_the_final_arguments_are_checked_when_the_call_is_made() {
    let world = World::default();
    let run = world.start(agent("ops", AGENT)).await;
    world.models.reply(vec![call("a", "deploy", r#"{"env":"dev"}"#)]);
    step(&world, &run).await;
    let request = world.pending(&run).await.remove(0);
    let edit = Answer {
        digest: Some(request.digest.to_string()),
        arguments: Some(json!({"env": "prod"})),
        ..answer(DecisionKind::Edit)
    };
    world.engine.respond(&World::user("ann"), &request.id, &edit, None).await.unwrap();
    deploy(&world, NO_PROD);
    world.models.reply(vec![say("ok")]);
    step(&world, &run).await;
    assert_eq!((world.tools.count("deploy"), replanned(&world, &run).len()), (0, 1));
    audited(&world, &run);
}

/// Nothing more is written where nothing changes: a rule that is not about the call, or one on the floor that
/// a person has answered already.
#[tokio::test]
async fn x3_no_write_where_the_rules_of_today_say_the_same() {
    let floor = "[[policy.floor]]\ntool = \"deploy\"\nbecause = \"ask\"\n";
    for rules in ["", NO_PING, floor] {
        let world = World::default();
        let run = world.start(agent("ops", AGENT)).await;
        world.models.reply(vec![call("a", "deploy", r#"{"env":"prod"}"#)]);
        step(&world, &run).await;
        deploy(&world, rules);
        let request = world.pending(&run).await.remove(0);
        world.engine.respond(&World::user("ann"), &request.id, &approve(&request), None).await.unwrap();
        world.models.reply(vec![say("ok")]);
        step(&world, &run).await;
        assert_eq!((world.tools.count("deploy"), replanned(&world, &run)), (1, vec![]), "{rules}");
    }
}

/// What is forbidden by the run's own frozen rules stays so when a deploy takes the rule away.
#[tokio::test]
async fn a7_a_rule_that_was_frozen_outlives_the_file() {
    let world = World::default();
    let run = world.start(agent("ops", &format!("{AGENT}{NO_PROD}"))).await;
    deploy(&world, "");
    world.models.reply(vec![call("a", "deploy", r#"{"env":"prod"}"#)]);
    world.models.reply(vec![say("ok")]);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert_eq!(world.tools.count("deploy"), 0);
}

/// A reply that comes after the deploy is planned by both sets of rules.
#[tokio::test]
async fn a7_a_reply_is_planned_by_the_rules_of_today_too() {
    let world = World::default();
    let run = world.start(agent("ops", AGENT)).await;
    deploy(&world, ASK_PING);
    world.models.reply(vec![call("a", "ping", "{}")]);
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    assert_eq!(world.tools.count("ping"), 0);
    assert!(world.pending(&run).await[0].reasons[0].contains("it is noisy"));
}

/// A call that was lost is tried again only if it still may run. It may have run, so it is not called
/// "not run": its outcome is not known.
#[tokio::test(start_paused = true)]
async fn i8_a_lost_call_that_may_not_run_any_more_stays_unknown() {
    for (rules, asks) in [(NO_PING, false), (ASK_PING, true)] {
        let world = World::default();
        let run = world.start(agent("ops", AGENT)).await;
        let agents = world.agents.clone();
        world.tools.on("ping", move |_| {
            agents.add(agent("ops", &format!("{AGENT}{rules}")));
            CallResult::Unknown { why: "no answer".into() }
        });
        world.models.reply(vec![call("a", "ping", "{}")]);
        world.models.reply(vec![say("ok")]);
        step(&world, &run).await;
        assert_eq!((world.tools.count("ping"), replanned(&world, &run).len()), (1, 1), "{rules}");
        if asks {
            let request = world.pending(&run).await.remove(0);
            assert_eq!(request.kind, RequestKind::Uncertain);
            let abort = Answer { resolution: Some(Resolution::Abort), ..answer(DecisionKind::Settle) };
            world.engine.respond(&World::user("ann"), &request.id, &abort, None).await.unwrap();
            step(&world, &run).await;
        }
        assert_eq!(world.status(&run).await, Status::Completed);
        assert!(!last_prompt(&world).contains("was not run"), "{}", last_prompt(&world));
        audited(&world, &run);
    }
}

/// E7: a late approval of what is forbidden by now is told like any late ending.
#[tokio::test]
async fn e7_a_late_approval_of_what_is_forbidden_is_told() {
    let world = World::default();
    let run = world.start(agent("ops", AGENT)).await;
    world.models.reply(vec![call("a", "deploy", r#"{"env":"prod"}"#)]);
    world.models.reply(vec![say("I went on")]);
    step(&world, &run).await;
    world.clock.advance(60_001);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    deploy(&world, NO_PROD);
    let request = world.pending(&run).await.remove(0);
    world.engine.respond(&World::user("ann"), &request.id, &approve(&request), None).await.unwrap();
    world.models.reply(vec![say("I see")]);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert_eq!(world.tools.count("deploy"), 0);
    assert!(last_prompt(&world).contains("production is frozen"), "{}", last_prompt(&world));
    audited(&world, &run);
}

/// A change of mode plans by the rules of today as well.
#[tokio::test]
async fn a7_a_wider_mode_does_not_pass_the_rules_of_today() {
    let world = World::default();
    let run = world.start(agent("ops", AGENT)).await;
    world.engine.pause(&World::user("ann"), &run, None).await.unwrap();
    world.engine.resume(&World::user("ann"), &run, None).await.unwrap();
    let engine = world.engine.clone();
    let paused = run.clone();
    // The run is paused when the reply comes: its calls are planned and wait.
    world.models.before_reply(move || async move {
        engine.pause(&World::user("ann"), &paused, None).await.unwrap();
    });
    world.models.reply(vec![call("a", "deploy", r#"{"env":"prod"}"#), call("b", "wipe", "{}")]);
    step(&world, &run).await;
    let no_wipe = "[[policy.floor]]\ntool = \"wipe\"\nbecause = \"gone is gone\"\n";
    deploy(&world, &format!("{NO_PROD}{no_wipe}"));
    world.engine.set_mode(&World::user("ann"), &run, Mode::Yolo, None).await.unwrap();
    world.engine.resume(&World::user("ann"), &run, None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    assert_eq!((world.tools.count("deploy"), world.tools.count("wipe")), (0, 0));
    assert!(world.pending(&run).await[0].reasons[0].contains("gone is gone"));
    assert_eq!(Policy::default(), agent("ops", AGENT).policy);
}

/// I7: what a person approved runs, also after somebody narrowed the mode: a mode decides nothing that a person
/// has decided. Only a deny rule is above their word.
#[tokio::test]
async fn a7_a_narrower_mode_does_not_take_an_approval_back() {
    let world = World::default();
    let run = world.start(agent("ops", AGENT)).await;
    world.models.reply(vec![call("a", "deploy", r#"{"env":"dev"}"#)]);
    step(&world, &run).await;
    let request = world.pending(&run).await.remove(0);
    let ann = World::user("ann");
    world.engine.set_mode(&ann, &run, Mode::Plan, None).await.unwrap();
    world.engine.respond(&ann, &request.id, &approve(&request), None).await.unwrap();
    world.models.reply(vec![say("ok")]);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert_eq!(world.tools.count("deploy"), 1);
    assert_eq!(replanned(&world, &run), []);
    audited(&world, &run);
}
