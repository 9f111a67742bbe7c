//! `scripted:<file>`: a model that says what a file says, for demonstrations and tests.
//!
//! It keeps nothing between calls: its reply number *n* (from 0) answers a prompt that holds *n*
//! replies, so a run that waits, crashes and resumes reads the same script as one that does not.
//! After the last reply it says that the script has ended.
//!
//! ```toml
//! [[replies]]
//! text = "I'll look at {{input}}."    # optional if there are calls
//! delay_ms = 500                      # optional: how long it takes
//!
//! [[replies.calls]]
//! name = "read_file"
//! id = "call_1"                       # optional
//! arguments = { path = "README.md" }  # optional
//!
//! [[replies]]
//! text = "It says: {{result:read_file}}"
//! ```
//!
//! In texts, and in strings within arguments: `{{input}}` is the first text that a person said,
//! `{{result}}` the text of the last result, `{{result:NAME}}` that of the last result of the tool
//! NAME; `(none)` where there is no such text. Tokens are estimated as a quarter of the characters.

mod fill;
mod script;
#[cfg(test)]
mod tests;

use std::{
    path::{Component, Path, PathBuf},
    time::Duration,
};

use dormouse_domain::{
    message::{ModelRef, ReplyBlock, StopReason, Usage},
    retry::{Failure, FailureClass},
    transcript::{Message, Prompt},
};
use dormouse_engine::ports::Reply;

use self::{fill::Values, script::Script};
use crate::failure;

/// The provider's name in a model's name.
pub const PROVIDER: &str = "scripted";

/// The largest script, in bytes.
const MAX_SCRIPT_BYTES: u64 = 1024 * 1024;

/// Scripted models.
#[derive(Debug, Clone)]
pub struct Scripted {
    /// Where the scripts are; `None` where there are to be none.
    folder: Option<PathBuf>,
}

impl Scripted {
    /// The scripts below `folder`, usually the one of the agents.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Some(folder.into()) }
    }

    /// None: what a deployed stack has.
    #[must_use]
    pub fn refused() -> Self {
        Self { folder: None }
    }

    /// Whether the model's script can be read.
    pub(crate) fn check(&self, model: &ModelRef) -> Result<(), Failure> {
        self.read(&model.name).map(drop)
    }

    /// Gives the reply that is next.
    pub(crate) async fn call(
        &self,
        model: &ModelRef,
        prompt: &Prompt<'_>,
        timeout: Duration,
    ) -> Result<Reply, Failure> {
        let script = self.read(&model.name)?;
        let number = prompt.messages.iter().filter(|message| matches!(message, Message::Assistant { .. })).count();
        let delay = script.replies.get(number).map_or(Duration::ZERO, |reply| Duration::from_millis(reply.delay_ms));
        if delay >= timeout {
            tokio::time::sleep(timeout).await;
            let message = format!("no whole reply within {} ms", timeout.as_millis());
            return Err(failure(FailureClass::Network, message));
        }
        tokio::time::sleep(delay).await;
        Ok(reply(&script, number, prompt))
    }

    fn read(&self, file: &str) -> Result<Script, Failure> {
        let Some(folder) = &self.folder else {
            return Err(failure(
                FailureClass::Rejected,
                "scripted models are for development; this stack refuses them",
            ));
        };
        let rejected = |why: String| failure(FailureClass::Rejected, format!("the script {file:?}: {why}"));
        let path = inside(folder, Path::new(file)).map_err(rejected)?;
        let size = path.metadata().map_err(|error| rejected(error.to_string()))?.len();
        if size > MAX_SCRIPT_BYTES {
            return Err(rejected(format!("it is larger than {MAX_SCRIPT_BYTES} bytes")));
        }
        let text = std::fs::read_to_string(&path).map_err(|error| rejected(error.to_string()))?;
        Script::parse(&text).map_err(rejected)
    }
}

/// `file` within `folder`, links followed: a model's name is no way to read other files.
fn inside(folder: &Path, file: &Path) -> Result<PathBuf, String> {
    if !file.components().all(|component| matches!(component, Component::Normal(_))) {
        return Err("its path must lead down from the scripts' folder".to_owned());
    }
    let folder = folder.canonicalize().map_err(|error| format!("its folder: {error}"))?;
    let path = folder.join(file).canonicalize().map_err(|error| error.to_string())?;
    if path.starts_with(&folder) { Ok(path) } else { Err("its path leads out of the scripts' folder".to_owned()) }
}

fn reply(script: &Script, number: usize, prompt: &Prompt<'_>) -> Reply {
    let values = Values::of(prompt);
    let mut content = Vec::new();
    let mut stop = StopReason::EndTurn;
    match script.replies.get(number) {
        None => content.push(ReplyBlock::Text { text: "(the script has ended)".to_owned(), raw: None }),
        Some(reply) => {
            if let Some(text) = &reply.text {
                content.push(ReplyBlock::Text { text: values.fill(text), raw: None });
            }
            for (ordinal, call) in reply.calls.iter().enumerate() {
                stop = StopReason::ToolUse;
                content.push(ReplyBlock::ToolCall {
                    id: call.id.clone().unwrap_or_else(|| format!("scripted_{number}_{ordinal}")),
                    name: call.name.clone(),
                    arguments: values.fill_table(&call.arguments).to_string(),
                    raw: None,
                });
            }
        }
    }
    let usage =
        Usage { input_tokens: tokens(values.characters), output_tokens: tokens(written(&content)), ..Usage::default() };
    Reply { content, stop, usage }
}

fn written(content: &[ReplyBlock]) -> usize {
    let characters = content.iter().map(|block| match block {
        ReplyBlock::Text { text, .. } => text.chars().count(),
        ReplyBlock::ToolCall { name, arguments, .. } => name.chars().count() + arguments.chars().count(),
        ReplyBlock::Reasoning { raw } | ReplyBlock::Opaque { raw } => raw.chars().count(),
    });
    characters.sum()
}

fn tokens(characters: usize) -> u64 {
    characters.div_ceil(4) as u64
}
