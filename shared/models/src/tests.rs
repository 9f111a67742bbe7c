//! Calls over HTTP, from a prompt to a reply or a failure.

use std::time::Duration;

use dormouse_domain::{message::ReplyBlock, retry::Failure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;
use crate::{
    endpoint::{ApiKey, Endpoint},
    testing::{Answer, Talk, Turn, model, provider},
};

const MESSAGE: &str = r#"{"content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}"#;
const COMPLETION: &str = r#"{"choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#;

fn providers(base: &str, key: Option<&str>) -> Providers {
    let endpoint = Endpoint::new(base, key.map(ApiKey::new));
    Providers::new(Anthropic::new(endpoint.clone()), OpenAi::new(endpoint), Scripted::refused())
}

async fn ask(providers: &Providers, name: &str, timeout: Duration) -> Result<Reply, Failure> {
    let talk = Talk::new("Be kind.", &["read"], vec![Turn::new("hello", "openai:x", vec![])]);
    providers.call(&model(name), &talk.prompt(0, 1), timeout).await
}

async fn answered(answer: Answer, name: &str) -> Result<Reply, Failure> {
    let (base, _) = provider(answer).await;
    ask(&providers(&base, Some("s3cret")), name, Duration::from_secs(5)).await
}

#[tokio::test]
async fn each_provider_is_asked_in_its_own_way() {
    for (name, answer, path, header, value) in [
        ("anthropic:m", MESSAGE, "/v1/messages", "x-api-key", "s3cret"),
        ("openai:m", COMPLETION, "/chat/completions", "authorization", "Bearer s3cret"),
    ] {
        let (base, asked) = provider(Answer::new(200, answer)).await;
        let reply = ask(&providers(&base, Some("s3cret")), name, Duration::from_secs(5)).await.unwrap();
        assert_eq!(reply.content, [ReplyBlock::Text { text: "hi".to_owned(), raw: None }]);
        assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (1, 2));
        let asked = asked.lock().unwrap().remove(0);
        assert_eq!(asked.path, path);
        assert_eq!(asked.headers[header], value);
        assert_eq!(asked.headers["content-type"], "application/json");
        assert_eq!(asked.headers.contains_key("anthropic-version"), name.starts_with("anthropic"));
        assert!(asked.body.starts_with(r#"{"model":"m","#), "{}", asked.body);

        // A server of one's own needs no key.
        let (base, asked) = provider(Answer::new(200, answer)).await;
        ask(&providers(&base, None), name, Duration::from_secs(5)).await.unwrap();
        assert!(!asked.lock().unwrap()[0].headers.contains_key(header));
    }
}

#[tokio::test]
async fn failures_have_classes_and_waits() {
    for (status, wait, body, class, waits) in [
        (
            429,
            Some("7"),
            r#"{"error":{"type":"rate_limit_error","message":"slow"}}"#,
            FailureClass::RateLimited,
            Some(7_000),
        ),
        (429, Some("7"), r#"{"error":{"type":"insufficient_quota","message":"pay"}}"#, FailureClass::Rejected, None),
        (529, None, r#"{"error":{"type":"overloaded_error","message":"busy"}}"#, FailureClass::Overloaded, None),
        (503, Some("1"), "busy", FailureClass::Overloaded, Some(1_000)),
        (500, None, "", FailureClass::Server, None),
        (401, Some("1"), r#"{"error":{"message":"who"}}"#, FailureClass::Auth, None),
        (400, None, r#"{"error":{"message":"what"}}"#, FailureClass::Rejected, None),
        (302, None, "", FailureClass::Rejected, None),
        (200, None, "<html>", FailureClass::BadReply, None),
    ] {
        for name in ["anthropic:m", "openai:m"] {
            let mut answer = Answer::new(status, body);
            answer.headers.extend(wait.map(|wait| ("retry-after", wait.to_owned())));
            let failed = answered(answer, name).await.unwrap_err();
            assert_eq!((failed.class, failed.retry_after_ms), (class, waits), "{status} {body}: {}", failed.message);
        }
    }
}

#[tokio::test]
async fn a_failure_never_holds_the_key_and_is_bounded() {
    let body = format!(r#"{{"error":{{"message":"bad key s3cret {}"}}}}"#, "x".repeat(100_000));
    let failed = answered(Answer::new(401, body), "anthropic:m").await.unwrap_err();
    assert!(failed.message.contains("[key]") && !failed.message.contains("s3cret"), "{}", failed.message);
    assert!(failed.message.len() < 2_000);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (elsewhere, asked) = provider(Answer::new(200, MESSAGE)).await;
    let mut answer = Answer::new(307, "");
    answer.headers.push(("location", elsewhere));
    assert_eq!(answered(answer, "anthropic:m").await.unwrap_err().class, FailureClass::Rejected);
    assert!(asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_reply_that_does_not_come_in_time_is_a_network_failure() {
    let (base, _) = provider(Answer { after: Duration::from_secs(30), ..Answer::new(200, MESSAGE) }).await;
    let failed = ask(&providers(&base, None), "anthropic:m", Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(failed.class, FailureClass::Network);
    assert!(failed.message.contains("50 ms"), "{}", failed.message);
}

/// A server that says these bytes, and then nothing more for `pause`.
async fn raw_server(bytes: &'static [u8], pause: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        assert!(socket.read(&mut [0; 65_536]).await.unwrap() > 0);
        socket.write_all(bytes).await.unwrap();
        tokio::time::sleep(pause).await;
    });
    base
}

#[tokio::test]
async fn a_reply_that_breaks_off_is_a_network_failure() {
    let half = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"content\":[";
    for pause in [Duration::ZERO, Duration::from_secs(30)] {
        let base = raw_server(half, pause).await;
        let failed = ask(&providers(&base, None), "openai:m", Duration::from_millis(300)).await.unwrap_err();
        assert_eq!(failed.class, FailureClass::Network, "{}", failed.message);
    }
    let failed = ask(&providers("http://127.0.0.1:1", None), "openai:m", Duration::from_secs(5)).await.unwrap_err();
    assert_eq!(failed.class, FailureClass::Network, "{}", failed.message);
}

#[tokio::test]
async fn a_reply_that_is_too_large_is_bad() {
    let answer = Answer::new(200, COMPLETION.to_owned() + &" ".repeat(9 * 1024 * 1024));
    assert_eq!(answered(answer, "openai:m").await.unwrap_err().class, FailureClass::BadReply);
}

/// Case 49: bytes that are no UTF-8, such as a surrogate's, become replacement characters.
#[tokio::test]
async fn case_49_bytes_that_are_no_unicode_are_replaced() {
    let body = COMPLETION.replace("hi", "h?").into_bytes();
    let body: Vec<u8> =
        body.into_iter().flat_map(|b| if b == b'?' { vec![0xed, 0xa4, 0xac] } else { vec![b] }).collect();
    let reply = answered(Answer::new(200, body), "openai:m").await.unwrap();
    assert_eq!(reply.content, [ReplyBlock::Text { text: "h\u{fffd}\u{fffd}\u{fffd}".to_owned(), raw: None }]);
}

#[tokio::test]
async fn what_cannot_be_called_says_why() {
    let unset = |base: &str| providers(base, None);
    for (providers, name, class, says) in [
        (unset("http://localhost:1"), "acme:m", FailureClass::Rejected, "anthropic, openai and scripted"),
        (unset("https://api.anthropic.com"), "anthropic:m", FailureClass::Auth, "ANTHROPIC_API_KEY"),
        (unset("https://api.openai.com/v1/"), "openai:m", FailureClass::Auth, "OPENAI_API_KEY"),
        (unset("no address"), "openai:m", FailureClass::Rejected, "base URL"),
        (unset("http://localhost:1"), "scripted:m", FailureClass::Rejected, "development"),
    ] {
        let failed = ask(&providers, name, Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(failed.class, class, "{name}: {}", failed.message);
        assert!(failed.message.contains(says), "{name}: {}", failed.message);
    }
}
