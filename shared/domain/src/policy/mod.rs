//! Whether a call may run: the one place that says so (A6).
//!
//! [`authorize`] is pure and looks at nothing but its arguments; the model has no say (case 18). The first
//! step that matches wins (A7), in the order of its body. Rules that refuse take what they cannot tell for
//! a match, rules that allow take it for none.
//!
//! Below it: `rule` (deny rules and the floor's additions), `floor` (what is shipped), `standing` (what a
//! person allowed for good), `matcher` (what a rule says of an argument), `subject` (what an argument
//! names), `reading` (how it is read), and how paths, command lines, hosts and characters are read.

mod floor;
mod glob;
mod matcher;
mod normal;
mod path;
mod reading;
mod rule;
mod shell;
mod standing;
mod subject;
mod url;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::{Mode, Permission, ToolDef, ToolKind};
pub use floor::list as floor_list;
use matcher::Match;
pub use matcher::Matcher;
pub use reading::Reading;
use rule::Call;
pub use rule::{Policy, Rule};
pub(crate) use standing::pattern_covers;
pub use standing::{Covered, Revoked, Scope, StandingRule, rule_digest};

/// What may become of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It runs.
    Allow,
    /// It waits for a person.
    Ask,
    /// It is refused.
    Deny,
}

/// The step of the order of authority that ruled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuledBy {
    /// A deny rule, or `permission = "deny"`.
    Deny,
    /// Mode `plan`.
    Plan,
    /// The safety floor.
    Floor,
    /// Mode `yolo`.
    Yolo,
    /// The standing rule of this name.
    Standing(String),
    /// The tool's own permission.
    Permission,
    /// What the mode says of this kind of tool.
    Default,
}

impl RuledBy {
    /// The standing rule, if it was one.
    pub(crate) fn standing(self) -> Option<String> {
        match self {
            Self::Standing(rule) => Some(rule),
            Self::Deny | Self::Plan | Self::Floor | Self::Yolo | Self::Permission | Self::Default => None,
        }
    }
}

/// A verdict and the reason for it, in words a person can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// The verdict.
    pub verdict: Verdict,
    /// Why.
    pub reason: String,
    /// Which step said so.
    pub by: RuledBy,
}

impl Ruling {
    fn new(verdict: Verdict, by: RuledBy, reason: String) -> Self {
        Self { verdict, reason, by }
    }
}

/// A call, and everything that has a say in whether it may run.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The tool.
    pub tool: &'a ToolDef,
    /// The arguments that would run.
    pub arguments: &'a Value,
    /// The run's mode.
    pub mode: Mode,
    /// The rules that refuse: those frozen with the run, and today's. All of them hold.
    pub policies: &'a [&'a Policy],
    /// What people allowed for good, where it is for this run.
    pub standing: &'a [StandingRule],
}

/// Says what may become of a call.
#[must_use]
pub fn authorize(asked: &Asked<'_>) -> Ruling {
    let Asked { tool, arguments, mode, policies, standing } = *asked;
    let name = &tool.name;
    let call = Call::new(tool, arguments);
    // 1. What is forbidden is forbidden in every mode.
    if let Some(reason) = denied(&call, tool, policies) {
        return Ruling::new(Verdict::Deny, RuledBy::Deny, reason);
    }
    // 2. Planning changes nothing.
    if mode == Mode::Plan && tool.kind.mutates() {
        let reason = format!("mode plan refuses {name}, which changes things");
        return Ruling::new(Verdict::Deny, RuledBy::Plan, reason);
    }
    // 3. What is protected is asked about, whatever anybody allowed.
    if let Some(reason) = protected(&call, policies) {
        return Ruling::new(Verdict::Ask, RuledBy::Floor, reason);
    }
    // 4. A person chose to be asked nothing.
    if mode == Mode::Yolo {
        return Ruling::new(Verdict::Allow, RuledBy::Yolo, "mode yolo runs every tool".to_owned());
    }
    // 5. A person chose not to be asked this again.
    if let Some(rule) = standing.iter().find(|rule| rule.covers(tool, arguments)) {
        let reason = format!("the standing rule {} of {} allows it", rule.id, rule.by.subject);
        return Ruling::new(Verdict::Allow, RuledBy::Standing(rule.id.clone()), reason);
    }
    // 6. What the agent file says of this tool.
    let stated = |verdict, says| Ruling::new(verdict, RuledBy::Permission, format!("the agent file {says} {name}"));
    match tool.permission {
        Some(Permission::Allow) => return stated(Verdict::Allow, "allows"),
        Some(Permission::Ask) => return stated(Verdict::Ask, "asks for"),
        Some(Permission::Deny) | None => {}
    }
    // 7. What the mode says of this kind of tool.
    let default = |verdict, reason| Ruling::new(verdict, RuledBy::Default, reason);
    match (tool.kind, mode) {
        (ToolKind::Read, Mode::Plan | Mode::Normal | Mode::AutoEdit | Mode::Yolo) => {
            default(Verdict::Allow, format!("{name} only reads"))
        }
        (ToolKind::Edit, Mode::AutoEdit | Mode::Yolo) => default(Verdict::Allow, format!("mode {mode} runs edits")),
        (ToolKind::Edit, Mode::Plan | Mode::Normal) | (ToolKind::Execute, _) => {
            default(Verdict::Ask, format!("mode {mode} asks for {name}, which changes things"))
        }
    }
}

/// Why a call is forbidden, if it is: the first step of [`authorize`] alone, for arguments that a person
/// edited and for calls that a person approved.
#[must_use]
pub fn forbidden(tool: &ToolDef, arguments: &Value, policies: &[&Policy]) -> Option<String> {
    denied(&Call::new(tool, arguments), tool, policies)
}

fn denied(call: &Call<'_>, tool: &ToolDef, policies: &[&Policy]) -> Option<String> {
    if tool.permission == Some(Permission::Deny) {
        return Some(format!("the agent file denies {}", tool.name));
    }
    let rules = policies.iter().flat_map(|policy| &policy.deny);
    first(call, rules).map(|(rule, why)| format!("a deny rule forbids it, because {}: {why}", rule.because))
}

fn protected(call: &Call<'_>, policies: &[&Policy]) -> Option<String> {
    match call.on_floor() {
        Match::Yes(why) | Match::Unclear(why) => return Some(format!("the safety floor asks for it: {why}")),
        Match::No => {}
    }
    let rules = policies.iter().flat_map(|policy| &policy.floor);
    first(call, rules).map(|(rule, why)| format!("the safety floor asks for it, because {}: {why}", rule.because))
}

/// The first rule that matches, or cannot be told not to.
fn first<'a>(call: &Call<'_>, rules: impl Iterator<Item = &'a Rule>) -> Option<(&'a Rule, String)> {
    rules.map(|rule| (rule, rule.matches(call))).find_map(|(rule, found)| match found {
        Match::Yes(why) | Match::Unclear(why) => Some((rule, why)),
        Match::No => None,
    })
}
