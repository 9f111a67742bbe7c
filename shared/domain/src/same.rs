//! "The same call": one key over owner, run, tool and canonical arguments
//! ([`plan::call_digest`](crate::plan::call_digest), E8). Owner and run are one within a run, so here the
//! tool and the arguments are compared. What follows when a model makes a call again that the
//! conversation went on without, or that it has a result of (E8 to E10).

use serde_json::Value;

use crate::{
    agent::ToolDef,
    ids::CallKey,
    plan::Plan,
    request::RequestStatus,
    run::{Call, CallState, Ending, Repeats, Run},
};

/// Whether the model made this very call with `call`, whatever a person made of it.
fn is_same(run: &Run, call: &Call, tool: &str, arguments: &Value) -> bool {
    call.tool == tool && call.asked_arguments(run).is_ok_and(|asked| asked == *arguments)
}

/// What becomes of a call that was made before, where that is anything special. `seen` says what the
/// reply's prompt contained; what is in `taken` was handed to an earlier call of the reply.
pub(crate) fn recognise(run: &Run, tool: &ToolDef, arguments: &Value, seen: u32, taken: &[CallKey]) -> Option<Plan> {
    let same = |key: CallKey| run.call(key).is_some_and(|call| is_same(run, call, &tool.name, arguments));
    // It waits beside the conversation, or runs there: nobody is asked twice.
    if let Some(call) = run.moved_on.iter().copied().find(|key| same(*key)) {
        return Some(Plan::Joins { call });
    }
    // It has an ending that the model did not know of: it is told now, once (E9).
    let untold = run.messages.iter().filter(|message| message.index >= seen).filter_map(|message| message.late);
    let untold = untold.map(|late| late.call).find(|key| !taken.contains(key) && same(*key));
    if let Some(call) = untold {
        return Some(Plan::Known { call });
    }
    // A result is of the arguments that ran: one that a person changed is not that of the model's call.
    let mut earlier = run.calls().filter(|call| tool.reuse_result && call.edited.is_none() && has_result(call));
    let known = earlier.find(|call| is_same(run, call, &tool.name, arguments))?;
    Some(Plan::Known { call: known.key })
}

fn has_result(call: &Call) -> bool {
    match &call.state {
        CallState::Done(Ending::Returned { is_error, .. }) => !is_error,
        CallState::Done(_)
        | CallState::Ready
        | CallState::Asking(_)
        | CallState::Pending { .. }
        | CallState::Running { .. }
        | CallState::Delegated { .. }
        | CallState::Unknown { .. } => false,
    }
}

/// How often the agent asked for this very call before.
pub(crate) fn repeats(run: &Run, call: &Call) -> Repeats {
    let Ok(arguments) = call.asked_arguments(run) else { return Repeats::default() };
    let same = |other: &&Call| is_same(run, other, &call.tool, &arguments);
    let joined = run.calls().filter(|other| matches!(other.state, CallState::Done(Ending::Joined { .. })));
    // An ending that was handed on is no further refusal: the requests are counted, not the calls.
    let refused = run.requests.values().filter_map(|request| {
        let other = run.call(request.call?)?;
        let refused = match request.status {
            RequestStatus::Decided => matches!(other.state, CallState::Done(Ending::Declined { .. })),
            RequestStatus::Expired => matches!(other.state, CallState::Done(Ending::Expired { .. })),
            RequestStatus::Pending | RequestStatus::Cancelled => false,
        };
        refused.then_some(other)
    });
    Repeats { while_pending: count(joined.filter(same)), after_refusal: count(refused.filter(same)) }
}

fn count<'a>(calls: impl Iterator<Item = &'a Call>) -> u32 {
    u32::try_from(calls.count()).unwrap_or(u32::MAX)
}
