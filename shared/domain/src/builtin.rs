//! The tools that come with Dormouse: names, descriptions and schemas. What they do is in the
//! `tools` package; `ask_user` does nothing at all, it only suspends.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{agent::ToolKind, policy::Reading};

/// A tool that comes with Dormouse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Builtin {
    /// Asks the person a question.
    #[serde(rename = "ask_user")]
    AskUser,
    /// Reads a workspace file.
    #[serde(rename = "workspace.read")]
    WorkspaceRead,
    /// Creates a workspace file.
    #[serde(rename = "workspace.create")]
    WorkspaceCreate,
    /// Replaces text in a workspace file.
    #[serde(rename = "workspace.edit")]
    WorkspaceEdit,
    /// Lists workspace files by pattern.
    #[serde(rename = "workspace.glob")]
    WorkspaceGlob,
    /// Searches workspace files.
    #[serde(rename = "workspace.search")]
    WorkspaceSearch,
}

impl Builtin {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::AskUser,
        Self::WorkspaceRead,
        Self::WorkspaceCreate,
        Self::WorkspaceEdit,
        Self::WorkspaceGlob,
        Self::WorkspaceSearch,
    ];

    /// Its name in an agent file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AskUser => "ask_user",
            Self::WorkspaceRead => "workspace.read",
            Self::WorkspaceCreate => "workspace.create",
            Self::WorkspaceEdit => "workspace.edit",
            Self::WorkspaceGlob => "workspace.glob",
            Self::WorkspaceSearch => "workspace.search",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|builtin| builtin.name() == name)
    }

    /// The tool name that models see unless the agent file says otherwise.
    #[must_use]
    pub fn tool_name(self) -> &'static str {
        match self {
            Self::AskUser => "ask_user",
            Self::WorkspaceRead => "read_file",
            Self::WorkspaceCreate => "create_file",
            Self::WorkspaceEdit => "edit_file",
            Self::WorkspaceGlob => "list_files",
            Self::WorkspaceSearch => "search_files",
        }
    }

    /// What it does to the world.
    #[must_use]
    pub fn kind(self) -> ToolKind {
        match self {
            Self::AskUser | Self::WorkspaceRead | Self::WorkspaceGlob | Self::WorkspaceSearch => ToolKind::Read,
            Self::WorkspaceCreate | Self::WorkspaceEdit => ToolKind::Edit,
        }
    }

    /// What it does, for the model, unless the agent file says otherwise.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::AskUser => {
                "Ask the person a question and wait for the answer. Offer options where you can; an option with \
                 `cancels` ends the run when it is chosen."
            }
            Self::WorkspaceRead => "Read a text file of the workspace. Lines are numbered from 1.",
            Self::WorkspaceCreate => "Create a text file in the workspace. Fails if the file exists.",
            Self::WorkspaceEdit => {
                "Replace `old` by `new` in a workspace file. `old` must occur exactly once unless `all` is true."
            }
            Self::WorkspaceGlob => "List the workspace files whose path matches a glob pattern such as `src/**/*.rs`.",
            Self::WorkspaceSearch => "Search the workspace files for a regular expression; returns path:line: text.",
        }
    }

    /// How policy reads its arguments.
    #[must_use]
    pub fn readings(self) -> &'static [(&'static str, Reading)] {
        match self {
            Self::AskUser => {
                &[("question", Reading::Text), ("options", Reading::Text), ("allow_free_text", Reading::Text)]
            }
            Self::WorkspaceRead => &[("path", Reading::Path), ("from_line", Reading::Text), ("lines", Reading::Text)],
            Self::WorkspaceCreate => &[("path", Reading::Path), ("content", Reading::Text)],
            Self::WorkspaceEdit => {
                &[("path", Reading::Path), ("old", Reading::Text), ("new", Reading::Text), ("all", Reading::Text)]
            }
            Self::WorkspaceGlob => &[("pattern", Reading::Path)],
            // Its pattern is an expression over what files hold.
            Self::WorkspaceSearch => &[("pattern", Reading::Text), ("glob", Reading::Path)],
        }
    }

    /// JSON Schema of its arguments.
    #[must_use]
    pub fn input_schema(self) -> Value {
        let (properties, required) = match self {
            Self::AskUser => (
                json!({
                    "question": {"type": "string", "minLength": 1, "maxLength": 4000},
                    "options": {"type": "array", "maxItems": 32, "items": {
                        "type": "object",
                        "properties": {
                            "value": {"type": ["string", "number", "boolean"]},
                            "label": {"type": "string", "maxLength": 400},
                            "cancels": {"type": "boolean"}
                        },
                        "required": ["value"],
                        "additionalProperties": false
                    }},
                    "allow_free_text": {"type": "boolean"}
                }),
                json!(["question"]),
            ),
            Self::WorkspaceRead => (
                json!({
                    "path": {"type": "string"},
                    "from_line": {"type": "integer", "minimum": 1},
                    "lines": {"type": "integer", "minimum": 1}
                }),
                json!(["path"]),
            ),
            Self::WorkspaceCreate => {
                (json!({"path": {"type": "string"}, "content": {"type": "string"}}), json!(["path", "content"]))
            }
            Self::WorkspaceEdit => (
                json!({
                    "path": {"type": "string"},
                    "old": {"type": "string", "minLength": 1},
                    "new": {"type": "string"},
                    "all": {"type": "boolean"}
                }),
                json!(["path", "old", "new"]),
            ),
            Self::WorkspaceGlob => (json!({"pattern": {"type": "string"}}), json!(["pattern"])),
            Self::WorkspaceSearch => {
                (json!({"pattern": {"type": "string"}, "glob": {"type": "string"}}), json!(["pattern"]))
            }
        };
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }
}
