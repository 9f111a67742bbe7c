//! A child never does, nor spends, what its parent may not.

use dormouse_domain::{
    CallKey, Mode, RunId,
    budget::Amounts,
    decide::{Answer, Refusal},
    request::{DecisionKind, RequestKind},
    run::Status,
};
use dormouse_engine::{Problem, StepReport};
use dormouse_testkit::{World, agent, answer, approve, call, say};

use super::{HELPER, LEAD, agents, ann, audited, delegate, delegating, last_prompt, respond, step};

/// Case 15: the narrower of its own and its parent's, at the start and later.
#[tokio::test]
async fn d5_case_15_a_childs_mode_is_never_wider() {
    let mode = |file: &str, mode: &str| format!("mode = \"{mode}\"\n{file}");
    for (of_lead, of_helper, expected) in [
        ("normal", "yolo", Mode::Normal),
        ("yolo", "normal", Mode::Normal),
        ("plan", "yolo", Mode::Plan),
        ("auto_edit", "yolo", Mode::AutoEdit),
        ("yolo", "yolo", Mode::Yolo),
    ] {
        let world = World::default();
        let (_, children) = delegating(&world, &mode(LEAD, of_lead), &mode(HELPER, of_helper), &["work"]).await;
        let child = &children[0];
        assert_eq!(world.view(child).await.item.mode, expected, "{of_lead} over {of_helper}");
        let lead: Mode = serde_json::from_value(of_lead.into()).unwrap();
        for wanted in [Mode::Plan, Mode::Normal, Mode::AutoEdit, Mode::Yolo] {
            let set = world.engine.set_mode(&ann(), child, wanted, None).await;
            assert_eq!(set.is_ok(), wanted <= lead, "{wanted} under {of_lead}: {set:?}");
        }
        audited(&world, child).await;
    }
}

/// A parent that is narrowed narrows what its children do from then on, at any depth.
#[tokio::test]
async fn d5_a_narrowed_parent_narrows_its_children() {
    let yolo = |file: &str| format!("mode = \"yolo\"\n{file}");
    let helper = yolo(&format!("{HELPER}\n[[tools]]\nbuiltin = \"delegate\"\nagents = [\"other\"]"));
    let world = World::default();
    let (run, children) = delegating(&world, &yolo(LEAD), &helper, &["work"]).await;
    world.models.reply(vec![delegate("deeper", "other")]);
    step(&world, &children[0]).await;
    let grandchild = RunId::of_child(&children[0], CallKey::new(2, 0));
    world.engine.set_mode(&ann(), &run, Mode::Normal, None).await.unwrap();
    world.models.reply(vec![call("n", "note", "{}"), call("l", "look", "{}")]);
    assert_eq!(step(&world, &grandchild).await, StepReport::Suspended);
    assert_eq!((world.tools.count("note"), world.tools.count("look")), (0, 1));
    let request = world.pending(&grandchild).await.remove(0);
    // Whom a person approved runs; what comes then is under the mode that holds then.
    respond(&world, &ann(), &request, &approve(&request)).await.unwrap();
    world.engine.set_mode(&ann(), &run, Mode::Plan, None).await.unwrap();
    world.models.reply(vec![call("w", "wipe", "{}")]);
    world.models.reply(vec![say("done")]);
    assert_eq!(step(&world, &grandchild).await, StepReport::Finished);
    assert_eq!((world.tools.count("note"), world.tools.count("wipe")), (1, 0));
    audited(&world, &grandchild).await;
}

/// The parent's rules and approvers hold for its children too.
#[tokio::test]
async fn d5_a_child_is_held_to_its_parents_rules() {
    let rules = "[[policy.deny]]\ntool = \"*\"\nargs = { env = \"prod\" }\nbecause = \"never\"\n\
                 [[policy.floor]]\ntool = \"*\"\nargs = { book = \"main\" }\nbecause = \"ask\"";
    let lead = format!("mode = \"yolo\"\napprovers = {{ group = \"sre\" }}\n{LEAD}\n{rules}");
    let world = World::default();
    let (_, children) = delegating(&world, &lead, &format!("mode = \"yolo\"\n{HELPER}"), &["work"]).await;
    let child = &children[0];
    world.models.reply(vec![call("w", "wipe", r#"{"env":"prod"}"#), call("n", "note", r#"{"book":"main"}"#)]);
    assert_eq!(step(&world, child).await, StepReport::Suspended);
    assert_eq!((world.tools.count("wipe"), world.tools.count("note")), (0, 0));
    let request = world.view(child).await.pending.remove(0);
    assert_eq!(request.approvers.as_ref().unwrap().group, "sre");
    let refused = respond(&world, &ann(), &request, &approve(&request)).await;
    assert!(matches!(refused, Err(Problem::Refused(Refusal::NotEntitled(_)))), "{refused:?}");
    respond(&world, &World::member("sue", &["sre"]), &request, &approve(&request)).await.unwrap();
    assert_eq!(step(&world, child).await, StepReport::Finished);
    assert!(last_prompt(&world).contains("never"));
    assert_eq!((world.tools.count("wipe"), world.tools.count("note")), (0, 1));
    audited(&world, child).await;
}

/// C5: what children use counts, and each has a share of what is left.
#[tokio::test]
async fn c5_ceilings_go_across_children() {
    let world = World::default();
    let lead = format!("limits = {{ turns = 7, tokens = 300 }}\n{LEAD}");
    let (run, children) = delegating(&world, &lead, HELPER, &["one", "two"]).await;
    // Six turns and 285 tokens are left, for two.
    for child in &children {
        for id in ["a", "b", "c"] {
            world.models.reply(vec![call(id, "look", "{}")]);
        }
        assert_eq!(step(&world, child).await, StepReport::Suspended);
        let request = world.pending(child).await.remove(0);
        let budget = request.budget.unwrap();
        assert_eq!((budget.ceilings.turns, budget.ceilings.tokens), (3, 142), "half of what is left");
        assert_eq!(request.agents, ["lead", "helper"]);
        respond(&world, &ann(), &request, &answer(DecisionKind::Stop)).await.unwrap();
        assert_eq!(step(&world, child).await, StepReport::Finished);
        audited(&world, child).await;
    }
    // Seven turns are used, one of them its own: the parent asks before it reads the answers.
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    let request = world.pending(&run).await.remove(0);
    assert_eq!((request.kind, request.budget.unwrap().used.turns), (RequestKind::Budget, 7));
    let more = Answer { by: Some(Amounts { turns: 1, ..Amounts::default() }), ..answer(DecisionKind::Raise) };
    respond(&world, &ann(), &request, &more).await.unwrap();
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert!(last_prompt(&world).contains("was cancelled: a ceiling was reached"));
    audited(&world, &run).await;
}

/// A chain has four agents at most, a task goes to an agent that is named, and 16 children work at once.
#[tokio::test]
async fn d6_depth_and_fan_out_are_bounded() {
    let world = World::default();
    let lead = LEAD.replace("[\"helper\", \"other\"]", "[\"lead\"]");
    world.agents.add(agent("lead", &lead));
    let mut run = world.start(agent("lead", &lead)).await;
    for _ in 0..3 {
        world.models.reply(vec![delegate("deeper", "lead")]);
        assert_eq!(step(&world, &run).await, StepReport::Suspended);
        run = RunId::of_child(&run, CallKey::new(2, 0));
    }
    world.models.reply(vec![delegate("deeper", "lead"), delegate("deeper", "nobody"), delegate(" ", "lead")]);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    let told = last_prompt(&world);
    for problem in ["4 agents at most", "there is no agent \\\"nobody\\\"", "the task is empty"] {
        assert!(told.contains(problem), "{problem} in {told}");
    }

    let world = World::default();
    let tasks: Vec<String> = (0..20).map(|n| format!("task {n}")).collect();
    let tasks: Vec<&str> = tasks.iter().map(String::as_str).collect();
    let (run, children) = delegating(&world, LEAD, HELPER, &tasks).await;
    let mut started = Vec::new();
    for child in &children {
        started.push(world.engine.run_view(&ann(), child).await.is_ok());
    }
    assert_eq!(started.iter().filter(|started| **started).count(), 16);
    assert_eq!(world.status(&run).await, Status::Waiting);
    for child in &children[..4] {
        assert_eq!(step(&world, child).await, StepReport::Finished);
    }
    assert_eq!(step(&world, &run).await, StepReport::Suspended, "the last four are started");
    for child in &children[4..] {
        assert_eq!(step(&world, child).await, StepReport::Finished);
    }
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    audited(&world, &run).await;
}

/// An agent that is gone is an answer, not a run that waits for ever.
#[tokio::test]
async fn d6_an_agent_that_is_gone() {
    let world = World::default();
    agents(&world, LEAD, HELPER);
    let lead = LEAD.replace("\"other\"", "\"gone\"");
    let run = world.start(agent("lead", &lead)).await;
    world.models.reply(vec![delegate("work", "gone")]);
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert!(last_prompt(&world).contains("there is no agent \\\"gone\\\" any more"), "{}", last_prompt(&world));
    audited(&world, &run).await;
}
