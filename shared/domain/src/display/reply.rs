//! What a person sees of a fact: all of it, but for the secrets in the arguments of calls.

use std::borrow::Cow;

use super::secret::{self, MASK, PROBLEM};
use crate::{
    agent::Definition,
    decide::Decision,
    entry::Fact,
    message::ReplyBlock,
    plan::{self, Plan},
};

/// `fact`, of a run of `agent`, as a person sees it.
#[must_use]
pub fn fact<'a>(fact: &'a Fact, agent: &Definition) -> Cow<'a, Fact> {
    let mut shown = Cow::Borrowed(fact);
    if agent.tools.iter().all(|tool| tool.secret.is_empty()) {
        return shown;
    }
    let holds_arguments = match fact {
        Fact::ModelReplied { .. } => true,
        Fact::RequestDecided { decision, .. } => changes_arguments(decision),
        Fact::RunStarted { .. }
        | Fact::DriverStarted { .. }
        | Fact::DriverStopped { .. }
        | Fact::ModelFailed { .. }
        | Fact::CallDispatched { .. }
        | Fact::CallFinished { .. }
        | Fact::Suspended { .. }
        | Fact::WaitExpired { .. }
        | Fact::RequestExpired { .. }
        | Fact::MessageAdded { .. }
        | Fact::ModeChanged { .. }
        | Fact::CallsReplanned { .. }
        | Fact::Paused { .. }
        | Fact::Resumed { .. }
        | Fact::CancelRequested { .. }
        | Fact::Reopened {}
        | Fact::Forked { .. }
        | Fact::RunFinished(_) => false,
    };
    if !holds_arguments {
        return shown;
    }
    if let Fact::RequestDecided { decision, .. } = shown.to_mut() {
        // Of which tool is in another entry: all that the agent declares is masked.
        let paths: Vec<String> = agent.tools.iter().flat_map(|tool| tool.secret.clone()).collect();
        if let Decision::Edit { arguments } = decision {
            *arguments = secret::mask(arguments, &paths).into_owned();
        }
    }
    if let Fact::ModelReplied { content, calls, .. } = shown.to_mut() {
        let mut plans = calls.iter_mut();
        for block in content {
            match block {
                ReplyBlock::ToolCall { name, arguments, raw, .. } => {
                    let plan = plans.next();
                    let paths = secret::paths(agent, name);
                    if !paths.is_empty() {
                        *arguments = masked(arguments, &paths);
                        // The provider's own text of the call holds the arguments once more.
                        *raw = None;
                        hide_problem(plan);
                    }
                }
                ReplyBlock::Text { .. } | ReplyBlock::Reasoning { .. } | ReplyBlock::Opaque { .. } => {}
            }
        }
    }
    shown
}

fn changes_arguments(decision: &Decision) -> bool {
    match decision {
        Decision::Edit { .. } => true,
        Decision::Approve
        | Decision::Always { .. }
        | Decision::Deny { .. }
        | Decision::Answer { .. }
        | Decision::Settle { .. }
        | Decision::Raise { .. }
        | Decision::Stop => false,
    }
}

/// The text of arguments with its secrets masked; all of it, if it is not an object.
fn masked(raw: &str, paths: &[String]) -> String {
    plan::arguments(raw).map_or_else(|_| MASK.to_owned(), |value| secret::mask(&value, paths).to_string())
}

fn hide_problem(plan: Option<&mut Plan>) {
    match plan {
        Some(Plan::Invalid { problem }) => PROBLEM.clone_into(problem),
        None
        | Some(
            Plan::Start { .. }
            | Plan::Allow { .. }
            | Plan::Ask { .. }
            | Plan::Question
            | Plan::Deny { .. }
            | Plan::Joins { .. }
            | Plan::Known { .. },
        ) => {}
    }
}
