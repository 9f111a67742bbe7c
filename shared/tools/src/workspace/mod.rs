//! Tools over the workspace: a flat set of text files with paths, kept in the store (D10).
//!
//! They read through the `Files` port and write nothing: what is to be written comes back as data,
//! each write bound to the version that was read. The engine stores it in one transaction with the
//! result; if a file was changed meanwhile it calls the tool again, which then sees the change. So a
//! repeated attempt does no harm, and an attempt that could not read is known not to have happened.

pub(crate) mod again;
mod create;
mod edit;
mod glob;
mod read;
mod search;

use std::{fmt, sync::Arc, time::Duration};

use dormouse_domain::{builtin::Builtin, entry::CallResult, message::Content};
use dormouse_engine::ports::{File, FileWrite, Files, StoreError, ToolCall, ToolReply};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{bounds::result_text, path::normalise};

/// Largest workspace file in bytes: 256 KiB.
pub const MAX_FILE_BYTES: usize = 256 * 1024;

/// The workspace tools.
pub(crate) struct Workspace {
    files: Arc<dyn Files>,
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workspace").finish_non_exhaustive()
    }
}

/// What a tool did.
#[derive(Debug, PartialEq, Eq)]
struct Done {
    /// Its result.
    text: String,
    /// The file it writes, if it writes one.
    write: Option<FileWrite>,
}

impl Done {
    fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), write: None }
    }
}

/// Why a tool did nothing.
#[derive(Debug)]
enum Failure {
    /// The call is wrong; the model is told so.
    Refused(String),
    /// The workspace could not be read.
    Unread(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Unread(error)
    }
}

impl From<String> for Failure {
    fn from(problem: String) -> Self {
        Self::Refused(problem)
    }
}

impl Workspace {
    /// The tools, over what `files` reads.
    pub(crate) fn new(files: Arc<dyn Files>) -> Self {
        Self { files }
    }

    /// Makes one attempt within the tool's timeout.
    pub(crate) async fn call(&self, builtin: Builtin, call: &ToolCall) -> ToolReply {
        let timeout = Duration::from_millis(call.tool.timeout_ms);
        let outcome = tokio::time::timeout(timeout, self.run(builtin, call)).await;
        let (result, files) = match outcome {
            Ok(Ok(done)) => (returned(&done.text, false), done.write.into_iter().collect()),
            Ok(Err(Failure::Refused(problem))) => (returned(&problem, true), Vec::new()),
            Ok(Err(Failure::Unread(error))) => (CallResult::NotSent { why: format!("{error}; try again") }, Vec::new()),
            Err(_) => {
                let why = format!("the workspace took longer than {} ms; try again", call.tool.timeout_ms);
                (CallResult::NotSent { why }, Vec::new())
            }
        };
        ToolReply { files, ..result.into() }
    }

    async fn run(&self, builtin: Builtin, call: &ToolCall) -> Result<Done, Failure> {
        let (files, workspace) = (self.files.as_ref(), call.workspace.as_str());
        match builtin {
            // A question suspends the run and is answered by a person: no driver dispatches it.
            Builtin::AskUser => Err(Failure::Refused("ask_user is answered by a person; it cannot be run.".to_owned())),
            Builtin::WorkspaceRead => read::run(files, workspace, arguments(call)?).await,
            Builtin::WorkspaceCreate => create::run(files, workspace, arguments(call)?).await,
            Builtin::WorkspaceEdit => edit::run(files, workspace, arguments(call)?).await,
            Builtin::WorkspaceGlob => glob::run(files, workspace, arguments(call)?).await,
            Builtin::WorkspaceSearch => search::run(files, workspace, arguments(call)?).await,
        }
    }
}

fn returned(text: &str, is_error: bool) -> CallResult {
    CallResult::Returned { content: vec![Content::text(result_text(text))], is_error }
}

/// The arguments as a tool takes them. They fit its schema, so this fails only if the schema frozen
/// with the run is not this release's.
fn arguments<T: DeserializeOwned>(call: &ToolCall) -> Result<T, Failure> {
    let arguments: &Value = &call.arguments;
    T::deserialize(arguments).map_err(|error| Failure::Refused(format!("the arguments do not fit: {error}")))
}

/// The file that a tool is to work on, under its normalised path.
async fn existing(files: &dyn Files, workspace: &str, path: &str) -> Result<(String, File), Failure> {
    let path = normalise(path)?;
    let Some(file) = files.file(workspace, &path).await? else {
        return Err(Failure::Refused(format!("there is no file {path}; list the files to see which there are")));
    };
    if file.content.len() > MAX_FILE_BYTES {
        return Err(Failure::Refused(format!(
            "{path} has {} bytes; files of at most {MAX_FILE_BYTES} are read",
            file.content.len()
        )));
    }
    Ok((path, file))
}

/// Refuses a text that is too large for a file.
fn fits(path: &str, content: &str) -> Result<(), Failure> {
    if content.len() <= MAX_FILE_BYTES {
        return Ok(());
    }
    Err(Failure::Refused(format!(
        "{path} would have {} bytes; a file holds at most {MAX_FILE_BYTES}: split it into several",
        content.len()
    )))
}

#[cfg(test)]
mod tests;
