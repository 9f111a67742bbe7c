//! The `Tools` port: checks arguments, and sends each call where its tool's definition says.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use dormouse_domain::{Digest, ToolDef, agent::Target, entry::CallResult};
use dormouse_engine::ports::{Files, ToolCall, ToolReply, Tools};
use jsonschema::Validator;
use serde_json::Value;

use crate::{
    http::Http,
    schema,
    workspace::{Workspace, again},
};

/// Most compiled schemas that are kept. When there are more, all are forgotten: compiling one takes
/// less than a millisecond, so what matters is only that memory is bounded.
const MAX_SCHEMAS: usize = 256;

/// Checks arguments against the schemas of tools, and makes no call: for functions that decide and do not run
/// anything.
#[derive(Default)]
pub struct Checker {
    schemas: Mutex<BTreeMap<Digest, Arc<Validator>>>,
}

impl fmt::Debug for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checker").finish_non_exhaustive()
    }
}

impl Checker {
    /// The compiled schema. One that does not compile is an error each time: nothing fits it (I11).
    fn validator(&self, schema: &Value) -> Result<Arc<Validator>, String> {
        let digest = Digest::of(schema.to_string().as_bytes());
        let lock = || self.schemas.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(validator) = lock().get(&digest) {
            return Ok(Arc::clone(validator));
        }
        let validator = Arc::new(schema::compile(schema)?);
        let mut schemas = lock();
        if schemas.len() >= MAX_SCHEMAS {
            schemas.clear();
        }
        schemas.insert(digest, Arc::clone(&validator));
        Ok(validator)
    }
}

#[async_trait]
impl Tools for Checker {
    fn validate(&self, tool: &ToolDef, arguments: &Value) -> Result<(), String> {
        let validator = self
            .validator(&tool.input_schema)
            .map_err(|problem| format!("the tool cannot be used: its schema is faulty ({problem})"))?;
        schema::check(&validator, arguments)
    }

    async fn call(&self, _: &ToolCall) -> ToolReply {
        let why = "this function checks arguments, and runs no tools".to_owned();
        CallResult::NotSent { why }.into()
    }

    async fn files_after(&self, made: &[ToolCall]) -> Result<Vec<(String, String)>, String> {
        again::files_after(made).await
    }
}

/// All tools. Cheap to share, safe to use from many steps at once.
pub struct Registry {
    http: Http,
    workspace: Workspace,
    checker: Checker,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}

impl Registry {
    /// The tools, working on the workspaces that `files` reads. Connects to nothing yet.
    #[must_use]
    pub fn new(files: Arc<dyn Files>) -> Self {
        Self { http: Http::default(), workspace: Workspace::new(files), checker: Checker::default() }
    }
}

#[async_trait]
impl Tools for Registry {
    fn validate(&self, tool: &ToolDef, arguments: &Value) -> Result<(), String> {
        self.checker.validate(tool, arguments)
    }

    async fn call(&self, call: &ToolCall) -> ToolReply {
        match &call.tool.target {
            Target::Builtin(builtin) => self.workspace.call(*builtin, call).await,
            Target::Http { url } => self.http.call(call, url).await,
            Target::Agents { .. } => {
                let why = "a task for another agent is the engine's to give".to_owned();
                CallResult::NotSent { why }.into()
            }
        }
    }

    async fn files_after(&self, made: &[ToolCall]) -> Result<Vec<(String, String)>, String> {
        again::files_after(made).await
    }
}

#[cfg(test)]
mod tests;
