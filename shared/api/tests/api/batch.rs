//! Batches of wake messages, and the sweep.

use aws_lambda_events::sqs::{SqsEvent, SqsMessage};
use serde_json::json;

use crate::app::App;

fn message(id: Option<&str>, body: &str) -> SqsMessage {
    let mut message = SqsMessage::default();
    message.message_id = id.map(str::to_owned);
    message.body = Some(body.to_owned());
    message
}

fn wake(id: Option<&str>, run: &str) -> SqsMessage {
    message(id, &json!({ "run_id": run }).to_string())
}

async fn step(app: &App, records: Vec<SqsMessage>) -> Vec<String> {
    let mut event = SqsEvent::default();
    event.records = records;
    let response = dormouse_api::step(&app.world.engine, event, app.world.deadline()).await;
    response.batch_item_failures.into_iter().map(|failure| failure.item_identifier).collect()
}

async fn start(app: &App) -> String {
    let started = app.post("ann", "/v1/runs", json!({ "agent": "ops", "input": "go" })).await.expect(202);
    started["run_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_runs_of_a_batch_are_driven_and_a_bad_one_blocks_nobody() {
    let app = App::new();
    let (good, bad, other) = (start(&app).await, start(&app).await, start(&app).await);
    app.corrupt(&bad).await;
    let failed = step(&app, vec![wake(Some("1"), &good), wake(Some("2"), &bad), wake(Some("3"), &other)]).await;
    assert_eq!(failed, ["2"]);
    for run in [good, other] {
        assert_eq!(app.get("ann", &format!("/v1/runs/{run}")).await.expect(200)["status"], "completed");
    }
}

/// Case 40: an unknown or empty id fails the whole batch, so only ids of the batch are ever listed.
#[tokio::test]
async fn case_40_only_ids_of_the_batch_are_listed_and_no_empty_one() {
    let app = App::new();
    let runs = [start(&app).await, start(&app).await, start(&app).await, start(&app).await];
    app.world.store.set_down(true);
    let records = vec![
        wake(Some("a"), &runs[0]),
        wake(Some(""), &runs[1]),
        wake(None, &runs[2]),
        wake(Some("b"), &runs[3]),
        message(Some("c"), "no wake"),
    ];
    assert_eq!(step(&app, records).await, ["a", "b"]);
    // Nothing is lost with the messages that could not be listed.
    app.world.store.set_down(false);
    app.world.queue.take();
    app.world.clock.advance(60_000);
    let swept = dormouse_api::sweep(&app.world.engine).await.unwrap();
    assert_eq!((swept.due, swept.woken), (4, 4));
}

#[tokio::test]
async fn what_can_never_succeed_is_acknowledged() {
    let app = App::new();
    let mut no_body = message(Some("0"), "");
    no_body.body = None;
    let records = vec![
        no_body,
        message(Some("1"), ""),
        message(Some("2"), "run_1"),
        message(Some("3"), "{}"),
        message(Some("4"), r#"{"run_id":"nonsense"}"#),
        message(Some("5"), r#"{"run_id":7}"#),
        wake(Some("6"), "run_00000000000000000000000000000999"),
    ];
    assert!(step(&app, records).await.is_empty());
    assert!(step(&app, vec![]).await.is_empty());
}

#[tokio::test]
async fn further_fields_and_doubled_messages_do_no_harm() {
    let app = App::new();
    let run = start(&app).await;
    let twice = json!({ "run_id": run, "since": 1 }).to_string();
    assert!(step(&app, vec![message(Some("1"), &twice), message(Some("2"), &twice)]).await.is_empty());
    assert_eq!(app.world.models.asked().len(), 1);
}

#[tokio::test]
async fn a_sweep_that_cannot_read_says_so() {
    let app = App::new();
    app.world.store.set_down(true);
    assert!(dormouse_api::sweep(&app.world.engine).await.is_err());
}
