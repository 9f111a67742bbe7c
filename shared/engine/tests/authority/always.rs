//! What a person lets run for good (A12): its like is not asked about again, where they said, until they take it
//! back; and never past a deny rule or the floor.

use dormouse_domain::{
    Fact, Mode, RunId, audit,
    decide::{Answer, Refusal},
    plan::Plan,
    policy::StandingRule,
    request::{DecisionKind, Request, RuleScope},
};
use dormouse_engine::{IdempotencyKey, Problem, RulesOf, StepReport};
use dormouse_testkit::{Fault, World, agent, answer, call, say};

use crate::{AGENT, step, waiting};

const DEV: &str = r#"{"env":"dev"}"#;
const DENIES_DEV: &str = "[[policy.deny]]\ntool = \"deploy\"\nargs = { env = \"dev\" }\nbecause = \"dev is frozen\"\n";
const GUARDS_DEV: &str =
    "[[policy.floor]]\ntool = \"deploy\"\nargs = { env = \"dev\" }\nbecause = \"dev is precious\"\n";

fn always(request: &Request, scope: RuleScope) -> Answer {
    Answer { digest: Some(request.digest.to_string()), scope: Some(scope), ..answer(DecisionKind::Always) }
}

/// Ann lets this call run for good.
async fn allow(world: &World, request: &Request, scope: RuleScope) {
    world.engine.respond(&World::user("ann"), &request.id, &always(request, scope), None).await.unwrap();
}

/// A run in which Ann let `deploy` to `dev` run for good, and which is done.
async fn allowed(world: &World, file: &str, scope: RuleScope) -> (RunId, Request) {
    let (run, request) = waiting(world, file, "deploy", DEV).await;
    allow(world, &request, scope).await;
    world.models.reply(vec![say("ok")]);
    assert_eq!(step(world, &run).await, StepReport::Finished);
    assert_eq!(world.tools.count("deploy"), 1);
    (run, request)
}

/// A further run, as `user`, of the agent `name`, whose model makes this call; what came of its first step.
async fn again(world: &World, user: &str, name: &str, file: &str, arguments: &str) -> (RunId, StepReport) {
    world.agents.add(agent(name, file));
    let start = dormouse_engine::StartRun {
        agent: name.to_owned(),
        input: vec![dormouse_domain::message::Content::text("go")],
        mode: None,
        metadata: std::collections::BTreeMap::new(),
    };
    let run = world.engine.start(&World::user(user), start, None).await.unwrap().run_id;
    world.models.reply(vec![call("b", "deploy", arguments)]);
    world.models.reply(vec![say("ok")]);
    let report = step(world, &run).await;
    (run, report)
}

async fn rules(world: &World, user: &str, of: RulesOf) -> Vec<StandingRule> {
    world.engine.rules(&World::user(user), &of).await.unwrap()
}

fn named_rule(world: &World, run: &RunId) -> Option<String> {
    world.memory.journal(run).into_iter().find_map(|entry| match entry.fact {
        Fact::ModelReplied { calls, .. } => calls.iter().find_map(Plan::rule).map(str::to_owned),
        _ => None,
    })
}

fn audited(world: &World, run: &RunId, file: &str) {
    let found = audit::journal(run, &std::sync::Arc::new(agent("ops", file)), &world.memory.journal(run)).unwrap();
    assert_eq!(found, []);
}

/// In this run, the very same call; the journal says by which rule, and the rule from which request.
#[tokio::test]
async fn a12_a_call_like_it_is_not_asked_about_again_in_this_run() {
    let world = World::default();
    let (run, request) = waiting(&world, AGENT, "deploy", DEV).await;
    assert_eq!(request.decisions, DecisionKind::offered_for_good());
    allow(&world, &request, RuleScope::Run).await;
    world.models.reply(vec![call("b", "deploy", DEV), call("c", "deploy", r#"{"env":"prod"}"#)]);
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    assert_eq!(world.tools.count("deploy"), 2);
    let asks = world.pending(&run).await;
    assert_eq!(asks.iter().map(|request| request.arguments["env"].clone()).collect::<Vec<_>>(), ["prod"]);

    let [rule] = rules(&world, "ann", RulesOf::Run(run.clone())).await.try_into().unwrap();
    assert_eq!((&rule.from, &rule.by, rule.tool.as_str()), (&request.id, &World::user("ann").principal, "deploy"));
    assert_eq!(rule.about, r#"deploy(env: "dev")"#);
    assert_eq!(named_rule(&world, &run), Some(rule.id.clone()));
    audited(&world, &run, AGENT);
    // It is this run's alone.
    assert_eq!(again(&world, "ann", "ops", AGENT, DEV).await.1, StepReport::Suspended);
    assert_eq!(rules(&world, "ann", RulesOf::Owner(None)).await, []);
}

/// For all runs of this owner with this agent: not another owner's, not another agent's.
#[tokio::test]
async fn a12_an_owners_rule_is_for_their_runs_of_this_agent() {
    let world = World::default();
    let (first, _) = allowed(&world, AGENT, RuleScope::Owner).await;
    let (run, report) = again(&world, "ann", "ops", AGENT, DEV).await;
    assert_eq!((report, world.tools.count("deploy")), (StepReport::Finished, 2));
    audited(&world, &run, AGENT);
    assert!(named_rule(&world, &run).is_some_and(|rule| rule.contains(first.as_str())));
    for (user, name) in [("bob", "ops"), ("ann", "other")] {
        let world = World::default();
        allowed(&world, AGENT, RuleScope::Owner).await;
        assert_eq!(again(&world, user, name, AGENT, DEV).await.1, StepReport::Suspended, "{user} {name}");
        assert_eq!(world.tools.count("deploy"), 1);
    }
    assert_eq!(rules(&world, "bob", RulesOf::Owner(Some("ann".into()))).await, [], "not Bob's to see");
}

/// For all runs of an agent only approvers can speak, who are there for it.
#[tokio::test]
async fn a12_an_agents_rule_takes_its_approvers() {
    let guarded = format!("approvers = {{ group = \"sre\" }}\n{AGENT}");
    let world = World::default();
    let (_, request) = waiting(&world, AGENT, "deploy", DEV).await;
    let refused =
        world.engine.respond(&World::user("ann"), &request.id, &always(&request, RuleScope::Agent), None).await;
    assert!(matches!(refused, Err(Problem::Refused(Refusal::Invalid(_)))), "{refused:?}");
    assert_eq!(world.pending(&request.id.run).await.len(), 1);

    let world = World::default();
    let run = world.start(agent("ops", &guarded)).await;
    world.models.reply(vec![call("a", "deploy", DEV)]);
    step(&world, &run).await;
    let request = world.pending(&run).await.remove(0);
    let sue = World::member("sue", &["sre"]);
    world.engine.respond(&sue, &request.id, &always(&request, RuleScope::Agent), None).await.unwrap();
    world.models.reply(vec![say("ok")]);
    step(&world, &run).await;
    audited(&world, &run, &guarded);
    assert_eq!(again(&world, "bob", "ops", &guarded, DEV).await.1, StepReport::Finished);
    assert_eq!(world.tools.count("deploy"), 2);
    // Any of the group takes it back, also who did not make it; nobody else does.
    let of = RulesOf::Agent("ops".into());
    let id = world.engine.rules(&World::member("max", &["sre"]), &of).await.unwrap().remove(0).id;
    assert!(matches!(world.engine.revoke(&World::user("bob"), &id).await, Err(Problem::NotFound("rule"))));
    let revoked = world.engine.revoke(&World::member("max", &["sre"]), &id).await.unwrap();
    assert_eq!(revoked.revoked.map(|revoked| revoked.by), Some(World::user("max").principal));
    assert_eq!(again(&world, "bob", "ops", &guarded, DEV).await.1, StepReport::Suspended);
}

/// A rule is no way around approvers whom the agent file has named since: it stands only if they could have made it.
#[tokio::test]
async fn a12_a16_a_rule_stands_only_where_its_maker_decides() {
    let guarded = format!("approvers = {{ group = \"sre\" }}\n{AGENT}");
    let others = format!("approvers = {{ group = \"sre\", not_requester = true }}\n{AGENT}");
    // Ann decided for herself; then a group decides.
    let world = World::default();
    allowed(&world, AGENT, RuleScope::Owner).await;
    assert_eq!(again(&world, "ann", "ops", &guarded, DEV).await.1, StepReport::Suspended);
    // Ann decided as one of the group; then the requester must not.
    for (by, file, expected) in [
        ("ann", &guarded, StepReport::Finished),
        ("ann", &others, StepReport::Suspended),
        ("sue", &others, StepReport::Finished),
        ("sue", &guarded.replace("sre", "dba"), StepReport::Suspended),
    ] {
        let world = World::default();
        let run = world.start(agent("ops", &guarded)).await;
        world.models.reply(vec![call("a", "deploy", DEV)]);
        step(&world, &run).await;
        let request = world.pending(&run).await.remove(0);
        let member = World::member(by, &["sre"]);
        world.engine.respond(&member, &request.id, &always(&request, RuleScope::Owner), None).await.unwrap();
        world.models.reply(vec![say("ok")]);
        step(&world, &run).await;
        assert_eq!(again(&world, "ann", "ops", file, DEV).await.1, expected, "{by} {file}");
    }
}

/// What the floor asks about is not let run for good, and what is on the floor since asks all the same.
#[tokio::test]
async fn a12_no_rule_passes_the_floor() {
    let world = World::default();
    let guarded = format!("{AGENT}{GUARDS_DEV}");
    let (_, request) = waiting(&world, &guarded, "deploy", DEV).await;
    assert!(!request.decisions.contains(&DecisionKind::Always) && request.always.is_none());
    let refused = world.engine.respond(&World::user("ann"), &request.id, &always(&request, RuleScope::Run), None).await;
    assert!(matches!(refused, Err(Problem::Refused(Refusal::NotOffered { .. }))), "{refused:?}");

    let world = World::default();
    allowed(&world, AGENT, RuleScope::Owner).await;
    let (run, report) = again(&world, "ann", "ops", &guarded, DEV).await;
    assert_eq!((report, world.tools.count("deploy")), (StepReport::Suspended, 1));
    assert!(world.pending(&run).await[0].reasons[0].contains("dev is precious"));
}

/// Nor does one pass a deny rule, or mode `plan`.
#[tokio::test]
async fn a12_no_rule_passes_what_is_forbidden() {
    let world = World::default();
    allowed(&world, AGENT, RuleScope::Owner).await;
    for file in [format!("{AGENT}{DENIES_DEV}"), format!("mode = \"plan\"\n{AGENT}")] {
        let (_, report) = again(&world, "ann", "ops", &file, DEV).await;
        assert_eq!((report, world.tools.count("deploy")), (StepReport::Finished, 1));
    }
}

/// Taken back, it allows nothing from the next call on: also not what it had allowed and what has not been made.
#[tokio::test]
async fn a12_revoking_takes_effect_at_the_next_call() {
    let world = World::default();
    let (_, request) = allowed(&world, AGENT, RuleScope::Owner).await;
    let ann = World::user("ann");
    let id = format!("owner.{}", request.id);
    // A run whose call the rule allows, and which is paused before it is made.
    let paused = world.start(agent("ops", AGENT)).await;
    let (engine, run) = (world.engine.clone(), paused.clone());
    world.models.before_reply(move || async move {
        engine.pause(&World::user("ann"), &run, None).await.unwrap();
    });
    world.models.reply(vec![call("a", "deploy", DEV)]);
    step(&world, &paused).await;
    assert_eq!(named_rule(&world, &paused), Some(id.clone()));

    let first = world.engine.revoke(&ann, &id).await.unwrap();
    assert_eq!(world.engine.revoke(&ann, &id).await.unwrap(), first, "once more is harmless");
    world.engine.resume(&ann, &paused, None).await.unwrap();
    assert_eq!(step(&world, &paused).await, StepReport::Suspended);
    assert_eq!(world.tools.count("deploy"), 1);
    audited(&world, &paused, AGENT);
    assert_eq!(again(&world, "ann", "ops", AGENT, DEV).await.1, StepReport::Suspended);
    let listed = rules(&world, "ann", RulesOf::Owner(None)).await;
    assert!(listed[0].revoked.is_some(), "it is still listed: {listed:?}");
    // It can be said again, from another request.
    let request = world.pending(&paused).await.remove(0);
    allow(&world, &request, RuleScope::Owner).await;
    assert_eq!(rules(&world, "ann", RulesOf::Owner(None)).await.len(), 2);
}

/// A change of mode plans what waits by the rules too.
#[tokio::test]
async fn a12_a_narrower_mode_leaves_what_a_rule_allows() {
    let world = World::default();
    allowed(&world, AGENT, RuleScope::Owner).await;
    let ann = World::user("ann");
    let run = world.start(agent("ops", &format!("mode = \"yolo\"\n{AGENT}"))).await;
    let (engine, paused) = (world.engine.clone(), run.clone());
    world.models.before_reply(move || async move {
        engine.pause(&World::user("ann"), &paused, None).await.unwrap();
    });
    world.models.reply(vec![call("a", "deploy", DEV), call("b", "deploy", r#"{"env":"qa"}"#)]);
    step(&world, &run).await;
    world.engine.set_mode(&ann, &run, Mode::Normal, None).await.unwrap();
    world.engine.resume(&ann, &run, None).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    assert_eq!(world.tools.count("deploy"), 2, "dev runs by the rule, qa asks");
    assert_eq!(world.pending(&run).await.len(), 1);
}

/// A pattern of the agent file covers what it matches, and is on offer only where it does; not for a command.
#[tokio::test]
async fn a12_a_declared_pattern() {
    let file = r#"
        models = ["scripted:x"]
        [[tools]]
        name = "deploy"
        http = { url = "http://tools/deploy" }
        always = { qa = { env = "qa-*" } }
    "#;
    let world = World::default();
    let (_, request) = waiting(&world, file, "deploy", DEV).await;
    assert_eq!(request.always.map(|offer| offer.patterns), Some(vec![]));
    let world = World::default();
    let (run, request) = waiting(&world, file, "deploy", r#"{"env":"qa-1"}"#).await;
    let pattern = Answer { pattern: Some("qa".into()), ..always(&request, RuleScope::Run) };
    let other = Answer { pattern: Some("no".into()), ..pattern.clone() };
    let refused = world.engine.respond(&World::user("ann"), &request.id, &other, None).await;
    assert!(matches!(refused, Err(Problem::Refused(Refusal::Invalid(_)))), "{refused:?}");
    world.engine.respond(&World::user("ann"), &request.id, &pattern, None).await.unwrap();
    world.models.reply(vec![
        call("b", "deploy", r#"{"env":"qa-2"}"#),
        call("c", "deploy", r#"{"env":"prod"}"#),
        // An argument of which the pattern says nothing.
        call("d", "deploy", r#"{"env":"qa-3","force":true}"#),
    ]);
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    assert_eq!((world.tools.count("deploy"), world.pending(&run).await.len()), (2, 2));
    audited(&world, &run, file);
}

/// The rule is made with the decision or not at all, whatever becomes of the write or its reply (I5, B13).
#[tokio::test(start_paused = true)]
async fn a12_a_rule_exists_exactly_if_its_decision_does() {
    for (fault, made) in [(Fault::Refused, false), (Fault::LostBefore, false), (Fault::LostAfter, true)] {
        let world = World::default();
        let (run, request) = waiting(&world, AGENT, "deploy", DEV).await;
        let ann = World::user("ann");
        let key = IdempotencyKey { key: "k".into(), fingerprint: request.digest.clone() };
        world.store.inject(&[fault]);
        let yes = always(&request, RuleScope::Owner);
        let told = world.engine.respond(&ann, &request.id, &yes, Some(&key)).await;
        assert!(told.is_err(), "{fault:?} {told:?}");
        let decided = world.pending(&run).await.is_empty();
        assert_eq!((decided, rules(&world, "ann", RulesOf::Owner(None)).await.len()), (made, usize::from(made)));
        // The same again, under the same key, is done once.
        for _ in 0..2 {
            world.engine.respond(&ann, &request.id, &yes, Some(&key)).await.unwrap();
        }
        assert_eq!(rules(&world, "ann", RulesOf::Owner(None)).await.len(), 1);
    }
    // Whoever comes second makes none.
    let world = World::default();
    let (run, request) = waiting(&world, AGENT, "deploy", DEV).await;
    let deny = answer(DecisionKind::Deny);
    world.engine.respond(&World::user("ann"), &request.id, &deny, None).await.unwrap();
    let late = world.engine.respond(&World::user("ann"), &request.id, &always(&request, RuleScope::Run), None).await;
    assert!(matches!(late, Err(Problem::Refused(Refusal::AlreadyDecided(_)))), "{late:?}");
    assert_eq!(rules(&world, "ann", RulesOf::Run(run)).await, []);
}

/// All rules of a scope are read with each call that asks, so they are bounded; who is full can still approve.
#[tokio::test]
async fn a12_a_scope_takes_200_rules() {
    let world = World::default();
    let run = world.start(agent("ops", &format!("{AGENT}[limits]\nturns = 500\n"))).await;
    let allow_next = async |n: usize| {
        world.models.reply(vec![call("a", "deploy", &format!(r#"{{"env":"e{n}"}}"#))]);
        step(&world, &run).await;
        let request = world.pending(&run).await.remove(0);
        let answer = always(&request, RuleScope::Run);
        (world.engine.respond(&World::user("ann"), &request.id, &answer, None).await, request)
    };
    for n in 0..200 {
        allow_next(n).await.0.unwrap();
    }
    let (refused, request) = allow_next(200).await;
    assert!(matches!(&refused, Err(Problem::WrongState(why)) if why.contains("200 standing rules")), "{refused:?}");
    let id = rules(&world, "ann", RulesOf::Run(run.clone())).await[0].id.clone();
    world.engine.revoke(&World::user("ann"), &id).await.unwrap();
    allow(&world, &request, RuleScope::Run).await;
}

/// I11: rules that cannot be read allow nothing. A person is asked; the reply is not lost.
#[tokio::test]
async fn i11_rules_that_cannot_be_read_allow_nothing() {
    let world = World::default();
    allowed(&world, AGENT, RuleScope::Owner).await;
    world.store.hide_rules();
    let (run, report) = again(&world, "ann", "ops", AGENT, DEV).await;
    assert_eq!((report, world.tools.count("deploy")), (StepReport::Suspended, 1));
    assert_eq!(world.pending(&run).await.len(), 1);
}

/// What is no rule's name is no rule.
#[tokio::test]
async fn a12_there_is_no_such_rule() {
    let world = World::default();
    let (run, request) = allowed(&world, AGENT, RuleScope::Run).await;
    let never = format!("owner.{}", request.id);
    let unknown_run = format!("run.{}", request.id.to_string().replace("run_0", "run_f"));
    for id in ["", "run", "run.", "everybody.x", run.as_str(), &request.id.to_string(), &never, &unknown_run] {
        let refused = world.engine.revoke(&World::user("ann"), id).await;
        assert!(matches!(refused, Err(Problem::NotFound("rule"))), "{id}: {refused:?}");
    }
}
