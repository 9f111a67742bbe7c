//! What becomes of the calls that a fork's copy leaves open and unannounced.

use super::{Plan, Rules, judge};
use crate::{
    agent::Mode,
    entry::Replanned,
    request::RequestKind,
    run::{AskWhy, Call, CallState, Run},
};

/// New plans for the calls of `run`, as the last entry of a copy left it, that have no result and of which no
/// attempt was announced. The run that is copied may have made them since, or been asked about them: so only what
/// reads, and would have run unasked, may run in the fork without a person. An approval was for one execution, and
/// allows none here (I7).
#[must_use]
pub fn fork(run: &Run, mode: Mode, rules: Rules<'_>) -> Vec<Replanned> {
    let open = run.open_calls().filter(|call| call.is_unannounced());
    open.map(|call| Replanned { call: call.key, plan: plan(run, call, mode, rules) }).collect()
}

fn plan(run: &Run, call: &Call, mode: Mode, rules: Rules<'_>) -> Plan {
    let (Some(tool), Ok(arguments)) = (run.definition.tool(&call.tool), call.asked_arguments(run)) else {
        return Plan::Deny { because: "the call cannot be read".to_owned() };
    };
    let unasked = call.state == CallState::Ready && !call.approved;
    let allowed = if is_question(run, call) { Plan::Question } else { Plan::Allow { rule: None } };
    let plan = judge(run, tool, &arguments, mode, rules, allowed);
    if !plan.allows() {
        return plan;
    }
    if !unasked {
        return ask("a person was asked about it before the run was forked");
    }
    if tool.kind.mutates() {
        return ask("the run that this one was forked from may have made this call");
    }
    plan
}

fn ask(reason: &str) -> Plan {
    Plan::Ask { reason: reason.to_owned(), floor: false }
}

fn is_question(run: &Run, call: &Call) -> bool {
    match &call.state {
        CallState::Asking(why) => *why == AskWhy::Question,
        CallState::Pending { request } => {
            run.requests.get(request).is_some_and(|request| request.kind == RequestKind::Question)
        }
        CallState::Ready
        | CallState::Running { .. }
        | CallState::Delegated { .. }
        | CallState::Unknown { .. }
        | CallState::Done(_) => false,
    }
}
