//! Following a run by long poll.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::app::{App, approval, event, respond_url, with_header};

fn indexes(page: &Value) -> Vec<u64> {
    page["items"].as_array().unwrap().iter().map(|item| item["index"].as_u64().unwrap()).collect()
}

/// A17, D11: a client that polls whenever it likes, each time from the cursor that it has, gets every
/// event of the run's life once, in order.
#[tokio::test(start_paused = true)]
async fn a17_d11_who_comes_back_misses_and_repeats_nothing() {
    let app = App::new();
    let (mut events, mut cursor) = (Vec::new(), String::new());
    let mut poll = async |run: &str| {
        let page = app.get("ann", &format!("/v1/runs/{run}/events?wait_s=0{cursor}")).await.expect(200);
        cursor = format!("&after={}", page["next_cursor"].as_str().unwrap());
        events.extend(page["items"].as_array().unwrap().clone());
    };
    let (run, request) = app.waiting("ann").await;
    poll(&run).await;
    app.post("ann", &respond_url(&request), approval(&request)).await.expect(200);
    poll(&run).await;
    poll(&run).await;
    app.step(&run).await;
    poll(&run).await;
    let kinds: Vec<_> = events.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    let id: dormouse_domain::RunId = run.parse().unwrap();
    assert_eq!(kinds, app.world.memory.kinds(&id));
    for told in ["Suspended", "RequestDecided", "DriverStarted", "RunFinished"] {
        assert!(kinds.contains(&told), "{told}: {kinds:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_there_is_given_at_once_and_nothing_twice() {
    let app = App::new();
    let (run, _) = app.waiting("ann").await;
    let url = format!("/v1/runs/{run}/events");
    let began = Instant::now();
    let all = app.get("ann", &format!("{url}?wait_s=20")).await.expect(200);
    assert_eq!(indexes(&all), [0, 1, 2, 3]);
    assert_eq!(all["next_cursor"], "3");
    let rest = app.get("ann", &format!("{url}?after=1&wait_s=20")).await.expect(200);
    assert_eq!(indexes(&rest), [2, 3]);
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_poll_ends_with_its_time_and_keeps_its_place() {
    let app = App::new();
    let (run, _) = app.waiting("ann").await;
    for wait in [0, 3, 20] {
        let began = Instant::now();
        let page = app.get("ann", &format!("/v1/runs/{run}/events?after=3&wait_s={wait}")).await.expect(200);
        assert_eq!(page, json!({ "items": [], "next_cursor": "3" }));
        assert_eq!(began.elapsed(), Duration::from_secs(wait));
    }
}

#[tokio::test(start_paused = true)]
async fn a_poll_ends_with_the_first_news() {
    let app = App::new();
    let (run, _) = app.waiting("ann").await;
    let began = Instant::now();
    let url = format!("/v1/runs/{run}/events?after=3&wait_s=20");
    let pause = format!("/v1/runs/{run}/pause");
    let (page, paused) = futures::join!(app.get("ann", &url), async {
        sleep(Duration::from_secs(5)).await;
        app.post("ann", &pause, json!({})).await
    });
    paused.expect(200);
    let page = page.expect(200);
    assert_eq!((indexes(&page), &page["items"][0]["kind"]), (vec![4], &json!("Paused")));
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

#[tokio::test]
async fn odd_parameters_are_refused() {
    let app = App::new();
    let (run, _) = app.waiting("ann").await;
    for query in ["after=x", "after=-1", "after=4294967295", "wait_s=21", "wait_s=x", "wait_s=1.5", "after="] {
        let answer = app.get("ann", &format!("/v1/runs/{run}/events?{query}")).await;
        answer.expect_problem(400, "invalid-request");
    }
}

#[tokio::test]
async fn who_takes_only_a_stream_is_told_to_poll() {
    let app = App::new();
    let (run, _) = app.waiting("ann").await;
    let url = format!("/v1/runs/{run}/events");
    for (accept, status) in [
        ("text/event-stream", 406),
        ("Text/Event-Stream; charset=utf-8", 406),
        ("text/event-stream, application/json;q=0.5", 200),
        ("*/*", 200),
        ("", 200),
    ] {
        let answer = app.send(with_header(event("ann", Method::GET, &url, ""), "accept", accept)).await;
        assert_eq!(answer.status, status, "{accept}");
        if status == 406 {
            let document = answer.expect_problem(406, "not-acceptable");
            assert!(document["detail"].as_str().unwrap().contains("poll"));
        }
    }
}
