//! How everything that is not done is told: problem documents (RFC 9457), made in this one place.
//!
//! `type` is what programs act on and never changes; `title` belongs to the type; `detail` is for the
//! person who reads it, and says what to do. What a client reads here is apart from what the log
//! says: the source of a 5xx goes to the log alone. Somebody else's run and one that never was get
//! the same document, byte for byte (A16).

use aws_lambda_events::{apigw::ApiGatewayProxyResponse, encodings::Body};
use dormouse_domain::{agent::Approvers, decide::Refusal, display::text, request::DecisionKind};
use dormouse_engine::Problem as Cause;
use http::{HeaderMap, HeaderValue, header};
use serde_json::{Map, Value, json as object};

use crate::view;

/// What `type` begins with.
pub const TYPE_PREFIX: &str = "urn:dormouse:problem:";

/// Longest `detail`, in bytes: what a client sent, or a model wrote, can be quoted in it.
const DETAIL_BYTES: usize = 1_000;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $status:literal, $name:literal, $title:literal;)+) => {
        /// The types of problems.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Kind { $($(#[$doc])* $kind,)+ }

        impl Kind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)+];

            /// The HTTP status.
            #[must_use]
            pub fn status(self) -> u16 {
                match self { $(Self::$kind => $status,)+ }
            }

            /// The last part of `type`, after [`TYPE_PREFIX`].
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            /// The title.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(Self::$kind => $title,)+ }
            }
        }
    };
}

kinds! {
    /// The body names an agent that there is not.
    UnknownAgent: 400, "unknown-agent", "Unknown agent";
    /// The body is not what this resource takes. Members `field`, `line` and `column` where known.
    InvalidBody: 400, "invalid-body", "Invalid body";
    /// A header or a query parameter is not what this resource takes.
    InvalidRequest: 400, "invalid-request", "Invalid request";
    /// The answer does not fit the stored request. Member `offered`: the decisions on offer.
    InvalidAnswer: 400, "invalid-answer", "Invalid answer";
    /// Who calls is not known, or their time is over.
    Unauthenticated: 401, "unauthenticated", "Not authenticated";
    /// The caller may see it, and others decide it. Member `approvers`: the group whose members do.
    NotEntitled: 403, "not-entitled", "Not entitled";
    /// It does not exist, or not for the caller.
    NotFound: 404, "not-found", "Not found";
    /// The resource exists, but not with this method. Header `Allow`.
    MethodNotAllowed: 405, "method-not-allowed", "Method not allowed";
    /// The resource can't be given in the form asked for.
    NotAcceptable: 406, "not-acceptable", "Not acceptable";
    /// Somebody was first. Member `decision`: what stands.
    AlreadyDecided: 409, "already-decided", "Already decided";
    /// What the person saw is not what is stored.
    DigestMismatch: 409, "digest-mismatch", "Digest mismatch";
    /// The run is not in a state for this.
    WrongState: 409, "wrong-state", "Wrong state";
    /// It can no longer be decided. Member `request_status`: `expired`, or `cancelled`, which is withdrawn; without it,
    /// it is the link that is over.
    Expired: 410, "expired", "No longer open";
    /// More than is taken.
    TooLarge: 413, "too-large", "Too large";
    /// The idempotency key belongs to another write.
    KeyReused: 422, "key-reused", "Idempotency key reused";
    /// What is stored can't be read. Trying again does not help.
    Internal: 500, "internal", "Internal error";
    /// Try again, or, without `Retry-After`, it is not set up here. Member `outcome` is `unknown` if it may have been
    /// done, else `unchanged`.
    Unavailable: 503, "unavailable", "Unavailable";
}

/// A problem document with its headers.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    kind: Kind,
    detail: String,
    members: Map<String, Value>,
    headers: Vec<(&'static str, String)>,
}

impl Problem {
    /// A problem of this kind; `detail` says what to do.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), members: Map::new(), headers: Vec::new() }
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// With one more member.
    #[must_use]
    pub fn member(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
        self
    }

    /// With one more header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Notes it for whoever runs this.
    pub(crate) fn log(&self) {
        tracing::info!(status = self.kind.status(), kind = self.kind.name(), detail = self.detail, "refused");
    }

    /// The document.
    #[must_use]
    pub fn document(&self) -> Value {
        let mut document = self.members.clone();
        document.insert("type".into(), format!("{TYPE_PREFIX}{}", self.kind.name()).into());
        document.insert("title".into(), self.kind.title().into());
        document.insert("status".into(), self.kind.status().into());
        document.insert("detail".into(), text::block(&self.detail, DETAIL_BYTES).into());
        Value::Object(document)
    }
}

impl From<Cause> for Problem {
    fn from(cause: Cause) -> Self {
        let text = cause.to_string();
        match cause {
            Cause::NotFound(_) => Self::new(Kind::NotFound, text),
            Cause::UnknownAgent { .. } => Self::new(Kind::UnknownAgent, text),
            Cause::Invalid(_) => Self::new(Kind::InvalidBody, text),
            Cause::Gone(_) => Self::new(Kind::Expired, text),
            Cause::WrongState(_) => Self::new(Kind::WrongState, text),
            Cause::Refused(refusal) => refusal.into(),
            Cause::KeyReused => Self::new(Kind::KeyReused, text),
            Cause::TooLarge(_) => Self::new(Kind::TooLarge, text),
            Cause::NotSetUp(what) => {
                tracing::warn!(what, "asked for, and not set up");
                Self::new(Kind::Unavailable, text).member("outcome", "unchanged")
            }
            Cause::Unavailable(source) => {
                tracing::error!(error = %chain(source.as_ref()), "unavailable");
                unavailable(text, "unchanged")
            }
            Cause::NotEntitled { approvers, .. } => not_entitled(text, &approvers),
            Cause::Unknown(source) => {
                tracing::error!(error = %chain(source.as_ref()), "not known whether it was stored");
                unavailable(text, "unknown")
            }
            Cause::Corrupt(source) => {
                tracing::error!(error = %chain(source.as_ref()), "corrupt");
                Self::new(Kind::Internal, text)
            }
        }
    }
}

fn unavailable(detail: String, outcome: &str) -> Problem {
    Problem::new(Kind::Unavailable, detail).member("outcome", outcome).header("retry-after", "1".to_owned())
}

fn not_entitled(detail: String, approvers: &Approvers) -> Problem {
    Problem::new(Kind::NotEntitled, detail).member("approvers", object!({ "group": approvers.group }))
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let text = refusal.to_string();
        match refusal {
            Refusal::NotFound => Self::new(Kind::NotFound, text),
            Refusal::NotEntitled(approvers) => not_entitled(text, &approvers),
            Refusal::AlreadyDecided(settled) => {
                Self::new(Kind::AlreadyDecided, text).member("decision", view::decision(&settled))
            }
            Refusal::LinkExpired => Self::new(Kind::Expired, text),
            Refusal::Gone(status) => Self::new(Kind::Expired, text).member("request_status", status.as_str()),
            Refusal::NotOffered { offered, .. } => {
                let offered: Vec<_> = offered.into_iter().map(DecisionKind::as_str).collect();
                Self::new(Kind::InvalidAnswer, text).member("offered", offered)
            }
            Refusal::DigestMissing | Refusal::Invalid(_) | Refusal::BadEdit(_) => Self::new(Kind::InvalidAnswer, text),
            Refusal::DigestMismatch => Self::new(Kind::DigestMismatch, text),
        }
    }
}

/// An error and what is behind it, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source());
    sources.fold(error.to_string(), |text, source| format!("{text}: {source}"))
}

/// What a handler gives when it did what was asked.
#[derive(Debug)]
pub(crate) struct Reply {
    status: u16,
    media_type: &'static str,
    text: String,
    headers: Vec<(&'static str, String)>,
}

impl Reply {
    pub(crate) fn ok(body: &Value) -> Self {
        Self { status: 200, media_type: "application/json", text: body.to_string(), headers: Vec::new() }
    }

    /// What was asked for is under way.
    pub(crate) fn accepted(body: &Value) -> Self {
        Self { status: 202, ..Self::ok(body) }
    }

    /// What was asked for was made.
    pub(crate) fn created(body: &Value) -> Self {
        Self { status: 201, ..Self::ok(body) }
    }

    /// A problem document.
    pub(crate) fn problem(problem: &Problem) -> Self {
        Self {
            status: problem.kind.status(),
            media_type: "application/problem+json",
            text: problem.document().to_string(),
            headers: problem.headers.clone(),
        }
    }

    /// A page.
    pub(crate) fn page(status: u16, text: String) -> Self {
        Self { status, media_type: "text/html; charset=utf-8", text, headers: Vec::new() }
    }

    /// Lines of JSON, each with its line break.
    pub(crate) fn lines(text: String) -> Self {
        Self { status: 200, media_type: "application/x-ndjson", text, headers: Vec::new() }
    }

    /// With one more header.
    pub(crate) fn header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }
}

/// The response for either.
pub(crate) fn answer(outcome: Result<Reply, Problem>) -> ApiGatewayProxyResponse {
    match outcome {
        Ok(reply) => response(reply.status, reply.media_type, reply.text, &reply.headers),
        Err(problem) => {
            problem.log();
            answer(Ok(Reply::problem(&problem)))
        }
    }
}

fn response(
    status: u16,
    media_type: &'static str,
    text: String,
    more: &[(&'static str, String)],
) -> ApiGatewayProxyResponse {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    for (name, value) in more {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(*name, value);
        }
    }
    let mut response = ApiGatewayProxyResponse::default();
    response.status_code = i64::from(status);
    response.headers = headers;
    response.body = Some(Body::Text(text));
    response
}
