//! Models.

use std::time::Duration;

use async_trait::async_trait;
use dormouse_domain::{
    message::{ModelRef, ReplyBlock, StopReason, Usage},
    retry::Failure,
    transcript::Prompt,
};

/// A model's reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Its blocks, in the order received. `raw` is set where it is needed to send a block back
    /// verbatim.
    pub content: Vec<ReplyBlock>,
    /// Why it stopped.
    pub stop: StopReason,
    /// What it used.
    pub usage: Usage,
}

/// The models that agents can name.
#[async_trait]
pub trait Models: Send + Sync {
    /// Asks `model` once, without retries of its own, and gives up after `timeout`.
    ///
    /// # Errors
    /// [`Failure`] with its class; an unknown provider is `Rejected`.
    async fn call(&self, model: &ModelRef, prompt: &Prompt<'_>, timeout: Duration) -> Result<Reply, Failure>;
}
