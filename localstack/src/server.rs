//! The API's front: what API Gateway and the authorizer do on AWS.
//!
//! It binds to loopback and believes `X-Dev-User`, so it must not be talked to by web pages of other
//! origins: a page that somebody visits can send requests to 127.0.0.1. Hence the checks of `Host`
//! (against DNS rebinding) and `Origin` (against cross-site requests).

use std::collections::HashMap;

use aws_lambda_events::{
    apigw::{ApiGatewayProxyRequest, ApiGatewayProxyResponse},
    encodings::Body as EventBody,
};
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::Engine as _;
use dormouse_api::{Access, Function, MAX_BODY_BYTES, identity::Identity, problem::TYPE_PREFIX, route_for};
use dormouse_domain::Principal;
use dormouse_engine::Engine;
use http_body_util::BodyExt;

use crate::page;

/// Bytes of a body that are read at all; API Gateway takes no more than 10 MB either.
const MAX_READ_BYTES: usize = 16 * 1024 * 1024;
/// How long the identity of one request holds, in milliseconds.
const SESSION_MS: u64 = 60_000;

/// The API and the page at `/`.
pub(crate) fn app(engine: Engine) -> Router {
    Router::new().fallback(front).with_state(engine)
}

async fn front(State(engine): State<Engine>, request: Request) -> Response {
    if let Some(refusal) = other_host(request.headers()) {
        return refusal;
    }
    let route = route_for(request.method(), request.uri().path());
    // A link is followed from anywhere, and a form of its page says of where it came only that it does not say. Who
    // holds the token needs nobody's browser to use it.
    let by_token = route.is_some_and(|route| route.access() == Access::Token);
    if let Some(refusal) = cross_origin(request.headers()).filter(|_| !by_token) {
        return refusal;
    }
    if request.method() == http::Method::GET && request.uri().path() == "/" {
        return page::response();
    }
    let (parts, body) = request.into_parts();
    let Some(route) = route else {
        return into_http(dormouse_api::unrouted());
    };
    let fields = match (route.access(), identity(&parts.headers, &engine)) {
        (Access::Token, _) => HashMap::new(),
        (Access::Caller, Ok(identity)) => identity.fields(),
        (Access::Caller, Err(detail)) => return refuse(StatusCode::UNAUTHORIZED, "unauthenticated", detail),
    };
    let body = match read(body).await {
        Ok(body) => body,
        Err(error) => {
            tracing::debug!(%error, "a request's body broke off");
            return refuse(
                StatusCode::BAD_REQUEST,
                "invalid-request",
                "the body broke off before its end; send it again",
            );
        }
    };
    let event = proxy_event(&parts, &body, fields);
    let answer = match route.function() {
        Function::Start => dormouse_api::start(&engine, event).await,
        Function::Respond => dormouse_api::respond(&engine, event).await,
        Function::Control => dormouse_api::control(&engine, event).await,
        Function::Query => dormouse_api::query(&engine, event).await,
    };
    into_http(answer)
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// A refusal of this front's own, in the API's form.
fn refuse(status: StatusCode, kind: &str, detail: &str) -> Response {
    let document = serde_json::json!({
        "type": format!("{TYPE_PREFIX}{kind}"),
        "title": status.canonical_reason(),
        "status": status.as_u16(),
        "detail": detail,
    });
    let headers = [(header::CONTENT_TYPE, "application/problem+json")];
    (status, headers, document.to_string()).into_response()
}

/// The refusal of what is meant for another host.
fn other_host(headers: &HeaderMap) -> Option<Response> {
    let host = text(headers, "host").unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    if ["127.0.0.1", "localhost", "[::1]"].contains(&name) {
        return None;
    }
    let detail = "the embedded stack is for this machine alone; call it as 127.0.0.1 or localhost";
    Some(refuse(StatusCode::FORBIDDEN, "forbidden", detail))
}

/// The refusal of what a page of another origin could have sent.
fn cross_origin(headers: &HeaderMap) -> Option<Response> {
    let host = text(headers, "host").unwrap_or_default();
    let foreign = headers.contains_key("origin") && text(headers, "origin") != Some(&format!("http://{host}"));
    if foreign || text(headers, "sec-fetch-site") == Some("cross-site") {
        let detail = "the embedded stack takes no requests from pages of other origins";
        return Some(refuse(StatusCode::FORBIDDEN, "forbidden", detail));
    }
    None
}

/// Who calls: `X-Dev-User: <tenant>/<user>`, by default `local/dev`. Only for one machine.
fn identity(headers: &HeaderMap, engine: &Engine) -> Result<Identity, &'static str> {
    let user = if headers.contains_key("x-dev-user") { text(headers, "x-dev-user") } else { Some("local/dev") };
    let named =
        user.and_then(|user| user.split_once('/')).filter(|(tenant, user)| !tenant.is_empty() && !user.is_empty());
    let Some((tenant, subject)) = named else {
        return Err("X-Dev-User must be of the form <tenant>/<user>, for example local/dev");
    };
    Ok(Identity {
        principal: Principal { tenant: tenant.to_owned(), subject: subject.to_owned() },
        groups: Vec::new(),
        expires_at: engine.ports().clock.now().plus(SESSION_MS),
    })
}

/// Reads a body to its end, so that the answer to one that is too large arrives, but keeps only
/// enough of it to see that it is.
async fn read(mut body: Body) -> Result<Vec<u8>, axum::Error> {
    let mut kept = Vec::new();
    let mut seen = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        seen += data.len();
        let room = (MAX_BODY_BYTES + 1).saturating_sub(kept.len());
        kept.extend_from_slice(&data[..data.len().min(room)]);
        if seen > MAX_READ_BYTES {
            break;
        }
    }
    Ok(kept)
}

fn proxy_event(
    parts: &http::request::Parts,
    body: &[u8],
    fields: HashMap<String, serde_json::Value>,
) -> ApiGatewayProxyRequest {
    let mut event = ApiGatewayProxyRequest::default();
    event.path = Some(parts.uri.path().to_owned());
    event.http_method = parts.method.clone();
    event.headers = parts.headers.clone();
    event.multi_value_headers = parts.headers.clone();
    if let Some(Ok(query)) = parts.uri.query().map(str::parse) {
        event.query_string_parameters = query;
        event.multi_value_query_string_parameters = event.query_string_parameters.clone();
    }
    event.request_context.authorizer.fields = fields;
    // As API Gateway: what is no text arrives in base64.
    (event.body, event.is_base64_encoded) = match std::str::from_utf8(body) {
        Ok("") => (None, false),
        Ok(text) => (Some(text.to_owned()), false),
        Err(_) => (Some(base64::engine::general_purpose::STANDARD.encode(body)), true),
    };
    event
}

fn into_http(answer: ApiGatewayProxyResponse) -> Response {
    let status = u16::try_from(answer.status_code).ok().and_then(|code| StatusCode::from_u16(code).ok());
    let body = match answer.body {
        None | Some(EventBody::Empty) => Body::empty(),
        Some(EventBody::Text(text)) => Body::from(text),
        Some(EventBody::Binary(bytes)) => Body::from(bytes),
        Some(_) => Body::empty(),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().extend(answer.headers);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, http::HeaderValue::from_static("nosniff"));
    response
}
