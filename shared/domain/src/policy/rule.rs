//! Rules that refuse: what they match, and the examples that they carry.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    floor,
    glob::{literal, overlap, text_pattern},
    matcher::{Match, Matcher},
    normal,
    reading::{self, Reading},
    subject::Subject,
};
use crate::agent::ToolDef;

/// A rule that refuses calls, or lets them ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The tools that it is about: a name, `*` for any characters.
    pub tool: String,
    /// What it says of arguments, by argument path: keys joined by dots, `*` for any argument. All of it
    /// must hold. Nothing: every call of the tool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, Matcher>,
    /// Why, for whoever reads the refusal.
    pub because: String,
    /// Arguments that it matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<Value>,
    /// Arguments that it does not match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub does_not_match: Vec<Value>,
}

/// The rules of an agent, or of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Policy {
    /// What is refused, in every mode, whoever approves it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<Rule>,
    /// What asks, in every mode, in addition to the floor that is shipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub floor: Vec<Rule>,
}

impl Policy {
    /// Whether it has no rules of its own.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.deny.is_empty() && self.floor.is_empty()
    }

    /// Adds the rules of `other`.
    pub fn extend(&mut self, other: &Self) {
        self.deny.extend(other.deny.iter().cloned());
        self.floor.extend(other.floor.iter().cloned());
    }
}

/// A call's arguments, read.
pub(super) struct Call<'a> {
    tool: &'a ToolDef,
    /// None: there is too much of them.
    subjects: Option<Vec<Subject<'a>>>,
}

impl<'a> Call<'a> {
    pub(super) fn new(tool: &'a ToolDef, arguments: &'a Value) -> Self {
        let leaves = reading::leaves(tool, arguments);
        Self { tool, subjects: leaves.ok().map(|leaves| leaves.into_iter().map(Subject::new).collect()) }
    }

    /// What the shipped floor has in it, if something.
    pub(super) fn on_floor(&self) -> Match {
        let Some(subjects) = &self.subjects else { return too_much() };
        let looked_at = subjects.iter().filter(|subject| subject.leaf.reading != Reading::Text);
        Match::any(looked_at, floor::holds)
    }
}

fn too_much() -> Match {
    Match::Unclear("the arguments are too deep or too many to be read".to_owned())
}

impl Rule {
    /// Whether it is about this tool.
    #[must_use]
    pub fn is_about(&self, tool: &str) -> bool {
        overlap(&literal(&normal::fold(tool)), &text_pattern(&normal::fold(&self.tool)))
    }

    /// Whether it refuses this call. What cannot be told counts.
    #[must_use]
    pub fn refuses(&self, tool: &ToolDef, arguments: &Value) -> bool {
        self.matches(&Call::new(tool, arguments)) != Match::No
    }

    pub(super) fn matches(&self, call: &Call<'_>) -> Match {
        if !self.is_about(&call.tool.name) {
            return Match::No;
        }
        let Some(subjects) = &call.subjects else { return too_much() };
        let every = Match::Yes(format!("it is about every call of {}", self.tool));
        self.args
            .iter()
            .fold(None, |found: Option<Match>, (path, matcher)| {
                let one = || {
                    Match::any(subjects.iter().filter(|subject| is_at(subject, path)), |subject| {
                        matcher.refuses(subject)
                    })
                };
                Some(match found {
                    None => one(),
                    Some(found) => found.and(one),
                })
            })
            .unwrap_or(every)
    }

    /// What is wrong with its examples, each with its place.
    #[must_use]
    pub fn examples_that_fail(&self, tool: &ToolDef) -> Vec<(String, String)> {
        let matches = self.matches.iter().enumerate().filter(|(_, example)| !self.refuses(tool, example));
        let missed = matches.map(|(i, _)| (format!("matches[{i}]"), "the rule does not match this example".to_owned()));
        let others = self.does_not_match.iter().enumerate().filter(|(_, example)| self.refuses(tool, example));
        let caught = others.map(|(i, _)| (format!("does_not_match[{i}]"), "the rule matches this example".to_owned()));
        missed.chain(caught).collect()
    }
}

/// Whether an argument is the one that a rule names, or within it. `*` is any that is not prose.
fn is_at(subject: &Subject<'_>, path: &str) -> bool {
    let own = &subject.leaf.path;
    match path {
        "*" => subject.leaf.reading != Reading::Text,
        path => own.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')),
    }
}
