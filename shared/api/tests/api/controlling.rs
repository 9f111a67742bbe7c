//! Changing runs.

use dormouse_testkit::say;
use http::Method;
use serde_json::{Value, json};

use crate::app::{App, event};

async fn status(app: &App, run: &str) -> Value {
    app.get("ann", &format!("/v1/runs/{run}")).await.expect(200)["status"].clone()
}

#[tokio::test]
async fn pause_resume_and_cancel() {
    let app = App::new();
    let (run, _) = app.waiting("ann").await;
    let post = async |action: &str, body: &str| {
        app.send(event("ann", Method::POST, &format!("/v1/runs/{run}/{action}"), body)).await
    };
    post("resume", "").await.expect_problem(409, "wrong-state");
    let paused = post("pause", "").await.expect(200);
    assert_eq!((&paused["run_id"], &paused["status"]), (&json!(run), &json!("paused")));
    assert!(paused["note"].is_string());
    post("pause", "{}").await.expect_problem(409, "wrong-state");
    assert_eq!(post("resume", "{}").await.expect(200)["status"], "waiting");
    let long = json!({ "reason": "x".repeat(16_385) }).to_string();
    post("cancel", &long).await.expect_problem(400, "invalid-body");
    post("cancel", r#"{"reason":"enough"}"#).await.expect(200);
    app.step(&run).await;
    assert_eq!(status(&app, &run).await, "cancelled");
    for action in ["pause", "resume", "cancel"] {
        post(action, "").await.expect_problem(409, "wrong-state");
    }
    post("messages", r#"{"text":"still there?"}"#).await.expect_problem(409, "wrong-state");
}

#[tokio::test]
async fn a_message_reaches_the_agent_also_after_the_end() {
    let app = App::new();
    let run = app.run("ann", vec![vec![say("hello")], vec![say("again")]]).await;
    assert_eq!(status(&app, &run).await, "completed");
    let url = format!("/v1/runs/{run}/messages");
    for bad in [json!({}), json!({ "text": 1 }), json!({ "text": " " }), json!({ "text": "a", "by": "bob" })] {
        app.post("ann", &url, bad).await.expect_problem(400, "invalid-body");
    }
    assert_eq!(app.post("ann", &url, json!({ "text": "more" })).await.expect(200)["status"], "queued");
    app.step(&run).await;
    let view = app.get("ann", &format!("/v1/runs/{run}")).await.expect(200);
    assert_eq!((&view["status"], &view["output"]), (&json!("completed"), &json!("again")));
    assert!(app.world.models.asked()[1].contains("more"));
}

#[tokio::test]
async fn the_mode_is_set_up_to_the_agents_widest() {
    let app = App::new();
    let (run, _) = app.waiting("ann").await;
    let put = async |body: Value| {
        app.send(event("ann", Method::PUT, &format!("/v1/runs/{run}/mode"), &body.to_string())).await
    };
    put(json!({})).await.expect_problem(400, "invalid-body");
    put(json!({ "mode": "yolo" })).await.expect_problem(400, "invalid-body");
    put(json!({ "mode": "auto_edit" })).await.expect(200);
    let view = app.get("ann", &format!("/v1/runs/{run}")).await.expect(200);
    assert_eq!((&view["mode"], &view["status"]), (&json!("auto_edit"), &json!("waiting")));
}
