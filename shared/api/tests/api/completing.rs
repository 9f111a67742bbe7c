//! External completion over HTTP.

use dormouse_domain::entry::CallResult;
use dormouse_testkit::{agent, call, say};
use http::Method;
use serde_json::{Value, json};

use crate::{
    app::{App, event, with_header},
    links::{link, visit},
};

const AGENT: &str = r#"
    models = ["scripted:x"]
    [[tools]]
    name = "order"
    permission = "allow"
    later = true
    http = { url = "http://tools/order" }
"#;

/// A run of Ann's that waits for a completion: its name, its request as it is shown, and where it is completed.
async fn waiting(app: &App) -> (String, Value, String) {
    app.world.agents.add(agent("ops", AGENT));
    app.world.tools.on("order", |_| CallResult::Later {});
    let run = app.run("ann", vec![vec![call("c1", "order", "{}")], vec![say("done")]]).await;
    let request = app.get("ann", &format!("/v1/runs/{run}")).await.expect(200)["requests"][0].clone();
    let token = app.world.tools.calls().pop().unwrap().handover.unwrap().token;
    (run, request, format!("/v1/completions/{token}"))
}

#[tokio::test]
async fn x7_b5_a_completion_finishes_the_call_once() {
    let app = App::new();
    let (run, request, path) = waiting(&app).await;
    assert_eq!((&request["kind"], &request["decisions"]), (&json!("external"), &json!(["settle"])));
    let completed = visit(&app, Method::POST, &path, r#"{"content":"ordered as no 7"}"#).await.expect(200);
    assert_eq!(completed["run"], json!({ "run_id": run, "status": "queued" }));
    let again = visit(&app, Method::POST, &path, r#"{"content":"again"}"#).await.expect_problem(409, "wrong-state");
    assert!(again["detail"].as_str().unwrap().contains("it has its result"), "{again}");
    let shown = app.get("ann", &format!("/v1/requests/{}", request["request_id"].as_str().unwrap())).await.expect(200);
    assert_eq!(shown["status"], "cancelled");
    app.step(&run).await;
    assert!(app.world.models.asked().pop().unwrap().contains("ordered as no 7"));
}

#[tokio::test]
async fn x7_what_a_completion_says() {
    for (body, told) in [
        (json!({ "content": "" }), "(no output)"),
        (json!({ "content": [] }), "(no output)"),
        (json!({ "content": [{ "type": "text", "text": "one" }, { "type": "text", "text": "two" }] }), "two"),
        (json!({ "content": "out of stock", "is_error": true }), "out of stock"),
    ] {
        let app = App::new();
        let (run, _, path) = waiting(&app).await;
        visit(&app, Method::POST, &path, &body.to_string()).await.expect(200);
        app.step(&run).await;
        let prompt = app.world.models.asked().pop().unwrap();
        assert!(prompt.contains(told), "{body}: {prompt}");
    }
    let app = App::new();
    let (run, _, path) = waiting(&app).await;
    let before = app.world.memory.kinds(&run.parse().unwrap());
    for bad in [
        "{}",
        r#"{"content":null}"#,
        r#"{"content":7}"#,
        r#"{"content":"x","status":"ok"}"#,
        r#"{"content":"x","is_error":"no"}"#,
        r#"{"content":[{"type":"image","media_type":"image/png","data":"x"}]}"#,
        r#"{"content":[{"type":"text"}]}"#,
        r#"["x"]"#,
        "content=x",
    ] {
        visit(&app, Method::POST, &path, bad).await.expect_problem(400, "invalid-body");
    }
    let long = json!({ "content": "x".repeat(256 * 1024 + 1) }).to_string();
    assert_eq!(visit(&app, Method::POST, &path, &long).await.expect_problem(413, "too-large")["max_bytes"], 262_144);
    assert_eq!(app.world.memory.kinds(&run.parse().unwrap()), before);
    let longest = json!({ "content": "x".repeat(256 * 1024) }).to_string();
    visit(&app, Method::POST, &path, &longest).await.expect(200);
}

/// What is no token for this is not found, whatever it is else; and this one is none for anything else.
#[tokio::test]
async fn x7_what_is_no_completion_is_not_found() {
    let app = App::new();
    let (run, request, path) = waiting(&app).await;
    let made = link(&app, "ann", &request, json!({})).await;
    let token = path.rsplit('/').next().unwrap();
    let link = made["token"].as_str().unwrap();
    let forged = [
        token[..token.len() - 1].to_owned(),
        token.replacen("done1", "link1", 1),
        link.to_owned(),
        link.replacen("link1", "done1", 1),
        run.clone(),
        "x".to_owned(),
    ];
    let mut answers = Vec::new();
    for token in forged {
        answers.push(visit(&app, Method::POST, &format!("/v1/completions/{token}"), r#"{"content":"x"}"#).await);
    }
    answers[0].expect_problem(404, "not-found");
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:#?}");
    visit(&app, Method::GET, &format!("/v1/links/{token}"), "").await.expect_problem(404, "not-found");
    let settle = r#"{"decision":"settle","resolution":"abort"}"#;
    visit(&app, Method::POST, &format!("/v1/links/{token}"), settle).await.expect_problem(404, "not-found");
    // And a link to such a request settles it as a person does.
    visit(&app, Method::POST, made["path"].as_str().unwrap(), settle).await.expect(200);
}

#[tokio::test]
async fn x7_c4_case_25_a_completion_is_repeated_under_its_key() {
    let app = App::new();
    let (_, _, path) = waiting(&app).await;
    let keyed = |body: &str| {
        let mut event = with_header(event("x", Method::POST, &path, body), "idempotency-key", "k");
        event.request_context.authorizer.fields.clear();
        event
    };
    let first = app.send(keyed(r#"{"content":"x"}"#)).await.expect(200);
    assert_eq!(app.send(keyed(r#"{"content":"x"}"#)).await.expect(200), first);
    app.send(keyed(r#"{"content":"y"}"#)).await.expect_problem(422, "key-reused");
}

/// Case 19: a run that does not listen any more.
#[tokio::test]
async fn x7_case_19_a_completion_of_a_run_that_is_over_is_gone() {
    let app = App::new();
    let (run, _, path) = waiting(&app).await;
    app.post("ann", &format!("/v1/runs/{run}/cancel"), json!({})).await.expect(200);
    visit(&app, Method::POST, &path, r#"{"content":"x"}"#).await.expect_problem(410, "expired");
    app.step(&run).await;
    visit(&app, Method::POST, &path, r#"{"content":"x"}"#).await.expect_problem(410, "expired");
    let view = app.get("ann", &format!("/v1/runs/{run}")).await.expect(200);
    assert_eq!(view["outcome"]["unknown_calls"].as_array().unwrap().len(), 1, "{view}");
}
