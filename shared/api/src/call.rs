//! What a handler gets of a proxy event: who calls, the id in the path, the idempotency key, the
//! body's bytes and the query.

use std::str::FromStr;

use aws_lambda_events::apigw::ApiGatewayProxyRequest;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use dormouse_domain::{Caller, Digest, RequestId, RunId};
use dormouse_engine::{Engine, IdempotencyKey, Problem as Cause};
use serde_json::json;

use crate::{
    identity::Identity,
    problem::{Kind, Problem},
};

/// Largest body that is read, in bytes, after any base64 was decoded.
pub const MAX_BODY_BYTES: usize = 1024 * 1024;
/// Longest idempotency key, in bytes.
const MAX_KEY_BYTES: usize = 200;

/// A call, read and admitted.
#[derive(Debug)]
pub(crate) struct Call<'r> {
    pub(crate) by: Caller,
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) body: Vec<u8>,
    id: &'r str,
    request: &'r ApiGatewayProxyRequest,
}

impl<'r> Call<'r> {
    /// Reads `request`, whose path has `id` in it.
    pub(crate) fn read(engine: &Engine, request: &'r ApiGatewayProxyRequest, id: &'r str) -> Result<Self, Problem> {
        let by = Identity::read(request, engine.ports().clock.now())?.caller();
        let body = body(request)?;
        let key = idempotency_key(request, &body)?;
        Ok(Self { by, key, body, id, request })
    }

    pub(crate) fn run_id(&self) -> Result<RunId, Problem> {
        self.id("run")
    }

    pub(crate) fn request_id(&self) -> Result<RequestId, Problem> {
        self.id("request")
    }

    /// The name of a rule, as it stands: the engine reads it.
    pub(crate) fn rule_id(&self) -> &str {
        self.id
    }

    /// What is no id at all does not exist either, and is told in the same words.
    fn id<T: FromStr>(&self, what: &'static str) -> Result<T, Problem> {
        self.id.parse().map_err(|_| Cause::NotFound(what).into())
    }

    /// A query parameter.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let single = self.request.query_string_parameters.first(name);
        single.or_else(|| self.request.multi_value_query_string_parameters.first(name))
    }

    /// A query parameter that is a whole number from `least` to `most`.
    pub(crate) fn number(&self, name: &str, least: u32, most: u32) -> Result<Option<u32>, Problem> {
        let Some(text) = self.parameter(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        number.map(Some).ok_or_else(|| {
            Problem::new(Kind::InvalidRequest, format!("`{name}` must be a whole number from {least} to {most}"))
        })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(self.request, name)?.to_str().ok()
    }
}

/// What came without an identity, for a token in its path: read, and not yet admitted.
#[derive(Debug)]
pub(crate) struct Visit<'r> {
    pub(crate) token: &'r str,
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) body: Vec<u8>,
    request: &'r ApiGatewayProxyRequest,
}

impl<'r> Visit<'r> {
    /// Reads `request`, whose path has `token` in it. Who it says it is is not looked at.
    pub(crate) fn read(request: &'r ApiGatewayProxyRequest, token: &'r str) -> Result<Self, Problem> {
        let body = body(request)?;
        let key = idempotency_key(request, &body)?;
        Ok(Self { token, key, body, request })
    }

    /// Whether it asks for a page: browsers name HTML, programs that want JSON do not.
    pub(crate) fn wants_page(&self) -> bool {
        self.header("accept").split(',').any(|media| is_media(media, "text/html"))
    }

    /// Whether its body is what a page's form sends.
    pub(crate) fn is_form(&self) -> bool {
        is_media(self.header("content-type"), "application/x-www-form-urlencoded")
    }

    fn header(&self, name: &str) -> &'r str {
        header(self.request, name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// Whether a media type, with whatever parameters, is this one.
fn is_media(given: &str, media: &str) -> bool {
    given.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(media)
}

/// API Gateway gives headers singly and as lists; other hosts may give one of the two.
fn header<'r>(request: &'r ApiGatewayProxyRequest, name: &str) -> Option<&'r http::HeaderValue> {
    request.headers.get(name).or_else(|| request.multi_value_headers.get(name))
}

fn body(request: &ApiGatewayProxyRequest) -> Result<Vec<u8>, Problem> {
    let text = request.body.as_deref().unwrap_or_default();
    let too_large = || {
        let detail = format!("the body is larger than {MAX_BODY_BYTES} bytes; send less");
        Problem::new(Kind::TooLarge, detail).member("max_bytes", MAX_BODY_BYTES)
    };
    if !request.is_base64_encoded {
        return if text.len() > MAX_BODY_BYTES { Err(too_large()) } else { Ok(text.as_bytes().to_vec()) };
    }
    // Four characters are three bytes: what can't fit is not decoded first.
    if text.len() / 4 > MAX_BODY_BYTES / 3 + 1 {
        return Err(too_large());
    }
    let bytes = BASE64_STANDARD
        .decode(text)
        .map_err(|error| Problem::new(Kind::InvalidBody, format!("the body is not base64: {error}")))?;
    if bytes.len() > MAX_BODY_BYTES { Err(too_large()) } else { Ok(bytes) }
}

/// The client's key, bound to what it was sent with: method, path and body.
fn idempotency_key(request: &ApiGatewayProxyRequest, body: &[u8]) -> Result<Option<IdempotencyKey>, Problem> {
    let Some(value) = header(request, "idempotency-key") else { return Ok(None) };
    let key = value
        .to_str()
        .ok()
        .filter(|key| (1..=MAX_KEY_BYTES).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()));
    let Some(key) = key else {
        let detail =
            format!("the Idempotency-Key must be 1 to {MAX_KEY_BYTES} visible ASCII characters, without spaces");
        return Err(Problem::new(Kind::InvalidRequest, detail));
    };
    // A JSON array is injective: nothing can move from one part to the next (case 7).
    let parts = json!([request.http_method.as_str(), request.path, Digest::of(body).as_str()]);
    let fingerprint = Digest::of(parts.to_string().as_bytes());
    Ok(Some(IdempotencyKey { key: key.to_owned(), fingerprint }))
}
