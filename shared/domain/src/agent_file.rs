//! The agent file: TOML, checked as a whole, all faults reported at once with their place.
//!
//! Its form is part of the public interface. A key that this release does not know, or knows but
//! cannot keep its promise for, is a fault: an agent never runs with half of what its file says. Its tools
//! are read in `tool`, its rules in `policy`.

mod policy;
mod prices;
mod tool;

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;
use toml::{Table, Value as Toml};

pub use self::prices::parse_prices;
use crate::{
    agent::{Approvers, Definition, LateDecision, Limits, Mode, OnMessage, OnWaitExpired, default_reply_within_ms},
    budget::{MAX_DOLLARS, MAX_WALL_MS},
    json::MAX_WHOLE,
    message::ModelRef,
    policy::Policy,
    price::Prices,
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
    let table = read_table(text)?;
    let mut reader = Reader { faults: Vec::new() };
    let definition = reader.definition(&table, stem, max_timeout_ms);
    if reader.faults.is_empty() { Ok(definition) } else { Err(reader.faults) }
}

/// Reads the rules of a whole deployment, which hold for each of its agents: `[[deny]]` and `[[floor]]`, as in
/// the `policy` of an agent file.
///
/// # Errors
/// Every fault of the file.
pub fn parse_policy(text: &str) -> Result<Policy, Vec<Fault>> {
    let table = read_table(text)?;
    let mut reader = Reader { faults: Vec::new() };
    let policy = reader.rules(&table, "", None);
    if reader.faults.is_empty() { Ok(policy) } else { Err(reader.faults) }
}

fn read_table(text: &str) -> Result<Table, Vec<Fault>> {
    text.parse().map_err(|error: toml::de::Error| {
        let offset = error.span().map_or(0, |span| span.start);
        let line = text.get(..offset).map_or(1, |before| before.matches('\n').count() + 1);
        vec![Fault { place: format!("line {line}"), problem: error.message().to_owned() }]
    })
}

/// Reads `90s`, `500ms`, `15m`, `6h` or `2d` as milliseconds.
#[must_use]
pub fn duration_ms(text: &str) -> Option<u64> {
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
            self.fault(within(prefix, key), format!("unknown key; known here: {}", known.join(", ")));
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
        let tools = self.tools(table, max_timeout_ms);
        Definition {
            name,
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
            prices: models.iter().map(|model| Prices::builtin().of(model)).collect(),
            models,
            approvers: self.approvers(table, ""),
            policy: self.policy(table, &tools),
            tools,
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
        let wall_ms = self.duration(limits, "limits.", "wall").unwrap_or(6 * 3_600_000);
        if wall_ms > MAX_WALL_MS {
            self.fault("limits.wall", "must not be longer than 365d");
        }
        Limits {
            turns: u32::try_from(turns).unwrap_or(u32::MAX),
            tokens: self.whole(limits, "tokens").unwrap_or(400_000),
            cost_usd: self.dollars(limits, "cost_usd").unwrap_or(5.0),
            wall_ms,
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
                self.fault(within(prefix, key), toml::de::Error::message(&error));
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
        let number = number(table.get(key)?).filter(|n| *n > 0.0 && *n <= MAX_DOLLARS);
        if number.is_none() {
            self.fault(format!("limits.{key}"), format!("must be a number above 0, at most {MAX_DOLLARS}"));
        }
        number
    }

    fn whole(&mut self, table: &Table, key: &str) -> Option<u64> {
        let number = table.get(key)?.as_integer().and_then(|n| u64::try_from(n).ok());
        let number = number.filter(|n| (1..=MAX_WHOLE).contains(n));
        if number.is_none() {
            self.fault(format!("limits.{key}"), format!("must be a whole number above 0, at most {MAX_WHOLE}"));
        }
        number
    }
}

/// The place of `key` below `prefix`: as it is written, or quoted where it could not be seen, or would be more than one line.
fn within(prefix: &str, key: &str) -> String {
    let is_plain = key.chars().all(|c| !c.is_control() && !c.is_whitespace());
    if is_plain && !key.is_empty() { format!("{prefix}{key}") } else { format!("{prefix}{key:?}") }
}

/// The value as JSON that has a digest. What TOML has and JSON has not is refused: what becomes of it would match nothing,
/// and mean nothing to a model.
fn json(value: &Toml) -> Result<Value, String> {
    fn foreign(value: &Toml) -> Option<&'static str> {
        match value {
            Toml::Datetime(_) => Some("holds a date; write it as a string"),
            Toml::Float(number) if !number.is_finite() => Some("holds a number that is not finite"),
            Toml::Array(items) => items.iter().find_map(foreign),
            Toml::Table(table) => table.values().find_map(foreign),
            Toml::String(_) | Toml::Integer(_) | Toml::Float(_) | Toml::Boolean(_) => None,
        }
    }
    if let Some(problem) = foreign(value) {
        return Err(problem.to_owned());
    }
    let value = serde_json::to_value(value).map_err(|error| error.to_string())?;
    crate::json::canonical(&value).map(|_| value).map_err(|error| error.to_string())
}

/// A number, whole or not.
fn number(value: &Toml) -> Option<f64> {
    let whole = || value.as_integer().and_then(|n| i32::try_from(n).ok()).map(f64::from);
    value.as_float().or_else(whole).filter(|n| n.is_finite())
}

#[cfg(test)]
mod tests;
