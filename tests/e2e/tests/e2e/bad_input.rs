//! What clients get wrong: each time a problem document that says so, and a run that is as it was.

use dormouse_e2e::{Agents, Answer, Api, TestStack, Tool, ToolServer};
use reqwest::RequestBuilder;
use serde_json::{Value, json};

const SCRIPT: &str = r#"
[[replies]]
[[replies.calls]]
name = "deploy"
arguments = { service = "web" }
"#;

const QUESTION: &str = r#"
[[replies]]
[[replies.calls]]
name = "ask_user"
arguments = { question = "Where?", options = [{ value = "staging" }, { value = "production" }] }
"#;

/// A stack with a run that waits for an approval and one that waits for a choice.
struct Bed {
    _tools: ToolServer,
    _agents: Agents,
    stack: TestStack,
    approval: Value,
    question: Value,
}

impl Bed {
    async fn new() -> Self {
        let tools = ToolServer::start().await;
        let agents = Agents::new()
            .scripted("ops", SCRIPT, &[Tool::http("deploy", &tools.url("deploy")).asks()])
            .scripted("asker", QUESTION, &[Tool::builtin("ask_user")]);
        let stack = TestStack::in_memory(&agents).await;
        let (ops, asker) = (stack.api.start("ops", "Deploy.").await, stack.api.start("asker", "Ask.").await);
        let approval = stack.api.request_of(&ops).await;
        let question = stack.api.request_of(&asker).await;
        Self { _tools: tools, _agents: agents, stack, approval, question }
    }

    fn api(&self) -> &Api {
        &self.stack.api
    }

    /// Everything about both runs.
    async fn state(&self) -> Vec<Value> {
        let mut state = Vec::new();
        for request in [&self.approval, &self.question] {
            let run = request["run_id"].as_str().unwrap();
            state.push(self.api().run(run).await);
            state.extend(self.api().journal(run).await);
        }
        state
    }

    /// An answer to a request, not yet sent.
    fn answer(&self, request: &Value, body: impl Into<reqwest::Body>) -> RequestBuilder {
        let path = format!("/v1/requests/{}/respond", request["request_id"].as_str().unwrap());
        self.api().request("POST", &path).body(body)
    }
}

async fn refused(request: RequestBuilder, status: u16, kind: &str) -> Value {
    let shown = format!("{request:?}");
    let answer: Answer = Api::send(request).await;
    assert_eq!(answer.status, status, "{shown}: {}", answer.body);
    answer.problem(status, kind)
}

#[tokio::test]
async fn c4_an_answer_that_does_not_fit_changes_nothing() {
    let bed = Bed::new().await;
    let before = bed.state().await;
    let (approval, question) = (&bed.approval, &bed.question);
    let digest = approval["digest"].as_str().unwrap();
    let other = question["digest"].as_str().unwrap();
    assert_ne!(digest, other);
    for (request, body, status, kind) in [
        (approval, json!({"decision": "approve"}), 400, "invalid-answer"),
        (approval, json!({"decision": "approve", "digest": other}), 409, "digest-mismatch"),
        (approval, json!({"decision": "approve", "digest": ""}), 409, "digest-mismatch"),
        (approval, json!({"decision": "approve", "digest": digest.to_uppercase()}), 409, "digest-mismatch"),
        (approval, json!({"decision": "deny", "digest": other}), 409, "digest-mismatch"),
        (approval, json!({"decision": "bless", "digest": digest}), 400, "invalid-body"),
        (approval, json!({"decision": "Approve", "digest": digest}), 400, "invalid-body"),
        (approval, json!({"decision": 1, "digest": digest}), 400, "invalid-body"),
        (approval, json!({"decision": "approve", "digest": digest, "force": true}), 400, "invalid-body"),
        (approval, json!({"decision": "approve", "digest": digest, "by": {"turns": 3}}), 400, "invalid-answer"),
        (approval, json!({"decision": "approve", "digest": digest, "reason": "ok"}), 400, "invalid-answer"),
        (approval, json!({"decision": "answer", "answer": "yes"}), 400, "invalid-answer"),
        (approval, json!({"decision": "settle", "resolution": "abort"}), 400, "invalid-answer"),
        (approval, json!({"decision": "edit", "digest": digest, "arguments": []}), 400, "invalid-answer"),
        (approval, json!({"decision": "always", "digest": digest, "scope": "agent"}), 400, "invalid-answer"),
        (approval, json!({"decision": "deny", "reason": "x".repeat(16 * 1024 + 1)}), 400, "invalid-answer"),
        (approval, json!({"digest": digest}), 400, "invalid-body"),
        (approval, json!({}), 400, "invalid-body"),
        (approval, json!([{"decision": "approve", "digest": digest}]), 400, "invalid-body"),
        (question, json!({"decision": "answer", "answer": "test"}), 400, "invalid-answer"),
        (question, json!({"decision": "answer", "answer": "Staging"}), 400, "invalid-answer"),
        (question, json!({"decision": "answer", "answer": "staging "}), 400, "invalid-answer"),
        (question, json!({"decision": "answer", "answer": ""}), 400, "invalid-answer"),
        (question, json!({"decision": "answer", "answer": 0}), 400, "invalid-answer"),
        (question, json!({"decision": "answer", "answer": ["staging"]}), 400, "invalid-answer"),
        (question, json!({"decision": "answer", "answer": null}), 400, "invalid-answer"),
        (question, json!({"decision": "answer"}), 400, "invalid-answer"),
        (question, json!({"decision": "approve", "digest": other}), 400, "invalid-answer"),
        (question, json!({"decision": "deny"}), 400, "invalid-answer"),
    ] {
        let shown = body.to_string();
        refused(bed.answer(request, shown), status, kind).await;
    }
    let broken = [
        "{",
        "",
        "nope",
        "null",
        "{\"decision\":\"deny\"} x",
        "{\"decision\":\"deny\",}",
        "{'decision':'deny'}",
        "{\"decision\":\"deny\",\"reason\":\"\\ud92c\"}",
        "{\"decision\":\"deny\",\"decision\":\"deny\"}",
        "\u{feff}{}",
    ];
    for body in broken {
        refused(bed.answer(approval, body), 400, "invalid-body").await;
    }
    refused(bed.answer(approval, b"{\"decision\":\"deny\",\"reason\":\"\xff\"}".to_vec()), 400, "invalid-body").await;
    let large = json!({"decision": "deny", "reason": "x".repeat(2 << 20)}).to_string();
    refused(bed.answer(approval, large), 413, "too-large").await;
    assert_eq!(bed.state().await, before);
}

/// A16, case 5: to others it does not exist, in the very words in which nothing exists.
#[tokio::test]
async fn a16_case_5_somebody_elses_run_and_request_do_not_exist() {
    let bed = Bed::new().await;
    let before = bed.state().await;
    let (run, request) = (bed.approval["run_id"].as_str().unwrap(), bed.approval["request_id"].as_str().unwrap());
    let approve = json!({"decision": "approve", "digest": bed.approval["digest"]});
    let unknown_run = format!("run_{}", "0".repeat(run.len() - 4));
    for stranger in ["shop/bob", "acme/ann"] {
        let stranger = bed.api().by(stranger);
        for (method, tail, body) in [
            ("GET", "", json!({})),
            ("GET", "/journal", json!({})),
            ("GET", "/events", json!({})),
            ("POST", "/respond", approve.clone()),
            ("POST", "/messages", json!({"text": "hello"})),
            ("POST", "/pause", json!({})),
            ("POST", "/resume", json!({})),
            ("POST", "/cancel", json!({})),
            ("PUT", "/mode", json!({"mode": "yolo"})),
        ] {
            let mut told = Vec::new();
            for run in [run, unknown_run.as_str(), "run_x", "%20"] {
                let asked = stranger.request(method, &format!("/v1/runs/{run}{tail}")).body(body.to_string());
                told.push(refused(asked, 404, "not-found").await);
            }
            assert!(told.windows(2).all(|pair| pair[0] == pair[1]), "{method} {tail}: {told:?}");
        }
        for (method, tail) in [("GET", ""), ("POST", "/respond")] {
            let mut told = Vec::new();
            for request in [request.to_owned(), format!("{unknown_run}.1.0"), format!("{run}.0.9"), "x".to_owned()] {
                let asked = stranger.request(method, &format!("/v1/requests/{request}{tail}"));
                told.push(refused(asked.body(approve.to_string()), 404, "not-found").await);
            }
            assert!(told.windows(2).all(|pair| pair[0] == pair[1]), "{method} {tail}: {told:?}");
        }
        assert_eq!(stranger.get("/v1/runs").await.expect(200), json!({"items": []}));
        assert_eq!(stranger.get("/v1/requests").await.expect(200), json!({"items": []}));
    }
    assert_eq!(bed.state().await, before);
    bed.api().approve(&bed.approval).await;
}

#[tokio::test]
async fn starts_that_cannot_be_taken() {
    let bed = Bed::new().await;
    let before = bed.state().await;
    let runs = bed.api().get("/v1/runs").await.expect(200);
    let start = |body: String| bed.api().request("POST", "/v1/runs").body(body);
    for (body, status, kind) in [
        (json!({"agent": "nobody", "input": "x"}), 400, "unknown-agent"),
        (json!({"agent": "../ops", "input": "x"}), 400, "unknown-agent"),
        (json!({"agent": "ops"}), 400, "invalid-body"),
        (json!({"agent": "ops", "input": " \n"}), 400, "invalid-body"),
        (json!({"agent": "ops", "input": 7}), 400, "invalid-body"),
        (json!({"agent": "ops", "input": "x", "mode": "root"}), 400, "invalid-body"),
        (json!({"agent": "ops", "input": "x", "owner": "shop/bob"}), 400, "invalid-body"),
        (json!({"agent": "ops", "input": "x", "metadata": {"k": 1}}), 400, "invalid-body"),
        (json!({"agent": "ops", "input": "x".repeat(2 << 20)}), 413, "too-large"),
    ] {
        refused(start(body.to_string()), status, kind).await;
    }
    for body in ["", "{\"agent\":\"ops\",\"input\":\"x\"", "[]", "\"ops\""] {
        refused(start(body.to_owned()), 400, "invalid-body").await;
    }
    for key in ["", " ", "a b", &"k".repeat(201)] {
        let body = json!({"agent": "ops", "input": "x"}).to_string();
        refused(start(body).header("idempotency-key", key), 400, "invalid-request").await;
    }
    assert_eq!(bed.api().get("/v1/runs").await.expect(200), runs, "no run was started");
    assert_eq!(bed.state().await, before);
}

#[tokio::test]
async fn requests_that_no_route_takes() {
    let bed = Bed::new().await;
    let before = bed.state().await;
    let run = format!("/v1/runs/{}", bed.approval["run_id"].as_str().unwrap());
    let respond = format!("/v1/requests/{}/respond", bed.approval["request_id"].as_str().unwrap());
    for (method, path, allow) in [
        ("DELETE", run.clone(), "GET"),
        ("PATCH", "/v1/runs".to_owned(), "POST, GET"),
        ("GET", respond.clone(), "POST"),
        ("PUT", respond.clone(), "POST"),
        ("GET", format!("{run}/respond"), "POST"),
        ("POST", format!("{run}/mode"), "PUT"),
        ("POST", "/v1/requests".to_owned(), "GET"),
    ] {
        let answer = Api::send(bed.api().request(method, &path).body("{}")).await;
        assert_eq!(answer.headers["allow"], allow, "{method} {path}");
        answer.problem(405, "method-not-allowed");
    }
    for path in ["/v1", "/v1/runs/", "/v1/nothing", "/v2/runs", "/runs", &format!("{run}/"), &format!("{run}/x")] {
        refused(bed.api().request("GET", path), 404, "not-found").await;
    }
    for query in ["limit=0", "limit=1000000", "limit=x", "cursor=x"] {
        for path in ["/v1/runs".to_owned(), "/v1/requests".to_owned(), format!("{run}/journal")] {
            refused(bed.api().request("GET", &format!("{path}?{query}")), 400, "invalid-request").await;
        }
    }
    let stream = bed.api().request("GET", &format!("{run}/events")).header("accept", "text/event-stream");
    refused(stream, 406, "not-acceptable").await;
    assert_eq!(bed.state().await, before);
}

/// The embedded stack believes a header, so it must not be reached by pages of other origins.
#[tokio::test]
async fn callers_who_are_nobody_or_come_from_elsewhere() {
    let bed = Bed::new().await;
    let before = bed.state().await;
    let deny = || bed.answer(&bed.approval, json!({"decision": "deny"}).to_string());
    let list = || bed.api().request("GET", "/v1/runs");
    for user in ["ann", "/", "shop/", "/ann", "", "shop/ ", "shop/a\tb", &format!("shop/{}", "x".repeat(300))] {
        let told = refused(bed.api().by(user).request("GET", "/v1/runs"), 401, "unauthenticated").await;
        assert!(told.get("items").is_none());
    }
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("origin", "http://127.0.0.1.evil.example"),
        ("origin", "https://127.0.0.1"),
        ("host", "evil.example"),
        ("host", "evil.example:8787"),
        ("host", "127.0.0.1.evil.example"),
        ("sec-fetch-site", "cross-site"),
    ] {
        refused(deny().header(name, value), 403, "forbidden").await;
        refused(list().header(name, value), 403, "forbidden").await;
    }
    // What meddles with the host is kept from links too (they are let in from other origins: see there).
    refused(bed.api().request("GET", "/v1/links/x").header("host", "evil.example"), 403, "forbidden").await;
    let own = |host: &str| list().header("host", host).header("origin", format!("http://{host}"));
    for host in ["localhost:8787", "127.0.0.1:1", "[::1]:8787"] {
        Api::send(own(host)).await.expect(200);
    }
    assert_eq!(bed.state().await, before);
}
