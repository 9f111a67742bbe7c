//! Time, names, agents and the queue.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use dormouse_domain::{Definition, Millis, RunId, policy::Policy};
use serde::{Deserialize, Serialize};

/// The time.
pub trait Clock: Send + Sync {
    /// Now, since the Unix epoch.
    fn now(&self) -> Millis;
}

/// New names.
pub trait Ids: Send + Sync {
    /// 128 bits that nobody drew before; those of version 7 UUIDs, so that runs sort by start.
    fn fresh(&self) -> u128;
}

/// The agents that new runs can be started of.
pub trait Agents: Send + Sync {
    /// The agent of this name, as its file says now.
    fn get(&self, name: &str) -> Option<Arc<Definition>>;
    /// All names, sorted.
    fn names(&self) -> Vec<String>;
    /// The rules that refuse calls of this agent's runs today, whatever was frozen with them: those of the
    /// deployment, and those of the agent if it still exists.
    fn policy(&self, agent: &str) -> Arc<Policy>;
}

/// A wake message: "look at this run". Its body is this as JSON, `{"run_id": "run_…"}`; fields that a
/// reader does not know are left alone, since a later release may send some.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    /// The run to look at.
    pub run_id: RunId,
}

/// A message that could not be sent.
#[derive(Debug, thiserror::Error)]
#[error("the queue is unavailable: {0}")]
pub struct QueueError(pub String);

/// The queue of wake messages: "look at this run". A message carries no state, and may be lost,
/// doubled or late; the store's `due_at` is what makes that harmless.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Sends a wake for `run`, to be delivered after `delay` (SQS: at most 15 minutes).
    async fn wake(&self, run: &RunId, delay: Duration) -> Result<(), QueueError>;
    /// Sends a wake for each of `runs` at once; returns those that could not be sent.
    async fn wake_all(&self, runs: &[RunId]) -> Vec<RunId>;
}
