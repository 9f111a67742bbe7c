//! Problem documents: every type, once each, as a client gets it.

use std::collections::BTreeSet;

use dormouse_api::problem::Kind;
use dormouse_testkit::agent;
use http::Method;
use serde_json::json;

use crate::app::{Answer, App, approval, event, respond_url, with_header};

/// One call for each type, with its status.
async fn one_of_each() -> Vec<(u16, &'static str, Answer)> {
    let app = App::new();
    let (run, request) = app.waiting("ann").await;
    let mut all = Vec::new();
    let start = json!({ "agent": "ops", "input": "go" });
    all.push((400, "unknown-agent", app.post("ann", "/v1/runs", json!({ "agent": "x", "input": "go" })).await));
    all.push((400, "invalid-body", app.post("ann", "/v1/runs", json!({})).await));
    all.push((400, "invalid-request", app.get("ann", "/v1/runs?limit=0").await));
    all.push((400, "invalid-answer", app.post("ann", &respond_url(&request), json!({ "decision": "stop" })).await));
    let mut nobody = event("ann", Method::GET, "/v1/runs", "");
    nobody.request_context.authorizer.fields.clear();
    all.push((401, "unauthenticated", app.send(nobody).await));
    all.push((404, "not-found", app.get("bob", &format!("/v1/runs/{run}")).await));
    all.push((405, "method-not-allowed", app.send(event("ann", Method::DELETE, "/v1/runs", "")).await));
    let events = event("ann", Method::GET, &format!("/v1/runs/{run}/events"), "");
    all.push((406, "not-acceptable", app.send(with_header(events, "accept", "text/event-stream")).await));
    let mismatch = json!({ "decision": "approve", "digest": "sha256:0" });
    all.push((409, "digest-mismatch", app.post("ann", &respond_url(&request), mismatch).await));
    all.push((409, "wrong-state", app.post("ann", &format!("/v1/runs/{run}/resume"), json!({})).await));
    app.post("ann", &respond_url(&request), approval(&request)).await.expect(200);
    all.push((409, "already-decided", app.post("ann", &respond_url(&request), approval(&request)).await));
    let (_, late) = app.waiting("ann").await;
    app.world.clock.advance(24 * 3_600_000 + 1);
    all.push((410, "expired", app.post("ann", &respond_url(&late), approval(&late)).await));
    let large = "x".repeat(dormouse_api::MAX_BODY_BYTES + 1);
    all.push((413, "too-large", app.send(event("ann", Method::POST, "/v1/runs", &large)).await));
    let keyed = |body: &str| with_header(event("ann", Method::POST, "/v1/runs", body), "idempotency-key", "k");
    app.send(keyed(&start.to_string())).await.expect(202);
    all.push((422, "key-reused", app.send(keyed(r#"{"agent":"ops","input":"other"}"#)).await));
    all.push((403, "not-entitled", not_entitled().await));
    app.corrupt(&run).await;
    all.push((500, "internal", app.post("ann", &format!("/v1/runs/{run}/pause"), json!({})).await));
    app.world.store.set_down(true);
    all.push((503, "unavailable", app.get("ann", "/v1/runs").await));
    all
}

/// Whose run it is answers what a group decides.
async fn not_entitled() -> Answer {
    let app = App::new();
    let file = r#"
        models = ["scripted:x"]
        approvers = { group = "sre" }
        [[tools]]
        name = "deploy"
        http = { url = "http://tools/deploy" }
    "#;
    app.world.agents.add(agent("ops", file));
    let (_, request) = app.waiting("ann").await;
    app.post("ann", &respond_url(&request), approval(&request)).await
}

#[tokio::test]
async fn every_type_is_given_as_documented() {
    let all = one_of_each().await;
    for (status, name, answer) in &all {
        let document = answer.expect_problem((*status).into(), name);
        let kind = Kind::ALL.iter().find(|kind| kind.name() == *name).unwrap();
        assert_eq!((kind.status(), json!(kind.title())), (*status, document["title"].clone()));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
    let seen: BTreeSet<_> = all.iter().map(|(_, name, _)| *name).collect();
    let known: BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(seen, known);
}

/// What is inside stays inside: a client learns what to do, the log learns why.
#[tokio::test]
async fn an_inner_error_is_not_told() {
    let app = App::new();
    let (run, _) = app.waiting("ann").await;
    app.world.store.set_down(true);
    let down = app.get("ann", &format!("/v1/runs/{run}")).await;
    let document = down.expect_problem(503, "unavailable");
    assert_eq!((&document["outcome"], down.header("retry-after")), (&json!("unchanged"), Some("1")));
    assert_eq!(document["detail"], "temporarily unavailable, nothing was changed; try again");
    app.world.store.set_down(false);
    app.corrupt(&run).await;
    let corrupt = app.post("ann", &format!("/v1/runs/{run}/pause"), json!({})).await;
    let detail = corrupt.expect_problem(500, "internal")["detail"].to_string();
    assert!(!detail.contains("RunStarted") && !detail.contains(&run), "{detail}");
}

#[tokio::test]
async fn a_problem_as_it_is_written() {
    let app = App::new();
    let (_, request) = app.waiting("ann").await;
    app.post("ann", &respond_url(&request), json!({ "decision": "deny" })).await.expect(200);
    let late = app.post("ann", &respond_url(&request), approval(&request)).await;
    assert_eq!(
        late.json(),
        json!({
            "type": "urn:dormouse:problem:already-decided",
            "title": "Already decided",
            "status": 409,
            "detail": "this request is already decided",
            "decision": {
                "decision": "deny",
                "by": { "tenant": "acme", "subject": "ann" },
                "at": "2023-11-14T22:13:20.000Z",
            },
        })
    );
}
