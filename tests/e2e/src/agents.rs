//! Agent files in a folder of their own.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

/// A folder of agents.
#[derive(Debug)]
pub struct Agents {
    path: PathBuf,
    /// Removes the folder when it is dropped.
    _own: Option<TempDir>,
}

impl Agents {
    /// An empty folder, gone with this value.
    pub fn new() -> Self {
        let own = TempDir::new().expect("a temporary folder");
        Self { path: own.path().to_owned(), _own: Some(own) }
    }

    /// The agents that come with Dormouse.
    pub fn that_come_along() -> Self {
        Self { path: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../agents"), _own: None }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// With an agent that asks `model` and has `tools`.
    #[must_use]
    pub fn with(self, name: &str, model: &str, tools: &[Tool]) -> Self {
        self.with_settings(name, model, "", tools)
    }

    /// As [`with`](Self::with), with further lines of the file's head.
    #[must_use]
    pub fn with_settings(self, name: &str, model: &str, settings: &str, tools: &[Tool]) -> Self {
        let tools: String = tools.iter().map(|tool| tool.0.as_str()).collect();
        // A model call that is killed counts at its most, and hundreds are.
        let text = format!(
            "models = [{model:?}]\nlimits = {{ cost_usd = 9000 }}\nsystem = \"You operate the shop's servers.\"\n{settings}\n{tools}"
        );
        self.file(&format!("{name}.toml"), &text)
    }

    /// With an agent of this name that reads from this script.
    #[must_use]
    pub fn scripted(self, name: &str, script: &str, tools: &[Tool]) -> Self {
        self.scripted_with(name, script, "", tools)
    }

    /// As [`scripted`](Self::scripted), with further lines of the agent file's head.
    #[must_use]
    pub fn scripted_with(self, name: &str, script: &str, settings: &str, tools: &[Tool]) -> Self {
        let file = format!("scripts/{name}.toml");
        self.with_settings(name, &format!("scripted:{file}"), settings, tools).file(&file, script)
    }

    fn file(self, name: &str, text: &str) -> Self {
        let path: PathBuf = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder");
        fs::write(path, text).expect("a file that can be written");
        self
    }
}

impl Default for Agents {
    fn default() -> Self {
        Self::new()
    }
}

/// A tool's table in an agent file.
#[derive(Debug, Clone)]
pub struct Tool(String);

impl Tool {
    /// A tool that is a web service.
    pub fn http(name: &str, url: &str) -> Self {
        Self(format!("\n[[tools]]\nname = {name:?}\ndescription = \"Does {name}.\"\nhttp = {{ url = {url:?} }}\n"))
    }

    /// A tool that comes with Dormouse.
    pub fn builtin(builtin: &str) -> Self {
        Self(format!("\n[[tools]]\nbuiltin = {builtin:?}\n"))
    }

    /// With a further key, `value` as TOML has it.
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> Self {
        writeln!(self.0, "{key} = {value}").expect("text can be written to a string");
        self
    }

    /// One that only reads, so that it runs without asking.
    #[must_use]
    pub fn reads(self) -> Self {
        self.set("kind", "\"read\"")
    }

    /// One that runs without asking.
    #[must_use]
    pub fn allowed(self) -> Self {
        self.set("permission", "\"allow\"")
    }

    /// One that asks.
    #[must_use]
    pub fn asks(self) -> Self {
        self.set("permission", "\"ask\"")
    }
}
