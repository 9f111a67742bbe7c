//! Tools that are web services.
//!
//! A call is one POST of `{run_id, call_id, execution_key, attempt, tool, arguments, state}` with the
//! execution key as `Idempotency-Key`; `state` is what the run's tools keep for it. What comes back is told apart
//! like this:
//!
//! | answer | outcome |
//! |---|---|
//! | 202, from a tool with `later = true` | another system completes it; the body is not looked at |
//! | 2xx | the body is the result, or, by its type, the result and what is kept (`kept`); if it breaks off, **unknown** |
//! | 3xx | an error result: redirects are not followed, least of all with a POST |
//! | 408 | **unknown**: a proxy may say so of a request that a server is working on |
//! | other 4xx | an error result with the status and the body |
//! | 5xx and anything else | **unknown** |
//! | no answer, and nothing was sent (refused, no such host, TLS, a connect that takes too long) | not sent |
//! | no answer otherwise (closed, timeout) | **unknown** |
//!
//! "Nothing was sent" is observed and not guessed from an error's kind: the body is handed to the
//! connection on demand, and as long as nobody asked for it, no service can have it. Connections are
//! not kept: a server that closes an idle one just as it is used again would look like a request that
//! was lost after sending, and for a `manual` tool that costs a person's time (case 36).

mod kept;

use std::{
    convert::Infallible,
    error::Error,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use dormouse_domain::{Millis, entry::CallResult, message::Content};
use dormouse_engine::ports::{Handover, ToolCall, ToolReply};
use jiff::Timestamp;
use reqwest::{
    Body, Client, Response, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE},
    redirect,
};
use serde_json::json;

use crate::bounds::{MAX_IMAGE_BYTES, MAX_RESULT_BYTES, Total, cut_text, shorten};

/// Longest time for establishing a connection; the tool's own timeout may be shorter.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest text of a reason in bytes.
const MAX_WHY_BYTES: usize = 600;
/// Longest media type that is repeated in a text.
const MAX_TYPE_BYTES: usize = 100;

/// Calls web services. The client is made when it is first needed: it loads the machine's root
/// certificates.
#[derive(Debug, Default)]
pub(crate) struct Http {
    client: OnceLock<Client>,
}

impl Http {
    fn client(&self) -> Result<&Client, reqwest::Error> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = Client::builder()
            .user_agent(concat!("dormouse/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .pool_max_idle_per_host(0)
            .http1_only()
            .no_proxy()
            .build()?;
        Ok(self.client.get_or_init(|| client))
    }

    /// Makes one attempt within the tool's timeout, which is for all of it: connecting, sending and
    /// reading the answer.
    pub(crate) async fn call(&self, call: &ToolCall, url: &str) -> ToolReply {
        let client = match self.client() {
            Ok(client) => client,
            Err(error) => return CallResult::NotSent { why: reason(error) }.into(),
        };
        let mut envelope = json!({
            "run_id": call.run,
            "call_id": format!("{}.{}", call.run, call.call),
            "execution_key": call.execution_key,
            "attempt": call.attempt,
            "tool": call.tool.name,
            "arguments": call.arguments,
            "state": call.state,
        });
        if let Some(Handover { token, expires_at }) = &call.handover {
            let path = format!("/v1/completions/{token}");
            envelope["completion"] = json!({ "path": path, "expires_at": time(*expires_at) });
        }
        let envelope = envelope.to_string();
        let taken = Arc::new(AtomicBool::new(false));
        let request = client
            .post(url)
            .timeout(Duration::from_millis(call.tool.timeout_ms))
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_LENGTH, envelope.len())
            .header("Idempotency-Key", &call.execution_key)
            .body(observed(envelope, Arc::clone(&taken)));
        match request.send().await {
            Ok(response) if response.status() == StatusCode::ACCEPTED && call.tool.later => CallResult::Later {}.into(),
            Ok(response) => answer(response, call.tool.timeout_ms).await,
            Err(error) => failure(error, taken.load(Ordering::SeqCst), call.tool.timeout_ms).into(),
        }
    }
}

/// A point in time as everywhere in the API: RFC 3339 in UTC.
fn time(at: Millis) -> String {
    let ms = i64::try_from(at.0).unwrap_or(i64::MAX);
    format!("{:.3}", Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX))
}

/// A body that notes when it is asked for.
fn observed(text: String, taken: Arc<AtomicBool>) -> Body {
    Body::wrap_stream(futures::stream::once(async move {
        taken.store(true, Ordering::SeqCst);
        Ok::<_, Infallible>(text)
    }))
}

/// The outcome of an exchange that brought no answer.
fn failure(error: reqwest::Error, sent: bool, timeout_ms: u64) -> CallResult {
    let timeout = error.is_timeout();
    match (sent, timeout) {
        (false, true) => CallResult::NotSent { why: "no connection in time".to_owned() },
        (false, false) => CallResult::NotSent { why: reason(error) },
        (true, true) => CallResult::Unknown { why: format!("no answer within {timeout_ms} ms") },
        (true, false) => {
            CallResult::Unknown { why: format!("the connection was lost after sending: {}", reason(error)) }
        }
    }
}

/// The innermost cause, in one line. The URL is left out: it can hold a secret.
fn reason(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    shorten(&cause.to_string(), MAX_WHY_BYTES)
}

/// The outcome of an exchange that brought an answer, at least its head.
async fn answer(response: Response, timeout_ms: u64) -> ToolReply {
    let status = response.status();
    match status.as_u16() {
        200..=299 => result(response, timeout_ms).await,
        300..=399 => error_result(format!(
            "The tool answered {status}, a redirect. Redirects are not followed; the tool's URL has to be corrected."
        ))
        .into(),
        408 => unknown(response).await.into(),
        400..=499 => refusal(response).await.into(),
        _ => unknown(response).await.into(),
    }
}

/// A 2xx: its body is the result, or holds it.
async fn result(response: Response, timeout_ms: u64) -> ToolReply {
    let status = response.status();
    let declared = media_type(&response);
    let max_bytes = match declared.as_str() {
        kept::MEDIA_TYPE => kept::MAX_BYTES,
        image if is_image(image) => MAX_IMAGE_BYTES,
        _ => MAX_RESULT_BYTES,
    };
    let body = Received::read(response, max_bytes).await;
    if let Some(error) = body.broken {
        let why = if error.is_timeout() { format!("not complete within {timeout_ms} ms") } else { reason(error) };
        return CallResult::Unknown { why: format!("the answer ({status}) broke off: {why}") }.into();
    }
    if declared == kept::MEDIA_TYPE {
        return kept::read(&body.bytes, body.complete);
    }
    plain(&declared, &body).into()
}

/// A body that is the result.
fn plain(declared: &str, body: &Received) -> CallResult {
    if body.bytes.is_empty() {
        return CallResult::Returned { content: Vec::new(), is_error: false };
    }
    if is_image(declared) {
        return image(declared, body);
    }
    if is_text(declared) || (declared.is_empty() && std::str::from_utf8(&body.bytes).is_ok()) {
        return CallResult::Returned { content: vec![Content::text(body.text())], is_error: false };
    }
    not_shown(declared, body)
}

/// An image as models take it. Its type is read from the bytes: a wrong one would make every later
/// prompt of the run be refused.
fn image(declared: &str, body: &Received) -> CallResult {
    if !body.complete || body.bytes.len() > MAX_IMAGE_BYTES {
        return not_shown(declared, body);
    }
    let signatures: [(&[u8], &str); 4] = [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"RIFF", "image/webp"),
    ];
    let found = signatures.iter().find(|(signature, _)| body.bytes.starts_with(signature)).map(|(_, name)| *name);
    match found {
        Some("image/webp") if body.bytes.get(8..12) != Some(b"WEBP") => not_shown(declared, body),
        Some(media_type) => CallResult::Returned {
            content: vec![Content::Image { media_type: media_type.to_owned(), data: BASE64.encode(&body.bytes) }],
            is_error: false,
        },
        None => not_shown(declared, body),
    }
}

/// A result that a model cannot be shown. The tool did run, and the text says so.
fn not_shown(declared: &str, body: &Received) -> CallResult {
    let size = match body.total() {
        Total::Exactly(bytes) => format!("{bytes} bytes"),
        Total::MoreThan(bytes) => format!("more than {bytes} bytes"),
    };
    let declared = if declared.is_empty() { "unknown type" } else { declared };
    error_result(format!(
        "The tool ran, but its result cannot be shown: {size} of {}. Text is shown, and PNG, JPEG, GIF and WebP \
         images of at most {MAX_IMAGE_BYTES} bytes.",
        shorten(declared, MAX_TYPE_BYTES)
    ))
}

/// A 4xx: the service says that the call is wrong. That is certain even if its body breaks off.
async fn refusal(response: Response) -> CallResult {
    let head = format!("The tool answered {}", response.status());
    let declared = media_type(&response);
    let body = Received::read(response, MAX_RESULT_BYTES).await;
    if body.bytes.is_empty() {
        return error_result(format!("{head}."));
    }
    if !declared.is_empty() && !is_text(&declared) {
        return error_result(format!("{head} with a body of {}.", shorten(&declared, MAX_TYPE_BYTES)));
    }
    error_result(format!("{head}:\n{}", body.text()))
}

/// Any other answer. Its body may help the person who has to find out what happened.
async fn unknown(response: Response) -> CallResult {
    let head = format!("the tool answered {}", response.status());
    let body = Received::read(response, MAX_WHY_BYTES).await;
    let said = String::from_utf8_lossy(&body.bytes);
    let why = if said.trim().is_empty() { head } else { format!("{head}: {}", said.trim()) };
    CallResult::Unknown { why: shorten(&why, MAX_WHY_BYTES) }
}

fn error_result(text: String) -> CallResult {
    CallResult::Returned { content: vec![Content::text(text)], is_error: true }
}

/// The media type in lower case without its parameters, empty if there is none.
fn media_type(response: &Response) -> String {
    let header = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    header.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Whether it is an image that is not text; SVG is.
fn is_image(media_type: &str) -> bool {
    media_type.starts_with("image/") && !is_text(media_type)
}

fn is_text(media_type: &str) -> bool {
    const KNOWN: [&str; 8] = [
        "application/json",
        "application/xml",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
        "application/javascript",
        "application/x-ndjson",
        "application/x-www-form-urlencoded",
    ];
    media_type.starts_with("text/")
        || media_type.ends_with("+json")
        || media_type.ends_with("+xml")
        || media_type.ends_with("+yaml")
        || KNOWN.contains(&media_type)
}

/// What was read of a body.
struct Received {
    bytes: Vec<u8>,
    /// Whether `bytes` is all of it.
    complete: bool,
    /// Its length as the service gave it.
    declared: Option<u64>,
    /// Why reading ended too early, if it did.
    broken: Option<reqwest::Error>,
}

impl Received {
    /// Reads at most `max_bytes` and three more, so that a character that begins within the bound is
    /// whole. The rest is never read.
    async fn read(mut response: Response, max_bytes: usize) -> Self {
        let max_bytes = max_bytes + 3;
        let mut received =
            Self { bytes: Vec::new(), complete: false, declared: response.content_length(), broken: None };
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) => {
                    let room = max_bytes - received.bytes.len();
                    received.bytes.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
                    if chunk.len() > room {
                        return received;
                    }
                }
                Ok(None) => {
                    received.complete = true;
                    return received;
                }
                Err(error) => {
                    received.broken = Some(error);
                    return received;
                }
            }
        }
    }

    fn total(&self) -> Total {
        match (self.complete, self.declared) {
            (true, _) => Total::Exactly(self.bytes.len() as u64),
            (false, Some(bytes)) => Total::Exactly(bytes),
            (false, None) => Total::MoreThan(self.bytes.len() as u64),
        }
    }

    /// The body as text of bounded length. What is not UTF-8 becomes U+FFFD (case 49).
    fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        let total = if self.complete { Total::Exactly(text.len() as u64) } else { self.total() };
        cut_text(&text, MAX_RESULT_BYTES, total)
    }
}

#[cfg(test)]
mod tests;
