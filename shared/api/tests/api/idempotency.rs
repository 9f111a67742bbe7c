//! `Idempotency-Key`: the same write twice is one write, and another write under it is an error.

use dormouse_testkit::Fault;
use http::Method;
use serde_json::json;

use crate::app::{Answer, App, approval, event, respond_url, with_header};

const START: &str = r#"{"agent":"ops","input":"go"}"#;

async fn send(app: &App, user: &str, url: &str, body: &str, key: &str) -> Answer {
    app.send(with_header(event(user, Method::POST, url, body), "idempotency-key", key)).await
}

#[tokio::test]
async fn a_repeated_start_is_the_same_run() {
    let app = App::new();
    let first = send(&app, "ann", "/v1/runs", START, "k1").await;
    let again = send(&app, "ann", "/v1/runs", START, "k1").await;
    assert_eq!(first.expect(202), again.expect(202));
    let other_key = send(&app, "ann", "/v1/runs", START, "k2").await.expect(202);
    assert_ne!(first.json(), other_key);
    // A key is its owner's.
    let other_user = send(&app, "bob", "/v1/runs", START, "k1").await.expect(202);
    assert_ne!(first.json(), other_user);
}

#[tokio::test]
async fn another_write_under_the_key_is_an_error() {
    let app = App::new();
    let (run, request) = app.waiting("ann").await;
    send(&app, "ann", "/v1/runs", START, "k1").await.expect(202);
    for (url, body) in [
        ("/v1/runs".to_owned(), r#"{"agent":"ops","input":"go "}"#.to_owned()),
        ("/v1/runs".to_owned(), format!("{START} ")),
        (format!("/v1/runs/{run}/pause"), START.replace(START, "{}")),
        (respond_url(&request), approval(&request).to_string()),
    ] {
        send(&app, "ann", &url, &body, "k1").await.expect_problem(422, "key-reused");
    }
    // The same body elsewhere is another write.
    send(&app, "ann", &format!("/v1/runs/{run}/pause"), "{}", "k2").await.expect(200);
    send(&app, "ann", &format!("/v1/runs/{run}/resume"), "{}", "k2").await.expect_problem(422, "key-reused");
}

/// C4 and case 25: the same decision with the same key is 200 again, and wakes again.
#[tokio::test]
async fn c4_case_25_a_repeated_decision_is_told_the_same_and_wakes_again() {
    let app = App::new();
    for by_run in [false, true] {
        let (run, request) = app.waiting("ann").await;
        let url = if by_run { format!("/v1/runs/{run}/respond") } else { respond_url(&request) };
        let body = approval(&request).to_string();
        let key = format!("k-{by_run}");
        let first = send(&app, "ann", &url, &body, &key).await.expect(200);
        app.world.queue.take();
        assert_eq!(send(&app, "ann", &url, &body, &key).await.expect(200), first);
        assert_eq!(app.world.queue.take().len(), 1);
        send(&app, "ann", &respond_url(&request), &body, "another").await.expect_problem(409, "already-decided");
        app.step(&run).await;
    }
    assert_eq!(app.world.tools.count("deploy"), 2);
}

/// Case 25: the decision landed, its reply was lost, and the run was not woken. Sent again under its key
/// it is 200, with the decision that stands, and the wake is sent.
#[tokio::test]
async fn case_25_a_decision_whose_reply_was_lost_is_told_and_wakes() {
    for by_run in [false, true] {
        let app = App::new();
        let (run, request) = app.waiting("ann").await;
        let url = if by_run { format!("/v1/runs/{run}/respond") } else { respond_url(&request) };
        let body = approval(&request).to_string();
        app.world.queue.take();
        app.world.store.inject(&[Fault::LostAfter]);
        let lost = send(&app, "ann", &url, &body, "k").await.expect_problem(503, "unavailable");
        assert_eq!((&lost["outcome"], app.world.queue.take().len()), (&json!("unknown"), 0));
        let again = send(&app, "ann", &url, &body, "k").await.expect(200);
        assert_eq!((&again["status"], &again["decision"]["decision"]), (&json!("decided"), &json!("approve")));
        assert_eq!(app.world.queue.take().len(), 1, "by run: {by_run}");
        app.step(&run).await;
        assert_eq!(app.world.tools.count("deploy"), 1);
    }
}

/// Case 42: a receipt is gone, for TTL deletes by a clock of its own. What stands is the row's matter: the
/// decision is named, and nothing is decided or run anew.
#[tokio::test]
async fn case_42_a_decision_whose_receipt_is_gone_stands() {
    let app = App::new();
    let (run, request) = app.waiting("ann").await;
    let (url, body) = (respond_url(&request), approval(&request).to_string());
    let first = send(&app, "ann", &url, &body, "k").await.expect(200);
    app.step(&run).await;
    app.world.clock.advance(24 * 3_600_000 + 1_000);
    app.world.queue.take();
    let again = send(&app, "ann", &url, &body, "k").await.expect_problem(409, "already-decided");
    assert_eq!(again["decision"], first["decision"]);
    assert_eq!((app.world.queue.take().len(), app.world.tools.count("deploy")), (0, 1));
}

/// B13: a write whose reply was lost is neither landed nor failed; the key finds out.
#[tokio::test]
async fn b13_a_lost_reply_says_unknown_and_the_key_settles_it() {
    for (fault, runs_after_first) in [(Fault::LostAfter, 1), (Fault::LostBefore, 0)] {
        let app = App::new();
        app.world.store.inject(&[fault]);
        let lost = send(&app, "ann", "/v1/runs", START, "k1").await;
        let document = lost.expect_problem(503, "unavailable");
        assert_eq!(document["outcome"], "unknown");
        assert!(document["detail"].as_str().unwrap().contains("same Idempotency-Key"), "{document}");
        assert_eq!(lost.header("retry-after"), Some("1"));
        let count = async || app.get("ann", "/v1/runs").await.expect(200)["items"].as_array().unwrap().len();
        assert_eq!(count().await, runs_after_first);
        send(&app, "ann", "/v1/runs", START, "k1").await.expect(202);
        assert_eq!(count().await, 1);
    }
}

#[tokio::test]
async fn keys_are_short_and_visible() {
    let app = App::new();
    for good in ["k", "\"8e03978e-40d5-43dd-bc93-6894a57f9324\"", &"~".repeat(200)] {
        send(&app, "ann", "/v1/runs", START, good).await.expect(202);
    }
    for bad in ["", "a b", "a\tb", &"x".repeat(201)] {
        send(&app, "ann", "/v1/runs", START, bad).await.expect_problem(400, "invalid-request");
    }
    let mut odd = event("ann", Method::POST, "/v1/runs", START);
    odd.headers.insert("idempotency-key", http::HeaderValue::from_bytes(b"k\xe9").unwrap());
    app.send(odd).await.expect_problem(400, "invalid-request");
}

#[tokio::test]
async fn a_key_counts_wherever_the_host_puts_headers() {
    let app = App::new();
    let mut listed = event("ann", Method::POST, "/v1/runs", START);
    listed.multi_value_headers.insert("Idempotency-Key", "k1".parse().unwrap());
    let first = app.send(listed).await.expect(202);
    assert_eq!(send(&app, "ann", "/v1/runs", START, "k1").await.expect(202), first);
    assert_eq!(first["status"], json!("queued"));
}
