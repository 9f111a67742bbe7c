//! Delegation: a run has another agent do a task, in a run of its own (D5, D6).
//!
//! The call that delegates is announced as any other and starts the child under a name that follows from it, so that
//! making it again makes no second one. Then the call waits for that run as it would for another system: the child's
//! end is written as its result. The child has the owner of its parent, its own key-value state (A14), a mode that is
//! never wider, the parent's rules beside its own, and a share of what the parent may still use.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    agent::{Definition, Mode, Target, ToolDef},
    budget::{Amounts, Budget, Consumed},
    entry::{CallResult, FinalStatus, Outcome},
    ids::{CallKey, Digest, Millis, RunId},
    json,
    message::Content,
    run::{Call, CallState, Run},
};

/// How many agents a chain of delegation has at most, the first included.
pub const MAX_DEPTH: usize = 4;
/// Longest task, in bytes.
pub const MAX_TASK_BYTES: usize = 64 * 1024;
/// Longest answer of a child that its parent reads, in bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// What a child knows of the run that delegated to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Parent {
    /// The run.
    pub run: RunId,
    /// The call of it that waits.
    pub call: CallKey,
    /// The agents through which it came, outermost first.
    pub agents: Vec<String>,
    /// The widest mode that the child may be in: the parent's when it delegated.
    pub mode: Mode,
    /// Whether the child may ask the person questions.
    #[serde(default, skip_serializing_if = "crate::message::is_false")]
    pub questions: bool,
    /// What the child may use at most.
    pub share: Amounts,
}

/// A task for another agent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Task {
    /// The agent's name.
    pub agent: String,
    /// What it is to do.
    pub task: String,
}

impl Task {
    /// Reads the arguments of a call of a tool that delegates to one of `agents`.
    ///
    /// # Errors
    /// What is wrong with them, for the model.
    pub fn read(arguments: &Value, agents: &[String]) -> Result<Self, String> {
        let task: Self = serde_json::from_value(arguments.clone()).map_err(|error| error.to_string())?;
        if !agents.contains(&task.agent) {
            let known = agents.join(", ");
            return Err(format!(
                "there is no agent {:?} to delegate to; there are: {known}",
                json::cut(&task.agent, 80)
            ));
        }
        if task.task.trim().is_empty() {
            return Err("the task is empty; say what the agent is to do".to_owned());
        }
        if task.task.len() > MAX_TASK_BYTES {
            return Err(format!("the task has {} bytes; at most {MAX_TASK_BYTES} are taken", task.task.len()));
        }
        Ok(task)
    }
}

/// What a model is told of a tool that delegates to one of `agents`: its schema.
#[must_use]
pub fn input_schema(agents: &[String]) -> Value {
    json!({
        "type": "object",
        "properties": {
            "agent": { "type": "string", "enum": agents, "description": "The agent that is to do it." },
            "task": {
                "type": "string",
                "description": "What it is to do, whole: it sees nothing of this conversation."
            }
        },
        "required": ["agent", "task"],
        "additionalProperties": false
    })
}

impl RunId {
    /// The name of the run that `call` of `parent` delegates to: always the same.
    #[must_use]
    pub fn of_child(parent: &Self, call: CallKey) -> Self {
        let digest = Digest::of(format!("dormouse.child.v1 {parent}.{call}").as_bytes());
        let hex: String = digest.as_str().chars().skip("sha256:".len()).take(32).collect();
        Self::from_bits(u128::from_str_radix(&hex, 16).unwrap_or_default())
    }
}

impl ToolDef {
    /// The agents that its calls can go to, if it delegates.
    #[must_use]
    pub fn delegates_to(&self) -> Option<&[String]> {
        match &self.target {
            Target::Agents { agents, .. } => Some(agents),
            Target::Builtin(_) | Target::Http { .. } => None,
        }
    }
}

impl Run {
    /// Calls that wait for a run that they delegated to.
    pub fn delegated(&self) -> impl Iterator<Item = &Call> {
        self.open_calls().filter(|call| matches!(call.state, CallState::Delegated { .. }))
    }

    /// Whether no other run has a part in its end: none waits for it, and none does a task of it.
    #[must_use]
    pub fn ends_alone(&self) -> bool {
        self.parent.is_none() && self.children_at_work().next().is_none()
    }

    /// The runs that do tasks of this one, or may: of an attempt whose step died it is not known whether it started one.
    pub fn children_at_work(&self) -> impl Iterator<Item = RunId> {
        let open = self.open_calls().filter(|call| call.attempts > 0 && !matches!(call.state, CallState::Done(_)));
        open.filter(|call| self.delegates(call)).map(|call| RunId::of_child(&self.id, call.key))
    }

    /// The agents through which what this run asks comes, outermost first.
    #[must_use]
    pub fn chain(&self) -> Vec<String> {
        let above = self.parent.iter().flat_map(|parent| &parent.agents);
        above.chain(std::iter::once(&self.agent)).cloned().collect()
    }
}

/// What the child of `call` of `run` is to know at `now`: `None` if the call delegates to nobody. What is left is shared
/// alike among the calls of the reply that are not done.
#[must_use]
pub fn parent_of(run: &Run, call: &Call, now: Millis) -> Option<Parent> {
    let tool = run.definition.tool(&call.tool)?;
    let Target::Agents { questions, .. } = &tool.target else { return None };
    let delegates = |other: &&Call| run.definition.tool(&other.tool).is_some_and(|tool| tool.delegates_to().is_some());
    let open = run.open_calls().filter(|other| !matches!(other.state, CallState::Done(_))).filter(delegates);
    let share = Budget::of(run, now).left().shared(u32::try_from(open.count()).unwrap_or(u32::MAX));
    Some(Parent {
        run: run.id.clone(),
        call: call.key,
        agents: run.chain(),
        mode: run.parent.as_ref().map_or(run.mode, |parent| parent.mode.min(run.mode)),
        questions: *questions && run.parent.as_ref().is_none_or(|parent| parent.questions),
        share,
    })
}

/// The definition that a child of a run of `parent` is frozen with: the agent's own, held to what holds for the parent
/// too. Who decides what the parent asks also decides what the child does, unless its agent names others.
#[must_use]
pub fn held_to(mut child: Definition, parent: &Definition) -> Definition {
    child.policy.extend(&parent.policy);
    if child.approvers.is_none() {
        child.approvers.clone_from(&parent.approvers);
    }
    child
}

/// What the parent's call comes to when `child` ends with `outcome`.
#[must_use]
pub fn answer(child: &Run, outcome: &Outcome) -> CallResult {
    let output = child.output();
    let (text, is_error) = match outcome.status {
        FinalStatus::Completed => (output, false),
        FinalStatus::Failed | FinalStatus::Cancelled => {
            let how = if outcome.status == FinalStatus::Failed { "failed" } else { "was cancelled" };
            let unknown = match outcome.unknown_calls.len() {
                0 => String::new(),
                count => format!(" Of {count} of its calls it is not known what they did."),
            };
            (format!("The agent {:?} {how}: {} (run {}).{unknown}", child.agent, outcome.why, child.id), true)
        }
    };
    let cut = json::cut(&text, MAX_ANSWER_BYTES);
    let missing = text.len() - cut.len();
    let text = if missing == 0 { text } else { format!("{cut}\n… (+{missing} more bytes, in run {})", child.id) };
    CallResult::Returned { content: vec![Content::Text { text }], is_error }
}

/// What `child` has used, with what its own children have.
#[must_use]
pub fn consumed(child: &Run, now: Millis) -> Consumed {
    let budget = Budget::of(child, now);
    Consumed { amounts: budget.used, at_most: budget.at_most }
}
