//! What is not forked, and what is said about it; and what a fork is asked for at its beginning.

use std::collections::BTreeMap;

use dormouse_domain::{Mode, run::Status};
use dormouse_testkit::{World, call};

use super::*;

async fn refused(world: &World, run: &RunId, how: ForkRun) -> String {
    let before = world.memory.journal(run).len();
    let problem = fork(world, run, how).await.unwrap_err();
    assert_eq!(world.memory.journal(run).len(), before);
    problem.to_string()
}

/// X8: each with what to do.
#[tokio::test]
async fn x8_what_cannot_be_forked_says_why() {
    let world = World::default();
    let run = start(&world).await;
    world.models.reply(vec![call("a", "deploy", "{}")]);
    step(&world, &run).await;
    let last = u32::try_from(world.memory.journal(&run).len()).unwrap() - 1;
    for (how, told) in [
        (at(last + 1), format!("its last one is {last}")),
        (at(u32::MAX), format!("its last one is {last}")),
        (ForkRun { mode: Some(Mode::Yolo), ..at(last) }, "wider than this agent's max_mode, auto_edit".to_owned()),
        (saying(" \n", at(last)), "the message is empty".to_owned()),
    ] {
        let problem = refused(&world, &run, how).await;
        assert!(problem.contains(&told), "{problem}");
    }
    let stranger = world.engine.fork(&World::user("bob"), &run, at(0), None).await;
    assert!(matches!(stranger, Err(Problem::NotFound("run"))), "{stranger:?}");
    let nobody = fork(&world, &RunId::from_bits(99), at(0)).await;
    assert!(matches!(nobody, Err(Problem::NotFound("run"))), "{nobody:?}");

    world.engine.cancel(&ann(), &run, None, None).await.unwrap();
    step(&world, &run).await;
    for index in [last + 1, last + 2] {
        let problem = refused(&world, &run, saying("on", at(index))).await;
        assert!(problem.contains("the run was cancelled") && problem.contains("at an earlier one"), "{problem}");
    }
    // Before that it goes on.
    let of = fork(&world, &run, at(last)).await.unwrap();
    step(&world, &of).await;
    assert_eq!(world.pending(&of).await.len(), 1);
}

/// X8: from a failed run's end nothing goes on, from before it does; from a completed one's end with a message.
#[tokio::test]
async fn x8_ends() {
    let world = World::default();
    let run = start(&world).await;
    world.models.fail(dormouse_domain::retry::FailureClass::Auth);
    step(&world, &run).await;
    assert_eq!(world.status(&run).await, Status::Failed);
    let end = u32::try_from(world.memory.journal(&run).len()).unwrap() - 1;
    let problem = refused(&world, &run, saying("on", at(end))).await;
    assert!(problem.contains("the run had failed"), "{problem}");
    // The failure of its model was there; here it is asked anew.
    let of = fork(&world, &run, at(end - 1)).await.unwrap();
    step(&world, &of).await;
    assert_eq!(world.status(&of).await, Status::Completed);
    let end = u32::try_from(world.memory.journal(&of).len()).unwrap() - 1;
    let problem = refused(&world, &of, at(end)).await;
    assert!(problem.contains("send a `message`"), "{problem}");
    let on = fork(&world, &of, saying("and then?", at(end))).await.unwrap();
    assert_eq!(world.status(&on).await, Status::Queued);
    step(&world, &on).await;
    assert!(world.models.asked().pop().unwrap().contains("and then?"));
    audited(&world, &on).await;
}

/// X8: a ceiling that was reached is reached in the fork too.
#[tokio::test]
async fn x8_a_ceiling_is_not_escaped() {
    let world = World::default();
    let run = world.start(agent("ops", &format!("{AGENT}\n[limits]\nturns = 2"))).await;
    for id in ["a", "b"] {
        world.models.reply(vec![call(id, "look", "{}")]);
    }
    step(&world, &run).await;
    assert_eq!(world.status(&run).await, Status::Waiting);
    let last_result = world.memory.kinds(&run).iter().rposition(|kind| *kind == "CallFinished").unwrap();
    let asked = world.models.asked().len();
    let of = fork(&world, &run, at(u32::try_from(last_result).unwrap())).await.unwrap();
    step(&world, &of).await;
    assert_eq!((world.status(&of).await, world.models.asked().len()), (Status::Waiting, asked));
    assert_eq!(world.pending(&of).await[0].kind, RequestKind::Budget);
    audited(&world, &of).await;
}

/// X8: pause stays with the other run; mode and labels are the fork's own, if it is given any; a wider mode lets
/// nothing run that a person was asked about, or that the other run may have made.
#[tokio::test]
async fn x8_mode_labels_and_pause() {
    let world = World::default();
    let mut definition = agent("ops", AGENT);
    definition.max_mode = Mode::Yolo;
    let run = world.start(definition).await;
    world.models.reply(vec![call("a", "deploy", "{}"), call("b", "peek", "{}")]);
    step(&world, &run).await;
    world.engine.pause(&ann(), &run, None).await.unwrap();
    let last = u32::try_from(world.memory.journal(&run).len()).unwrap() - 1;
    let labels = BTreeMap::from([("why".to_owned(), "what if".to_owned())]);
    for index in [last - 2, last - 1, last] {
        let how = ForkRun { mode: Some(Mode::Yolo), metadata: Some(labels.clone()), ..at(index) };
        let of = fork(&world, &run, how).await.unwrap();
        assert_eq!(step(&world, &of).await, StepReport::Suspended, "at {index}");
        let item = world.view(&of).await.item;
        assert_eq!((item.mode, &item.metadata, item.status), (Mode::Yolo, &labels, Status::Waiting));
        assert_eq!(world.pending(&of).await.len(), 2, "at {index}");
        assert_eq!(world.tools.calls().len(), 0, "at {index}");
        audited(&world, &of).await;
    }
    assert_eq!(world.status(&run).await, Status::Paused);
}

/// A7: what the rules of today forbid is refused in a fork, whoever approved it in the other run.
#[tokio::test]
async fn a7_x8_the_rules_of_today_hold() {
    let world = World::default();
    let run = start(&world).await;
    world.models.reply(vec![call("a", "deploy", r#"{"env":"prod"}"#)]);
    step(&world, &run).await;
    let last = u32::try_from(world.memory.journal(&run).len()).unwrap() - 1;
    let rule = "[[policy.deny]]\ntool = \"deploy\"\nargs = { env = \"prod*\" }\nbecause = \"not today\"";
    world.agents.add(agent("ops", &format!("{AGENT}\n{rule}")));
    let of = fork(&world, &run, at(last)).await.unwrap();
    assert_eq!(step(&world, &of).await, StepReport::Finished);
    assert!(world.models.asked().pop().unwrap().contains("not today"));
    assert_eq!(world.tools.count("deploy"), 0);
}
