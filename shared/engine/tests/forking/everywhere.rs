//! A fork at every entry: what it makes again, what it asks about, and that it comes to a good end.

use std::collections::BTreeMap;

use dormouse_domain::{
    CallKey, Entry, Fact, RunId,
    kv::KvPatch,
    message::ReplyBlock,
    plan::Plan,
    request::{DecisionKind, RequestKind},
    run::Status,
};
use dormouse_engine::{
    StepReport,
    ports::{Clock as _, ToolReply},
};
use dormouse_testkit::{World, answer, approve, call};
use serde_json::json;

use super::*;

/// What a fork makes of a call, by the bare entries of its copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// It has its result: used as it is.
    Used,
    /// It runs, and nobody is asked.
    Runs,
    /// A person is asked whether it may run, or what to answer.
    Asks(RequestKind),
}

#[derive(Default)]
struct Known {
    tool: String,
    announced: bool,
    approved: bool,
    settled: bool,
}

/// What is said of calls in `copy`: independently of the fold.
fn expected(copy: &[Entry]) -> BTreeMap<CallKey, (String, Expected)> {
    let mut calls: BTreeMap<CallKey, Known> = BTreeMap::new();
    let mut asked = BTreeMap::new();
    for entry in copy {
        match &entry.fact {
            Fact::ModelReplied { content, calls: plans, .. } => {
                let names = content.iter().filter_map(|block| match block {
                    ReplyBlock::ToolCall { name, .. } => Some(name),
                    _ => None,
                });
                for (ordinal, (name, plan)) in (0..).zip(names.zip(plans)) {
                    let settled = matches!(plan, Plan::Deny { .. } | Plan::Invalid { .. });
                    let announced = plan.starts();
                    let known = Known { tool: name.clone(), announced, approved: false, settled };
                    calls.insert(CallKey::new(entry.index, ordinal), known);
                }
            }
            Fact::CallDispatched { calls: starts } => {
                starts.iter().for_each(|start| calls.get_mut(&start.call).unwrap().announced = true);
            }
            Fact::CallFinished { call, result: CallResult::Returned { .. }, .. } => {
                calls.get_mut(call).unwrap().settled = true;
            }
            Fact::Suspended { requests, .. } => {
                let opened = (0..).zip(requests);
                asked.extend(
                    opened.map(|(i, opened)| (dormouse_domain::RequestKey::new(entry.index, i), opened.call.unwrap())),
                );
            }
            Fact::RequestDecided { request, decision, .. } => {
                let known = calls.get_mut(&asked[request]).unwrap();
                match decision {
                    dormouse_domain::decide::Decision::Approve => known.approved = true,
                    _ => known.settled = true,
                }
            }
            _ => {}
        }
    }
    let judge = |known: &Known| match (known.tool.as_str(), known.announced) {
        _ if known.settled => Expected::Used,
        ("ping", true) => Expected::Runs,
        (_, true) => Expected::Asks(RequestKind::Uncertain),
        ("look", false) => Expected::Runs,
        ("ask_user", false) => Expected::Asks(RequestKind::Question),
        (_, false) => Expected::Asks(RequestKind::Approval),
    };
    calls.iter().map(|(key, known)| (*key, (known.tool.clone(), judge(known)))).collect()
}

/// How often each call of `run` was made.
fn made(world: &World, run: &RunId) -> BTreeMap<CallKey, usize> {
    let mut made = BTreeMap::new();
    for call in world.tools.calls().iter().filter(|call| call.run == *run) {
        assert!(call.execution_key.starts_with(run.as_str()), "B3: its own keys");
        *made.entry(call.call).or_default() += 1;
    }
    made
}

/// Forks `run` at every entry at which it can, and holds each fork to what its copy says. Returns how many.
async fn fork_everywhere(world: &World, run: &RunId) -> usize {
    let entries = audited(world, run).await;
    let before = world.memory.journal(run);
    let mut forks = 0;
    for last in 0..entries.len() {
        let copy = &entries[..=last];
        let index = u32::try_from(last).unwrap();
        let completed = matches!(copy[last].fact, Fact::RunFinished(_));
        let how = if completed { saying("and then?", at(index)) } else { at(index) };
        let fork = fork(world, run, how).await.unwrap();
        forks += 1;
        let journal = world.memory.journal(&fork);
        assert_eq!(&journal[..=last], copy, "the copy is a copy");
        assert!(matches!(&journal[last + 1].fact, Fact::Forked { from, last, .. } if from == run && *last == index));

        // Before anybody says anything.
        let of_copy = expected(copy);
        step(world, &fork).await;
        let pending: BTreeMap<_, _> =
            world.pending(&fork).await.into_iter().map(|request| (request.call.unwrap(), request)).collect();
        let ran = made(world, &fork);
        for (key, (tool, expected)) in &of_copy {
            let what = format!("{tool} {key} of {fork}, forked at {index} ({})", copy[last].fact.kind());
            let asked = pending.get(key).map(|request| request.kind);
            let found = match (ran.get(key), asked) {
                (None, None) => Expected::Used,
                (Some(1), None) => Expected::Runs,
                (None, Some(kind)) => Expected::Asks(kind),
                other => panic!("{what}: {other:?}"),
            };
            assert_eq!(found, *expected, "{what}");
        }
        for request in pending.values() {
            assert_eq!((&request.id.run, request.opened_at), (&fork, world.clock.now()), "its own row and windows");
        }
        drive_to_the_end(world, &fork).await;
        assert_eq!(world.view(&fork).await.item.status, Status::Completed, "forked at {index}");
        let ran = made(world, &fork);
        for (key, (tool, expected)) in &of_copy {
            let once = match expected {
                Expected::Runs | Expected::Asks(RequestKind::Approval) => 1,
                Expected::Used | Expected::Asks(_) => 0,
            };
            assert_eq!(ran.get(key).copied().unwrap_or(0), once, "{tool} {key}, forked at {index}");
        }
        let journal = audited(world, &fork).await;
        assert!(!journal[last + 2..].iter().any(|entry| entry.driver == copy[last].driver && entry.driver.is_some()));
    }
    assert_eq!(world.memory.journal(run), before, "the other run is left alone");
    forks
}

/// X8: reads, a safe, an idempotent and a manual call that all run at once, and what they answered.
#[tokio::test]
async fn x8_a_run_with_tools() {
    let world = World::default();
    let run = start(&world).await;
    let calls = ["look", "ping", "pay", "wipe"].map(|tool| call(tool, tool, "{}"));
    world.models.reply(calls.to_vec());
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    assert!(fork_everywhere(&world, &run).await > 8);
}

/// X8: approved calls that have not run ask again, and so do those that are pending; one that was announced may have
/// run. A question is asked again.
#[tokio::test]
async fn x8_approvals_and_answers_are_for_one_run() {
    let world = World::default();
    let run = start(&world).await;
    let question = call("q", "ask_user", r#"{"question":"Which?","options":[{"value":"blue"}]}"#);
    world.models.reply(vec![call("a", "deploy", "{}"), call("b", "look", "{}"), call("c", "check", "{}"), question]);
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    for request in world.pending(&run).await {
        world.engine.respond(&ann(), &request.id, &decision(&request), None).await.unwrap();
    }
    assert_eq!(step(&world, &run).await, StepReport::Finished);
    world.engine.add_message(&ann(), &run, vec![Content::text("again")], None).await.unwrap();
    world.models.reply(vec![call("d", "deploy", r#"{"n":2}"#)]);
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    assert!(fork_everywhere(&world, &run).await > 14);
}

/// X8: what is unknown stays unknown, and a retry that a person allowed was for the other run.
#[tokio::test]
async fn x8_what_is_unknown_stays_unknown() {
    let world = World::default();
    let run = start(&world).await;
    for tool in ["wipe", "check"] {
        world.tools.on(tool, |_| CallResult::Unknown { why: "lost".into() });
    }
    world.models.reply(vec![call("a", "wipe", "{}")]);
    assert_eq!(step(&world, &run).await, StepReport::Suspended);
    let request = world.pending(&run).await.remove(0);
    let digest = Some(request.digest.to_string());
    let retry = Answer { digest, resolution: Some(Resolution::Retry), ..answer(DecisionKind::Settle) };
    world.engine.respond(&ann(), &request.id, &retry, None).await.unwrap();
    let decided = u32::try_from(world.memory.journal(&run).len()).unwrap() - 1;
    let of = fork(&world, &run, at(decided)).await.unwrap();
    assert_eq!(step(&world, &of).await, StepReport::Suspended);
    assert_eq!(made(&world, &of), BTreeMap::new());
    let asked = world.pending(&of).await.remove(0);
    assert_eq!(asked.kind, RequestKind::Uncertain);
    assert!(asked.reasons[0].contains(run.as_str()) && asked.digest != request.digest, "{asked:?}");
    world.tools.on("wipe", |_| returned("wiped"));
    // It can be allowed there too, once more.
    let digest = Some(asked.digest.to_string());
    let retry = Answer { digest, ..retry };
    world.engine.respond(&ann(), &asked.id, &retry, None).await.unwrap();
    assert_eq!(step(&world, &of).await, StepReport::Finished);
    assert_eq!(made(&world, &of).values().sum::<usize>(), 1);
    audited(&world, &of).await;
}

/// X8: an approval with other arguments is one too: the fork asks about the model's own.
#[tokio::test]
async fn x8_an_edit_is_for_one_run_too() {
    let world = World::default();
    let run = start(&world).await;
    world.models.reply(vec![call("a", "deploy", r#"{"n":1}"#)]);
    step(&world, &run).await;
    let request = world.pending(&run).await.remove(0);
    let edit = Answer { arguments: Some(json!({"n": 2})), ..approve(&request) };
    let edit = Answer { decision: DecisionKind::Edit, ..edit };
    world.engine.respond(&ann(), &request.id, &edit, None).await.unwrap();
    let last = u32::try_from(world.memory.journal(&run).len()).unwrap() - 1;
    let of = fork(&world, &run, at(last)).await.unwrap();
    step(&world, &of).await;
    let asked = world.pending(&of).await.remove(0);
    assert_eq!(asked.arguments, json!({"n": 1}));
    drive_to_the_end(&world, &of).await;
    assert_eq!(world.tools.calls().pop().unwrap().arguments, json!({"n": 1}));
    assert!(!world.models.asked().pop().unwrap().contains("A person changed"));
    audited(&world, &of).await;
}

/// X8, A13: the state that tools keep is as it was at that entry; and usage and turns carry over.
#[tokio::test]
async fn x8_a13_state_and_counts_are_those_of_the_entry() {
    let world = World::default();
    let run = start(&world).await;
    world.tools.on("look", |call| {
        let mut kv = KvPatch::new();
        kv.set("seen", &json!(call.call.to_string())).unwrap();
        ToolReply { kv, ..returned("seen").into() }
    });
    for id in ["a", "b"] {
        world.models.reply(vec![call(id, "look", "{}")]);
    }
    step(&world, &run).await;
    let first = world.memory.kinds(&run).iter().position(|kind| *kind == "CallFinished").unwrap();
    let usage = world.view(&run).await.item.usage;
    let of = fork(&world, &run, at(u32::try_from(first).unwrap())).await.unwrap();
    let item = world.view(&of).await.item;
    assert_eq!((item.turns, item.title.as_str(), item.status), (1, "go", Status::Queued));
    assert!(item.usage.tokens() > 0 && item.usage.tokens() < usage.tokens(), "{:?} {usage:?}", item.usage);
    assert_eq!(item.forks.last().unwrap().run_id, run);
    world.models.reply(vec![call("c", "look", "{}")]);
    step(&world, &of).await;
    let given = world.tools.calls().pop().unwrap().state;
    assert_eq!(serde_json::to_value(given).unwrap(), json!({"seen": "2.0"}));
}

/// X8: a fork of a fork, also of what that one has from the first: all is named by whose it was.
#[tokio::test]
async fn x8_forks_of_forks() {
    let world = World::default();
    let run = start(&world).await;
    world.models.reply(vec![call("a", "deploy", "{}")]);
    step(&world, &run).await;
    let request = world.pending(&run).await.remove(0);
    world.engine.respond(&ann(), &request.id, &approve(&request), None).await.unwrap();
    let last = u32::try_from(world.memory.journal(&run).len()).unwrap() - 1;
    let second = fork(&world, &run, at(last)).await.unwrap();
    step(&world, &second).await;
    drive_to_the_end(&world, &second).await;
    let entries = audited(&world, &second).await;
    for (index, entry) in (0..).zip(&entries) {
        let how = if matches!(entry.fact, Fact::RunFinished(_)) { saying("on", at(index)) } else { at(index) };
        let third = fork(&world, &second, how).await.unwrap();
        let expected = if index <= last { &run } else { &second };
        assert_eq!(world.view(&third).await.item.forks.last().unwrap().run_id, *expected, "at {index}");
        drive_to_the_end(&world, &third).await;
        audited(&world, &third).await;
    }
}
