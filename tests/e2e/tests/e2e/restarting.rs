//! What a new process makes of what an earlier one left.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use dormouse_e2e::{Agents, Fate, Network, Process, Spawned, TestStack, Tool, ToolAnswer, ToolServer, eventually};
use serde_json::json;

const ONE_CALL: &str = r#"
[[replies]]
[[replies.calls]]
name = "act"
arguments = { n = 1 }

[[replies]]
text = "It says: {{result}}"
"#;

fn actor(tools: &ToolServer) -> Agents {
    Agents::new().scripted("ops", ONE_CALL, &[Tool::http("act", &tools.url("act")).allowed()])
}

/// The messages of the in-memory SQS are gone with the process; what is due is not.
#[tokio::test]
async fn d7_d8_a_run_whose_wake_was_lost_with_the_process_goes_on() {
    let tools = ToolServer::start().await;
    let agents = actor(&tools);
    let network = Network::new();
    network.sqs.judged_by(|operation| if operation == "ReceiveMessage" { Fate::Stuck } else { Fate::Answered });
    let mut config = TestStack::config(network.backend(), &agents);
    config.sweep_every = Duration::from_secs(3600);
    let stack = TestStack::start(config).await;
    let run = stack.api.start("ops", "Act.").await;
    assert_eq!(stack.api.run(&run).await["status"], "queued");
    drop(stack);

    let network = network.with_new_sqs();
    let stack = TestStack::start(TestStack::config(network.backend(), &agents)).await;
    stack.api.run_that_is(&run, "completed").await;
    assert_eq!(tools.calls().len(), 1);
}

/// The same after a sweep had sent the message again, and so moved `due_at` on. A stack that has just
/// started knows that there are no messages at all.
#[tokio::test]
async fn d8_a_run_that_was_swept_before_its_process_died_goes_on_at_once() {
    let tools = ToolServer::start().await;
    let agents = actor(&tools);
    let network = Network::new();
    network.sqs.judged_by(|operation| if operation == "ReceiveMessage" { Fate::Stuck } else { Fate::Answered });
    let stack = TestStack::start(TestStack::config(network.backend(), &agents)).await;
    let run = stack.api.start("ops", "Act.").await;
    let postponed = async || network.dynamo.seen().iter().any(|operation| operation == "UpdateItem").then_some(());
    eventually("the sweep's wake", postponed).await;
    drop(stack);

    let network = network.with_new_sqs();
    let mut config = TestStack::config(network.backend(), &agents);
    config.sweep_every = Duration::from_secs(3600); // only what is done at the start
    let stack = TestStack::start(config).await;
    stack.api.run_that_is(&run, "completed").await;
}

/// B4, B6, I8, case 36: a `manual` call that ran when its process died is a person's to settle.
#[tokio::test]
async fn b4_b6_case_36_a_call_that_was_cut_off_waits_for_a_person() {
    for (resolution, output, calls) in [
        (json!({"result": "It worked."}), "A person recorded this result: It worked.", 1),
        (json!("abort"), "Outcome unknown: the call may have run; a person chose to leave it.", 1),
        (json!("retry"), "done", 2),
    ] {
        let tools = ToolServer::start().await;
        tools.answers("act", ToolAnswer::Hang);
        let agents = actor(&tools);
        let network = Network::new();
        let stack = TestStack::start(TestStack::config(network.backend(), &agents)).await;
        let run = stack.api.start("ops", "Act.").await;
        eventually("the call", async || (tools.calls().len() == 1).then_some(())).await;
        drop(stack);

        tools.answers("act", ToolAnswer::text("done"));
        let network = network.with_new_sqs();
        let stack = TestStack::start(TestStack::config(network.backend(), &agents)).await;
        let request = stack.api.request_of(&run).await;
        assert_eq!((&request["kind"], &request["decisions"]), (&json!("uncertain"), &json!(["settle"])));
        let approve = json!({"decision": "approve", "digest": request["digest"]});
        stack.api.respond(&request, &approve).await.problem(400, "invalid-answer");
        let mut settle = json!({"decision": "settle", "resolution": resolution});
        if resolution == "retry" {
            stack.api.respond(&request, &settle).await.problem(400, "invalid-answer");
            settle["digest"] = request["digest"].clone();
        }
        stack.api.respond(&request, &settle).await.expect(200);
        let done = stack.api.run_that_is(&run, "completed").await;
        assert_eq!(done["output"], format!("It says: {output}"));
        let called = tools.calls();
        assert_eq!(called.len(), calls);
        assert!(called.iter().all(|call| call.key() == called[0].key()), "B3: one key for every attempt");
    }
}

/// What tools do short of dying: each answer of a web service has its outcome.
#[tokio::test]
async fn b4_a_tool_of_unknown_outcome_waits_and_one_that_refuses_does_not() {
    let five_hundred = ToolAnswer::Answer {
        delay: Duration::ZERO,
        status: 500,
        media_type: "text/plain",
        body: b"database on fire".to_vec(),
    };
    let four_hundred = ToolAnswer::Answer {
        delay: Duration::ZERO,
        status: 422,
        media_type: "text/plain",
        body: b"no such n".to_vec(),
    };
    for (answer, uncertain) in
        [(ToolAnswer::Drop, true), (ToolAnswer::Hang, true), (five_hundred, true), (four_hundred, false)]
    {
        let tools = ToolServer::start().await;
        tools.answers("act", answer.clone());
        let act = Tool::http("act", &tools.url("act")).allowed().set("timeout", "\"500ms\"");
        let agents = Agents::new().scripted("ops", ONE_CALL, &[act]);
        let stack = TestStack::in_memory(&agents).await;
        let run = stack.api.start("ops", "Act.").await;
        if uncertain {
            assert_eq!(stack.api.request_of(&run).await["kind"], "uncertain", "{answer:?}");
        } else {
            let done = stack.api.run_that_is(&run, "completed").await;
            assert_eq!(done["output"], "It says: The tool answered 422 Unprocessable Entity:\nno such n");
        }
        assert_eq!(tools.calls().len(), 1, "{answer:?}");
    }
}

/// One process at a time has a data folder; the next is told so, and what it should do.
#[tokio::test]
async fn a_second_process_on_the_same_folder_ends_with_a_clear_error() {
    let tools = ToolServer::start().await;
    let agents = actor(&tools);
    let data = tempfile::tempdir().unwrap();
    let first = Process::start(data.path(), &agents, &[]).await;
    let mut second = Spawned::new(data.path(), &agents, &[]);
    assert_eq!(second.ended().await.code(), Some(1));
    let said = second.log();
    assert!(said.contains("is in use by another process") && said.contains("--data"), "{said}");
    assert!(said.contains(data.path().to_str().unwrap()), "{said}");
    let run = first.api.start("ops", "Act.").await;
    first.api.run_that_is(&run, "completed").await;
    first.kill();
    Process::start(data.path(), &agents, &[]).await.api.run(&run).await;
}

#[tokio::test]
async fn agent_files_with_faults_end_the_start_with_all_of_them() {
    let agents = Agents::new().with_settings("one", "scripted:none.toml", "colour = \"red\"", &[]).with(
        "two",
        "no-provider",
        &[Tool::http("a b", "ftp://x")],
    );
    let data = tempfile::tempdir().unwrap();
    let mut process = Spawned::new(data.path(), &agents, &[]);
    assert_eq!(process.ended().await.code(), Some(1));
    let said = process.log();
    for fault in
        ["one.toml: colour: ", "two.toml: models[0]: ", "two.toml: tools[0].name: ", "two.toml: tools[0].http.url: "]
    {
        assert!(said.contains(fault), "{fault}: {said}");
    }
}

/// A process that is killed while it makes its database leaves nothing that the next one trips over.
/// It is killed as soon as it has written so much of it.
#[tokio::test]
async fn a1_a_process_that_is_killed_at_its_very_first_start_leaves_no_half_made_table() {
    let agents = Agents::that_come_along();
    for written in (0..12).map(|steps| steps * 8192) {
        let data = tempfile::tempdir().unwrap();
        let process = Spawned::new(data.path(), &agents, &[]);
        let until = Instant::now() + Duration::from_millis(400);
        while bytes_in(data.path()) <= written && Instant::now() < until {
            std::hint::spin_loop();
        }
        drop(process);
        Process::start(data.path(), &agents, &[]).await.kill();
    }
}

/// Bytes of all files in `folder`.
fn bytes_in(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).unwrap().filter_map(Result::ok);
    files.filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum()
}
