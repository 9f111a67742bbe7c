//! Where others decide, a wider mode is no way around them.

use std::collections::BTreeMap;

use dormouse_domain::{Caller, Mode, RunId, message::Content};
use dormouse_engine::{Problem, StartRun};
use dormouse_testkit::{World, agent};

const GUARDED: &str = r#"
    models = ["scripted:x"]
    approvers = { group = "sre", not_requester = true }
    [[tools]]
    name = "deploy"
    http = { url = "http://tools/deploy" }
    [[tools]]
    name = "drop"
    approvers = { group = "dba" }
    http = { url = "http://tools/drop" }
"#;
const OPEN: &str = "models = [\"scripted:x\"]";

async fn start(world: &World, file: &str, by: &Caller, mode: Option<Mode>) -> Result<RunId, Problem> {
    world.agents.add(agent("ops", file));
    let start = StartRun { agent: "ops".into(), input: vec![Content::text("go")], mode, metadata: BTreeMap::new() };
    world.engine.start(by, start, None).await.map(|started| started.run_id)
}

/// How a change of mode of Ann's run by `by` ends.
async fn set(file: &str, by: &Caller, mode: Mode) -> Result<(), String> {
    let world = World::default();
    let run = start(&world, file, &World::user("ann"), None).await.unwrap();
    match world.engine.set_mode(by, &run, mode, None).await {
        Ok(_) => Ok(()),
        Err(Problem::NotFound(_)) => Err("404".into()),
        Err(Problem::NotEntitled { approvers, .. }) => Err(approvers.group),
        Err(other) => Err(format!("{other:?}")),
    }
}

#[tokio::test]
async fn a16_a_wider_mode_takes_those_who_decide() {
    let ann = World::user("ann");
    let requester = World::member("ann", &["sre", "dba"]);
    let one_group = World::member("sue", &["sre"]);
    let all = World::member("sue", &["sre", "dba"]);
    let elsewhere = Caller {
        principal: dormouse_domain::Principal { tenant: "globex".into(), ..all.principal.clone() },
        ..all.clone()
    };
    for (file, by, mode, expected) in [
        (OPEN, &ann, Mode::Yolo, Ok(())),
        (OPEN, &all, Mode::Yolo, Err("404")),
        (OPEN, &all, Mode::Plan, Err("404")),
        // Narrower, and back, is their own affair.
        (GUARDED, &ann, Mode::Plan, Ok(())),
        (GUARDED, &ann, Mode::Normal, Ok(())),
        (GUARDED, &ann, Mode::AutoEdit, Err("sre")),
        (GUARDED, &ann, Mode::Yolo, Err("sre")),
        (GUARDED, &requester, Mode::Yolo, Err("sre")),
        // Who decides some of it sees what waits for them, and not the run.
        (GUARDED, &one_group, Mode::Yolo, Err("404")),
        (GUARDED, &all, Mode::Yolo, Ok(())),
        (GUARDED, &all, Mode::Plan, Ok(())),
        (GUARDED, &elsewhere, Mode::Yolo, Err("404")),
    ] {
        let told = set(file, by, mode).await;
        assert_eq!(told, expected.map_err(str::to_owned), "{by:?} {mode}");
    }
}

/// A run begins no wider than whoever starts it may say.
#[tokio::test]
async fn a16_a_run_does_not_begin_wider_than_its_agent() {
    let world = World::default();
    let ann = World::user("ann");
    start(&world, OPEN, &ann, Some(Mode::Yolo)).await.unwrap();
    start(&world, GUARDED, &ann, Some(Mode::Plan)).await.unwrap();
    let refused = start(&world, GUARDED, &ann, Some(Mode::AutoEdit)).await;
    assert!(matches!(&refused, Err(Problem::NotEntitled { .. })), "{refused:?}");
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("auto_edit is wider") && text.contains("group sre"), "{text}");
    let dba_alone = GUARDED.replace("approvers = { group = \"sre\", not_requester = true }", "");
    start(&world, &dba_alone, &World::member("ann", &["dba"]), Some(Mode::Yolo)).await.unwrap();
    // An agent file that says so is the deployment's own word.
    start(&world, &format!("mode = \"yolo\"\n{GUARDED}"), &ann, None).await.unwrap();
}
