//! Anthropic's Messages API, not streamed.
//!
//! `POST {base}/v1/messages`, version 2023-06-01; source: platform.claude.com, "Messages", "Preserved
//! thinking", "Prompt caching", "Errors". A server that speaks the same (a gateway, a test) is reached
//! with `ANTHROPIC_BASE_URL`.
//!
//! What is sent back to Anthropic verbatim: thinking blocks (to the model that made them), blocks of
//! kinds that we don't know, and text and calls that hold more than our form of them does. Thinking
//! of another Claude model is left out as any other model's is: of some, the API would drop it
//! silently, of others refuse it. No `thinking` setting is sent; models think as they do by default.

mod build;
mod parse;
#[cfg(test)]
mod tests;

use std::time::Duration;

use dormouse_domain::{message::ModelRef, retry::Failure, transcript::Prompt};
use dormouse_engine::ports::Reply;
use reqwest::header::{HeaderMap, HeaderValue};

use crate::{
    endpoint::{Endpoint, Variables, env},
    http::Http,
};

/// The provider's name in a model's name.
pub const PROVIDER: &str = "anthropic";

const VARIABLES: Variables = Variables {
    base_url: "ANTHROPIC_BASE_URL",
    api_key: "ANTHROPIC_API_KEY",
    public_base_url: "https://api.anthropic.com",
};

/// Anthropic's models.
#[derive(Debug, Clone)]
pub struct Anthropic {
    endpoint: Endpoint,
}

impl Anthropic {
    /// The models behind this address, for example `https://api.anthropic.com`.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }

    /// As `ANTHROPIC_BASE_URL` and `ANTHROPIC_API_KEY` say.
    #[must_use]
    pub fn from_env() -> Self {
        Self::new(Endpoint::read(&VARIABLES, env))
    }

    /// Asks once.
    pub(crate) async fn call(
        &self,
        http: &Http,
        model: &ModelRef,
        prompt: &Prompt<'_>,
        timeout: Duration,
    ) -> Result<Reply, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        if let Some(key) = self.endpoint.key_header(&VARIABLES, "")? {
            headers.insert("x-api-key", key);
        }
        let body = build::body(model, prompt)?;
        let url = format!("{}/v1/messages", self.endpoint.base_url);
        let answer = http.post(&url, headers, body, timeout).await.and_then(|answer| parse::reply(&answer));
        answer.map_err(|failure| self.endpoint.redact(failure))
    }
}
