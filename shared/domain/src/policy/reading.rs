//! How a tool's arguments are to be read: as prose, as a path, as a command line, as a URL.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    agent::{Target, ToolDef},
    display::secret,
};

/// How an argument is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// It can be anything: looked through for paths and hosts, tolerantly.
    Any,
    /// Prose or content: only a rule that names the argument looks into it.
    Text,
    /// A path, or a pattern of paths.
    Path,
    /// A command line, read strictly: what cannot be read is taken for a match by rules that refuse.
    Command,
    /// A URL, or a host.
    Url,
}

/// How deep arguments are walked.
const MAX_DEPTH: usize = 32;
/// How many values are looked at.
const MAX_LEAVES: usize = 4_096;

/// A value within the arguments that holds no others, or a list of the words of a command.
#[derive(Debug)]
pub(super) struct Leaf<'a> {
    /// Its argument path: keys joined by dots; a list has that of its key.
    pub(super) path: String,
    pub(super) value: Cow<'a, Value>,
    pub(super) reading: Reading,
    /// Whether it may be secret, so that no reason quotes it.
    pub(super) secret: bool,
}

/// The arguments are too deep or too many.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMuch;

/// Every value in `arguments`, and how it is read.
pub(super) fn leaves<'a>(tool: &ToolDef, arguments: &'a Value) -> Result<Vec<Leaf<'a>>, TooMuch> {
    let mut walk = Walk { tool, leaves: Vec::new() };
    walk.value(String::new(), arguments, None, 0)?;
    Ok(walk.leaves)
}

struct Walk<'t, 'a> {
    tool: &'t ToolDef,
    leaves: Vec<Leaf<'a>>,
}

impl<'a> Walk<'_, 'a> {
    fn value(&mut self, path: String, value: &'a Value, reading: Option<Reading>, depth: usize) -> Result<(), TooMuch> {
        if depth > MAX_DEPTH || self.leaves.len() > MAX_LEAVES {
            return Err(TooMuch);
        }
        match value {
            Value::Object(map) if !map.is_empty() => map.iter().try_for_each(|(key, value)| {
                let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let reading = self.reading(&inner, key, reading);
                // A key can be a path as well as a value can.
                if depth > 0 && reading != Reading::Text {
                    self.leaf(inner.clone(), Cow::Owned(Value::String(key.clone())), Reading::Any);
                }
                self.value(inner, value, Some(reading), depth + 1)
            }),
            Value::Array(items) if !items.is_empty() => {
                let reading = reading.unwrap_or(Reading::Any);
                if reading == Reading::Command {
                    self.leaf(path.clone(), Cow::Borrowed(value), reading);
                }
                items.iter().try_for_each(|item| self.value(path.clone(), item, Some(reading), depth + 1))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                self.leaf(path, Cow::Borrowed(value), reading.unwrap_or(Reading::Any));
                Ok(())
            }
        }
    }

    fn leaf(&mut self, path: String, value: Cow<'a, Value>, reading: Reading) {
        let secret = secret::may_cover(&self.tool.secret, &path);
        self.leaves.push(Leaf { path, value, reading, secret });
    }

    /// What is declared, else what is declared of what it stands in, else what its name says.
    fn reading(&self, path: &str, key: &str, outer: Option<Reading>) -> Reading {
        if let Some(declared) = declared(self.tool, path) {
            return declared;
        }
        let named = by_name(key);
        match outer {
            None | Some(Reading::Any) if named == Reading::Any && runs_commands(&self.tool.name) => Reading::Command,
            None | Some(Reading::Any) => named,
            Some(outer) => outer,
        }
    }
}

/// What the agent file, or the builtin itself, says of this argument.
fn declared(tool: &ToolDef, path: &str) -> Option<Reading> {
    let builtin = match &tool.target {
        Target::Builtin(builtin) => {
            builtin.readings().iter().find(|(name, _)| *name == path).map(|(_, reading)| *reading)
        }
        Target::Http { .. } => None,
        // The task is for another agent to read: what that one does is judged when it does it.
        Target::Agents { .. } => Some(Reading::Text),
    };
    tool.arguments.get(path).copied().or(builtin)
}

/// Whether an argument of the tool is read as a command, wherever it says so: then nothing about it is
/// ever generalised (case 9).
pub(super) fn takes_commands(tool: &ToolDef) -> bool {
    let declared = tool.arguments.values().any(|reading| *reading == Reading::Command);
    declared || runs_commands(&tool.name) || schema_takes_commands(tool, &tool.input_schema, "", 0)
}

fn schema_takes_commands(tool: &ToolDef, schema: &Value, path: &str, depth: usize) -> bool {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return false };
    depth < MAX_DEPTH
        && properties.iter().any(|(key, inner)| {
            let inner_path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            let reading = declared(tool, &inner_path).unwrap_or_else(|| by_name(key));
            reading == Reading::Command || schema_takes_commands(tool, inner, &inner_path, depth + 1)
        })
}

/// Tools whose names say that they run commands: what they are given is one unless declared otherwise.
fn runs_commands(name: &str) -> bool {
    let words = words(name);
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    has(&["bash", "sh", "shell", "zsh", "powershell", "terminal", "exec", "ssh"])
        || (has(&["run", "execute"]) && has(&["command", "commands", "cmd", "script", "code"]))
}

/// What an argument's name says of how it is read.
fn by_name(name: &str) -> Reading {
    const COMMAND: [&str; 16] = [
        "command",
        "commands",
        "cmd",
        "cmds",
        "script",
        "scripts",
        "shell",
        "bash",
        "exec",
        "argv",
        "args",
        "cmdline",
        "commandline",
        "program",
        "sh",
        "powershell",
    ];
    const URL: [&str; 12] =
        ["url", "urls", "uri", "uris", "link", "links", "href", "endpoint", "endpoints", "host", "hostname", "webhook"];
    const PATH: [&str; 24] = [
        "path",
        "paths",
        "file",
        "files",
        "filename",
        "filenames",
        "filepath",
        "filepaths",
        "dir",
        "dirs",
        "directory",
        "directories",
        "folder",
        "folders",
        "cwd",
        "workdir",
        "target",
        "source",
        "src",
        "dest",
        "destination",
        "dst",
        "glob",
        "root",
    ];
    let words = words(name);
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let is_code = words.last().is_some_and(|word| word == "code")
        && (words.len() == 1 || has(&["python", "js", "javascript", "shell", "inline", "run"]));
    if has(&COMMAND) || is_code {
        Reading::Command
    } else if has(&URL) {
        Reading::Url
    } else if has(&PATH) {
        Reading::Path
    } else {
        Reading::Any
    }
}

/// The words of a name: `sourceUrl` and `source_url` are the same two.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        let new = !c.is_alphanumeric() || (c.is_uppercase() && before.is_lowercase());
        if new && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_how_they_are_read() {
        for (name, expected) in [
            ("command", Reading::Command),
            ("shellCommand", Reading::Command),
            ("args", Reading::Command),
            ("code", Reading::Command),
            ("python_code", Reading::Command),
            ("country_code", Reading::Any),
            ("status", Reading::Any),
            ("file_path", Reading::Path),
            ("targetDir", Reading::Path),
            ("source_url", Reading::Url),
            ("URL", Reading::Url),
            ("webhookUrl", Reading::Url),
            ("body", Reading::Any),
            ("profile", Reading::Any),
        ] {
            assert_eq!(by_name(name), expected, "{name}");
        }
    }
}
