//! Standing rules: what a person allowed once and for all (A12).
//!
//! They allow, so whatever is in doubt is not covered. One is made from a request that a person decided:
//! for exactly its arguments, or for a pattern that its agent file declares.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    matcher::Matcher,
    reading::{self, Reading},
};
use crate::{
    agent::ToolDef,
    ids::{Caller, Digest, Millis, Principal, RequestId, RunId},
    json::{self, CanonicalError},
    run::Run,
};

/// Whose calls a standing rule is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Those of one run.
    Run(RunId),
    /// Those of one owner's runs.
    Owner(Principal),
    /// Those of all runs of one agent.
    Agent(String),
}

/// Which calls a standing rule covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Covered {
    /// Those with exactly these arguments ([`rule_digest`]).
    Exact(Digest),
    /// Those whose arguments all match, by argument path.
    Pattern(BTreeMap<String, Matcher>),
}

/// A standing rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingRule {
    /// Its name.
    pub id: String,
    /// The tenant that it holds in.
    pub tenant: String,
    /// Whose calls it is for.
    pub scope: Scope,
    /// The agent whose calls it is for.
    pub agent: String,
    /// The tool, exactly.
    pub tool: String,
    /// Which calls of it.
    pub what: Covered,
    /// The call that the person saw, in a line.
    pub about: String,
    /// Whose request it was made from.
    pub owner: Principal,
    /// The group that decided, if one did: its members can revoke the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The request that it was made from.
    pub from: RequestId,
    /// Who made it.
    pub by: Principal,
    /// When.
    pub at: Millis,
    /// Who revoked it and when, if somebody did: then it allows nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Revoked>,
}

/// That a standing rule was revoked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {
    /// By whom.
    pub by: Principal,
    /// When.
    pub at: Millis,
}

impl StandingRule {
    /// Whether `by` may see and revoke it: who made it, whose runs it is for, and the group that decided.
    #[must_use]
    pub fn is_for(&self, by: &Caller) -> bool {
        let named = self.by == by.principal || self.owner == by.principal;
        let member = self.group.as_ref().is_some_and(|group| by.groups.contains(group));
        self.tenant == by.principal.tenant && (named || member)
    }

    /// Whether whoever decides for `run` today could have made it: a rule is no way around approvers whom the agent
    /// file has named since.
    #[must_use]
    pub fn stands_for(&self, run: &Run) -> bool {
        let approvers = run.definition.tool(&self.tool).and_then(|tool| run.definition.approvers_of(tool));
        self.agent == run.agent
            && approvers.is_none_or(|approvers| {
                self.group.as_ref() == Some(&approvers.group) && !(approvers.not_requester && self.by == run.owner)
            })
    }

    /// Whether it covers a call of `tool` with these arguments. A pattern never covers a tool that takes a
    /// command, since what a command does is not seen in how it begins (case 9), nor a call with arguments
    /// beside those of the pattern, unless they are prose.
    #[must_use]
    pub fn covers(&self, tool: &ToolDef, arguments: &Value) -> bool {
        if self.tool != tool.name || self.revoked.is_some() {
            return false;
        }
        match &self.what {
            Covered::Exact(digest) => rule_digest(&tool.name, arguments).is_ok_and(|own| own == *digest),
            Covered::Pattern(pattern) => pattern_covers(pattern, tool, arguments),
        }
    }
}

/// Whether a pattern of a standing rule covers a call of `tool`, beyond doubt.
pub(crate) fn pattern_covers(pattern: &BTreeMap<String, Matcher>, tool: &ToolDef, arguments: &Value) -> bool {
    let Ok(leaves) = reading::leaves(tool, arguments) else { return false };
    let commands = reading::takes_commands(tool) || leaves.iter().any(|leaf| leaf.reading == Reading::Command);
    if commands || pattern.is_empty() {
        return false;
    }
    let all_given = pattern.keys().all(|path| leaves.iter().any(|leaf| leaf.path == *path));
    let all_match = leaves.iter().all(|leaf| match pattern.get(&leaf.path) {
        Some(matcher) => matcher.allows(&leaf.value),
        None => leaf.reading == Reading::Text,
    });
    all_given && all_match
}

/// The digest of a call that a standing rule is bound to. Made for this alone, so that no other digest is
/// ever taken for one.
///
/// # Errors
/// As [`json::canonical`]; never for arguments that a call has.
pub fn rule_digest(tool: &str, arguments: &Value) -> Result<Digest, CanonicalError> {
    json::digest("dormouse.rule.v1", &serde_json::json!([tool, arguments]))
}
