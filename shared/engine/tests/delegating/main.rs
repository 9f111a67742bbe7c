//! A run has another agent do a task, in a run of its own (D5, D6).

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test says what is wrong by stopping"
)]

mod bounds;
mod crashing;

use dormouse_domain::{
    CallKey, Caller, Entry, Fact, Mode, RunId, audit,
    decide::{Answer, Refusal},
    entry::CallResult,
    kv::KvPatch,
    message::Content,
    request::{DecisionKind, Request, RequestKind},
    run::Status,
};
use dormouse_engine::{Problem, StepReport, ports::ToolReply};
use dormouse_testkit::{World, agent, answer, approve, call, say};

pub(crate) const LEAD: &str = r#"
    models = ["scripted:x"]
    decide_within = "1h"
    [[tools]]
    builtin = "delegate"
    agents = ["helper", "other"]
    [[tools]]
    name = "deploy"
    http = { url = "http://tools/deploy" }
"#;
pub(crate) const HELPER: &str = r#"
    models = ["scripted:y"]
    decide_within = "1h"
    [[tools]]
    name = "wipe"
    http = { url = "http://tools/wipe" }
    [[tools]]
    name = "look"
    kind = "read"
    http = { url = "http://tools/look" }
    [[tools]]
    name = "note"
    kind = "edit"
    http = { url = "http://tools/note" }
    [[tools]]
    builtin = "ask_user"
"#;

pub(crate) fn ann() -> Caller {
    World::user("ann")
}

pub(crate) async fn step(world: &World, run: &RunId) -> StepReport {
    world.engine.step(run, world.deadline()).await.unwrap()
}

/// The agents, as these files say.
pub(crate) fn agents(world: &World, lead: &str, helper: &str) {
    world.agents.add(agent("helper", helper));
    world.agents.add(agent("other", helper));
    world.agents.add(agent("lead", lead));
}

/// A run of the lead's, whose model delegates these tasks at once, and the names of their runs.
pub(crate) async fn delegating(world: &World, lead: &str, helper: &str, tasks: &[&str]) -> (RunId, Vec<RunId>) {
    agents(world, lead, helper);
    let run = world.start(agent("lead", lead)).await;
    world.models.reply(tasks.iter().map(|task| delegate(task, "helper")).collect());
    assert_eq!(step(world, &run).await, StepReport::Suspended);
    let reply = world.memory.kinds(&run).iter().position(|kind| *kind == "ModelReplied").unwrap();
    let child = |ordinal| RunId::of_child(&run, CallKey::new(u32::try_from(reply).unwrap(), ordinal));
    let children = (0..).take(tasks.len()).map(child).collect();
    (run, children)
}

pub(crate) fn delegate(task: &str, to: &str) -> dormouse_domain::message::ReplyBlock {
    call(task, "delegate", &serde_json::json!({ "agent": to, "task": task }).to_string())
}

pub(crate) async fn audited(world: &World, run: &RunId) -> Vec<Entry> {
    let entries = world.memory.journal(run);
    let definition = world.engine.definition(&ann(), run).await.unwrap();
    assert_eq!(audit::journal(run, &definition, &entries).unwrap(), [], "{entries:#?}");
    entries
}

pub(crate) async fn respond(world: &World, by: &Caller, request: &Request, answer: &Answer) -> Result<(), Problem> {
    world.engine.respond(by, &request.id, answer, None).await.map(drop)
}

pub(crate) fn last_prompt(world: &World) -> String {
    world.models.asked().pop().unwrap()
}

/// The parent costs nothing meanwhile, and reads the child's answer as the call's result.
#[tokio::test]
async fn d6_the_parent_suspends_and_is_woken_by_the_answer() {
    let world = World::default();
    let (run, children) = delegating(&world, LEAD, HELPER, &["find the leak"]).await;
    let child = &children[0];
    let view = world.view(&run).await;
    assert_eq!((view.item.status, view.item.due_at, view.pending.len()), (Status::Waiting, None, 0));
    assert!(world.queue.take().iter().any(|(woken, _)| woken == child));
    assert_eq!(step(&world, &run).await, StepReport::Idle, "nothing to do until the child is done");

    let item = world.view(child).await.item;
    assert_eq!((item.owner, item.agent.as_str(), item.title.as_str()), (ann().principal, "helper", "find the leak"));
    assert_eq!(item.parent.unwrap().run_id, run);
    world.models.reply(vec![say("it is in the pump")]);
    assert_eq!(step(&world, child).await, StepReport::Finished);
    assert!(last_prompt(&world).contains("find the leak") && !last_prompt(&world).contains("go"), "only the task");
    assert!(world.queue.take().iter().any(|(woken, _)| *woken == run), "the parent is woken");
    assert_eq!(world.status(&run).await, Status::Queued);

    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert!(last_prompt(&world).contains("it is in the pump"));
    for run in [&run, child] {
        audited(&world, run).await;
        assert_eq!(world.status(run).await, Status::Completed);
    }
    // What the child did is the child's, and was paid once.
    assert_eq!(world.view(&run).await.item.turns, 2);
}

/// Case 34: a child that waits twice, and two children of one agent: each answer goes where it belongs.
#[tokio::test]
async fn d5_case_34_approvals_of_children_are_routed_right() {
    let world = World::default();
    let (run, children) = delegating(&world, LEAD, HELPER, &["one", "two"]).await;
    for child in &children {
        world.models.reply(vec![call("w1", "wipe", "{}")]);
        assert_eq!(step(&world, child).await, StepReport::Suspended);
    }
    for round in 1..=2 {
        for (n, child) in children.iter().enumerate().rev() {
            let inbox = world.engine.inbox(&ann(), None, 20).await.unwrap().items;
            let request = inbox.into_iter().find(|request| request.id.run == *child).unwrap();
            assert_eq!(request.agents, ["lead", "helper"], "the chain of agents");
            assert_eq!(request.kind, RequestKind::Approval);
            respond(&world, &ann(), &request, &approve(&request)).await.unwrap();
            let last = vec![say(&format!("child {n} is done"))];
            world.models.reply(if round == 1 { vec![call("w2", "wipe", "{}")] } else { last });
            step(&world, child).await;
        }
    }
    assert_eq!(world.tools.count("wipe"), 4);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let told = last_prompt(&world);
    let places = ["child 0 is done", "child 1 is done"].map(|answer| told.find(answer).unwrap());
    assert!(places[0] < places[1], "in the order of the calls: {told}");
    audited(&world, &run).await;
    for child in &children {
        audited(&world, child).await;
    }
}

/// What tools keep for a child is the child's, whatever its parent and its siblings keep.
#[tokio::test]
async fn a14_a_child_has_its_own_state_and_gets_it_back() {
    let world = World::default();
    world.tools.on("look", |made| {
        let seen = made.state.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",");
        let mut kv = KvPatch::new();
        kv.set("who", &serde_json::json!(made.run.to_string())).unwrap();
        let result = CallResult::Returned { content: vec![Content::text(format!("saw [{seen}]"))], is_error: false };
        ToolReply { kv, ..result.into() }
    });
    let lead = format!("{LEAD}\n[[tools]]\nname = \"look\"\nkind = \"read\"\nhttp = {{ url = \"http://tools/look\" }}");
    agents(&world, &lead, HELPER);
    let run = world.start(agent("lead", &lead)).await;
    world.models.reply(vec![call("l", "look", "{}")]);
    world.models.reply(vec![delegate("one", "helper"), delegate("two", "helper")]);
    step(&world, &run).await;
    for ordinal in [0, 1] {
        let child = RunId::of_child(&run, CallKey::new(4, ordinal));
        world.models.reply(vec![call("a", "look", "{}"), call("w", "wipe", "{}")]);
        step(&world, &child).await;
        assert!(world.memory.kinds(&child).contains(&"CallFinished"));
        let request = world.pending(&child).await.remove(0);
        respond(&world, &ann(), &request, &approve(&request)).await.unwrap();
        world.models.reply(vec![call("b", "look", "{}")]);
        world.models.reply(vec![say("done")]);
        step(&world, &child).await;
        let told = last_prompt(&world);
        assert!(told.contains("saw []") && told.contains(&format!("saw [who=\\\"{child}\\\"]")), "{told}");
        audited(&world, &child).await;
    }
}

/// D5: a question is a typed error, unless the agent file lets children ask.
#[tokio::test]
async fn d5_a_child_is_to_be_autonomous() {
    let question = || vec![call("q", "ask_user", r#"{"question":"which?"}"#)];
    let world = World::default();
    let (_, children) = delegating(&world, LEAD, HELPER, &["choose"]).await;
    world.models.reply(question());
    assert_eq!(step(&world, &children[0]).await, StepReport::Finished);
    assert!(last_prompt(&world).contains("you work for another agent, and cannot ask a person here"));
    audited(&world, &children[0]).await;

    let lead = LEAD.replace("agents = [", "questions = true\nagents = [");
    let world = World::default();
    let (run, children) = delegating(&world, &lead, HELPER, &["choose"]).await;
    world.models.reply(question());
    assert_eq!(step(&world, &children[0]).await, StepReport::Suspended);
    let asked = world.pending(&children[0]).await.remove(0);
    let yes = Answer { answer: Some("the left".into()), ..answer(DecisionKind::Answer) };
    respond(&world, &ann(), &asked, &yes).await.unwrap();
    world.models.reply(vec![say("I took the left")]);
    assert_eq!(step(&world, &children[0]).await, StepReport::Finished);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert!(last_prompt(&world).contains("I took the left"));
}

/// A child that cannot go on is an answer too: an error that says what and where.
#[tokio::test]
async fn d6_a_child_that_fails_or_is_cancelled_says_so() {
    for cancels in [false, true] {
        let world = World::default();
        let (run, children) = delegating(&world, LEAD, HELPER, &["try"]).await;
        if cancels {
            world.engine.cancel(&ann(), &children[0], Some("no need".into()), None).await.unwrap();
        } else {
            world.models.fail(dormouse_domain::retry::FailureClass::Rejected);
        }
        assert_eq!(step(&world, &children[0]).await, StepReport::Finished);
        assert_eq!(step(&world, &run).await, StepReport::Finished);
        let told = last_prompt(&world);
        let expected = if cancels { "was cancelled: no need" } else { "failed: the model call failed" };
        assert!(told.contains(expected) && told.contains(&children[0].to_string()), "{told}");
        assert!(told.contains("is_error: true"), "{told}");
        audited(&world, &run).await;
        audited(&world, &children[0]).await;
    }
}

/// Cancelling goes down, to the children's children, and closes what they ask.
#[tokio::test]
async fn d6_b8_cancelling_goes_down() {
    let world = World::default();
    let helper = format!("{HELPER}\n[[tools]]\nbuiltin = \"delegate\"\nagents = [\"other\"]");
    let (run, children) = delegating(&world, LEAD, &helper, &["one", "two"]).await;
    world.models.reply(vec![delegate("deeper", "other")]);
    assert_eq!(step(&world, &children[0]).await, StepReport::Suspended);
    let grandchild = RunId::of_child(&children[0], CallKey::new(2, 0));
    for child in [&grandchild, &children[1]] {
        world.models.reply(vec![call("w", "wipe", "{}")]);
        assert_eq!(step(&world, child).await, StepReport::Suspended);
    }
    let waiting = world.pending(&grandchild).await.remove(0);
    assert_eq!(waiting.agents, ["lead", "helper", "other"]);
    world.engine.cancel(&ann(), &run, Some("enough".into()), None).await.unwrap();
    for run in [&run, &children[0], &children[1], &grandchild] {
        step(&world, run).await;
        assert_eq!(world.status(run).await, Status::Cancelled, "{run}");
        audited(&world, run).await;
    }
    let late = respond(&world, &ann(), &waiting, &approve(&waiting)).await;
    assert!(matches!(late, Err(Problem::Refused(Refusal::Gone(_)))), "{late:?}");
    assert_eq!(world.tools.count("wipe"), 0);
    let outcome = world.view(&grandchild).await.item.outcome.unwrap();
    assert!(outcome.why.contains("enough") && outcome.by == Some(ann().principal), "{outcome:?}");
}

/// Messages, pauses and forks: the parent waits for its child through all of them.
#[tokio::test]
async fn d6_what_people_do_meanwhile() {
    for on_message in ["queue", "supersede"] {
        let world = World::default();
        let lead = format!("on_message = \"{on_message}\"\n{LEAD}");
        let (run, children) = delegating(&world, &lead, HELPER, &["work"]).await;
        world.engine.add_message(&ann(), &run, vec![Content::text("how far?")], None).await.unwrap();
        assert_eq!(step(&world, &run).await, StepReport::Idle, "{on_message}");
        world.engine.pause(&ann(), &run, None).await.unwrap();
        world.models.reply(vec![say("all done")]);
        assert_eq!(step(&world, &children[0]).await, StepReport::Finished);
        assert_eq!(world.status(&run).await, Status::Paused);
        world.engine.resume(&ann(), &run, None).await.unwrap();
        assert_eq!(step(&world, &run).await, StepReport::Finished);
        let told = last_prompt(&world);
        assert!(told.find("all done").unwrap() < told.find("how far?").unwrap(), "{told}");
        audited(&world, &run).await;

        // A message to the child afterwards goes on with it, and its parent is not told a second time.
        world.engine.add_message(&ann(), &children[0], vec![Content::text("more?")], None).await.unwrap();
        world.models.reply(vec![say("no")]);
        assert_eq!(step(&world, &children[0]).await, StepReport::Finished);
        assert_eq!(step(&world, &run).await, StepReport::Idle);
        audited(&world, &children[0]).await;
    }
}

/// A fork of the parent does not wait for the other run's child, and one of the child answers to nobody.
#[tokio::test]
async fn d6_x8_forks_are_runs_of_their_own() {
    let world = World::default();
    let (run, children) = delegating(&world, LEAD, HELPER, &["work"]).await;
    let at = |run: &RunId| u32::try_from(world.memory.journal(run).len()).unwrap() - 1;
    let fork = |run: RunId, at: u32| {
        let how = dormouse_engine::ForkRun { at, message: None, mode: None, metadata: None };
        let engine = world.engine.clone();
        async move { engine.fork(&ann(), &run, how, None).await.unwrap().run_id }
    };
    let of_parent = fork(run.clone(), at(&run)).await;
    assert_eq!(step(&world, &of_parent).await, StepReport::Suspended);
    let asks = world.pending(&of_parent).await.remove(0);
    assert_eq!(asks.kind, RequestKind::Uncertain);
    audited(&world, &of_parent).await;

    let of_child = fork(children[0].clone(), 0).await;
    assert!(world.view(&of_child).await.item.parent.is_none());
    world.models.reply(vec![say("a fork's answer")]);
    assert_eq!(step(&world, &of_child).await, StepReport::Finished);
    assert_eq!(step(&world, &run).await, StepReport::Idle);
    audited(&world, &of_child).await;
    let told = |entry: &Entry| matches!(&entry.fact, Fact::CallFinished { used: Some(_), .. });
    assert!(!world.memory.journal(&run).iter().any(told));
    assert_eq!(world.view(&of_child).await.item.mode, Mode::Normal);
}
