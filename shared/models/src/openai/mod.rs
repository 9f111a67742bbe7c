//! Chat Completions, not streamed: OpenAI's own, and that of compatible servers (vLLM, Ollama,
//! OpenRouter, DeepSeek and others) at `OPENAI_BASE_URL`.
//!
//! `POST {base}/chat/completions` with a bearer token; source: platform.openai.com, "Chat
//! Completions". The form knows less than ours, so some of it is told in words: a failed result
//! begins with `[error]`, and an image that a tool returned comes in a user message after the results
//! that names its call.
//!
//! Reasoning: OpenAI's own stays on its side. Servers that show theirs do it in fields of the message,
//! which are kept. `reasoning_content` (DeepSeek refuses a conversation with tool calls without it)
//! and `reasoning_details` (signed, OpenRouter) go back to the very model that sent them; `reasoning`
//! is kept for the record and not sent, for servers that send it refuse it.
//!
//! No limit on output is sent: OpenAI takes only `max_completion_tokens`, older servers only
//! `max_tokens`, and both have limits of their own.

mod build;
mod parse;
#[cfg(test)]
mod tests;

use std::time::Duration;

use dormouse_domain::{message::ModelRef, retry::Failure, transcript::Prompt};
use dormouse_engine::ports::Reply;
use reqwest::header::{AUTHORIZATION, HeaderMap};

use crate::{
    endpoint::{Endpoint, Variables, env},
    http::Http,
};

/// The provider's name in a model's name.
pub const PROVIDER: &str = "openai";

const VARIABLES: Variables =
    Variables { base_url: "OPENAI_BASE_URL", api_key: "OPENAI_API_KEY", public_base_url: "https://api.openai.com/v1" };

/// OpenAI's models, or those of a compatible server.
#[derive(Debug, Clone)]
pub struct OpenAi {
    endpoint: Endpoint,
}

impl OpenAi {
    /// The models behind this address, for example `https://api.openai.com/v1`.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }

    /// As `OPENAI_BASE_URL` and `OPENAI_API_KEY` say.
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
        if let Some(key) = self.endpoint.key_header(&VARIABLES, "Bearer ")? {
            headers.insert(AUTHORIZATION, key);
        }
        let body = build::body(model, prompt)?;
        let url = format!("{}/chat/completions", self.endpoint.base_url);
        let answer = http.post(&url, headers, body, timeout).await.and_then(|answer| parse::reply(&answer));
        answer.map_err(|failure| self.endpoint.redact(failure))
    }
}
