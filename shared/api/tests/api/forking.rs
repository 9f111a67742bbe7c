//! `POST /v1/runs/{id}/fork`.

use http::Method;
use serde_json::{Value, json};

use crate::app::{App, approval, event, respond_url, with_header};

/// X8: a fork is a run of its own, answered like a start; what waited there asks here, under its own name.
#[tokio::test]
async fn x8_a_fork_of_a_run_that_waits() {
    let app = App::new();
    let (run, request) = app.waiting("ann").await;
    let body = json!({ "at": 3, "mode": "plan", "metadata": { "why": "what if" } });
    let forked = app.post("ann", &format!("/v1/runs/{run}/fork"), body).await.expect(202);
    let fork = forked["run_id"].as_str().unwrap().to_owned();
    assert_eq!(forked, json!({ "run_id": fork, "status": "queued" }));
    assert_ne!(fork, run);
    let view = app.get("ann", &format!("/v1/runs/{fork}")).await.expect(200);
    assert_eq!(view["forked_from"], json!({ "run_id": run, "at": 3 }));
    assert_eq!((&view["mode"], &view["metadata"]), (&json!("plan"), &json!({ "why": "what if" })));
    assert_eq!((&view["title"], &view["turns"]), (&json!("go"), &json!(1)));
    let journal = app.get("ann", &format!("/v1/runs/{fork}/journal")).await.expect(200);
    let of_run = app.get("ann", &format!("/v1/runs/{run}/journal")).await.expect(200);
    let items = journal["items"].as_array().unwrap();
    assert_eq!(items[..4], of_run["items"].as_array().unwrap()[..4]);
    let entry = items.last().unwrap();
    let said = ["kind", "from", "last", "mode", "by"].map(|name| entry[name].clone());
    let by = json!({ "tenant": "acme", "subject": "ann" });
    assert_eq!(said, [json!("Forked"), json!(run), json!(3), json!("plan"), by]);

    // In mode plan the call is refused; in the mode of the run it asks, and is decided there.
    let fork = app.post("ann", &format!("/v1/runs/{run}/fork"), json!({ "at": 3 })).await.expect(202);
    let fork = fork["run_id"].as_str().unwrap().to_owned();
    app.step(&fork).await;
    let view = app.get("ann", &format!("/v1/runs/{fork}")).await.expect(200);
    let asked = &view["requests"][0];
    assert_eq!((&asked["arguments"], &asked["run_id"]), (&request["arguments"], &json!(fork)));
    assert_ne!(asked["digest"], request["digest"], "a digest is of one run");
    app.post("ann", &respond_url(asked), approval(&request)).await.expect_problem(409, "digest-mismatch");
    app.post("ann", &respond_url(asked), approval(asked)).await.expect(200);
    let old = format!("/v1/requests/{fork}.3.0");
    app.get("ann", &old).await.expect_problem(404, "not-found");
    let view = app.get("ann", &format!("/v1/runs/{run}")).await.expect(200);
    assert_eq!(view["requests"][0]["request_id"], request["request_id"], "there it still waits");
}

/// X8: what is refused, and how.
#[tokio::test]
async fn x8_forks_that_are_refused() {
    let app = App::new();
    let (run, _) = app.waiting("ann").await;
    let url = format!("/v1/runs/{run}/fork");
    let refused: Vec<(Value, i64, &str, &str)> = vec![
        (json!({}), 400, "invalid-body", "missing field `at`"),
        (json!({ "at": -1 }), 400, "invalid-body", "`at`"),
        (json!({ "at": "3" }), 400, "invalid-body", "`at`"),
        (json!({ "at": 99 }), 400, "invalid-body", "its last one is 3"),
        (json!({ "at": 3, "message": " " }), 400, "invalid-body", "`message` is blank"),
        (json!({ "at": 3, "mode": "yolo" }), 400, "invalid-body", "wider than this agent's max_mode"),
        (json!({ "at": 3, "agent": "ops" }), 400, "invalid-body", "unknown field `agent`"),
        (json!({ "at": 3, "metadata": { "x": "y".repeat(600) } }), 400, "invalid-body", "`metadata` takes"),
    ];
    for (body, status, kind, told) in refused {
        let document = app.post("ann", &url, body.clone()).await.expect_problem(status, kind);
        assert!(document["detail"].as_str().unwrap().contains(told), "{body}: {document}");
    }
    app.post("bob", &url, json!({ "at": 3 })).await.expect_problem(404, "not-found");
    app.post("ann", &format!("/v1/runs/{run}/cancel"), json!({})).await.expect(200);
    app.post("ann", &url, json!({ "at": 4 })).await.expect_problem(409, "wrong-state");
    app.post("ann", &url, json!({ "at": 3 })).await.expect(202);
}

/// X8: one fork for one key.
#[tokio::test]
async fn x8_a_repeated_fork_is_the_same_run() {
    let app = App::new();
    let (run, _) = app.waiting("ann").await;
    let url = format!("/v1/runs/{run}/fork");
    let send =
        async |body: &str| app.send(with_header(event("ann", Method::POST, &url, body), "idempotency-key", "k")).await;
    let first = send(r#"{"at":3}"#).await.expect(202);
    assert_eq!(send(r#"{"at":3}"#).await.expect(202), first);
    send(r#"{"at":2}"#).await.expect_problem(422, "key-reused");
    assert_eq!(app.get("ann", "/v1/runs").await.expect(200)["items"].as_array().unwrap().len(), 2);
}
