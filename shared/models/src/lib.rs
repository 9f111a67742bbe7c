//! Models: one module per provider, behind the engine's [`Models`] port.
//!
//! [`Providers`] routes a call by the part of the model's name before the colon. An adapter only
//! translates: it asks once, without retries of its own (what follows a failure is the journal's
//! business, B10), and what a request holds is a pure function of the prompt, so that a longer
//! prompt begins with the very blocks of every earlier one (I10).
//!
//! | provider | speaks to | variables |
//! |---|---|---|
//! | [`anthropic`] | Anthropic's Messages API | `ANTHROPIC_API_KEY`, `ANTHROPIC_BASE_URL` |
//! | [`openai`] | Chat Completions, OpenAI's and compatible servers' | `OPENAI_API_KEY`, `OPENAI_BASE_URL` |
//! | [`scripted`] | a script in a file, for development | |
//!
//! What crosses providers (call arguments, tool names, images) is in `replay`; what all of HTTP has in
//! common (limits, classes of failure) in `http`. Why there is no client library underneath:
//! `docs/decisions/0004-model-adapters.md`.

pub mod anthropic;
pub mod endpoint;
mod http;
pub mod openai;
mod replay;
pub mod scripted;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::time::Duration;

use async_trait::async_trait;
use dormouse_domain::{
    message::ModelRef,
    retry::{Failure, FailureClass},
    transcript::Prompt,
};
use dormouse_engine::ports::{Models, Reply};

use crate::{anthropic::Anthropic, http::Http, openai::OpenAi, scripted::Scripted};

/// All providers that agents can name.
#[derive(Debug)]
pub struct Providers {
    http: Http,
    anthropic: Anthropic,
    openai: OpenAi,
    scripted: Scripted,
}

impl Providers {
    /// These providers. Nothing is opened or connected before the first call.
    #[must_use]
    pub fn new(anthropic: Anthropic, openai: OpenAi, scripted: Scripted) -> Self {
        Self { http: Http::default(), anthropic, openai, scripted }
    }

    /// The providers as the process's environment configures them.
    #[must_use]
    pub fn from_env(scripted: Scripted) -> Self {
        Self::new(Anthropic::from_env(), OpenAi::from_env(), scripted)
    }
}

impl Providers {
    /// Whether calls of `model` can be made at all: its provider is known, and if it is scripted, its
    /// script can be read. Asks nobody.
    ///
    /// # Errors
    /// Why not, and what would be right.
    pub fn check(&self, model: &ModelRef) -> Result<(), String> {
        match model.provider.as_str() {
            anthropic::PROVIDER | openai::PROVIDER => Ok(()),
            scripted::PROVIDER => self.scripted.check(model).map_err(|failure| failure.message),
            _ => Err(unknown_provider(model)),
        }
    }
}

fn unknown_provider(model: &ModelRef) -> String {
    format!(
        "unknown provider {:?} in the model {model}; known are {}, {} and {}",
        model.provider,
        anthropic::PROVIDER,
        openai::PROVIDER,
        scripted::PROVIDER
    )
}

#[async_trait]
impl Models for Providers {
    async fn call(&self, model: &ModelRef, prompt: &Prompt<'_>, timeout: Duration) -> Result<Reply, Failure> {
        match model.provider.as_str() {
            anthropic::PROVIDER => self.anthropic.call(&self.http, model, prompt, timeout).await,
            openai::PROVIDER => self.openai.call(&self.http, model, prompt, timeout).await,
            scripted::PROVIDER => self.scripted.call(model, prompt, timeout).await,
            _ => Err(failure(FailureClass::Rejected, unknown_provider(model))),
        }
    }
}

/// A failure without a wait of the provider's choosing.
pub(crate) fn failure(class: FailureClass, message: impl Into<String>) -> Failure {
    Failure::new(class, message)
}
