use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use axum::{
    Router,
    http::{HeaderMap, Method, StatusCode, header},
};
use dormouse_domain::{agent::Target, kv::KvPatch};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::testing::{call, text};

/// A request as a service saw it.
type Seen = Arc<Mutex<Vec<(Method, HeaderMap, String)>>>;

/// A service that answers every request like this; its URL and what it saw.
async fn service(status: u16, media_type: &'static str, body: impl Into<Vec<u8>>) -> (String, Seen) {
    let (body, seen) = (body.into(), Seen::default());
    let record = Arc::clone(&seen);
    let app = Router::new().fallback(move |method: Method, headers: HeaderMap, text: String| async move {
        record.lock().unwrap().push((method, headers, text));
        let mut headers = HeaderMap::new();
        if !media_type.is_empty() {
            headers.insert(header::CONTENT_TYPE, media_type.parse().unwrap());
        }
        if (300..400).contains(&status) {
            headers.insert(header::LOCATION, "/elsewhere".parse().unwrap());
        }
        // Without a type: a `Vec` would add one of its own.
        (StatusCode::from_u16(status).unwrap(), headers, axum::body::Body::from(body))
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/tool?secret=1", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, seen)
}

/// A service that does this with each connection; its address.
async fn raw<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> String
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address
}

/// Reads a request with its body, whose last field is the tool's name.
async fn read_request(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while !text.ends_with("\"tool\"}") {
        let n = stream.read(&mut buffer).await.unwrap();
        text.push_str(std::str::from_utf8(&buffer[..n]).unwrap());
    }
    text
}

async fn attempt(url: &str, timeout_ms: u64) -> CallResult {
    reply(url, timeout_ms).await.result
}

async fn reply(url: &str, timeout_ms: u64) -> ToolReply {
    let mut call = call(Target::Http { url: url.to_owned() }, json!({"a": "é"}));
    call.tool.timeout_ms = timeout_ms;
    Http::default().call(&call, url).await
}

async fn answered(status: u16, media_type: &'static str, body: impl Into<Vec<u8>>) -> CallResult {
    attempt(&service(status, media_type, body).await.0, 5000).await
}

/// A tool that may answer later is told how its call is completed; its 202 is then that answer, whatever its body, and
/// nothing but a 202 is.
#[tokio::test]
async fn x7_a_202_is_later_from_a_tool_that_may_say_so() {
    for (status, later, expected_later) in [(202, true, true), (200, true, false), (202, false, false)] {
        let (url, seen) = service(status, "text/plain", "ticket 7").await;
        let mut call = call(Target::Http { url }, json!({}));
        call.tool.later = later;
        if later {
            call.handover = Some(Handover { token: "done1.a.b.c".into(), expires_at: Millis(1_700_000_000_000) });
        }
        let reply = Http::default().call(&call, call_url(&call)).await;
        assert_eq!(reply.result == CallResult::Later {}, expected_later, "{status} {later}: {:?}", reply.result);
        if !expected_later {
            assert_eq!(text(&reply.result), ("ticket 7", false));
        }
        let envelope: Value = serde_json::from_str(&seen.lock().unwrap()[0].2).unwrap();
        let told = json!({ "path": "/v1/completions/done1.a.b.c", "expires_at": "2023-11-14T22:13:20.000Z" });
        assert_eq!(envelope.get("completion"), later.then_some(&told));
    }
}

fn call_url(call: &ToolCall) -> &str {
    match &call.tool.target {
        Target::Http { url } => url,
        Target::Builtin(_) | Target::Agents { .. } => panic!("no web service"),
    }
}

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

/// what the body of a 2xx becomes.
#[tokio::test]
async fn the_body_of_a_2xx_is_the_result() {
    for (status, media_type, body, expected) in [
        (200, "text/plain; charset=utf-8", "é\n".as_bytes(), "é\n"),
        (200, "Application/JSON", br#"{"a":1}"#, r#"{"a":1}"#),
        (201, "application/problem+json", b"[]", "[]"),
        (200, "", b"plain", "plain"),
        (200, "image/svg+xml", b"<svg/>", "<svg/>"),
        // Case 49: what is not Unicode is taken in and made well-formed.
        (200, "text/plain", b"a\xff\xed\xa4\xacb", "a\u{fffd}\u{fffd}\u{fffd}\u{fffd}b"),
        (200, "application/json", br#""\ud92c""#, r#""\ud92c""#),
        // Case 47: blank text is kept as it is; the transcript shows a placeholder.
        (200, "text/plain", b" \n", " \n"),
    ] {
        let result = answered(status, media_type, body).await;
        assert_eq!(text(&result), (expected, false), "{media_type} {body:?}");
    }
    for status in [200, 204] {
        let nothing = CallResult::Returned { content: Vec::new(), is_error: false };
        assert_eq!(answered(status, "", "").await, nothing);
    }
}

#[tokio::test]
async fn images_and_what_cannot_be_shown() {
    for (media_type, body, expected) in [
        ("image/png", PNG, "image/png"),
        ("image/png; q=1", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("image/gif", b"GIF89a", "image/gif"),
        ("image/webp", b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
    ] {
        let CallResult::Returned { content, is_error: false } = answered(200, media_type, body).await else { panic!() };
        let image = Content::Image { media_type: expected.to_owned(), data: BASE64.encode(body) };
        assert_eq!(content, [image], "{media_type}");
    }
    let large = [PNG, &vec![0; MAX_IMAGE_BYTES]].concat();
    for (media_type, body, part) in [
        ("image/png", large.as_slice(), "2097164 bytes of image/png"),
        ("image/png", b"<html>", "6 bytes of image/png"),
        ("image/webp", b"RIFF\0\0\0\0WAVEfmt ", "16 bytes of image/webp"),
        ("image/tiff", b"II*\0", "4 bytes of image/tiff"),
        ("application/pdf", b"%PDF-1.7", "8 bytes of application/pdf"),
        ("application/octet-stream", b"abc", "3 bytes of application/octet-stream"),
        ("", b"\0\xff", "2 bytes of unknown type"),
    ] {
        let result = answered(200, media_type, body).await;
        let (text, is_error) = text(&result);
        assert!(is_error && text.starts_with("The tool ran, but") && text.contains(part), "{text}");
    }
}

/// A13: an answer of our own type says what is kept, and has a result like any other.
#[tokio::test]
async fn a13_an_answer_can_say_what_is_kept() {
    for (body, expected, is_error, state) in [
        (r#"{"content":"é","state":{"page":4,"old":null}}"#, "é", false, r#"{"old":null,"page":4}"#),
        (r#"{"content":{"n":1},"is_error":true}"#, r#"{"n":1}"#, true, "{}"),
        (r#"{"content":"\ud92c","state":{}}"#, "\u{fffd}", false, "{}"),
    ] {
        let (url, _) = service(200, "application/vnd.dormouse.result+json; charset=utf-8", body).await;
        let reply = reply(&url, 5000).await;
        assert_eq!(
            (text(&reply.result), serde_json::to_string(&reply.kv).unwrap().as_str()),
            ((expected, is_error), state)
        );
    }
    // Under any other type the same text is the result, and nothing is kept.
    let body = r#"{"content":"x","state":{"page":4}}"#;
    let (url, _) = service(200, "application/json", body).await;
    let plain = reply(&url, 5000).await;
    assert_eq!((text(&plain.result), plain.kv.is_empty()), ((body, false), true));
}

/// A13: one that cannot be taken is taken in no part, and the result says that the tool ran and what is wrong.
#[tokio::test]
async fn a13_an_answer_that_cannot_be_kept_says_so() {
    let large = format!(r#"{{"content":"x","state":{{"a":1,"b":"{}"}}}}"#, "y".repeat(16 * 1024));
    let endless = format!(r#"{{"content":"{}"}}"#, "y".repeat(kept::MAX_BYTES));
    for (body, told) in [
        ("", "not a JSON object"),
        ("{", "EOF"),
        ("[1]", "not a JSON object"),
        (r#"{"state":{"a":1}}"#, "missing field `content`"),
        (r#"{"content":"x","kept":{"a":1}}"#, "unknown field `kept`"),
        (r#"{"content":"x","state":{"a b":1}}"#, "\"a b\" is not a name"),
        (r#"{"content":"x","state":{"a":9007199254740993}}"#, "cannot be kept exactly"),
        (r#"{"content":"x","state":{"a":1,"a":2}}"#, "stands twice"),
        (&large, "at most 16384 are kept"),
        (&endless, "it is longer than"),
    ] {
        let (url, _) = service(200, kept::MEDIA_TYPE, body).await;
        let reply = reply(&url, 5000).await;
        let (text, is_error) = text(&reply.result);
        assert!(is_error && text.starts_with("The tool ran, but its answer") && text.contains(told), "{text}");
        assert!(reply.kv.is_empty() && text.len() < 5_000, "{}", text.len());
    }
}

/// certain refusals are error results.
#[tokio::test]
async fn a_4xx_and_a_redirect_are_error_results() {
    for (status, media_type, body, expected) in [
        (400, "text/plain", "no such service", "The tool answered 400 Bad Request:\nno such service"),
        (404, "", "", "The tool answered 404 Not Found."),
        (409, "application/json", r#"{"e":1}"#, "The tool answered 409 Conflict:\n{\"e\":1}"),
        (422, "image/png", "x", "The tool answered 422 Unprocessable Entity with a body of image/png."),
        (429, "text/plain", "slow down", "The tool answered 429 Too Many Requests:\nslow down"),
    ] {
        assert_eq!(text(&answered(status, media_type, body).await), (expected, true));
    }
    for status in [301, 302, 303, 307, 308] {
        let (url, seen) = service(status, "", "").await;
        let result = attempt(&url, 5000).await;
        let (text, is_error) = text(&result);
        assert!(is_error && text.contains("Redirects are not followed"), "{text}");
        assert_eq!(seen.lock().unwrap().len(), 1, "the redirect was followed");
    }
}

/// B4, case 36: what may have happened is unknown, and it is not tried again here.
#[tokio::test]
async fn b4_a_5xx_or_408_is_unknown() {
    for status in [408, 500, 502, 503, 504, 599] {
        let (url, seen) = service(status, "text/plain", "é".repeat(2000)).await;
        let CallResult::Unknown { why } = attempt(&url, 5000).await else { panic!("{status}") };
        assert!(why.starts_with(&format!("the tool answered {status}")), "{why}");
        assert!(why.contains("é") && why.len() <= MAX_WHY_BYTES);
        assert_eq!(seen.lock().unwrap().len(), 1, "{status} was tried again");
    }
}

/// The envelope of a call. B3: the execution key is the same for every attempt.
#[tokio::test]
async fn b3_the_envelope_and_its_key() {
    let (url, seen) = service(200, "text/plain", "ok").await;
    let http = Http::default();
    let mut call = call(Target::Http { url: url.clone() }, json!({"env": "dev", "n": [1, 2.5]}));
    let mut kept = KvPatch::new();
    kept.set("page", &json!(3)).unwrap();
    call.state = call.state.after(&kept).unwrap();
    for attempt in 1..=3 {
        call.attempt = attempt;
        http.call(&call, &url).await;
    }
    let seen = seen.lock().unwrap();
    for (i, (method, headers, body)) in seen.iter().enumerate() {
        assert_eq!(method, Method::POST);
        assert_eq!(headers["idempotency-key"], "key-7.3.1");
        assert_eq!(headers["content-type"], "application/json");
        assert_eq!(headers["content-length"], body.len().to_string().as_str());
        assert!(!headers.contains_key("transfer-encoding"));
        let expected = json!({
            "run_id": "run_00000000000000000000000000000007",
            "call_id": "run_00000000000000000000000000000007.3.1",
            "execution_key": "key-7.3.1",
            "attempt": i + 1,
            "tool": "tool",
            "arguments": {"env": "dev", "n": [1, 2.5]},
            "state": {"page": 3},
        });
        assert_eq!(serde_json::from_str::<Value>(body).unwrap(), expected);
    }
    assert_eq!(seen.len(), 3);
}

/// refused or never sent is known not to have run.
#[tokio::test]
async fn what_was_never_sent_is_not_sent() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    // A TLS handshake that is never answered, and one that is cut off: no byte of the request is out.
    let silent = raw(|stream| async move {
        tokio::time::sleep(Duration::from_secs(30)).await;
        drop(stream);
    })
    .await;
    let rude = raw(|stream| async move { drop(stream) }).await;
    for url in [
        format!("http://{closed}/x?secret=1"),
        "http://nowhere.invalid/x?secret=1".to_owned(),
        format!("https://{silent}/x?secret=1"),
        format!("https://{rude}/x?secret=1"),
        "http://[/x?secret=1".to_owned(),
    ] {
        let result = attempt(&url, 800).await;
        let CallResult::NotSent { why } = &result else { panic!("{url}: {result:?}") };
        assert!(!why.is_empty() && !why.contains("secret"), "{why}");
    }
    let mut bad = call(Target::Http { url: String::new() }, json!({}));
    bad.execution_key = "a\nb".into();
    let result = Http::default().call(&bad, "http://127.0.0.1:1/").await.result;
    assert!(matches!(result, CallResult::NotSent { .. }), "{result:?}");
}

/// Case 36, B4: after sending, a lost connection says nothing about what the service did.
#[tokio::test]
async fn case_36_a_connection_lost_after_sending_is_unknown() {
    let closes = raw(|mut stream| async move {
        read_request(&mut stream).await;
    })
    .await;
    let closes_in_head = raw(|mut stream| async move {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-le").await.unwrap();
    })
    .await;
    let closes_in_body = raw(|mut stream| async move {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc").await.unwrap();
    })
    .await;
    let closes_in_chunks = raw(|mut stream| async move {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n").await.unwrap();
    })
    .await;
    let nonsense = raw(|mut stream| async move {
        read_request(&mut stream).await;
        stream.write_all(b"SSH-2.0-x\r\n\r\n").await.unwrap();
    })
    .await;
    for (address, part) in [
        (closes, "the connection was lost after sending"),
        (closes_in_head, "the connection was lost after sending"),
        (closes_in_body, "the answer (200 OK) broke off"),
        (closes_in_chunks, "the answer (200 OK) broke off"),
        (nonsense, "the connection was lost after sending"),
    ] {
        let result = attempt(&format!("http://{address}/?secret=1"), 5000).await;
        let CallResult::Unknown { why } = &result else { panic!("{part}: {result:?}") };
        assert!(why.starts_with(part) && !why.contains("secret"), "{why}");
    }
}

/// A service that closes idle connections just as they are used again costs nobody an unknown outcome.
#[tokio::test]
async fn case_36_no_connection_is_used_twice() {
    let address = raw(|mut stream| async move {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        let _ = stream.read(&mut [0; 100]).await;
    })
    .await;
    let url = format!("http://{address}/");
    let (http, call) = (Http::default(), call(Target::Http { url: url.clone() }, json!({})));
    for _ in 0..3 {
        assert_eq!(text(&http.call(&call, &url).await.result), ("ok", false));
    }
}

#[tokio::test]
async fn the_timeout_is_for_the_whole_exchange() {
    let hangs = raw(|mut stream| async move {
        read_request(&mut stream).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
    })
    .await;
    let hangs_in_body = raw(|mut stream| async move {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc").await.unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
    })
    .await;
    let drips = raw(|mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    for address in [hangs, hangs_in_body, drips] {
        let start = Instant::now();
        let result = attempt(&format!("http://{address}/"), 300).await;
        assert!(matches!(&result, CallResult::Unknown { why } if why.contains("within 300 ms")), "{result:?}");
        assert!(start.elapsed() < Duration::from_secs(5));
    }
    // A refusal is certain as soon as its head is there.
    let refuses = raw(|mut stream| async move {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 10\r\n\r\nabc").await.unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
    })
    .await;
    let result = attempt(&format!("http://{refuses}/"), 300).await;
    let cut = "The tool answered 400 Bad Request:\nabc\n[cut: 10 bytes in all, the first 3 are shown]";
    assert_eq!(text(&result), (cut, true));
}

/// Case 49: cuts fall on character boundaries, and say how much there was.
#[tokio::test]
async fn case_49_a_long_result_is_cut_visibly() {
    let body = format!("x{}", "😀".repeat(MAX_RESULT_BYTES / 2));
    let result = answered(200, "text/plain", body.clone()).await;
    let (shown, notice) = text(&result).0.rsplit_once('\n').unwrap();
    assert!(body.starts_with(shown) && shown.len() == MAX_RESULT_BYTES - 3, "{}", shown.len());
    assert_eq!(notice, "[cut: 524289 bytes in all, the first 262141 are shown]");

    let exact = "é".repeat(MAX_RESULT_BYTES / 2);
    assert_eq!(text(&answered(200, "text/plain", exact.clone()).await), (exact.as_str(), false));
    for more in 1..6 {
        let body = format!("{exact}{}", "y".repeat(more));
        let notice = format!("\n[cut: {} bytes in all, the first 262144 are shown]", MAX_RESULT_BYTES + more);
        assert_eq!(text(&answered(200, "text/plain", body).await).0, format!("{exact}{notice}"));
    }
}

/// A body without an end is neither kept nor read on.
#[tokio::test]
async fn an_endless_body_is_left_at_the_bound() {
    let (ended, mut wait) = tokio::sync::mpsc::channel::<()>(1);
    let endless = raw(move |mut stream| {
        let ended = ended.clone();
        async move {
            read_request(&mut stream).await;
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n";
            stream.write_all(head.as_bytes()).await.unwrap();
            while stream.write_all(&[b'x'; 8192]).await.is_ok() {}
            let _ = ended.send(()).await;
        }
    })
    .await;
    let result = attempt(&format!("http://{endless}/"), 5000).await;
    let (text, is_error) = text(&result);
    assert!(!is_error && text.ends_with("\n[cut: more than 262147 bytes in all, the first 262144 are shown]"));
    tokio::time::timeout(Duration::from_secs(5), wait.recv()).await.expect("the connection was closed");
}
