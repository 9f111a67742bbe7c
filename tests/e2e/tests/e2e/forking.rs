//! A fork over HTTP.

use dormouse_e2e::{Agents, TestStack, Tool, ToolAnswer, ToolServer};
use serde_json::json;

const SCRIPT: &str = r#"
[[replies]]
[[replies.calls]]
name = "look"
[[replies.calls]]
name = "deploy"
arguments = { env = "prod" }

[[replies]]
text = "It says: {{result:deploy}}"

[[replies]]
text = "As you wish."
"#;

/// X8: the run went on; its fork from before the approval uses the result that is in its copy, asks about the call
/// anew, and goes its own way. The run itself is left alone.
#[tokio::test]
async fn x8_a_fork_goes_its_own_way() {
    let tools = ToolServer::start().await;
    tools.answers("deploy", ToolAnswer::text("deployed"));
    let look = Tool::http("look", &tools.url("look")).reads();
    let agents = Agents::new().scripted("ops", SCRIPT, &[look, Tool::http("deploy", &tools.url("deploy")).asks()]);
    let stack = TestStack::in_memory(&agents).await;
    let run = stack.api.start("ops", "Deploy.").await;
    let request = stack.api.request_of(&run).await;
    let last = stack.api.journal(&run).await.len() - 1;
    stack.api.approve(&request).await;
    let done = stack.api.run_that_is(&run, "completed").await;
    let journal = stack.api.journal(&run).await;

    let path = format!("/v1/runs/{run}/fork");
    let body = json!({"at": last, "message": "Not to prod, after all."});
    let fork = stack.api.post_with_key(&path, "k", &body).await.expect(202);
    assert_eq!(stack.api.post_with_key(&path, "k", &body).await.expect(202), fork);
    let fork = fork["run_id"].as_str().expect("a run's name").to_owned();
    let asked = stack.api.request_of(&fork).await;
    assert_eq!((&asked["tool"], &asked["run_id"]), (&json!("deploy"), &json!(fork)));
    stack.api.respond(&asked, &json!({"decision": "deny", "reason": "not now"})).await.expect(200);
    let view = stack.api.run_that_is(&fork, "completed").await;
    assert_eq!(view["output"], "It says: Not run: a person declined this call and said: not now");
    assert_eq!(
        (tools.calls_of("look").len(), tools.calls_of("deploy").len()),
        (1, 1),
        "made by the run, and not again"
    );
    assert_eq!(stack.api.run(&run).await, done);
    assert_eq!(stack.api.journal(&run).await, journal);
    // A recording of a fork folds and audits like any other.
    let recording = stack.api.recording(&fork).await;
    let recording = dormouse_domain::record::read(&recording).unwrap();
    let agent = std::sync::Arc::new(recording.header.definition);
    let found = dormouse_domain::audit::journal(&recording.header.run_id, &agent, &recording.entries).unwrap();
    assert_eq!(found, []);

    let on = stack.api.post(&path, &json!({"at": journal.len() - 1})).await.problem(400, "invalid-body");
    assert!(on["detail"].as_str().unwrap().contains("send a `message`"), "{on}");
}

const WRITES: &str = r#"
[[replies]]
[[replies.calls]]
name = "create_file"
arguments = { path = "notes.txt", content = "first" }

[[replies]]
[[replies.calls]]
name = "edit_file"
arguments = { path = "notes.txt", old = "first", new = "second" }

[[replies]]
[[replies.calls]]
name = "read_file"
arguments = { path = "notes.txt" }

[[replies]]
text = "It says: {{result}}"
"#;

/// X8, D10: a fork has the files that there were at its entry, and what it writes is its own.
#[tokio::test]
async fn x8_d10_a_fork_has_the_files_of_its_entry() {
    let tools = ["workspace.create", "workspace.edit", "workspace.read"].map(|name| Tool::builtin(name).allowed());
    let agents = Agents::new().scripted("ops", WRITES, &tools);
    let stack = TestStack::in_memory(&agents).await;
    let run = stack.api.start("ops", "Write.").await;
    let done = stack.api.run_that_is(&run, "completed").await;
    assert!(done["output"].as_str().unwrap().contains("second"), "{done}");
    let created = stack.api.entries(&run, "CallFinished").await[0]["index"].clone();
    let fork = stack.api.post(&format!("/v1/runs/{run}/fork"), &json!({ "at": created })).await.expect(202);
    let fork = fork["run_id"].as_str().expect("a run's name").to_owned();
    let view = stack.api.run_that_is(&fork, "completed").await;
    // Its own edit found the first text, so it had not the other run's.
    assert_eq!(view["output"], done["output"]);
    let edited = &stack.api.entries(&fork, "CallFinished").await[1];
    assert!(!edited["result"]["is_error"].as_bool().unwrap_or(false), "{edited}");
}
