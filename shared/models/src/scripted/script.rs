//! The form of a script.

use serde::Deserialize;
use toml::Table;

/// A script: replies in order.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Script {
    #[serde(default)]
    pub(super) replies: Vec<ScriptedReply>,
}

/// One reply.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptedReply {
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) calls: Vec<ScriptedCall>,
    #[serde(default)]
    pub(super) delay_ms: u64,
}

/// A call within a reply.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptedCall {
    pub(super) name: String,
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) arguments: Table,
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// What is wrong with it, with its place. A reply that says nothing is refused: it leaves no
    /// trace in the conversation, so the script would come to it again and again.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let script: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        for (number, reply) in script.replies.iter().enumerate() {
            let speaks = reply.text.as_ref().is_some_and(|text| !text.trim().is_empty());
            if !speaks && reply.calls.is_empty() {
                return Err(format!("reply {} has neither text nor calls", number + 1));
            }
        }
        Ok(script)
    }
}
