//! Tools, and the workspace files that some of them work on.

use async_trait::async_trait;
use dormouse_domain::{
    CallKey, Millis, Principal, RunId, ToolDef,
    entry::CallResult,
    kv::{KvPatch, State},
};
use serde_json::Value;

use super::store::{FileWrite, StoreError};

/// A call to be made.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// The run.
    pub run: RunId,
    /// Whose run it is.
    pub owner: Principal,
    /// The call.
    pub call: CallKey,
    /// The same for every attempt at this call: its idempotency key (B3).
    pub execution_key: String,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// The tool.
    pub tool: ToolDef,
    /// The arguments: canonical, an object that fits the tool's schema.
    pub arguments: Value,
    /// The workspace that the run works in.
    pub workspace: String,
    /// What the run's tools keep for it, as it is when the call starts. Calls that run at once do not see what the
    /// others set.
    pub state: State,
    /// With what another system completes it, where the tool may answer later.
    pub handover: Option<Handover>,
}

/// What a tool hands on to whoever completes the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handover {
    /// What lets them do so. A secret: not to be logged.
    pub token: String,
    /// It is good up to and including this moment.
    pub expires_at: Millis,
}

/// What came of a call.
#[derive(Debug, Clone)]
pub struct ToolReply {
    /// How the attempt ended.
    pub result: CallResult,
    /// Files to write in the same transaction as the result. Nothing is written before.
    pub files: Vec<FileWrite>,
    /// What changes in the run's state, with an answer only: a result that says nothing of what the tool did keeps
    /// nothing for it. Written with the result, all of it or, where it does not fit, nothing, and then the result
    /// says so.
    pub kv: KvPatch,
}

impl From<CallResult> for ToolReply {
    /// This result, and nothing to write with it.
    fn from(result: CallResult) -> Self {
        Self { result, files: Vec::new(), kv: KvPatch::new() }
    }
}

/// The tools that agents can use.
#[async_trait]
pub trait Tools: Send + Sync {
    /// Checks `arguments` against the tool's schema.
    ///
    /// # Errors
    /// Where and how they don't fit, for the model.
    fn validate(&self, tool: &ToolDef, arguments: &Value) -> Result<(), String>;
    /// Makes one attempt, within the tool's own timeout.
    async fn call(&self, call: &ToolCall) -> ToolReply;
    /// The workspace files, path and text, that these calls of builtins leave: they all succeeded, in this order, on
    /// an empty workspace.
    ///
    /// # Errors
    /// Why that cannot be said.
    async fn files_after(&self, made: &[ToolCall]) -> Result<Vec<(String, String)>, String> {
        match made {
            [] => Ok(Vec::new()),
            [..] => Err("there is no workspace here".to_owned()),
        }
    }
}

/// A workspace file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its text.
    pub content: String,
    /// Counts its writes, from 1.
    pub version: u64,
}

/// A workspace file's entry in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInfo {
    /// Its path.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Counts its writes, from 1.
    pub version: u64,
}

/// Reading workspace files. Writing happens in a [`Commit`](super::Commit) alone.
#[async_trait]
pub trait Files: Send + Sync {
    /// The file at `path`, read consistently.
    async fn file(&self, workspace: &str, path: &str) -> Result<Option<File>, StoreError>;
    /// All files of the workspace, sorted by path.
    async fn files(&self, workspace: &str) -> Result<Vec<FileInfo>, StoreError>;
}
