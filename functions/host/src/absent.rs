//! Ports of functions that must not have them: they refuse, and say that a function did what is not
//! its business.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use dormouse_domain::{
    Definition, RunId, ToolDef,
    entry::CallResult,
    message::ModelRef,
    policy::Policy,
    retry::{Failure, FailureClass},
    transcript::Prompt,
};
use dormouse_engine::ports::{Agents, Models, Queue, QueueError, Reply, ToolCall, ToolReply, Tools};

const WHY: &str = "this function has none";

/// No models: every call is rejected.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoModels;

#[async_trait]
impl Models for NoModels {
    async fn call(&self, _: &ModelRef, _: &Prompt<'_>, _: Duration) -> Result<Reply, Failure> {
        Err(Failure::new(FailureClass::Rejected, format!("no models: {WHY}")))
    }
}

/// No tools: no arguments fit, and a call is known not to have been sent.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTools;

#[async_trait]
impl Tools for NoTools {
    fn validate(&self, _: &ToolDef, _: &serde_json::Value) -> Result<(), String> {
        Err(format!("no tools: {WHY}"))
    }

    async fn call(&self, _: &ToolCall) -> ToolReply {
        CallResult::NotSent { why: format!("no tools: {WHY}") }.into()
    }
}

/// No agents.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoAgents;

impl Agents for NoAgents {
    fn get(&self, _: &str) -> Option<Arc<Definition>> {
        None
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn policy(&self, _: &str) -> Arc<Policy> {
        Arc::default()
    }
}

/// No queue: nothing can be sent.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoQueue;

#[async_trait]
impl Queue for NoQueue {
    async fn wake(&self, _: &RunId, _: Duration) -> Result<(), QueueError> {
        Err(QueueError(WHY.to_owned()))
    }

    async fn wake_all(&self, runs: &[RunId]) -> Vec<RunId> {
        runs.to_vec()
    }
}
