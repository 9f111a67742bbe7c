//! A person who is late, over HTTP and across a restart.

use dormouse_e2e::{Agents, Network, TestStack, Tool, ToolAnswer, ToolServer};
use serde_json::json;

const SCRIPT: &str = r#"
[[replies]]
[[replies.calls]]
name = "deploy"
arguments = { env = "prod" }

[[replies]]
text = "I go on without it."

[[replies]]
text = "Now I know."
"#;

/// E6, E7: the conversation goes on by its own timer and ends; the process dies; the approval comes to
/// another one, runs what was stored, and the agent is told.
#[tokio::test]
async fn e6_e7_an_approval_after_the_end_and_a_restart() {
    let tools = ToolServer::start().await;
    tools.answers("deploy", ToolAnswer::text("deployed"));
    let settings = "wait = \"200ms\"\ndecide_within = \"1h\"";
    let agents =
        Agents::new().scripted_with("ops", SCRIPT, settings, &[Tool::http("deploy", &tools.url("deploy")).asks()]);
    let network = Network::new();
    let stack = TestStack::start(TestStack::config(network.backend(), &agents)).await;
    let run = stack.api.start("ops", "Deploy.").await;
    let view = stack.api.run_that_is(&run, "completed").await;
    assert_eq!((&view["output"], tools.calls().len()), (&json!("I go on without it."), 0));
    let request = view["requests"][0].clone();
    assert_eq!(request["status"], "pending");
    drop(stack);

    let network = network.with_new_sqs();
    let stack = TestStack::start(TestStack::config(network.backend(), &agents)).await;
    let id = request["request_id"].as_str().expect("an id");
    assert_eq!(stack.api.get("/v1/requests").await.expect(200)["items"][0]["request_id"], id);
    let responded = stack.api.approve(&request).await;
    assert_eq!(responded["run"]["status"], "completed");
    let view = stack.api.run_when(&run, "told", |run| run["output"] == "Now I know.").await;
    assert_eq!((&view["requests"], tools.calls().len()), (&json!([]), 1));
    assert_eq!(tools.calls()[0].body["arguments"], json!({ "env": "prod" }));
    for (kind, count) in [("WaitExpired", 1), ("RequestDecided", 1), ("Reopened", 1), ("RunFinished", 2)] {
        assert_eq!(stack.api.entries(&run, kind).await.len(), count, "{kind}");
    }
    // A second approval is told what stands.
    let again = stack.api.respond(&request, &json!({ "decision": "deny" })).await;
    again.problem(409, "already-decided");
}
