//! Requests: what only a person, or another system, can settle.
//!
//! [`Request`] is the persisted form against which an answer is checked. It is made by one
//! function, [`build`], from the stored call or from what the run has used, never from model prose (C3).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    agent::{Approvers, Target, ToolDef},
    budget::Budget,
    builtin::Builtin,
    decide::Decision,
    display::{self, LINE_BYTES, text},
    entry::Opened,
    ids::{CallKey, Caller, Digest, Inbox, Millis, Principal, RequestId, RequestKey, RunId},
    json,
    plan::{self, Question},
    policy::{self, Scope},
    run::{AskWhy, Call, CallState, Repeats, Run},
    same,
    token::TokenId,
    windows::Windows,
};

/// What is asked (B5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// May this call run?
    Approval,
    /// A question of the agent's.
    Question,
    /// It is not known what a call did: what now?
    Uncertain,
    /// A ceiling is reached: raise it or stop?
    Budget,
    /// Another system will say.
    External,
}

/// What can be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionKind {
    /// The call runs as it was shown.
    Approve,
    /// The call does not run.
    Deny,
    /// The call runs with other arguments.
    Edit,
    /// The call runs, and its like from now on.
    Always,
    /// The answer to a question.
    Answer,
    /// What becomes of a call whose outcome is not known.
    Settle,
    /// A ceiling is raised.
    Raise,
    /// The run ends.
    Stop,
}

impl DecisionKind {
    /// The decision's name in a body.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Deny => "deny",
            Self::Edit => "edit",
            Self::Always => "always",
            Self::Answer => "answer",
            Self::Settle => "settle",
            Self::Raise => "raise",
            Self::Stop => "stop",
        }
    }

    /// What can be decided about a request of this kind.
    #[must_use]
    pub fn offered(kind: RequestKind) -> Vec<Self> {
        match kind {
            RequestKind::Approval => vec![Self::Approve, Self::Edit, Self::Deny],
            RequestKind::Question => vec![Self::Answer],
            RequestKind::Uncertain => vec![Self::Settle],
            RequestKind::Budget => vec![Self::Raise, Self::Stop],
            // The other system does, and a person can in its place.
            RequestKind::External => vec![Self::Settle],
        }
    }

    /// What can be decided about an approval that the safety floor does not ask for: its like can be let run
    /// for good.
    #[must_use]
    pub fn offered_for_good() -> Vec<Self> {
        vec![Self::Approve, Self::Always, Self::Edit, Self::Deny]
    }
}

/// What a standing rule made from a request can be for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Offer {
    /// Whose calls.
    pub scopes: Vec<RuleScope>,
    /// Instead of exactly these arguments: patterns that the agent file declares and that they match, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
}

/// Whose calls a standing rule is for, as a person chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleScope {
    /// Those of this run.
    Run,
    /// Those of all runs of this owner with this agent.
    Owner,
    /// Those of all runs of this agent in the tenant.
    Agent,
}

impl RuleScope {
    /// All of them, from narrow to wide.
    pub const ALL: [Self; 3] = [Self::Run, Self::Owner, Self::Agent];

    /// The scope itself, for a run of this owner and agent.
    #[must_use]
    pub fn of(self, run: &RunId, owner: &Principal, agent: &str) -> Scope {
        match self {
            Self::Run => Scope::Run(run.clone()),
            Self::Owner => Scope::Owner(owner.clone()),
            Self::Agent => Scope::Agent(agent.to_owned()),
        }
    }

    /// The scope of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name)
    }

    /// The scope's name in a body.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Owner => "owner",
            Self::Agent => "agent",
        }
    }
}

/// A rule for the whole agent changes what others' runs do: that takes approvers, who are there for it.
fn offer(run: &Run, tool: &ToolDef, arguments: &Value) -> Offer {
    let mut scopes = vec![RuleScope::Run, RuleScope::Owner];
    if approvers(run, tool, RequestKind::Approval).is_some() {
        scopes.push(RuleScope::Agent);
    }
    let matching = tool.always.iter().filter(|(_, pattern)| policy::pattern_covers(pattern, tool, arguments));
    Offer { scopes, patterns: matching.map(|(name, _)| name.clone()).collect() }
}

/// Where a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestStatus {
    /// It waits.
    Pending,
    /// Somebody decided it.
    Decided,
    /// Nobody decided it in time.
    Expired,
    /// It was withdrawn: its run ended, its call did answer after all, or a message took its place.
    Cancelled,
}

impl RequestStatus {
    /// The status as it is stored and shown.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Decided => "decided",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The decision that stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Settled {
    /// What was decided.
    #[serde(flatten)]
    pub decision: Decision,
    /// By whom.
    pub by: Principal,
    /// When.
    pub at: Millis,
    /// By what way it came, if not from somebody who had signed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<Via>,
}

/// By what way a decision came of somebody who had not signed in.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// Through a link that they who decided had made and given to somebody.
    Link {
        /// Which.
        id: TokenId,
    },
}

/// A request as it is persisted, shown and decided.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Request {
    /// Its name.
    pub id: RequestId,
    /// The call that waits for it; none: it is the run that has reached a ceiling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallKey>,
    /// What is asked.
    pub kind: RequestKind,
    /// Where it stands.
    pub status: RequestStatus,
    /// Whose run it is.
    #[serde(alias = "inbox")]
    pub owner: Principal,
    /// Who decides it, if that is not the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvers: Option<Approvers>,
    /// The tool of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// One line that says what would run, made from the arguments, or which ceiling is reached: safe to show.
    pub summary: String,
    /// The arguments that would run, in canonical form; null if it is about no call.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub arguments: Value,
    /// What the run may use and has used, if it has reached a ceiling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Paths of the arguments that nobody is shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret: Vec<String>,
    /// The builtin that the call goes to, if it goes to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builtin: Option<Builtin>,
    /// Digest of owner, run, and tool and arguments or what the run has used: what a person decides about.
    pub digest: Digest,
    /// Whether the tool changes anything.
    pub mutates: bool,
    /// The question, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Question>,
    /// What can be decided.
    pub decisions: Vec<DecisionKind>,
    /// What `always` can be for, where it is on offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<Offer>,
    /// Why it asks.
    pub reasons: Vec<String>,
    /// The agents through which it comes, outermost first.
    pub agents: Vec<String>,
    /// How often the agent asked for the same before.
    #[serde(default)]
    pub repeats: Repeats,
    /// When it was opened.
    pub opened_at: Millis,
    /// Until when.
    pub windows: Windows,
    /// The decision that stands, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Settled>,
}

impl Request {
    /// Where it waits.
    #[must_use]
    pub fn inbox(&self) -> Inbox {
        match &self.approvers {
            None => Inbox::Person(self.owner.clone()),
            Some(approvers) => Inbox::Group { tenant: self.owner.tenant.clone(), group: approvers.group.clone() },
        }
    }

    /// Who may not decide it, although it waits in an inbox of theirs.
    #[must_use]
    pub fn barred(&self) -> Option<&Principal> {
        self.approvers.as_ref().filter(|approvers| approvers.not_requester).map(|_| &self.owner)
    }

    /// Whether `by` may decide it (A16).
    #[must_use]
    pub fn is_for(&self, by: &Caller) -> bool {
        by.inboxes().contains(&self.inbox()) && self.barred() != Some(&by.principal)
    }

    /// Whether `by` may see it: who may decide it, and whose run it is.
    #[must_use]
    pub fn is_visible_to(&self, by: &Caller) -> bool {
        self.owner == by.principal || self.is_for(by)
    }
}

/// Who decides a request of this kind about a call of `tool`. A question is asked of the person whose run it is.
fn approvers(run: &Run, tool: &ToolDef, kind: RequestKind) -> Option<Approvers> {
    match kind {
        RequestKind::Question => None,
        RequestKind::Approval | RequestKind::Uncertain | RequestKind::Budget | RequestKind::External => {
            run.definition.approvers_of(tool).cloned()
        }
    }
}

/// The request that `opened` opens as number `ordinal` of entry `index`, written at `at`. `None` if
/// the call is not one of the run's or its arguments cannot be read, which `next` never asks for.
#[must_use]
pub fn build(run: &Run, index: u32, ordinal: u32, opened: &Opened, at: Millis) -> Option<Request> {
    let id = RequestId { run: run.id.clone(), key: RequestKey::new(index, ordinal) };
    match opened.call {
        Some(call) => about_call(run, id, opened, run.call(call)?, at),
        None => about_budget(run, id, opened, at),
    }
}

/// The run has reached a ceiling. What it costs is the agent's matter, not that of a tool.
fn about_budget(run: &Run, id: RequestId, opened: &Opened, at: Millis) -> Option<Request> {
    let budget = Budget::of(run, at);
    let reached = budget.reached();
    // As text: amounts can be larger than JSON's numbers, above all what a provider says that it counted.
    let amounts = serde_json::to_string(&budget).ok()?;
    let seen = json!({"owner": run.owner, "run": run.id, "budget": amounts});
    Some(Request {
        id,
        call: None,
        kind: opened.kind,
        status: RequestStatus::Pending,
        owner: run.owner.clone(),
        approvers: run.definition.approvers.clone(),
        tool: None,
        summary: text::line(&reached.join("; "), LINE_BYTES),
        arguments: Value::Null,
        budget: Some(budget),
        secret: Vec::new(),
        builtin: None,
        digest: json::digest("dormouse.budget.v1", &seen).ok()?,
        mutates: false,
        question: None,
        decisions: opened.decisions.clone(),
        always: None,
        reasons: reached,
        agents: run.chain(),
        repeats: Repeats::default(),
        opened_at: at,
        windows: opened.windows,
        decision: None,
    })
}

fn about_call(run: &Run, id: RequestId, opened: &Opened, call: &Call, at: Millis) -> Option<Request> {
    let tool = run.definition.tool(&call.tool)?;
    let arguments = call.arguments(run).ok()?;
    let digest = plan::call_digest(&run.owner, &run.id, &call.tool, &arguments).ok()?;
    let always = opened.decisions.contains(&DecisionKind::Always).then(|| offer(run, tool, &arguments));
    let question = match opened.kind {
        RequestKind::Question => Question::read(&arguments).ok(),
        RequestKind::Approval | RequestKind::Uncertain | RequestKind::Budget | RequestKind::External => None,
    };
    Some(Request {
        id,
        call: Some(call.key),
        kind: opened.kind,
        status: RequestStatus::Pending,
        owner: run.owner.clone(),
        approvers: approvers(run, tool, opened.kind),
        tool: Some(call.tool.clone()),
        summary: match &question {
            Some(asked) => text::line(&asked.question, LINE_BYTES),
            None => display::summary(&call.tool, &arguments, &tool.secret),
        },
        question,
        secret: tool.secret.clone(),
        builtin: match &tool.target {
            Target::Builtin(builtin) => Some(*builtin),
            Target::Http { .. } | Target::Agents { .. } => None,
        },
        digest,
        mutates: tool.kind.mutates(),
        arguments,
        budget: None,
        always,
        decisions: opened.decisions.clone(),
        reasons: reasons(call),
        agents: run.chain(),
        repeats: same::repeats(run, call),
        opened_at: at,
        windows: opened.windows,
        decision: None,
    })
}

/// The requests that were pending `before` and are closed undecided in `after`, and how: their rows
/// are closed with the entries that do so (I5).
#[must_use]
pub fn closed(before: &Run, after: &Run) -> Vec<(RequestKey, RequestStatus)> {
    let closed = before.pending().filter_map(|(key, _)| {
        let status = after.requests.get(&key)?.status;
        match status {
            RequestStatus::Pending | RequestStatus::Decided => None,
            RequestStatus::Expired | RequestStatus::Cancelled => Some((key, status)),
        }
    });
    closed.collect()
}

fn reasons(call: &Call) -> Vec<String> {
    match &call.state {
        CallState::Asking(AskWhy::Approval { reason, .. }) => vec![reason.clone()],
        CallState::Asking(AskWhy::Question) => vec!["the agent asks".to_owned()],
        CallState::Unknown { why, .. } if call.later => {
            vec![why.clone(), "a retry can make it happen twice".to_owned()]
        }
        CallState::Unknown { why, attempt } => {
            let unknown = format!("it is not known what attempt {attempt} did: {why}");
            vec![unknown, "a retry can make it happen twice".to_owned()]
        }
        CallState::Ready
        | CallState::Pending { .. }
        | CallState::Running { .. }
        | CallState::Delegated { .. }
        | CallState::Done(_) => vec![],
    }
}
