//! Approval links, as programs use them.

use std::sync::Arc;

use dormouse_engine::{Engine, Ports, Settings, ports::NoKeys};
use dormouse_testkit::call;
use http::Method;
use serde_json::{Value, json};

use crate::app::{Answer, App, approval, event, respond_url, with_header};

/// A link to `request` that `user` makes.
pub(crate) async fn link(app: &App, user: &str, request: &Value, body: Value) -> Value {
    let url = format!("/v1/requests/{}/links", request["request_id"].as_str().unwrap());
    app.post(user, &url, body).await.expect(201)
}

/// Sends without an identity.
pub(crate) async fn visit(app: &App, method: Method, path: &str, body: &str) -> Answer {
    let mut event = event("nobody", method, path, body);
    event.request_context.authorizer.fields.clear();
    app.send(event).await
}

fn path(link: &Value) -> String {
    link["path"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn x6_a_link_shows_the_request_and_decides_it_once() {
    let app = App::new();
    let (run, request) = app.waiting("ann").await;
    let made = link(&app, "ann", &request, json!({})).await;
    assert_eq!(made["decisions"], json!(["approve", "deny"]));
    assert_eq!(made["path"], format!("/v1/links/{}", made["token"].as_str().unwrap()));
    let seen = visit(&app, Method::GET, &path(&made), "").await;
    assert_eq!(seen.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(seen.header("cache-control"), Some("no-store"));
    let seen = seen.expect(200);
    // What it shows is the request as everywhere, but for what the link is for and how long it is good.
    let mut expected = request.clone();
    (expected["decisions"], expected["link_id"]) = (made["decisions"].clone(), made["link_id"].clone());
    expected["expires_at"] = made["expires_at"].clone();
    expected.as_object_mut().unwrap().remove("always");
    assert_eq!(seen, expected);
    app.world.queue.take();
    let decided = visit(&app, Method::POST, &path(&made), r#"{"decision":"approve"}"#).await.expect(200);
    assert_eq!(decided["run"], json!({ "run_id": run, "status": "queued" }));
    assert_eq!(decided["decision"]["by"], json!({ "tenant": "acme", "subject": "ann" }));
    assert_eq!(decided["decision"]["via"], json!({ "link": { "id": made["link_id"] } }));
    assert_eq!(app.world.queue.take().len(), 1);
    // A second time, by the link or signed in: what stands.
    for again in [
        visit(&app, Method::POST, &path(&made), r#"{"decision":"deny"}"#).await,
        app.post("ann", &respond_url(&request), approval(&request)).await,
    ] {
        assert_eq!(again.expect_problem(409, "already-decided")["decision"], decided["decision"]);
    }
    let seen = visit(&app, Method::GET, &path(&made), "").await.expect(200);
    assert_eq!((&seen["status"], &seen["decision"]), (&json!("decided"), &decided["decision"]));
    app.step(&run).await;
    assert_eq!(app.world.tools.count("deploy"), 1);
    let journal = app.get("ann", &format!("/v1/runs/{run}/journal")).await.expect(200);
    let entries = journal["items"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["kind"] == "RequestDecided").unwrap();
    assert_eq!(entry["via"], decided["decision"]["via"]);
}

/// Case 17: whoever only looks decides nothing, by whatever method and with whatever in the address or the body.
#[tokio::test]
async fn x6_case_17_looking_at_a_link_decides_nothing() {
    let app = App::new();
    let (run, request) = app.waiting("ann").await;
    let made = link(&app, "ann", &request, json!({})).await;
    let url = format!("{}?decision=approve", path(&made));
    for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE] {
        let status = if method == Method::GET { 200 } else { 405 };
        for accept in ["application/json", "text/html,*/*;q=0.8"] {
            let mut event =
                with_header(event("x", method.clone(), &url, r#"{"decision":"approve"}"#), "accept", accept);
            event.request_context.authorizer.fields.clear();
            assert_eq!(app.send(event).await.status, status, "{method} {accept}");
        }
    }
    assert_eq!(app.get("ann", &format!("/v1/runs/{run}")).await.expect(200)["requests"], json!([request]));
}

/// E2: several links to one request, and its owner: one decision stands, whoever comes first.
#[tokio::test]
async fn x6_e2_several_links_and_their_maker_at_once() {
    let app = App::new();
    let (run, request) = app.waiting("ann").await;
    let (one, two) = (link(&app, "ann", &request, json!({})).await, link(&app, "ann", &request, json!({})).await);
    assert_ne!(one["token"], two["token"]);
    let (one, two) = (path(&one), path(&two));
    let url = respond_url(&request);
    let (first, second, third) = futures::join!(
        visit(&app, Method::POST, &one, r#"{"decision":"approve"}"#),
        visit(&app, Method::POST, &two, r#"{"decision":"deny"}"#),
        app.post("ann", &url, approval(&request))
    );
    let mut statuses = [first.status, second.status, third.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409, 409]);
    app.step(&run).await;
    assert!(app.world.tools.count("deploy") <= 1);
}

#[tokio::test]
async fn x6_a_link_can_be_for_less() {
    let app = App::new();
    let (_, request) = app.waiting("ann").await;
    let deny = link(&app, "ann", &request, json!({ "decisions": ["deny"], "expires_in": "90s" })).await;
    assert_eq!(deny["decisions"], json!(["deny"]));
    let seen = visit(&app, Method::GET, &path(&deny), "").await.expect(200);
    assert_eq!(seen["decisions"], json!(["deny"]));
    for body in [r#"{"decision":"approve"}"#, r#"{"decision":"edit","arguments":{}}"#, r#"{"decision":"settle"}"#] {
        let refused = visit(&app, Method::POST, &path(&deny), body).await.expect_problem(400, "invalid-answer");
        assert_eq!(refused["offered"], json!(["deny"]), "{body}");
    }
    // The digest need not be sent; another one than the request's shows that something else was seen.
    let other = json!({ "decision": "deny", "digest": format!("sha256:{}", "0".repeat(64)) }).to_string();
    visit(&app, Method::POST, &path(&deny), &other).await.expect_problem(409, "digest-mismatch");
    let body = json!({ "decision": "deny", "digest": request["digest"], "reason": "no" }).to_string();
    visit(&app, Method::POST, &path(&deny), &body).await.expect(200);
}

#[tokio::test]
async fn x6_what_no_link_is_made_for() {
    let app = App::new();
    let (run, request) = app.waiting("ann").await;
    let url = format!("/v1/requests/{}/links", request["request_id"].as_str().unwrap());
    for (body, kind) in [
        (json!({ "decisions": ["edit"] }), "invalid-answer"),
        (json!({ "decisions": ["always"] }), "invalid-answer"),
        (json!({ "decisions": ["approve", "raise"] }), "invalid-answer"),
        (json!({ "decisions": ["answer"] }), "invalid-answer"),
        (json!({ "decisions": [] }), "invalid-body"),
        (json!({ "decisions": ["aprove"] }), "invalid-body"),
        (json!({ "decisions": "approve" }), "invalid-body"),
        (json!({ "expires_in": "soon" }), "invalid-body"),
        (json!({ "expires_in": "0s" }), "invalid-body"),
        (json!({ "expires_in": 3600 }), "invalid-body"),
        (json!({ "for": "bob" }), "invalid-body"),
    ] {
        app.post("ann", &url, body.clone()).await.expect_problem(400, kind);
    }
    app.post("bob", &url, json!({})).await.expect_problem(404, "not-found");
    app.post("ann", "/v1/requests/nonsense/links", json!({})).await.expect_problem(404, "not-found");
    app.post("ann", &respond_url(&request), approval(&request)).await.expect(200);
    app.post("ann", &url, json!({})).await.expect_problem(409, "already-decided");
    let (cancelled, request) = app.waiting("ann").await;
    app.post("ann", &format!("/v1/runs/{cancelled}/cancel"), json!({})).await.expect(200);
    let url = format!("/v1/requests/{}/links", request["request_id"].as_str().unwrap());
    app.post("ann", &url, json!({})).await.expect_problem(410, "expired");
    assert_eq!(app.world.memory.kinds(&run.parse().unwrap()).last(), Some(&"RequestDecided"), "a link writes nothing");
}

/// C4: a link ends when it says, the request when it says, and each tells so. Inclusive at the edge.
#[tokio::test]
async fn x6_c4_a_link_that_is_over_is_gone() {
    let app = App::new();
    let (_, request) = app.waiting("ann").await;
    let short = link(&app, "ann", &request, json!({ "expires_in": "90s" })).await;
    let long = link(&app, "ann", &request, json!({ "expires_in": "9d" })).await;
    assert_eq!(long["expires_at"], request["decide_by"], "no longer than the request");
    app.world.clock.advance(90_000);
    visit(&app, Method::GET, &path(&short), "").await.expect(200);
    app.world.clock.advance(1);
    for method in [Method::GET, Method::POST] {
        let body = if method == Method::POST { r#"{"decision":"deny"}"# } else { "" };
        let gone = visit(&app, method, &path(&short), body).await.expect_problem(410, "expired");
        assert!(gone["detail"].as_str().unwrap().contains("this link has expired"), "{gone}");
        assert!(gone.get("arguments").is_none());
    }
    let seen = visit(&app, Method::GET, &path(&long), "").await.expect(200);
    assert_eq!(seen["status"], "pending");
    app.world.clock.advance(24 * 3_600_000);
    visit(&app, Method::POST, &path(&long), r#"{"decision":"deny"}"#).await.expect_problem(410, "expired");
}

/// C4, case 19: the request was withdrawn while the link was out.
#[tokio::test]
async fn x6_c4_case_19_a_link_to_what_was_withdrawn() {
    let app = App::new();
    let (run, request) = app.waiting("ann").await;
    let made = link(&app, "ann", &request, json!({})).await;
    app.post("ann", &format!("/v1/runs/{run}/cancel"), json!({})).await.expect(200);
    let gone = visit(&app, Method::POST, &path(&made), r#"{"decision":"approve"}"#).await;
    assert_eq!(gone.expect_problem(410, "expired")["request_status"], "cancelled");
    let seen = visit(&app, Method::GET, &path(&made), "").await.expect(200);
    assert_eq!((&seen["status"], &seen["decisions"]), (&json!("cancelled"), &json!([])));
}

/// C4, case 25: the reply was lost; the same POST under the same key is told the same, also when the link is over by
/// then. The keys of a link are its own: its holder neither sees nor uses up those of who made it.
#[tokio::test]
async fn x6_c4_case_25_a_post_is_repeated_under_its_key() {
    let app = App::new();
    let (_, request) = app.waiting("ann").await;
    let made = link(&app, "ann", &request, json!({})).await;
    let with_key = |path: &str, body: &str| {
        let mut event = with_header(event("x", Method::POST, path, body), "idempotency-key", "k1");
        event.request_context.authorizer.fields.clear();
        event
    };
    let start = event("ann", Method::POST, "/v1/runs", r#"{"agent":"ops","input":"go"}"#);
    let started = app.send(with_header(start.clone(), "idempotency-key", "k1")).await.expect(202);
    let first = app.send(with_key(&path(&made), r#"{"decision":"approve"}"#)).await.expect(200);
    app.world.clock.advance(3_600_001);
    let again = app.send(with_key(&path(&made), r#"{"decision":"approve"}"#)).await.expect(200);
    assert_eq!(first, again);
    let other = app.send(with_key(&path(&made), r#"{"decision":"deny"}"#)).await;
    other.expect_problem(422, "key-reused");
    assert_eq!(app.send(with_header(start, "idempotency-key", "k1")).await.expect(202), started);
}

/// What is no link of this deployment's is not found, in the same words whatever is wrong with it.
#[tokio::test]
async fn x6_what_is_no_link_is_not_found_and_why_is_not_told() {
    let app = App::new();
    let (_, request) = app.waiting("ann").await;
    let made = link(&app, "ann", &request, json!({})).await;
    let token = made["token"].as_str().unwrap();
    let cut = &token[..token.len() - 1];
    let forged = [
        cut.to_owned(),
        format!("{cut}{}", if token.ends_with('A') { 'E' } else { 'A' }),
        format!("{token}="),
        token.replacen("link1", "link2", 1),
        token.replacen("link1", "done1", 1),
        token.replacen(".test.", ".other.", 1),
        "x".to_owned(),
        "%2e%2e".to_owned(),
        request["request_id"].as_str().unwrap().to_owned(),
        "a".repeat(9_000),
    ];
    for method in [Method::GET, Method::POST] {
        let mut answers = Vec::new();
        for token in &forged {
            let body = if method == Method::POST { r#"{"decision":"approve"}"# } else { "" };
            answers.push(visit(&app, method.clone(), &format!("/v1/links/{token}"), body).await);
        }
        answers[0].expect_problem(404, "not-found");
        assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:#?}");
    }
}

/// A question is answered by a link, one of two siblings by another: each reaches its own.
#[tokio::test]
async fn x6_questions_and_siblings_have_links_of_their_own() {
    let app = App::new();
    let asked = json!({ "question": "Which?", "options": [{ "value": "a" }, { "value": false }] });
    let (run, question) = app.asking("ann", asked).await;
    let made = link(&app, "ann", &question, json!({})).await;
    assert_eq!(made["decisions"], json!(["answer"]));
    visit(&app, Method::POST, &path(&made), r#"{"decision":"answer","answer":"b"}"#)
        .await
        .expect_problem(400, "invalid-answer");
    let answer = visit(&app, Method::POST, &path(&made), r#"{"decision":"answer","answer":false}"#).await.expect(200);
    assert_eq!(answer["decision"]["answer"], false);
    app.step(&run).await;

    let two = vec![call("a", "deploy", r#"{"n":1}"#), call("b", "deploy", r#"{"n":2}"#)];
    let run = app.run("ann", vec![two]).await;
    let waiting = app.get("ann", &format!("/v1/runs/{run}")).await.expect(200)["requests"].clone();
    let second = link(&app, "ann", &waiting[1], json!({})).await;
    visit(&app, Method::POST, &path(&second), r#"{"decision":"deny"}"#).await.expect(200);
    let left = app.get("ann", &format!("/v1/runs/{run}")).await.expect(200)["requests"].clone();
    assert_eq!(left, json!([waiting[0]]));
}

/// Without keys there are no links, and everything else works.
#[tokio::test]
async fn x6_without_keys_links_are_refused_and_nothing_else_is() {
    let app = App::new();
    let (_, request) = app.waiting("ann").await;
    let made = link(&app, "ann", &request, json!({})).await;
    let ports = Ports { keys: Arc::new(NoKeys), ..app.world.engine.ports().clone() };
    let engine = Engine::new(ports, Settings::new("host".to_owned(), 180_000));
    let url = format!("/v1/requests/{}/links", request["request_id"].as_str().unwrap());
    for event in [
        event("ann", Method::POST, &url, "{}"),
        event("ann", Method::GET, &path(&made), ""),
        event("ann", Method::POST, &path(&made), r#"{"decision":"approve"}"#),
    ] {
        let refused = Answer::of(dormouse_api::respond(&engine, event).await);
        assert_eq!(refused.expect_problem(503, "unavailable")["outcome"], "unchanged");
        assert_eq!(refused.header("retry-after"), None, "trying again does not help");
    }
    let respond = event("ann", Method::POST, &respond_url(&request), &approval(&request).to_string());
    Answer::of(dormouse_api::respond(&engine, respond).await).expect(200);
}
