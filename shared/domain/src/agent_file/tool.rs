//! The tools of an agent file.

use std::collections::BTreeMap;

use serde_json::Value;
use toml::{Table, Value as Toml};

use super::{Reader, legal_name};
use crate::{
    agent::{Replay, Target, ToolDef, ToolKind},
    builtin::Builtin,
    delegate,
    display::secret,
    policy::Reading,
};

/// The builtin that has another agent do a task, and its name as models see it.
const DELEGATE: &str = "delegate";
/// What it does, for the model.
const DELEGATES: &str = "Has another agent do a task, in a run of its own, and returns its answer. The agent sees nothing of this \
                         conversation: say all that it needs.";

impl Reader {
    pub(super) fn tools(&mut self, table: &Table, max_timeout_ms: u64) -> Vec<ToolDef> {
        let list = match table.get("tools") {
            None => return Vec::new(),
            Some(Toml::Array(list)) => list,
            Some(_) => {
                self.fault("tools", "must be written as [[tools]]");
                return Vec::new();
            }
        };
        let mut tools: Vec<ToolDef> = Vec::new();
        for (i, item) in list.iter().enumerate() {
            let place = format!("tools[{i}].");
            let Some(entry) = item.as_table() else {
                self.fault(format!("tools[{i}]"), "must be a table");
                continue;
            };
            if let Some(tool) = self.tool(entry, &place, max_timeout_ms) {
                if tools.iter().any(|other| other.name == tool.name) {
                    self.fault(format!("{place}name"), format!("a second tool named {:?}", tool.name));
                }
                tools.push(tool);
            }
        }
        tools
    }

    fn tool(&mut self, table: &Table, place: &str, max_timeout_ms: u64) -> Option<ToolDef> {
        const KNOWN: [&str; 17] = [
            "name",
            "description",
            "kind",
            "permission",
            "replay",
            "reuse_result",
            "timeout",
            "input_schema",
            "arguments",
            "secret",
            "always",
            "approvers",
            "http",
            "builtin",
            "later",
            "agents",
            "questions",
        ];
        self.known_keys(table, place, &KNOWN);
        let target = self.target(table, place);
        let (builtin, agents) = match &target {
            Some(Target::Builtin(builtin)) => (Some(*builtin), None),
            Some(Target::Agents { agents, .. }) => (None, Some(agents.clone())),
            Some(Target::Http { .. }) | None => (None, None),
        };
        let delegates = agents.is_some();
        let own_name = builtin.map(Builtin::tool_name).or(delegates.then_some(DELEGATE));
        let name = self.text(table, place, "name").or_else(|| own_name.map(str::to_owned));
        let Some(name) = name else {
            self.fault(format!("{place}name"), "required");
            return None;
        };
        if !legal_name(&name) {
            self.fault(format!("{place}name"), format!("{name:?} is no name; use 1 to 64 of a-z, A-Z, 0-9, _ and -"));
        }
        let timeout_ms = self.duration(table, place, "timeout").unwrap_or(30_000);
        if timeout_ms == 0 || timeout_ms > max_timeout_ms {
            self.fault(
                format!("{place}timeout"),
                format!("must be between 1ms and {max_timeout_ms}ms: a call has to fit one step"),
            );
        }
        if own_name.is_some() && table.contains_key("input_schema") {
            self.fault(format!("{place}input_schema"), "a builtin brings its own; leave it out");
        }
        // A builtin's effect and its result are one transaction, so repeating a lost attempt is safe.
        let default_replay = if builtin.is_some() { Replay::Safe } else { Replay::Manual };
        let replay =
            if delegates { Replay::Idempotent } else { self.word(table, place, "replay").unwrap_or(default_replay) };
        let reuse_result = self.word::<bool>(table, place, "reuse_result").unwrap_or_default();
        if reuse_result && replay != Replay::Idempotent {
            self.fault(format!("{place}reuse_result"), "only goes with replay = \"idempotent\"");
        }
        let later = self.word::<bool>(table, place, "later").unwrap_or_default();
        if later && builtin.is_some() {
            self.fault(format!("{place}later"), "a builtin answers at once; leave it out");
        }
        // What completes a call has the token of one attempt; a second one made unasked would shut it out.
        if later && replay != Replay::Manual {
            self.fault(format!("{place}later"), "only goes with replay = \"manual\"");
        }
        for key in ["agents", "questions"].into_iter().filter(|key| !delegates && table.contains_key(*key)) {
            self.fault(format!("{place}{key}"), "only goes with builtin = \"delegate\"");
        }
        if delegates {
            for key in ["replay", "reuse_result", "later", "kind", "approvers"]
                .into_iter()
                .filter(|key| table.contains_key(*key))
            {
                self.fault(format!("{place}{key}"), "does not go with builtin = \"delegate\"; leave it out");
            }
        }
        let input_schema = match &agents {
            Some(agents) => delegate::input_schema(agents),
            None => self.schema(table, place, builtin),
        };
        let own_description = builtin.map(Builtin::description).or(delegates.then_some(DELEGATES));
        let own_kind = builtin.map(Builtin::kind).or(delegates.then_some(ToolKind::Read));
        Some(ToolDef {
            secret: self.secret(table, place, builtin, &input_schema),
            description: self
                .text(table, place, "description")
                .unwrap_or_else(|| own_description.unwrap_or_default().to_owned()),
            kind: self.word(table, place, "kind").unwrap_or_else(|| own_kind.unwrap_or_default()),
            permission: self.word(table, place, "permission"),
            replay,
            reuse_result,
            timeout_ms,
            input_schema,
            arguments: self.arguments(table, place),
            target: target?,
            later: later || delegates,
            always: self.always(table, place),
            approvers: self.approvers(table, place),
            name,
        })
    }

    fn target(&mut self, table: &Table, place: &str) -> Option<Target> {
        match (table.get("builtin"), table.get("http")) {
            (Some(Toml::String(name)), None) if name == DELEGATE => Some(self.agents(table, place)),
            (Some(Toml::String(name)), None) => match Builtin::named(name) {
                Some(builtin) => Some(Target::Builtin(builtin)),
                None => {
                    let names = Builtin::ALL.map(Builtin::name).join(", ");
                    let problem = format!("there is no builtin {name:?}; there are: {names}, {DELEGATE}");
                    self.fault(format!("{place}builtin"), problem);
                    None
                }
            },
            (None, Some(Toml::Table(http))) => {
                self.known_keys(http, &format!("{place}http."), &["url"]);
                match http.get("url").and_then(Toml::as_str) {
                    Some(url) if url.starts_with("http://") || url.starts_with("https://") => {
                        Some(Target::Http { url: url.to_owned() })
                    }
                    Some(_) | None => {
                        self.fault(format!("{place}http.url"), "required: an http:// or https:// URL");
                        None
                    }
                }
            }
            (None, None) | (Some(_), Some(_)) => {
                self.fault(
                    place.trim_end_matches('.'),
                    "give exactly one of builtin = \"…\" and http = { url = \"…\" }",
                );
                None
            }
            (Some(_), None) => {
                self.fault(format!("{place}builtin"), "must be a string");
                None
            }
            (None, Some(_)) => {
                self.fault(format!("{place}http"), "must be a table: { url = \"…\" }");
                None
            }
        }
    }

    /// `builtin = "delegate"`, with the `agents` that can be chosen.
    fn agents(&mut self, table: &Table, place: &str) -> Target {
        let agents: Vec<String> = self.word(table, place, "agents").unwrap_or_default();
        if agents.is_empty() {
            self.fault(format!("{place}agents"), "required: a list of the agents that can be chosen");
        }
        for (i, agent) in agents.iter().enumerate() {
            if !legal_name(agent) {
                self.fault(format!("{place}agents[{i}]"), format!("{agent:?} is no agent's name"));
            } else if agents[..i].contains(agent) {
                self.fault(format!("{place}agents[{i}]"), format!("{agent:?} is named twice"));
            }
        }
        Target::Agents { agents, questions: self.word(table, place, "questions").unwrap_or_default() }
    }

    fn schema(&mut self, table: &Table, place: &str, builtin: Option<Builtin>) -> Value {
        if let Some(builtin) = builtin {
            return builtin.input_schema();
        }
        let Some(schema) = table.get("input_schema") else {
            return serde_json::json!({"type": "object"});
        };
        // Arguments are always an object, and providers refuse a schema that does not say so.
        let problem = match super::json(schema) {
            Ok(Value::Object(mut map)) if map.get("type").is_none_or(|kind| kind == "object") => {
                map.insert("type".to_owned(), "object".into());
                return Value::Object(map);
            }
            Ok(_) => "must be a table that holds a JSON Schema of an object".to_owned(),
            Err(problem) => problem,
        };
        self.fault(format!("{place}input_schema"), problem);
        serde_json::json!({"type": "object"})
    }

    /// How arguments are read whose names do not say.
    fn arguments(&mut self, table: &Table, place: &str) -> BTreeMap<String, Reading> {
        let given = match table.get("arguments") {
            None => return BTreeMap::new(),
            Some(Toml::Table(given)) => given,
            Some(_) => {
                self.fault(
                    format!("{place}arguments"),
                    "must be a table such as { body = \"text\", target = \"path\" }",
                );
                return BTreeMap::new();
            }
        };
        let prefix = format!("{place}arguments.");
        given.keys().filter_map(|key| Some((key.clone(), self.word(given, &prefix, key)?))).collect()
    }

    /// The paths of the arguments that nobody is shown.
    fn secret(&mut self, table: &Table, place: &str, builtin: Option<Builtin>, schema: &Value) -> Vec<String> {
        let paths: Vec<String> = self.word(table, place, "secret").unwrap_or_default();
        if builtin == Some(Builtin::AskUser) && !paths.is_empty() {
            self.fault(format!("{place}secret"), "a question is there to be shown; leave it out");
        }
        for (i, path) in paths.iter().enumerate() {
            if let Some(problem) = secret::fault(path, schema) {
                self.fault(format!("{place}secret[{i}]"), problem);
            }
        }
        paths
    }
}
