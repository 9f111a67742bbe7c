//! Whether a call may run now, by the bare facts of the journal: without the fold that decided it.

use std::collections::{BTreeMap, BTreeSet};

use dormouse_domain::{
    DriverId, Entry, Fact, Millis, RequestKey,
    agent::Replay,
    decide::{Decision, Resolution},
    entry::CallResult,
    message::{Content, ReplyBlock},
    plan::{self, Plan},
};
use dormouse_engine::ports::ToolCall;
use serde_json::Value;

use crate::books::Book;

/// Longest that a driver is busy with a write of which it hears nothing, in milliseconds.
const LONGEST_WRITE_MS: u64 = 30_000;

/// What the journal says about one call.
#[derive(Default)]
struct Sanction {
    /// Policy allows it, or a person did.
    allowed: bool,
    /// The attempt that was announced last.
    announced: u32,
    /// Requests about it.
    asked: BTreeSet<RequestKey>,
    /// How often a person said that it is to run again.
    retries: usize,
    /// It has a result, or never gets one.
    settled: bool,
    /// What a person put in the place of the model's arguments.
    edited: Option<Value>,
    /// A person allowed it with other arguments.
    other_arguments: bool,
    /// What the run's tools had kept when the attempt was announced.
    kept: BTreeMap<String, Value>,
}

/// The driver that holds the run whose journal this is.
fn holder(entries: &[Entry]) -> Option<&DriverId> {
    let changes = entries.iter().rev().filter_map(|entry| {
        let starts = matches!(entry.fact, Fact::DriverStarted { .. });
        let stops = matches!(entry.fact, Fact::DriverStopped { .. } | Fact::Suspended { .. } | Fact::RunFinished(_));
        (starts || stops).then_some(if starts { entry.driver.as_ref() } else { None })
    });
    changes.into_iter().next().flatten()
}

/// Whether the driver that holds the run is on `host`.
fn holds(entries: &[Entry], host: &str) -> bool {
    holder(entries).is_some_and(|driver| driver.host() == host)
}

/// Whether a driver on `host` holds the run, or held it when a person ended it, so shortly before `now` that it
/// cannot have heard of that: it asks one more time, and its next write is refused.
pub(crate) fn may_ask(book: &Book, host: &str, now: Millis) -> bool {
    let ended = book.entries.split_last().filter(|(last, _)| {
        matches!(last.fact, Fact::RunFinished(_)) && last.driver.is_none() && now.since(last.at) <= LONGEST_WRITE_MS
    });
    holds(&book.entries, host) || ended.is_some_and(|(_, before)| holds(before, host))
}

/// Whether this attempt may run now, on `host`: announced (I2), not settled (I3), allowed for exactly these
/// arguments (I7), and after `earlier` others only if a person or the tool's policy says so (I8, B4).
pub(crate) fn may_execute(book: &Book, call: &ToolCall, host: &str, earlier: usize) -> Result<(), String> {
    let reply = book.entries.get(call.call.entry as usize).map(|entry| &entry.fact);
    let Some(Fact::ModelReplied { content, calls, .. }) = reply else { return Err("I2: no such reply".to_owned()) };
    let ordinal = call.call.ordinal as usize;
    let blocks = content.iter().filter_map(|block| match block {
        ReplyBlock::ToolCall { name, arguments, .. } => Some((name, arguments)),
        ReplyBlock::Text { .. } | ReplyBlock::Reasoning { .. } | ReplyBlock::Opaque { .. } => None,
    });
    let (name, raw) = blocks.into_iter().nth(ordinal).ok_or("I2: no such call")?;
    let mut sanction =
        Sanction { announced: u32::from(calls.get(ordinal).is_some_and(Plan::starts)), ..Sanction::default() };
    sanction.allowed = calls.get(ordinal).is_some_and(Plan::allows);
    book.entries.iter().for_each(|entry| sanction.enter(book, call, entry));
    sanction.kept = kept(&book.entries[..=announced_at(book, call)]);
    let asked = plan::arguments(raw).map_err(|problem| format!("I7: {problem}"))?;
    let given = sanction.edited.clone().unwrap_or_else(|| asked.clone());
    let digests = [&asked, &given].map(|value| plan::call_digest(&book.run.owner, &book.run.id, name, value).ok());
    let shown = sanction.asked.iter().filter_map(|key| book.rows.get(key));
    let shown = shown.map(|row| Some(&row.digest)).all(|digest| digests.iter().any(|own| own.as_ref() == digest));
    for (holds, why) in [
        (sanction.announced == call.attempt, "I2: another attempt is announced"),
        (sanction.sees(call), "A13: it is given another state than there was when it was announced"),
        (holds(&book.entries, host), "I4: another driver holds the run"),
        (sanction.allowed, "I7: nobody allowed it"),
        (!sanction.other_arguments, "I7: a person allowed other arguments"),
        (given == call.arguments && *name == call.tool.name && shown, "I7: other arguments, or another tool"),
        (!sanction.settled, "I3: it has a result"),
        (call.tool.replay != Replay::Manual || earlier <= sanction.retries, "I8: a manual tool runs again unasked"),
        (call.tool.replay != Replay::Safe || earlier < 3, "B4: a safe tool runs a fourth time"),
    ] {
        if !holds {
            return Err(why.to_owned());
        }
    }
    Ok(())
}

/// The index of the entry that announces this attempt.
fn announced_at(book: &Book, call: &ToolCall) -> usize {
    let announces = |entry: &Entry| {
        let Fact::CallDispatched { calls } = &entry.fact else { return false };
        calls.iter().any(|start| (start.call, start.attempt) == (call.call, call.attempt))
    };
    book.entries.iter().rposition(announces).unwrap_or(call.call.entry as usize)
}

/// What the run's tools have kept after these entries: the last word on each name.
pub(crate) fn kept(entries: &[Entry]) -> BTreeMap<String, Value> {
    let mut kept = BTreeMap::new();
    for entry in entries {
        let Fact::CallFinished { kv, .. } = &entry.fact else { continue };
        for (name, value) in kv.iter() {
            kept.insert(name.to_owned(), value.clone());
        }
    }
    kept.retain(|_, value| !value.is_null());
    kept
}

/// Whether this is the answer of a tool of ours, which always keeps something, without what it kept.
pub(crate) fn lost_state(entry: &Entry) -> bool {
    let Fact::CallFinished { result: CallResult::Returned { content, .. }, kv, .. } = &entry.fact else { return false };
    let answered = content.iter().any(|part| matches!(part, Content::Text { text } if text.contains(" did ")));
    answered && kv.is_empty()
}

impl Sanction {
    fn sees(&self, call: &ToolCall) -> bool {
        call.state.iter().eq(self.kept.iter().map(|(name, value)| (name.as_str(), value)))
    }

    fn enter(&mut self, book: &Book, call: &ToolCall, entry: &Entry) {
        match &entry.fact {
            Fact::CallDispatched { calls } => {
                let start = calls.iter().find(|start| start.call == call.call);
                self.announced = start.map_or(self.announced, |start| start.attempt);
            }
            Fact::ModeChanged { calls, .. } | Fact::CallsReplanned { calls } => {
                for change in calls.iter().filter(|change| change.call == call.call) {
                    self.allowed = change.plan.allows();
                }
            }
            Fact::Suspended { requests, .. } => {
                let own = (0..).zip(requests).filter(|(_, opened)| opened.call == Some(call.call));
                self.asked.extend(own.map(|(ordinal, _)| RequestKey::new(entry.index, ordinal)));
            }
            Fact::RequestDecided { request, decision, digest, .. } if self.asked.contains(request) => {
                let saw = book.rows.get(request).map(|row| (&row.digest, &row.arguments));
                let runs = if let Decision::Edit { arguments } = decision {
                    *arguments == call.arguments
                } else {
                    saw.is_some_and(|(_, arguments)| *arguments == call.arguments)
                };
                self.decided(decision, runs && saw.map(|(digest, _)| digest) == digest.as_ref());
            }
            Fact::RequestExpired { requests } => {
                self.settled |= requests.iter().any(|key| self.asked.contains(key));
            }
            Fact::CallFinished { call: of, result: CallResult::Returned { .. }, .. } => {
                self.settled |= *of == call.call;
            }
            Fact::RunStarted { .. }
            | Fact::DriverStarted { .. }
            | Fact::DriverStopped { .. }
            | Fact::ModelReplied { .. }
            | Fact::ModelFailed { .. }
            | Fact::CallFinished { .. }
            | Fact::RequestDecided { .. }
            | Fact::WaitExpired { .. }
            | Fact::MessageAdded { .. }
            | Fact::Paused { .. }
            | Fact::Resumed { .. }
            | Fact::CancelRequested { .. }
            | Fact::Reopened {}
            | Fact::Forked { .. }
            | Fact::RunFinished(_) => {}
        }
    }

    fn decided(&mut self, decision: &Decision, same: bool) {
        match decision {
            Decision::Approve | Decision::Always { .. } => self.allowed = true,
            Decision::Edit { arguments } => {
                self.allowed = true;
                self.edited = Some(arguments.clone());
            }
            Decision::Settle { resolution: Resolution::Retry } => {
                self.allowed = true;
                self.retries += 1;
            }
            Decision::Deny { .. } | Decision::Answer { .. } | Decision::Settle { .. } => {
                self.settled = true;
                return;
            }
            // Of the run, not of a call.
            Decision::Raise { .. } | Decision::Stop => return,
        }
        self.other_arguments |= !same;
    }
}
