//! What a person sees of a fact: all of it, but for the secrets in a reply's calls.

use std::borrow::Cow;

use super::secret::{self, MASK};
use crate::{
    agent::Definition,
    entry::Fact,
    message::ReplyBlock,
    plan::{self, Plan},
};

/// What stands in the place of a problem that may quote a secret.
const PROBLEM: &str = "the arguments do not fit; what is wrong with them is not shown, because they hold a secret";

/// `fact`, of a run of `agent`, as a person sees it.
#[must_use]
pub fn fact<'a>(fact: &'a Fact, agent: &Definition) -> Cow<'a, Fact> {
    let mut shown = Cow::Borrowed(fact);
    if agent.tools.iter().all(|tool| tool.secret.is_empty()) {
        return shown;
    }
    if let Fact::ModelReplied { .. } = fact
        && let Fact::ModelReplied { content, calls, .. } = shown.to_mut()
    {
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

/// The text of arguments with its secrets masked; all of it, if it is not an object.
fn masked(raw: &str, paths: &[String]) -> String {
    plan::arguments(raw).map_or_else(|_| MASK.to_owned(), |value| secret::mask(&value, paths).to_string())
}

fn hide_problem(plan: Option<&mut Plan>) {
    match plan {
        Some(Plan::Invalid { problem }) => PROBLEM.clone_into(problem),
        None
        | Some(
            Plan::Start
            | Plan::Allow
            | Plan::Ask { .. }
            | Plan::Question
            | Plan::Deny { .. }
            | Plan::Joins { .. }
            | Plan::Known { .. },
        ) => {}
    }
}
