//! The rules of an agent file, or of a deployment.

use std::collections::BTreeMap;

use serde_json::Value;
use toml::{Table, Value as Toml};

use super::{Reader, json, within};
use crate::{
    agent::{Replay, Target, ToolDef, ToolKind},
    policy::{Matcher, Policy, Rule},
};

/// Rules of one list, at most.
const MAX_RULES: usize = 256;
/// Longest pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 512;

impl Reader {
    /// The table `policy`.
    pub(super) fn policy(&mut self, table: &Table, tools: &[ToolDef]) -> Policy {
        match table.get("policy") {
            None => Policy::default(),
            Some(Toml::Table(policy)) => self.rules(policy, "policy.", Some(tools)),
            Some(_) => {
                self.fault("policy", "must be written as [[policy.deny]] and [[policy.floor]]");
                Policy::default()
            }
        }
    }

    /// The lists `deny` and `floor`. `tools` are those that the rules are for, if they are known.
    pub(super) fn rules(&mut self, table: &Table, prefix: &str, tools: Option<&[ToolDef]>) -> Policy {
        self.known_keys(table, prefix, &["deny", "floor"]);
        Policy { deny: self.list(table, prefix, "deny", tools), floor: self.list(table, prefix, "floor", tools) }
    }

    fn list(&mut self, table: &Table, prefix: &str, key: &str, tools: Option<&[ToolDef]>) -> Vec<Rule> {
        let list = match table.get(key) {
            None => return Vec::new(),
            Some(Toml::Array(list)) if list.len() <= MAX_RULES => list,
            Some(Toml::Array(_)) => {
                self.fault(format!("{prefix}{key}"), format!("at most {MAX_RULES} rules are taken"));
                return Vec::new();
            }
            Some(_) => {
                self.fault(format!("{prefix}{key}"), format!("must be written as [[{prefix}{key}]]"));
                return Vec::new();
            }
        };
        let rules = list.iter().enumerate().filter_map(|(i, item)| {
            let place = format!("{prefix}{key}[{i}]");
            let Some(rule) = item.as_table() else {
                self.fault(place, "must be a table");
                return None;
            };
            self.rule(rule, &place, tools)
        });
        rules.collect()
    }

    fn rule(&mut self, table: &Table, place: &str, tools: Option<&[ToolDef]>) -> Option<Rule> {
        let prefix = format!("{place}.");
        self.known_keys(table, &prefix, &["tool", "args", "because", "matches", "does_not_match"]);
        let before = self.faults.len();
        let tool = self.sentence(table, &prefix, "tool", "a tool's name, `*` for any characters");
        let because = self.sentence(table, &prefix, "because", "why, for whoever reads the refusal");
        let rule = Rule {
            tool,
            args: self.matchers(table, &prefix, "args"),
            because,
            matches: self.examples(table, &prefix, "matches"),
            does_not_match: self.examples(table, &prefix, "does_not_match"),
        };
        if self.faults.len() > before {
            return None;
        }
        let unknown = unknown_tool(&rule.tool);
        let example_of = match tools {
            None => &unknown,
            Some(tools) => match tools.iter().find(|tool| rule.is_about(&tool.name)) {
                Some(tool) => tool,
                None => {
                    self.fault(format!("{prefix}tool"), format!("this agent has no tool {:?}", rule.tool));
                    return None;
                }
            },
        };
        for (example, problem) in rule.examples_that_fail(example_of) {
            self.fault(format!("{prefix}{example}"), problem);
        }
        Some(rule)
    }

    /// A text that must be there.
    fn sentence(&mut self, table: &Table, prefix: &str, key: &str, what: &str) -> String {
        let given = table.contains_key(key);
        match self.text(table, prefix, key) {
            Some(text) if !text.trim().is_empty() && text.len() <= MAX_PATTERN_BYTES => return text,
            Some(_) => self
                .fault(format!("{prefix}{key}"), format!("must not be blank or longer than {MAX_PATTERN_BYTES} bytes")),
            None if !given => self.fault(format!("{prefix}{key}"), format!("required: {what}")),
            None => {}
        }
        String::new()
    }

    /// `always = { sources = { path = { path = "src" } } }`: what a person can let run for good.
    pub(super) fn always(&mut self, table: &Table, place: &str) -> BTreeMap<String, BTreeMap<String, Matcher>> {
        let prefix = format!("{place}always.");
        let patterns = match table.get("always") {
            None => return BTreeMap::new(),
            Some(Toml::Table(patterns)) => patterns,
            Some(_) => {
                self.fault(format!("{place}always"), "must be a table from a name to a table of patterns by argument");
                return BTreeMap::new();
            }
        };
        let mut always = BTreeMap::new();
        for name in patterns.keys() {
            if !super::legal_name(name) {
                let problem = "is no name for a pattern; use 1 to 64 of a-z, A-Z, 0-9, _ and -";
                self.fault(within(&prefix, name), problem);
            }
            always.insert(name.clone(), self.matchers(patterns, &prefix, name));
        }
        always
    }

    /// The table `key`, from argument to pattern.
    fn matchers(&mut self, table: &Table, prefix: &str, key: &str) -> BTreeMap<String, Matcher> {
        let place = within(prefix, key);
        let args = match table.get(key) {
            None => return BTreeMap::new(),
            Some(Toml::Table(args)) => args,
            Some(_) => {
                self.fault(place, "must be a table from argument to pattern");
                return BTreeMap::new();
            }
        };
        if args.is_empty() {
            self.fault(&place, "is empty; name at least one argument, or leave it out");
        }
        let prefix = format!("{place}.");
        let matchers = args.iter().filter_map(|(path, value)| match matcher(value) {
            Ok(matcher) => Some((path.clone(), matcher)),
            Err(problem) => {
                self.fault(within(&prefix, path), problem);
                None
            }
        });
        matchers.collect()
    }

    fn examples(&mut self, table: &Table, prefix: &str, key: &str) -> Vec<Value> {
        let list = match table.get(key) {
            None => return Vec::new(),
            Some(Toml::Array(list)) => list.as_slice(),
            Some(_) => {
                self.fault(format!("{prefix}{key}"), "must be a list of argument tables");
                return Vec::new();
            }
        };
        let examples = list.iter().enumerate().filter_map(|(i, example)| match (example, json(example)) {
            (Toml::Table(_), Ok(example)) => Some(example),
            (_, Err(problem)) => {
                self.fault(format!("{prefix}{key}[{i}]"), problem);
                None
            }
            (_, Ok(_)) => {
                self.fault(format!("{prefix}{key}[{i}]"), "must be a table of arguments");
                None
            }
        });
        examples.collect()
    }
}

/// A pattern of text, or a table that says what else it is.
fn matcher(value: &Toml) -> Result<Matcher, String> {
    const KINDS: &str = "give a text pattern, or a table with exactly one of path, host, command and equals";
    let pattern = |value: &Toml| match value.as_str() {
        Some(text) if !text.trim().is_empty() && text.len() <= MAX_PATTERN_BYTES => Ok(text.to_owned()),
        Some(_) => Err(format!("a pattern must not be blank or longer than {MAX_PATTERN_BYTES} bytes")),
        None => Err(KINDS.to_owned()),
    };
    let Toml::Table(table) = value else { return pattern(value).map(Matcher::Text) };
    let mut entries = table.iter();
    match (entries.next(), entries.next()) {
        (Some((kind, value)), None) => match kind.as_str() {
            "path" => pattern(value).map(Matcher::Path),
            "host" => pattern(value).map(Matcher::Host),
            "command" => pattern(value).map(Matcher::Command),
            // Arguments are looked at value by value: a rule about a whole table or list would never match.
            "equals" if value.is_table() || value.is_array() => {
                Err("equals takes a string, a number or a boolean; name what is within by its path".to_owned())
            }
            "equals" => json(value).map(Matcher::Equals),
            _ => Err(KINDS.to_owned()),
        },
        _ => Err(KINDS.to_owned()),
    }
}

/// A tool of which nothing is known but its name: how its arguments are read, their names say.
fn unknown_tool(name: &str) -> ToolDef {
    ToolDef {
        name: name.replace('*', "x"),
        description: String::new(),
        kind: ToolKind::Execute,
        permission: None,
        replay: Replay::Manual,
        reuse_result: false,
        timeout_ms: 1,
        input_schema: Value::Null,
        arguments: BTreeMap::new(),
        secret: Vec::new(),
        always: BTreeMap::new(),
        target: Target::Http { url: String::new() },
        later: false,
        approvers: None,
    }
}
