//! Approval links over HTTP, on the stack of one machine.

use std::fs;

use dormouse_e2e::{Agents, Api, Process, TestStack, Tool, ToolServer};
use serde_json::{Value, json};

const SCRIPT: &str = r#"
[[replies]]
[[replies.calls]]
name = "deploy"
arguments = { service = "web" }

[[replies]]
text = "It says: {{result}}"
"#;

fn ops(tools: &ToolServer) -> Agents {
    Agents::new().scripted("ops", SCRIPT, &[Tool::http("deploy", &tools.url("deploy")).asks()])
}

/// The path of a link to `request`.
async fn link(api: &Api, request: &Value) -> String {
    let path = format!("/v1/requests/{}/links", request["request_id"].as_str().unwrap());
    api.post(&path, &json!({})).await.expect(201)["path"].as_str().unwrap().to_owned()
}

/// As a browser that somebody else's page or mail led here: it has no name, and says of where it came what the page's
/// own policy lets it say.
fn browser(api: &Api, method: &str, path: &str) -> reqwest::RequestBuilder {
    api.by("nobody at all")
        .request(method, path)
        .header("accept", "text/html,*/*;q=0.8")
        .header("origin", "null")
        .header("sec-fetch-site", "cross-site")
}

#[tokio::test]
async fn x6_a_browser_without_an_identity_looks_and_then_decides_once() {
    let tools = ToolServer::start().await;
    let agents = ops(&tools);
    let stack = TestStack::in_memory(&agents).await;
    let run = stack.api.start("ops", "Deploy web.").await;
    let request = stack.api.request_of(&run).await;
    let path = link(&stack.api, &request).await;
    let page = browser(&stack.api, "GET", &path).send().await.unwrap();
    assert_eq!(page.status(), 200);
    assert_eq!(page.headers()["referrer-policy"], "no-referrer");
    assert!(page.headers()["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
    assert!(page.text().await.unwrap().contains("deploy(service: &quot;web&quot;)"));
    assert_eq!(browser(&stack.api, "HEAD", &path).send().await.unwrap().status(), 405);
    assert_eq!(stack.api.run(&run).await["requests"], json!([request]));
    let submit = || {
        let post = browser(&stack.api, "POST", &path).header("content-type", "application/x-www-form-urlencoded");
        post.body("decision=approve")
    };
    let decided = submit().send().await.unwrap();
    assert_eq!(decided.status(), 200);
    let again = submit().send().await.unwrap();
    assert_eq!(again.status(), 409);
    assert!(again.text().await.unwrap().contains("shop/ann"));
    stack.api.run_that_is(&run, "completed").await;
    assert_eq!(tools.calls().len(), 1);
    let entry = &stack.api.entries(&run, "RequestDecided").await[0];
    assert!(entry["via"]["link"]["id"].is_string(), "{entry}");
}

/// The keys are in the data folder: a link that is out survives the process. With other keys it is none; a broken file
/// of keys stops the start, and is left as it is.
#[tokio::test]
async fn x6_links_outlive_the_process_and_die_with_their_key() {
    let tools = ToolServer::start().await;
    let (agents, data) = (ops(&tools), tempfile::tempdir().unwrap());
    let process = Process::start(data.path(), &agents, &[("RUST_LOG", "debug".to_owned())]).await;
    let run = process.api.start("ops", "Deploy web.").await;
    let request = process.api.request_of(&run).await;
    let path = link(&process.api, &request).await;
    process.api.get(&path).await.expect(200);
    process.api.get(&format!("{path}x")).await.problem(404, "not-found");
    let log = process.log();
    let (_, secret) = path.rsplit_once('.').unwrap();
    assert!(log.contains("link made") && log.contains("there is no such link"), "{log}");
    assert!(!log.contains(secret), "a link is in the log: {log}");
    process.kill();

    let keys = data.path().join("link-keys.json");
    let kept = fs::read(&keys).unwrap();
    fs::remove_file(&keys).unwrap();
    let process = Process::start(data.path(), &agents, &[]).await;
    process.api.post(&path, &json!({"decision": "approve"})).await.problem(404, "not-found");
    process.kill();

    fs::write(&keys, &kept).unwrap();
    let process = Process::start(data.path(), &agents, &[]).await;
    assert_eq!(process.api.get(&path).await.expect(200)["request_id"], request["request_id"]);
    process.api.post(&path, &json!({"decision": "approve"})).await.expect(200);
    process.api.run_that_is(&run, "completed").await;
    assert_eq!(tools.calls().len(), 1);
}
