//! What is asked of SQS, and what is made of its answers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy knows test functions, not the rest of a test crate"
)]

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_smithy_async::{
    rt::sleep::{SharedAsyncSleep, TokioSleep},
    time::{SharedTimeSource, TimeSource},
};
use aws_smithy_runtime_api::client::{
    http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn},
    orchestrator::{HttpRequest, HttpResponse},
};
use aws_smithy_types::body::SdkBody;
use dormouse_aws::{Received, SqsQueue};
use dormouse_domain::RunId;
use dormouse_engine::ports::{Queue as _, Wake};
use serde_json::{Value, json};

#[derive(Debug, Default)]
struct Script {
    answers: VecDeque<(u16, Value)>,
    asked: Vec<(String, Value)>,
}

/// Answers requests from a list, and notes them.
#[derive(Debug, Clone, Default)]
struct Sqs(Arc<Mutex<Script>>);

impl Sqs {
    fn queue(&self, answers: impl IntoIterator<Item = (u16, Value)>) -> SqsQueue {
        self.0.lock().unwrap().answers.extend(answers);
        queue_of(SharedHttpConnector::new(self.clone()), SharedTimeSource::default())
    }

    fn asked(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.0.lock().unwrap().asked)
    }
}

impl HttpConnector for Sqs {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default().replace("AmazonSQS.", "");
        let body = serde_json::from_slice(request.body().bytes().unwrap()).unwrap();
        let mut state = self.0.lock().unwrap();
        state.asked.push((target, body));
        let (status, answer) = state.answers.pop_front().unwrap_or((500, json!({ "__type": "InternalError" })));
        let mut response = HttpResponse::new(status.try_into().unwrap(), SdkBody::from(answer.to_string()));
        response.headers_mut().insert("content-type", "application/x-amz-json-1.0");
        HttpConnectorFuture::ready(Ok(response))
    }
}

/// The queue behind `connector`.
fn queue_of(connector: SharedHttpConnector, time: SharedTimeSource) -> SqsQueue {
    let config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("eu-central-1"))
        .endpoint_url("http://sqs.test")
        .credentials_provider(SharedCredentialsProvider::new(Credentials::new("a", "b", None, None, "test")))
        .http_client(http_client_fn(move |_, _| connector.clone()))
        .sleep_impl(SharedAsyncSleep::new(TokioSleep::new()))
        .time_source(time)
        .build();
    SqsQueue::connect(&config, "http://sqs.test/1/wakes")
}

/// A connector whose every call is what `answer` makes.
#[derive(Clone)]
struct Answers<F>(F);

impl<F> std::fmt::Debug for Answers<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("answers")
    }
}

impl<F: Fn() -> HttpConnectorFuture + Send + Sync> HttpConnector for Answers<F> {
    fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
        (self.0)()
    }
}

fn run(number: u128) -> RunId {
    RunId::from_bits(number)
}

#[tokio::test]
async fn a_wake_is_the_run_alone_and_never_early() {
    let sqs = Sqs::default();
    let sent = || (200, json!({ "MessageId": "m", "MD5OfMessageBody": "x" }));
    let queue = sqs.queue(std::iter::repeat_with(sent).take(6));
    for (delay, seconds) in [
        (Duration::ZERO, 0),
        (Duration::from_millis(1), 1),
        (Duration::from_secs(5), 5),
        (Duration::from_millis(59_001), 60),
        (Duration::from_secs(900), 900),
        (Duration::MAX, 900),
    ] {
        queue.wake(&run(7), delay).await.unwrap();
        let (operation, body) = sqs.asked().remove(0);
        assert_eq!(operation, "SendMessage");
        assert_eq!(body["DelaySeconds"], seconds, "{delay:?}");
        assert_eq!(body["QueueUrl"], "http://sqs.test/1/wakes");
        let text = body["MessageBody"].as_str().unwrap();
        assert_eq!(text, format!("{{\"run_id\":\"{}\"}}", run(7)));
        assert_eq!(serde_json::from_str::<Wake>(text).unwrap().run_id, run(7));
    }
}

#[tokio::test]
async fn many_wakes_go_in_batches_of_ten_and_what_was_not_taken_comes_back() {
    let sqs = Sqs::default();
    let taken = |ids: &[u32]| {
        let one = |id: &u32| json!({ "Id": id.to_string(), "MessageId": "m", "MD5OfMessageBody": "x" });
        ids.iter().map(one).collect::<Vec<_>>()
    };
    let refused = json!([{ "Id": "3", "SenderFault": false, "Code": "InternalError" }]);
    let queue = sqs.queue([
        (200, json!({ "Successful": taken(&[0, 1, 2, 4, 5, 6, 7, 8, 9]), "Failed": refused })),
        (403, json!({ "__type": "AccessDenied" })),
        (200, json!({ "Successful": taken(&[0, 1]), "Failed": [] })),
    ]);
    let runs: Vec<RunId> = (0..23).map(run).collect();
    let unsent = queue.wake_all(&runs).await;
    let expected: Vec<RunId> = [3].into_iter().chain(10..20).chain([22]).map(run).collect();
    assert_eq!(unsent, expected);
    let asked = sqs.asked();
    let sizes: Vec<usize> = asked.iter().map(|(_, body)| body["Entries"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [10, 10, 3]);
    for (_, body) in asked {
        for (place, entry) in body["Entries"].as_array().unwrap().iter().enumerate() {
            assert_eq!(entry["Id"], place.to_string());
        }
    }
    assert!(queue.wake_all(&[]).await.is_empty());
    assert!(sqs.asked().is_empty());
}

#[tokio::test]
async fn a_wake_that_was_not_taken_is_an_error() {
    let queue = Sqs::default().queue([(403, json!({ "__type": "AccessDenied" }))]);
    assert!(queue.wake(&run(1), Duration::ZERO).await.is_err());
}

#[tokio::test]
async fn messages_are_received_and_deleted_within_the_limits_of_sqs() {
    let sqs = Sqs::default();
    let message = json!({ "MessageId": "m", "ReceiptHandle": "r", "Body": "b", "Attributes": { "ApproximateReceiveCount": "3" } });
    let queue = sqs.queue([(200, json!({ "Messages": [message] })), (200, json!({})), (200, json!({}))]);
    let got = queue.receive(50, Duration::from_millis(1_500), Duration::from_secs(1_080)).await.unwrap();
    let expected = Received { message_id: "m".into(), receipt_handle: "r".into(), body: "b".into(), receive_count: 3 };
    assert_eq!(got, [expected]);
    assert_eq!(queue.receive(0, Duration::from_secs(60), Duration::ZERO).await.unwrap(), []);
    queue.delete("r").await.unwrap();
    let asked = sqs.asked();
    let numbers = |at: usize| {
        ["MaxNumberOfMessages", "WaitTimeSeconds", "VisibilityTimeout"].map(|name| asked[at].1[name].clone())
    };
    assert_eq!(numbers(0), [json!(10), json!(2), json!(1_080)]);
    assert_eq!(numbers(1), [json!(1), json!(20), json!(0)]);
    assert_eq!(asked[0].1["MessageSystemAttributeNames"], json!(["ApproximateReceiveCount"]));
    assert_eq!((asked[2].0.as_str(), &asked[2].1["ReceiptHandle"]), ("DeleteMessage", &json!("r")));
}

/// Time as tokio has it, for the SDK.
#[derive(Debug)]
struct Simulated(tokio::time::Instant);

impl TimeSource for Simulated {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000) + self.0.elapsed()
    }
}

/// A long poll of an idle queue is silent for 20 s, and no failure.
#[tokio::test(start_paused = true)]
async fn d8_a_long_poll_may_take_its_time() {
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    let silent = SharedHttpConnector::new(Answers(move || {
        *count.lock().unwrap() += 1;
        HttpConnectorFuture::new(async {
            tokio::time::sleep(Duration::from_secs(20)).await;
            let mut response = HttpResponse::new(200.try_into().unwrap(), SdkBody::from("{}"));
            response.headers_mut().insert("content-type", "application/x-amz-json-1.0");
            Ok(response)
        })
    }));
    let queue = queue_of(silent, SharedTimeSource::new(Simulated(tokio::time::Instant::now())));
    let received = queue.receive(10, Duration::from_secs(20), Duration::from_secs(60)).await.unwrap();
    assert_eq!((received, *asked.lock().unwrap()), (vec![], 1));
}
