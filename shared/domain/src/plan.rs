//! What becomes of the calls of a reply, decided before the reply is stored.
//!
//! The plan of each call goes into the same entry as the reply, so a stored reply always says which
//! of its calls have been announced (I2) and which wait for whom. This is the only caller of
//! [`policy::authorize`].

mod forking;

pub use forking::fork;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    agent::{Mode, Target, ToolDef},
    builtin::Builtin,
    delegate::{MAX_DEPTH, Task},
    entry::Replanned,
    ids::{CallKey, Digest, Millis, Principal, RunId},
    json::{self, CanonicalError},
    message::{ReplyBlock, StopReason},
    next::MAX_OPEN_REQUESTS,
    policy::{self, Asked, Policy, RuledBy, StandingRule, Verdict},
    run::{AskWhy, CallState, Run},
    same,
    windows::Windows,
};

/// Largest arguments of a call, in bytes of canonical text.
pub const MAX_ARGUMENT_BYTES: usize = 256 * 1024;
/// Calls of one run that run at once.
pub const MAX_RUNNING: usize = 16;
/// Requests of one run that can be open beside a conversation that goes on. What is left of
/// [`MAX_OPEN_REQUESTS`] is for calls whose outcome will be unknown.
const MAX_BESIDE: usize = MAX_OPEN_REQUESTS - MAX_RUNNING;

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "plan", rename_all = "snake_case")]
pub enum Plan {
    /// It runs, and this entry announces its first attempt.
    Start {
        /// The standing rule that allows it, if one does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
    },
    /// It runs when there is room and time.
    Allow {
        /// The standing rule that allows it, if one does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
    },
    /// It waits for a person.
    Ask {
        /// Why.
        reason: String,
        /// Whether the safety floor says so: then a person can let this call run, and none like it for good.
        #[serde(default, skip_serializing_if = "crate::message::is_false")]
        floor: bool,
    },
    /// It is a question to a person.
    Question,
    /// It does not run.
    Deny {
        /// Why.
        because: String,
    },
    /// It cannot run.
    Invalid {
        /// What is wrong with it.
        problem: String,
    },
    /// The same call waits or runs beside the conversation, which went on without it: nothing new.
    Joins {
        /// Which.
        call: CallKey,
    },
    /// The same call has an ending that the model did not know of, or a result that may be used
    /// again: that is its result.
    Known {
        /// Which.
        call: CallKey,
    },
}

impl Plan {
    /// Whether the call starts with the entry that holds this plan.
    #[must_use]
    pub fn starts(&self) -> bool {
        matches!(self, Self::Start { .. })
    }

    /// Whether it may run, now or later, without anybody being asked.
    #[must_use]
    pub fn allows(&self) -> bool {
        matches!(self, Self::Start { .. } | Self::Allow { .. })
    }

    /// The standing rule that allows it, if one does.
    #[must_use]
    pub fn rule(&self) -> Option<&str> {
        match self {
            Self::Start { rule } | Self::Allow { rule } => rule.as_deref(),
            Self::Ask { .. }
            | Self::Question
            | Self::Deny { .. }
            | Self::Invalid { .. }
            | Self::Joins { .. }
            | Self::Known { .. } => None,
        }
    }
}

/// A question as the agent asked it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Question {
    /// The question.
    pub question: String,
    /// The answers on offer.
    #[serde(default)]
    pub options: Vec<Choice>,
    /// Whether any other text is an answer too. Without options it is by default.
    pub allow_free_text: bool,
}

/// An answer on offer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Choice {
    /// What the model is told: a string, a number or a boolean.
    pub value: Value,
    /// What the person reads, if it is not the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Whether choosing it ends the run.
    #[serde(default, skip_serializing_if = "crate::message::is_false")]
    pub cancels: bool,
}

impl Question {
    /// Reads the arguments of an `ask_user` call.
    ///
    /// # Errors
    /// What is wrong with them, for the model.
    pub fn read(arguments: &Value) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Asked {
            question: String,
            #[serde(default)]
            options: Vec<Choice>,
            allow_free_text: Option<bool>,
        }
        let asked: Asked = serde_json::from_value(arguments.clone()).map_err(|error| error.to_string())?;
        let allow_free_text = asked.allow_free_text.unwrap_or(asked.options.is_empty());
        if asked.question.trim().is_empty() {
            return Err("the question is empty".to_owned());
        }
        if asked.options.is_empty() && !allow_free_text {
            return Err("a question without options must allow free text: nobody could answer it".to_owned());
        }
        for (i, option) in asked.options.iter().enumerate() {
            if asked.options[..i].iter().any(|earlier| earlier.value == option.value) {
                return Err(format!("the option {} is offered twice", option.value));
            }
        }
        Ok(Self { question: asked.question, options: asked.options, allow_free_text })
    }
}

/// The arguments that would run, from the text that the model gave: an object in canonical form.
/// No text at all is an empty object. What is shown, hashed and run is this value (case 8).
///
/// # Errors
/// What is wrong with them, for the model.
pub fn arguments(raw: &str) -> Result<Value, String> {
    let raw = if raw.trim().is_empty() { "{}" } else { raw };
    let value: Value = serde_json::from_str(&json::well_formed(raw))
        .map_err(|error| format!("the arguments are not valid JSON ({error}); send one JSON object"))?;
    canonical_arguments(&value, MAX_ARGUMENT_BYTES)
}

/// `value` as the arguments of a call: in canonical form, of at most `max_bytes`.
///
/// # Errors
/// What is wrong with them, for whoever gave them.
pub(crate) fn canonical_arguments(value: &Value, max_bytes: usize) -> Result<Value, String> {
    if !value.is_object() {
        return Err("the arguments are not a JSON object; send one".to_owned());
    }
    let text = json::canonical(value).map_err(|error| error.to_string())?;
    if text.len() > max_bytes {
        return Err(format!("the arguments have {} bytes; at most {max_bytes} are taken", text.len()));
    }
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

/// One key for "the same call" (E8): a digest over owner, run, tool and arguments.
///
/// # Errors
/// As [`json::canonical`]; never for what [`arguments`] returned.
pub fn call_digest(owner: &Principal, run: &RunId, tool: &str, arguments: &Value) -> Result<Digest, CanonicalError> {
    let fields = serde_json::json!([owner.tenant, owner.subject, run.as_str(), tool, arguments]);
    json::digest("dormouse.call.v1", &fields)
}

/// What holds today, beside what is frozen with the run.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// Rules that refuse.
    pub policy: &'a Policy,
    /// What people allowed for good, where it is for this run.
    pub standing: &'a [StandingRule],
    /// The widest mode that holds, where the runs that delegated to this one are in a narrower.
    pub widest: Mode,
}

static NO_POLICY: Policy = Policy { deny: Vec::new(), floor: Vec::new() };

impl Rules<'static> {
    /// Nothing: what is frozen with the run is all there is.
    #[must_use]
    pub fn none() -> Self {
        Self { policy: &NO_POLICY, standing: &[], widest: Mode::Yolo }
    }
}

/// What the planner must know from outside the journal.
pub trait Circumstances {
    /// The rules that hold today.
    fn rules(&self) -> Rules<'_>;
    /// Checks `arguments` against the tool's schema; the error is for the model.
    ///
    /// # Errors
    /// Where and how they don't fit.
    fn validate(&self, tool: &ToolDef, arguments: &Value) -> Result<(), String>;
    /// Whether a call of this tool, started now, fits the driver's remaining time.
    fn fits(&self, tool: &ToolDef) -> bool;
}

/// Plans the calls of a reply that stopped for this reason, in order. Its prompt contained `seen`
/// entries.
#[must_use]
pub fn plan_reply(
    run: &Run,
    content: &[ReplyBlock],
    stop: &StopReason,
    seen: u32,
    outside: &dyn Circumstances,
) -> Vec<Plan> {
    let may_start = !run.paused && run.cancel.is_none();
    let (mut started, mut room) = (0, room(run));
    let mut plans: Vec<Plan> = Vec::new();
    for (i, block) in content.iter().enumerate() {
        let (name, raw) = match block {
            ReplyBlock::ToolCall { name, arguments, .. } => (name, arguments),
            ReplyBlock::Text { .. } | ReplyBlock::Reasoning { .. } | ReplyBlock::Opaque { .. } => continue,
        };
        let plan = match incomplete(stop, i + 1 == content.len()) {
            Some(problem) => Plan::Invalid { problem },
            None => plan_call(run, name, raw, seen, &plans, outside),
        };
        plans.push(match (&plan, run.definition.tool(name)) {
            (Plan::Allow { rule }, Some(tool)) if may_start && started < MAX_RUNNING && outside.fits(tool) => {
                started += 1;
                Plan::Start { rule: rule.clone() }
            }
            (Plan::Ask { .. } | Plan::Question, _) if room == Some(0) => Plan::Invalid { problem: no_room() },
            (Plan::Ask { .. } | Plan::Question, _) => {
                room = room.map(|room| room - 1);
                plan
            }
            _ => plan,
        });
    }
    plans
}

/// For how many more calls a person can be asked, where the conversation goes on without the answers: then
/// what is asked stays open beside it, and a call without room would be waited for all the same (E6).
/// Elsewhere calls wait their turn.
fn room(run: &Run) -> Option<usize> {
    let windows = Windows::open(&run.definition, Millis(0));
    (windows.wait_until < windows.decide_by).then(|| MAX_BESIDE.saturating_sub(run.pending().count()))
}

/// What an agent reads that works for another one and asks a person (D5).
const AUTONOMOUS: &str = "you work for another agent, and cannot ask a person here: decide for yourself, or say in your answer \
                          what you would need to know";

fn no_room() -> String {
    format!(
        "{MAX_BESIDE} requests of this run wait for people already, and no more are opened; go on without this call, \
         or make it again when some of them are decided"
    )
}

/// Why a call is not to be taken at its word, given how its reply stopped. One that was cut off can
/// still be valid JSON, with half a path in it; what a refusal holds is not asked for (I11).
fn incomplete(stop: &StopReason, is_last: bool) -> Option<String> {
    let why = stop.as_str();
    match stop {
        StopReason::EndTurn | StopReason::ToolUse | StopReason::Pause => None,
        StopReason::MaxTokens | StopReason::Other(_) if is_last => {
            Some(format!("the reply stopped before its end ({why}), so this call may be incomplete; make it again"))
        }
        StopReason::MaxTokens | StopReason::Other(_) => None,
        StopReason::Refusal => Some(format!("the reply stopped with {why}, so its calls are not made")),
    }
}

fn plan_call(run: &Run, name: &str, raw: &str, seen: u32, earlier: &[Plan], outside: &dyn Circumstances) -> Plan {
    let definition = &run.definition;
    let Some(tool) = definition.tool(name) else {
        let names = definition.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>().join(", ");
        let name = json::cut(name, 80);
        return Plan::Invalid { problem: format!("there is no tool {name:?}; the tools are: {names}") };
    };
    let checked = arguments(raw).and_then(|value| outside.validate(tool, &value).map(|()| value));
    let value = match checked {
        Ok(value) => value,
        Err(problem) => return Plan::Invalid { problem },
    };
    let allowed = if tool.target == Target::Builtin(Builtin::AskUser) {
        match Question::read(&value) {
            Ok(_) if run.parent.as_ref().is_some_and(|parent| !parent.questions) => {
                return Plan::Invalid { problem: AUTONOMOUS.to_owned() };
            }
            Ok(_) => Plan::Question,
            Err(problem) => return Plan::Invalid { problem },
        }
    } else if let Some(agents) = tool.delegates_to() {
        if let Err(problem) = Task::read(&value, agents) {
            return Plan::Invalid { problem };
        }
        if run.chain().len() >= MAX_DEPTH {
            return Plan::Invalid { problem: format!("a chain of delegation has {MAX_DEPTH} agents at most") };
        }
        Plan::Allow { rule: None }
    } else {
        Plan::Allow { rule: None }
    };
    let plan = judge(run, tool, &value, run.mode, outside.rules(), allowed);
    if let Plan::Deny { .. } = plan {
        return plan;
    }
    let taken = earlier.iter().filter_map(|plan| match plan {
        Plan::Known { call } => Some(*call),
        Plan::Start { .. }
        | Plan::Allow { .. }
        | Plan::Ask { .. }
        | Plan::Question
        | Plan::Deny { .. }
        | Plan::Invalid { .. }
        | Plan::Joins { .. } => None,
    });
    same::recognise(run, tool, &value, seen, &taken.collect::<Vec<_>>()).unwrap_or(plan)
}

/// The rules that refuse: those frozen with the run, and today's. Mostly these are the same, and one look is
/// enough.
fn policies<'a>(run: &'a Run, rules: Rules<'a>) -> Vec<&'a Policy> {
    let frozen = &run.definition.policy;
    if frozen == rules.policy { vec![frozen] } else { vec![frozen, rules.policy] }
}

/// The plan of a valid call: `allowed` if policy allows it. A question asks in any case, so policy
/// can only refuse it.
fn judge(run: &Run, tool: &ToolDef, arguments: &Value, mode: Mode, rules: Rules<'_>, allowed: Plan) -> Plan {
    let policies = policies(run, rules);
    let mode = mode.min(rules.widest);
    let ruling = policy::authorize(&Asked { tool, arguments, mode, policies: &policies, standing: rules.standing });
    match (ruling.verdict, allowed) {
        (Verdict::Deny, _) => Plan::Deny { because: ruling.reason },
        (Verdict::Ask, Plan::Allow { .. }) => Plan::Ask { reason: ruling.reason, floor: ruling.by == RuledBy::Floor },
        (Verdict::Allow, Plan::Allow { .. }) => Plan::Allow { rule: ruling.by.standing() },
        (Verdict::Allow | Verdict::Ask, allowed) => allowed,
    }
}

/// New plans for the calls that have neither run nor been asked about, under another mode. Open
/// requests are not touched: a change of mode never decides one.
#[must_use]
pub fn replan(run: &Run, mode: Mode, rules: Rules<'_>) -> Vec<Replanned> {
    let open = run.turns.last().into_iter().flat_map(|turn| &turn.calls);
    open.filter_map(|call| {
        let untouched = match &call.state {
            CallState::Ready => !call.approved,
            CallState::Asking(AskWhy::Approval { .. }) => true,
            CallState::Asking(AskWhy::Question)
            | CallState::Pending { .. }
            | CallState::Running { .. }
            | CallState::Delegated { .. }
            | CallState::Unknown { .. }
            | CallState::Done(_) => false,
        };
        let tool = run.definition.tool(&call.tool).filter(|_| untouched)?;
        let plan = judge(run, tool, &call.arguments(run).ok()?, mode, rules, Plan::Allow { rule: None });
        Some(Replanned { call: call.key, plan })
    })
    .collect()
}

/// Of the calls that are about to be made, those that may not run any more, and what becomes of them: a rule
/// was added, or one that allowed them was revoked, while they waited (case 12). What a person approved is
/// held to what forbids it alone: neither a mode nor the floor has a say in it any more.
#[must_use]
pub fn recheck(run: &Run, calls: &[CallKey], rules: Rules<'_>) -> Vec<Replanned> {
    let calls = calls.iter().filter_map(|key| run.call(*key)).filter(|call| call.state == CallState::Ready);
    calls
        .filter_map(|call| {
            let tool = run.definition.tool(&call.tool)?;
            let plan = match call.arguments(run) {
                Ok(arguments) if call.approved => {
                    policy::forbidden(tool, &arguments, &policies(run, rules)).map(|because| Plan::Deny { because })
                }
                Ok(arguments) => Some(judge(run, tool, &arguments, run.mode, rules, Plan::Allow { rule: None })),
                Err(because) => Some(Plan::Deny { because }),
            };
            plan.filter(|plan| !plan.allows()).map(|plan| Replanned { call: call.key, plan })
        })
        .collect()
}
