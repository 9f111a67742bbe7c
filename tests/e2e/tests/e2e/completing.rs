//! A web service that answers later, and completes its calls when it is done (X7).

use std::time::Duration;

use dormouse_e2e::{Agents, Api, Process, TestStack, Tool, ToolAnswer, ToolServer, eventually};
use serde_json::{Value, json};

const SCRIPT: &str = r#"
[[replies]]
[[replies.calls]]
name = "order"
arguments = { item = "tea" }

[[replies]]
text = "It says: {{result}}"
"#;

fn later() -> ToolAnswer {
    ToolAnswer::Answer { delay: Duration::ZERO, status: 202, media_type: "text/plain", body: b"ticket 7".to_vec() }
}

/// A shop, and an agent that orders there.
async fn shop() -> (ToolServer, Agents) {
    let tools = ToolServer::start().await;
    tools.answers("order", later());
    let order = Tool::http("order", &tools.url("order")).allowed().set("later", "true");
    let agents = Agents::new().scripted("ops", SCRIPT, &[order]);
    (tools, agents)
}

/// Where the last call is completed, as the shop was told.
fn path(tools: &ToolServer) -> String {
    let call = tools.calls().pop().expect("a call");
    assert!(call.body["completion"]["expires_at"].is_string(), "{}", call.body);
    call.body["completion"]["path"].as_str().expect("a path").to_owned()
}

/// The shop has no name here.
fn completion(api: &Api, path: &str, content: &Value) -> reqwest::RequestBuilder {
    api.by("a shop").request("POST", path).body(content.to_string())
}

/// B5: the run waits as for a person, over a restart; the shop's word is the result.
#[tokio::test]
async fn x7_b5_a1_a_service_completes_its_call_after_a_restart() {
    let (tools, agents) = shop().await;
    let data = tempfile::tempdir().unwrap();
    let process = Process::start(data.path(), &agents, &[]).await;
    let run = process.api.start("ops", "Order tea.").await;
    let request = process.api.request_of(&run).await;
    assert_eq!((&request["kind"], &request["decisions"]), (&json!("external"), &json!(["settle"])));
    let path = path(&tools);
    assert!(!process.log().contains(path.rsplit('.').next().unwrap()), "a token is in the log");
    process.kill();

    let process = Process::start(data.path(), &agents, &[]).await;
    Api::send(completion(&process.api, &path, &json!({ "content": "ordered as no 7" }))).await.expect(200);
    let done = process.api.run_that_is(&run, "completed").await;
    assert!(done["output"].as_str().unwrap().contains("ordered as no 7"), "{done}");
    assert_eq!(tools.calls().len(), 1);
    let again = Api::send(completion(&process.api, &path, &json!({ "content": "again" }))).await;
    again.problem(409, "wrong-state");
}

/// A service that is done before it has said that it will be: the completion is the result, and its 202 is none.
#[tokio::test]
async fn x7_a_service_completes_its_call_before_it_answers() {
    let (tools, agents) = shop().await;
    let stack = TestStack::in_memory(&agents).await;
    let api = stack.api.clone();
    tools.serves("order", move |call| {
        let (api, path) = (api.clone(), call.body["completion"]["path"].as_str().unwrap().to_owned());
        async move {
            Api::send(completion(&api, &path, &json!({ "content": "at once" }))).await.expect(200);
            later()
        }
    });
    let run = stack.api.start("ops", "Order tea.").await;
    let done = stack.api.run_that_is(&run, "completed").await;
    assert!(done["output"].as_str().unwrap().contains("at once"), "{done}");
    assert_eq!(stack.api.entries(&run, "CallFinished").await.len(), 1);
    assert_eq!(stack.api.entries(&run, "Suspended").await.len(), 0);
}

/// The step is killed while the service has the call: nobody knows what it did, until the service says.
#[tokio::test]
async fn x7_case_36_a_service_completes_what_a_crash_left_unknown() {
    let (tools, agents) = shop().await;
    tools.answers("order", ToolAnswer::Hang);
    let data = tempfile::tempdir().unwrap();
    let process = Process::start(data.path(), &agents, &[]).await;
    let run = process.api.start("ops", "Order tea.").await;
    eventually("the call", async || (!tools.calls().is_empty()).then_some(())).await;
    process.kill();

    let process = Process::start(data.path(), &agents, &[]).await;
    assert_eq!(process.api.request_of(&run).await["kind"], "uncertain");
    Api::send(completion(&process.api, &path(&tools), &json!({ "content": "no 7" }))).await.expect(200);
    let done = process.api.run_that_is(&run, "completed").await;
    assert!(done["output"].as_str().unwrap().contains("no 7"), "{done}");
    assert_eq!(tools.calls().len(), 1);
}
