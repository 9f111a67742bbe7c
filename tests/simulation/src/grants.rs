//! Whether the standing rule that an entry names as the reason why a call may run was made by somebody, for a
//! call like it: read from the journals of all runs, without the rules that the table holds (A12).

use std::collections::BTreeMap;

use dormouse_domain::{
    CallKey, Entry, Fact, RequestId, RunId,
    decide::Decision,
    entry::Replanned,
    message::ReplyBlock,
    plan::{self, Plan},
    request::RuleScope,
};
use serde_json::Value;

use crate::books::Book;

/// Checks the rules that `entry`, the next of run `id`, names.
pub(crate) fn check(runs: &BTreeMap<RunId, Book>, id: &RunId, entry: &Entry) -> Result<(), String> {
    match &entry.fact {
        Fact::ModelReplied { content, calls, .. } => {
            let asked = content.iter().filter_map(call);
            asked.zip(calls).try_for_each(|(call, plan)| granted(runs, id, plan, call))
        }
        Fact::ModeChanged { calls, .. } | Fact::CallsReplanned { calls } | Fact::Forked { calls, .. } => {
            calls.iter().try_for_each(|Replanned { call: key, plan }| {
                let call = runs.get(id).and_then(|book| find(book, *key)).ok_or("I7: a plan of no call")?;
                granted(runs, id, plan, call)
            })
        }
        Fact::RunStarted { .. }
        | Fact::DriverStarted { .. }
        | Fact::DriverStopped { .. }
        | Fact::ModelFailed { .. }
        | Fact::CallDispatched { .. }
        | Fact::CallFinished { .. }
        | Fact::Suspended { .. }
        | Fact::RequestDecided { .. }
        | Fact::WaitExpired { .. }
        | Fact::RequestExpired { .. }
        | Fact::MessageAdded { .. }
        | Fact::Paused { .. }
        | Fact::Resumed { .. }
        | Fact::CancelRequested { .. }
        | Fact::Reopened {}
        | Fact::RunFinished(_) => Ok(()),
    }
}

/// A call as the model made it: tool and arguments.
type Made<'a> = (&'a str, &'a str);

fn call(block: &ReplyBlock) -> Option<Made<'_>> {
    match block {
        ReplyBlock::ToolCall { name, arguments, .. } => Some((name, arguments)),
        ReplyBlock::Text { .. } | ReplyBlock::Reasoning { .. } | ReplyBlock::Opaque { .. } => None,
    }
}

fn find(book: &Book, key: CallKey) -> Option<Made<'_>> {
    let Fact::ModelReplied { content, .. } = &book.entries.get(key.entry as usize)?.fact else { return None };
    content.iter().filter_map(call).nth(key.ordinal as usize)
}

fn granted(runs: &BTreeMap<RunId, Book>, id: &RunId, plan: &Plan, (tool, raw): Made<'_>) -> Result<(), String> {
    let Some(rule) = plan.rule() else { return Ok(()) };
    let nobody = || format!("A12: nobody made the rule {rule}, which lets {tool} run");
    let (_, request) = rule.split_once('.').ok_or_else(nobody)?;
    let request: RequestId = request.parse().map_err(|_| nobody())?;
    let made_in = runs.get(&request.run).ok_or_else(nobody)?;
    let scope = made_in.entries.iter().find_map(|entry| {
        let Fact::RequestDecided { request: key, decision, .. } = &entry.fact else { return None };
        let Decision::Always { scope, pattern: None } = decision else { return None };
        (*key == request.key).then_some(*scope)
    });
    let (scope, row) = scope.zip(made_in.rows.get(&request.key)).ok_or_else(nobody)?;
    let own = runs.get(id).ok_or_else(nobody)?;
    let arguments: Value = plan::arguments(raw).map_err(|problem| format!("I7: {problem}"))?;
    let (same_owner, same_agent) = (made_in.run.owner == own.run.owner, made_in.run.agent == own.run.agent);
    let here = match scope {
        RuleScope::Run => request.run == *id,
        RuleScope::Owner => same_owner && same_agent,
        RuleScope::Agent => same_agent,
    };
    let covers =
        here && row.tool.as_deref() == Some(tool) && row.arguments == arguments && rule.starts_with(scope.as_str());
    if covers { Ok(()) } else { Err(format!("A12: the rule {rule} is not for {tool} {arguments} in {id}")) }
}
