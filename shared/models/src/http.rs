//! One request, one answer, within limits; and what each kind of failure means.

use std::{error::Error as _, time::Duration};

use dormouse_domain::{
    json,
    retry::{Failure, FailureClass},
};
use reqwest::{
    Client, Response,
    header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER},
    redirect,
};
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::failure;

/// The largest reply that is read, in bytes. Replies end at a few hundred thousand tokens; this is
/// a bound on memory, not on models.
const MAX_REPLY_BYTES: usize = 8 * 1024 * 1024;
/// The most that is read of an answer that is not a reply, in bytes.
const MAX_ERROR_BYTES: usize = 64 * 1024;
/// How long a connection may take. A call's own timeout covers the rest.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The most that a failure quotes of what a provider said, in bytes.
const MAX_QUOTE_BYTES: usize = 1_000;

/// The client that all providers share, made on first use: a cold start pays nothing for it.
#[derive(Debug, Default)]
pub(crate) struct Http(OnceCell<Client>);

impl Http {
    /// Posts `body`, which is JSON, and returns the text of a 2xx answer. Bytes that are no UTF-8
    /// are replaced (case 49). `timeout` covers all of it, the answer's body included.
    ///
    /// # Errors
    /// As the status says, with the provider's own words; `Network` where no answer came in time or
    /// whole, `BadReply` for one that is too large.
    pub(crate) async fn post(
        &self,
        url: &str,
        headers: HeaderMap,
        body: String,
        timeout: Duration,
    ) -> Result<String, Failure> {
        let client = self.0.get_or_try_init(|| async { client() }).await?;
        let request = client
            .post(url)
            .headers(headers)
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .timeout(timeout)
            .body(body);
        let mut response = request.send().await.map_err(|error| unreachable_provider(error, timeout))?;
        if !response.status().is_success() {
            return Err(refused(response).await);
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| unreachable_provider(error, timeout))? {
            if bytes.len() + chunk.len() > MAX_REPLY_BYTES {
                let message = format!("the reply is larger than {MAX_REPLY_BYTES} bytes");
                return Err(failure(FailureClass::BadReply, message));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }
}

fn client() -> Result<Client, Failure> {
    Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(redirect::Policy::none()) // a redirect would take the key, and the prompt, elsewhere
        .no_proxy() // what a process talks to is its configuration's business alone
        .user_agent(concat!("dormouse/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| Failure {
            free: true,
            ..failure(FailureClass::Network, format!("no HTTP client: {}", chain(error)))
        })
}

fn unreachable_provider(error: reqwest::Error, timeout: Duration) -> Failure {
    if error.is_builder() {
        return failure(FailureClass::Rejected, format!("the base URL is not a valid address: {}", chain(error)));
    }
    if error.is_timeout() && !error.is_connect() {
        return failure(FailureClass::Network, format!("no whole reply within {} ms", timeout.as_millis()));
    }
    let never_sent = error.is_connect();
    Failure { free: never_sent, ..failure(FailureClass::Network, chain(error)) }
}

/// An error and its causes in a line, without the address: it may hold credentials.
fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// What an answer means that is not a reply.
async fn refused(mut response: Response) -> Failure {
    let status = response.status().as_u16();
    let retry_after_ms = retry_after_ms(response.headers());
    let mut bytes = Vec::new();
    // The status says enough: what cannot be read of the body only shortens the message.
    while let Ok(Some(chunk)) = response.chunk().await {
        bytes.extend_from_slice(&chunk);
        if bytes.len() >= MAX_ERROR_BYTES {
            break;
        }
    }
    let said = Said::read(&String::from_utf8_lossy(&bytes));
    let class = if said.is_out_of_quota() { FailureClass::Rejected } else { class_of(status) };
    let retry_after_ms = retry_after_ms.filter(|_| class.is_retryable());
    // Somebody between us and the provider gave up, who does not know whether a model worked.
    let free = (status < 500 && status != 408) || matches!(status, 500 | 501 | 503 | 529);
    Failure { retry_after_ms, free, ..failure(class, format!("HTTP {status}{said}")) }
}

/// What a status means. Sources: Anthropic, "Errors"; OpenAI, "Error codes".
pub(crate) fn class_of(status: u16) -> FailureClass {
    match status {
        401 | 403 => FailureClass::Auth,
        408 => FailureClass::Network,
        429 => FailureClass::RateLimited,
        503 | 529 => FailureClass::Overloaded,
        500.. => FailureClass::Server,
        // 3xx too: redirects are not followed, so the base URL is wrong.
        _ => FailureClass::Rejected,
    }
}

/// How long the provider asks to wait: `retry-after-ms`, or `retry-after` in seconds. A date is
/// ignored: it is measured by a clock that is not ours.
fn retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    let number = |value: Option<&HeaderValue>| value?.to_str().ok()?.trim().parse::<f64>().ok();
    let ms = number(headers.get("retry-after-ms"))
        .or_else(|| number(headers.get(RETRY_AFTER)).map(|seconds| seconds * 1000.0))?;
    // A float-to-integer cast saturates; what is not a number of milliseconds is no wish at all.
    if ms.is_finite() && ms >= 0.0 { Some(ms.ceil() as u64) } else { None }
}

/// What an error's body says: `{"error": {"type" or "code", "message"}}`, or what comes close.
pub(crate) struct Said {
    kind: Option<String>,
    message: String,
}

impl Said {
    /// Reads an error's body, whatever it is.
    pub(crate) fn read(body: &str) -> Self {
        let body = json::well_formed(body);
        let Ok(value) = serde_json::from_str::<Value>(&body) else {
            return Self { kind: None, message: quote(body.trim()) };
        };
        let error = value.get("error").unwrap_or(&value);
        let word = |name: &str| error.get(name).and_then(Value::as_str);
        let message = error.as_str().or_else(|| word("message")).or_else(|| word("detail"));
        Self {
            kind: word("type").or_else(|| word("code")).map(|word| json::cut(word, 100).to_owned()),
            message: quote(message.unwrap_or(body.trim())),
        }
    }

    /// Whether a 429 is about money, which no waiting brings back.
    fn is_out_of_quota(&self) -> bool {
        self.kind.as_deref() == Some("insufficient_quota")
    }
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(kind) = &self.kind {
            write!(f, " ({kind})")?;
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

/// The start of what somebody said.
pub(crate) fn quote(text: &str) -> String {
    json::cut(text, MAX_QUOTE_BYTES).to_owned()
}

/// A reply that cannot be read, with the reason.
pub(crate) fn bad_reply(why: impl std::fmt::Display) -> Failure {
    failure(FailureClass::BadReply, format!("the reply cannot be read: {}", quote(&why.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_classes() {
        for (status, class) in [
            (302, FailureClass::Rejected),
            (400, FailureClass::Rejected),
            (401, FailureClass::Auth),
            (402, FailureClass::Rejected),
            (403, FailureClass::Auth),
            (404, FailureClass::Rejected),
            (408, FailureClass::Network),
            (413, FailureClass::Rejected),
            (429, FailureClass::RateLimited),
            (500, FailureClass::Server),
            (502, FailureClass::Server),
            (503, FailureClass::Overloaded),
            (504, FailureClass::Server),
            (529, FailureClass::Overloaded),
        ] {
            assert_eq!(class_of(status), class, "{status}");
        }
    }

    #[test]
    fn waits_are_read_in_seconds_or_milliseconds() {
        for (name, value, expected) in [
            ("retry-after", "2", Some(2_000)),
            ("retry-after", "0.5", Some(500)),
            ("retry-after-ms", "1500", Some(1_500)),
            ("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT", None),
            ("retry-after", "-1", None),
            ("retry-after", "NaN", None),
            ("retry-after", "inf", None),
            ("x-other", "2", None),
        ] {
            let headers = HeaderMap::from_iter([(
                name.parse::<reqwest::header::HeaderName>().unwrap(),
                HeaderValue::from_static(value),
            )]);
            assert_eq!(retry_after_ms(&headers), expected, "{name}: {value}");
        }
    }

    #[test]
    fn errors_are_quoted_whatever_their_form() {
        for (body, expected) in [
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#, " (overloaded_error): busy"),
            (r#"{"error":{"message":"no","type":null,"code":"model_not_found"}}"#, " (model_not_found): no"),
            (r#"{"error":"model 'x' not found"}"#, ": model 'x' not found"),
            (r#"{"detail":"Not Found"}"#, ": Not Found"),
            (r#"{"object":"error","message":"bad","type":"BadRequestError"}"#, " (BadRequestError): bad"),
            ("<html>oops</html>", ": <html>oops</html>"),
            ("", ""),
            (r#"{"error":{"message":"\ud92c"}}"#, ": \u{fffd}"),
        ] {
            assert_eq!(Said::read(body).to_string(), expected);
        }
        assert_eq!(Said::read(&"é".repeat(2_000)).message.len(), MAX_QUOTE_BYTES);
    }
}
