//! The agent file: TOML, checked as a whole, all faults reported at once with their place.
//!
//! Its form is part of the public interface. A key that this release does not know, or knows but
//! cannot keep its promise for, is a fault: an agent never runs with half of what its file says.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;
use toml::{Table, Value as Toml};

use crate::{
    agent::{
        Approvers, Definition, LateDecision, Limits, Mode, OnMessage, OnWaitExpired, Replay, Target, ToolDef,
        default_reply_within_ms,
    },
    builtin::Builtin,
    message::ModelRef,
};

/// Longest wait for a person, in milliseconds: 30 days.
const MAX_WINDOW_MS: u64 = 30 * 24 * 3600 * 1000;
/// Longest name of a group, in bytes: as in a token.
const MAX_GROUP_BYTES: usize = 256;
const DAY_MS: u64 = 24 * 3600 * 1000;

/// One fault of an agent file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where: a key path such as `tools[1].timeout`, or a line and column.
    pub place: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

/// Reads the agent file `text`. `stem` is the file's name without its extension, the agent's name
/// unless the file gives one. `max_timeout_ms` is the longest that a tool call may take on this
/// deployment: a tool that never fits a step is refused here.
///
/// # Errors
/// Every fault of the file.
pub fn parse(text: &str, stem: &str, max_timeout_ms: u64) -> Result<Definition, Vec<Fault>> {
    let table: Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return Err(vec![syntax_fault(text, &error)]),
    };
    let mut reader = Reader { faults: Vec::new() };
    let definition = reader.definition(&table, stem, max_timeout_ms);
    if reader.faults.is_empty() { Ok(definition) } else { Err(reader.faults) }
}

fn syntax_fault(text: &str, error: &toml::de::Error) -> Fault {
    let offset = error.span().map_or(0, |span| span.start);
    let line = text.get(..offset).map_or(1, |before| before.matches('\n').count() + 1);
    Fault { place: format!("line {line}"), problem: error.message().to_owned() }
}

/// Reads `90s`, `500ms`, `15m`, `6h` or `2d` as milliseconds.
fn duration_ms(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text[..digits].parse().ok()?;
    let unit = match &text[digits..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => DAY_MS,
        _ => return None,
    };
    number.checked_mul(unit)
}

fn legal_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

struct Reader {
    faults: Vec<Fault>,
}

impl Reader {
    fn fault(&mut self, place: impl Into<String>, problem: impl Into<String>) {
        self.faults.push(Fault { place: place.into(), problem: problem.into() });
    }

    fn known_keys(&mut self, table: &Table, prefix: &str, known: &[&str]) {
        for key in table.keys().filter(|key| !known.contains(&key.as_str())) {
            self.fault(format!("{prefix}{key}"), format!("unknown key; known here: {}", known.join(", ")));
        }
    }

    fn definition(&mut self, table: &Table, stem: &str, max_timeout_ms: u64) -> Definition {
        const KNOWN: [&str; 15] = [
            "name",
            "models",
            "system",
            "mode",
            "max_mode",
            "wait",
            "decide_within",
            "on_wait_expired",
            "late_decision",
            "on_message",
            "reply_within",
            "limits",
            "approvers",
            "policy",
            "tools",
        ];
        self.known_keys(table, "", &KNOWN);
        if table.contains_key("policy") {
            self.fault(
                "policy",
                "policy rules are not supported by this release; to forbid a tool, give it permission = \"deny\"",
            );
        }
        let name = self.text(table, "", "name").unwrap_or_else(|| stem.to_owned());
        if !legal_name(&name) {
            self.fault("name", format!("{name:?} is no name; use 1 to 64 of a-z, A-Z, 0-9, _ and -"));
        }
        let models = self.models(table);
        let mode = self.word(table, "", "mode").unwrap_or_default();
        let max_mode = self.word(table, "", "max_mode").unwrap_or(Mode::Yolo);
        if mode > max_mode {
            self.fault("mode", format!("{mode} is wider than max_mode, {max_mode}"));
        }
        let wait = self.duration(table, "", "wait");
        let decide = self.duration(table, "", "decide_within");
        let decide_within_ms = decide.unwrap_or(DAY_MS);
        let wait_ms = wait.unwrap_or(decide_within_ms);
        if wait_ms > decide_within_ms {
            self.fault("wait", "must not be longer than decide_within: nothing can be decided after that");
        }
        if !(1000..=MAX_WINDOW_MS).contains(&decide_within_ms) {
            self.fault("decide_within", "must be between 1s and 30d");
        }
        let reply_within_ms = self.duration(table, "", "reply_within").unwrap_or_else(default_reply_within_ms);
        if !(1000..=MAX_WINDOW_MS).contains(&reply_within_ms) {
            self.fault("reply_within", "must be between 1s and 30d");
        }
        Definition {
            name,
            models,
            system: self.text(table, "", "system").unwrap_or_default(),
            mode,
            max_mode,
            wait_ms,
            decide_within_ms,
            on_wait_expired: self.word::<OnWaitExpired>(table, "", "on_wait_expired").unwrap_or_default(),
            late_decision: self.word::<LateDecision>(table, "", "late_decision").unwrap_or_default(),
            on_message: self.word::<OnMessage>(table, "", "on_message").unwrap_or_default(),
            reply_within_ms,
            limits: self.limits(table),
            tools: self.tools(table, max_timeout_ms),
            approvers: self.approvers(table, ""),
        }
    }

    /// `approvers = { group = "…", not_requester = true }`
    fn approvers(&mut self, table: &Table, prefix: &str) -> Option<Approvers> {
        let place = format!("{prefix}approvers");
        let Toml::Table(approvers) = table.get("approvers")? else {
            self.fault(place, "must be a table: { group = \"…\", not_requester = true }");
            return None;
        };
        let inner = format!("{place}.");
        self.known_keys(approvers, &inner, &["group", "not_requester"]);
        let not_requester = self.word(approvers, &inner, "not_requester").unwrap_or_default();
        let Some(group) = self.text(approvers, &inner, "group") else {
            self.fault(format!("{inner}group"), "required: the group, as the tokens name it");
            return None;
        };
        if group.trim().is_empty() || group.len() > MAX_GROUP_BYTES || group.chars().any(char::is_control) {
            let problem = format!("must have 1 to {MAX_GROUP_BYTES} bytes and no control characters");
            self.fault(format!("{inner}group"), problem);
        }
        Some(Approvers { group, not_requester })
    }

    fn models(&mut self, table: &Table) -> Vec<ModelRef> {
        let Some(list) = table.get("models").and_then(Toml::as_array).filter(|list| !list.is_empty()) else {
            self.fault("models", "required: a list of at least one \"provider:model\"");
            return Vec::new();
        };
        let mut models = Vec::new();
        for (i, item) in list.iter().enumerate() {
            match item.as_str().and_then(|text| text.parse().ok()) {
                Some(model) => models.push(model),
                None => self.fault(format!("models[{i}]"), format!("{item} is not of the form \"provider:model\"")),
            }
        }
        models
    }

    fn limits(&mut self, table: &Table) -> Limits {
        let empty = Table::new();
        let limits = match table.get("limits") {
            None => &empty,
            Some(Toml::Table(limits)) => limits,
            Some(_) => {
                self.fault("limits", "must be a table");
                &empty
            }
        };
        self.known_keys(limits, "limits.", &["turns", "tokens", "cost_usd", "wall"]);
        let turns = self.whole(limits, "turns").unwrap_or(40);
        Limits {
            turns: u32::try_from(turns).unwrap_or(u32::MAX),
            tokens: self.whole(limits, "tokens").unwrap_or(400_000),
            cost_usd: self.dollars(limits, "cost_usd").unwrap_or(5.0),
            wall_ms: self.duration(limits, "limits.", "wall").unwrap_or(6 * 3_600_000),
        }
    }

    fn tools(&mut self, table: &Table, max_timeout_ms: u64) -> Vec<ToolDef> {
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
        const KNOWN: [&str; 11] = [
            "name",
            "description",
            "kind",
            "permission",
            "replay",
            "reuse_result",
            "timeout",
            "input_schema",
            "approvers",
            "http",
            "builtin",
        ];
        self.known_keys(table, place, &KNOWN);
        let target = self.target(table, place);
        let builtin = match &target {
            Some(Target::Builtin(builtin)) => Some(*builtin),
            Some(Target::Http { .. }) | None => None,
        };
        let name = self.text(table, place, "name").or_else(|| builtin.map(|b| b.tool_name().to_owned()));
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
        if builtin.is_some() && table.contains_key("input_schema") {
            self.fault(format!("{place}input_schema"), "a builtin brings its own; leave it out");
        }
        // A builtin's effect and its result are one transaction, so repeating a lost attempt is safe.
        let default_replay = if builtin.is_some() { Replay::Safe } else { Replay::Manual };
        let replay = self.word(table, place, "replay").unwrap_or(default_replay);
        let reuse_result = self.word::<bool>(table, place, "reuse_result").unwrap_or_default();
        if reuse_result && replay != Replay::Idempotent {
            self.fault(format!("{place}reuse_result"), "only goes with replay = \"idempotent\"");
        }
        Some(ToolDef {
            description: self
                .text(table, place, "description")
                .unwrap_or_else(|| builtin.map(|b| b.description().to_owned()).unwrap_or_default()),
            kind: self.word(table, place, "kind").unwrap_or_else(|| builtin.map(Builtin::kind).unwrap_or_default()),
            permission: self.word(table, place, "permission"),
            replay,
            reuse_result,
            timeout_ms,
            input_schema: self.schema(table, place, builtin),
            target: target?,
            approvers: self.approvers(table, place),
            name,
        })
    }

    fn target(&mut self, table: &Table, place: &str) -> Option<Target> {
        match (table.get("builtin"), table.get("http")) {
            (Some(Toml::String(name)), None) => match Builtin::named(name) {
                Some(builtin) => Some(Target::Builtin(builtin)),
                None => {
                    let names = Builtin::ALL.map(Builtin::name).join(", ");
                    self.fault(format!("{place}builtin"), format!("there is no builtin {name:?}; there are: {names}"));
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

    fn schema(&mut self, table: &Table, place: &str, builtin: Option<Builtin>) -> Value {
        if let Some(builtin) = builtin {
            return builtin.input_schema();
        }
        let Some(schema) = table.get("input_schema") else {
            return serde_json::json!({"type": "object"});
        };
        // Arguments are always an object, and providers refuse a schema that does not say so.
        match serde_json::to_value(schema) {
            Ok(Value::Object(mut map)) if map.get("type").is_none_or(|kind| kind == "object") => {
                map.insert("type".to_owned(), "object".into());
                Value::Object(map)
            }
            Ok(_) | Err(_) => {
                self.fault(format!("{place}input_schema"), "must be a table that holds a JSON Schema of an object");
                serde_json::json!({"type": "object"})
            }
        }
    }

    fn text(&mut self, table: &Table, prefix: &str, key: &str) -> Option<String> {
        let text = table.get(key)?.as_str();
        if text.is_none() {
            self.fault(format!("{prefix}{key}"), "must be a string");
        }
        text.map(str::to_owned)
    }

    /// One of an enum's words.
    fn word<T: DeserializeOwned>(&mut self, table: &Table, prefix: &str, key: &str) -> Option<T> {
        let value = table.get(key)?;
        match value.clone().try_into() {
            Ok(word) => Some(word),
            Err(error) => {
                self.fault(format!("{prefix}{key}"), toml::de::Error::message(&error));
                None
            }
        }
    }

    fn duration(&mut self, table: &Table, prefix: &str, key: &str) -> Option<u64> {
        let parsed = table.get(key)?.as_str().and_then(duration_ms);
        if parsed.is_none() {
            self.fault(
                format!("{prefix}{key}"),
                "must be a duration such as \"500ms\", \"30s\", \"15m\", \"24h\" or \"2d\"",
            );
        }
        parsed
    }

    fn dollars(&mut self, table: &Table, key: &str) -> Option<f64> {
        let value = table.get(key)?;
        let whole = || value.as_integer().and_then(|n| i32::try_from(n).ok()).map(f64::from);
        let number = value.as_float().or_else(whole).filter(|n| n.is_finite() && *n > 0.0);
        if number.is_none() {
            self.fault(format!("limits.{key}"), "must be a number above 0");
        }
        number
    }

    fn whole(&mut self, table: &Table, key: &str) -> Option<u64> {
        let number = table.get(key)?.as_integer().and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0);
        if number.is_none() {
            self.fault(format!("limits.{key}"), "must be a whole number above 0");
        }
        number
    }
}

#[cfg(test)]
mod tests;
