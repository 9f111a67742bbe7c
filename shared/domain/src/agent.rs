//! An agent as data: its models, its tools, its limits. Frozen when a run starts, so that a deploy
//! during a wait changes nothing for the runs that wait.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    builtin::Builtin,
    ids::{Caller, Digest, Principal},
    json::{self, CanonicalError},
    message::ModelRef,
    policy::{Matcher, Policy, Reading},
    price::{ModelPrice, Price},
};

/// How much a run may do without asking (C1), from narrow to wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Tools that change anything are refused.
    Plan,
    /// Tools that change anything ask.
    #[default]
    Normal,
    /// Edits run, everything else that changes anything asks.
    AutoEdit,
    /// Everything runs.
    Yolo,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plan => "plan",
            Self::Normal => "normal",
            Self::AutoEdit => "auto_edit",
            Self::Yolo => "yolo",
        })
    }
}

/// What a tool does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// It only looks.
    Read,
    /// It changes files of the workspace.
    Edit,
    /// It does anything else.
    #[default]
    Execute,
}

impl ToolKind {
    /// Whether it changes anything.
    #[must_use]
    pub fn mutates(self) -> bool {
        match self {
            Self::Read => false,
            Self::Edit | Self::Execute => true,
        }
    }
}

/// What the agent file says of a tool, whatever the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// Its calls run.
    Allow,
    /// Its calls wait for a person.
    Ask,
    /// Its calls are refused.
    Deny,
}

/// What happens to a call whose outcome is not known (B1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replay {
    /// A person settles it.
    #[default]
    Manual,
    /// It is run again: running it twice does no harm.
    Safe,
    /// It is run again with the same execution key, by which its service recognises it.
    Idempotent,
}

/// Where a tool's calls go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// To a tool that comes with Dormouse.
    Builtin(Builtin),
    /// To a web service, as a POST.
    Http {
        /// Where to.
        url: String,
    },
    /// To another agent, in a run of its own.
    Agents {
        /// The agents that can be chosen.
        agents: Vec<String>,
        /// Whether they may ask the person questions.
        #[serde(default, skip_serializing_if = "crate::message::is_false")]
        questions: bool,
    },
}

/// The group whose members decide the requests of an agent or a tool, instead of the person whose run it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Approvers {
    /// The group's name, as the authorizer gives it.
    pub group: String,
    /// Whether the person whose run it is may not decide, also as a member of the group.
    #[serde(default, skip_serializing_if = "crate::message::is_false")]
    pub not_requester: bool,
}

impl Approvers {
    /// Whether `by` is one of them for what `owner`'s runs ask.
    #[must_use]
    pub fn admit(&self, by: &Caller, owner: &Principal) -> bool {
        let member = by.principal.tenant == owner.tenant && by.groups.contains(&self.group);
        member && !(self.not_requester && by.principal == *owner)
    }
}

/// A tool as an agent knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDef {
    /// Its name, unique within the agent, `[a-zA-Z0-9_-]{1,64}`.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// What it does to the world.
    pub kind: ToolKind,
    /// What the agent file says of it, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<Permission>,
    /// What happens to a call whose outcome is not known.
    pub replay: Replay,
    /// Whether the same call, made again, gets the recorded result instead of running again (E8).
    /// Only where `replay` is idempotent.
    #[serde(default, skip_serializing_if = "crate::message::is_false")]
    pub reuse_result: bool,
    /// How long a call may take, in milliseconds.
    pub timeout_ms: u64,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
    /// How its arguments are read, by argument path, where their names do not say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, Reading>,
    /// Paths of the arguments that nobody is shown, for example `headers.authorization`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret: Vec<String>,
    /// Where its calls go.
    pub target: Target,
    /// Whether it may answer that another system will complete a call later. Only where `replay` is manual.
    #[serde(default, skip_serializing_if = "crate::message::is_false")]
    pub later: bool,
    /// Patterns of arguments for which a person can let its calls run for good, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub always: BTreeMap<String, BTreeMap<String, Matcher>>,
    /// Who decides about its calls, if not those whom the agent names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvers: Option<Approvers>,
}

/// Ceilings of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Model replies at most.
    pub turns: u32,
    /// Tokens at most, input and output together.
    pub tokens: u64,
    /// Cost at most, in US dollars.
    pub cost_usd: f64,
    /// Time of work at most, in milliseconds; waiting for a person does not count.
    pub wall_ms: u64,
}

/// What the end of the waiting window does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnWaitExpired {
    /// The conversation goes on; the request stays decidable.
    #[default]
    MoveOn,
    /// The call is refused.
    Deny,
}

/// How the agent learns of a decision that came after the conversation moved on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LateDecision {
    /// It is woken.
    #[default]
    Wake,
    /// It is told when it next runs.
    NextTurn,
}

/// What a message does to a run that waits for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnMessage {
    /// It is kept until the conversation goes on.
    #[default]
    Queue,
    /// It closes what waits, and the conversation goes on with it.
    Supersede,
}

/// An agent, checked and complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// Its models in order of preference, at least one.
    pub models: Vec<ModelRef>,
    /// The system prompt, possibly empty.
    pub system: String,
    /// The mode that its runs start in.
    pub mode: Mode,
    /// The widest mode that a run may be set to.
    pub max_mode: Mode,
    /// How long a conversation waits for a person, in milliseconds.
    pub wait_ms: u64,
    /// How long a request can be decided, in milliseconds.
    pub decide_within_ms: u64,
    /// What the end of the wait does.
    pub on_wait_expired: OnWaitExpired,
    /// How late decisions reach the agent.
    pub late_decision: LateDecision,
    /// What a message does to a waiting run.
    pub on_message: OnMessage,
    /// How long one model is asked for a reply, all attempts and pauses together, before it is given
    /// up, in milliseconds.
    #[serde(default = "default_reply_within_ms")]
    pub reply_within_ms: u64,
    /// Ceilings.
    pub limits: Limits,
    /// What its models cost. One that is not named counts for as much as the dearest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prices: Vec<ModelPrice>,
    /// Its tools, in the order in which models see them.
    pub tools: Vec<ToolDef>,
    /// Who decides its requests, if not the person whose run it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvers: Option<Approvers>,
    /// Its rules, with those of the deployment that it was loaded in.
    #[serde(default, skip_serializing_if = "Policy::is_empty")]
    pub policy: Policy,
}

/// 24 hours: pauses cost nothing.
pub(crate) fn default_reply_within_ms() -> u64 {
    24 * 3600 * 1000
}

impl Definition {
    /// The tool of this name.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&ToolDef> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// What `model` costs. A definition that was frozen when there were no prices has none: its cost is not counted.
    #[must_use]
    pub fn price(&self, model: &ModelRef) -> Price {
        if self.prices.is_empty() {
            return Price::FREE;
        }
        self.prices.iter().find(|price| price.model == *model).map_or(Price::HIGHEST, |price| price.price)
    }

    /// Who decides about calls of `tool`, if not the person whose run it is: what the tool says, else what the agent
    /// says.
    #[must_use]
    pub fn approvers_of<'a>(&'a self, tool: &'a ToolDef) -> Option<&'a Approvers> {
        tool.approvers.as_ref().or(self.approvers.as_ref())
    }

    /// Everybody who decides what its runs ask, if not the person whose run it is.
    pub fn guards(&self) -> impl Iterator<Item = &Approvers> {
        self.approvers.iter().chain(self.tools.iter().filter_map(|tool| tool.approvers.as_ref()))
    }

    /// The digest under which this definition is stored.
    ///
    /// # Errors
    /// As [`json::canonical`]; a definition that [`crate::agent_file::parse`] accepted has a digest.
    pub fn digest(&self) -> Result<Digest, CanonicalError> {
        let value = serde_json::to_value(self).map_err(|error| CanonicalError::Other(error.to_string()))?;
        json::digest("dormouse.definition.v1", &value)
    }
}
