//! The run item: what lists and sweeps need to know of a run without folding it.
//!
//! A projection of the fold, written in the transactions of the entries that change it. It decides
//! nothing by itself, with one exception: its `due_at` is how a run that nothing drives is found
//! again (I9). What that means for a step, a message and the sweep is said here too.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    agent::Mode,
    budget::Spent,
    delegate::Parent,
    entry::{FinalStatus, Outcome},
    ids::{CallKey, Digest, Millis, Principal, RequestId, RequestKey, RunId},
    json,
    message::{Content, Usage},
    next::{Next, next},
    run::{Forked, Repeats, Run, Status},
};

/// How long after a driver's deadline another may take its run, in milliseconds: what the clocks of
/// two machines may differ by.
pub const TAKEOVER_MARGIN_MS: u64 = 5_000;

/// The longest delay of an SQS message, in milliseconds.
const LONGEST_DELAY_MS: u64 = 15 * 60 * 1000;
/// How far the sweep moves a `due_at` on at the first wake, in milliseconds; doubled at each further one.
const FIRST_POSTPONE_MS: u64 = 30_000;
/// How far it moves one on at most.
const LONGEST_POSTPONE_MS: u64 = 15 * 60 * 1000;

/// Longest title, in bytes.
const TITLE_BYTES: usize = 120;

/// What is known of a run without folding it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunItem {
    /// Its name.
    pub run_id: RunId,
    /// Whose run it is.
    pub owner: Principal,
    /// The agent's name.
    pub agent: String,
    /// The digest of the agent's definition.
    pub definition: Digest,
    /// The beginning of its input.
    pub title: String,
    /// Where it stands.
    pub status: Status,
    /// Its mode.
    pub mode: Mode,
    /// The client's labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// The run and the call of it that delegated to it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<DelegatedBy>,
    /// The forks it came by, in the order of the journal: none for a run that was started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forks: Vec<ForkedFrom>,
    /// When it was started, or forked.
    pub created_at: Millis,
    /// When this was last written.
    pub updated_at: Millis,
    /// When somebody must look at it, if ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Millis>,
    /// Model replies.
    pub turns: u32,
    /// What they used.
    pub usage: Usage,
    /// What they cost.
    #[serde(default, skip_serializing_if = "crate::message::is_default")]
    pub cost: Spent,
    /// Requests that wait.
    pub pending: u32,
    /// How often the agent asked for the same thing again.
    #[serde(default)]
    pub repeats: Repeats,
    /// Index of the last reply's entry, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reply: Option<u32>,
    /// How it ended, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// How often the sweep woke it since it was last written.
    #[serde(default)]
    pub wakes: u32,
}

/// Where a task comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelegatedBy {
    /// The run.
    pub run_id: RunId,
    /// Its call.
    pub call: CallKey,
}

impl DelegatedBy {
    fn of(parent: &Parent) -> Self {
        Self { run_id: parent.run.clone(), call: parent.call }
    }
}

/// Where a fork comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkedFrom {
    /// The run.
    pub run_id: RunId,
    /// The last of its entries that the fork begins with.
    pub at: u32,
}

impl ForkedFrom {
    fn of(fork: &Forked) -> Self {
        Self { run_id: fork.from.clone(), at: fork.index.saturating_sub(1) }
    }
}

impl RunItem {
    /// The item of `run` at `now`.
    #[must_use]
    pub fn of(run: &Run, now: Millis) -> Self {
        let (status, due_at) = standing(run, now);
        Self {
            run_id: run.id.clone(),
            owner: run.owner.clone(),
            agent: run.agent.clone(),
            definition: run.definition_digest.clone(),
            title: title(run),
            status,
            mode: run.mode,
            metadata: run.metadata.clone(),
            parent: run.parent.as_ref().map(DelegatedBy::of),
            forks: run.forks.iter().map(ForkedFrom::of).collect(),
            created_at: run.created_at,
            updated_at: run.updated_at,
            due_at,
            turns: u32::try_from(run.turns.len()).unwrap_or(u32::MAX),
            usage: run.usage,
            cost: run.cost,
            pending: u32::try_from(run.pending().count()).unwrap_or(u32::MAX),
            repeats: run.repeats,
            last_reply: run.turns.last().map(|turn| turn.index),
            outcome: run.outcome.clone(),
            wakes: 0,
        }
    }
}

impl RunItem {
    /// The run that wrote entry `index`: this one, or one that it was forked from.
    #[must_use]
    pub fn writer(&self, index: u32) -> &RunId {
        self.forks.iter().find(|fork| index <= fork.at).map_or(&self.run_id, |fork| &fork.run_id)
    }

    /// The public name of a request of the journal.
    #[must_use]
    pub fn request_id(&self, key: RequestKey) -> RequestId {
        RequestId { run: self.writer(key.entry).clone(), key }
    }
}

/// Where the run stands at `now`, and when somebody must look at it.
#[must_use]
pub fn standing(run: &Run, now: Millis) -> (Status, Option<Millis>) {
    // The end stays the end for whoever looks, also while something runs that was approved late.
    let ended = run.outcome.as_ref().map(|outcome| match outcome.status {
        FinalStatus::Completed => Status::Completed,
        FinalStatus::Failed => Status::Failed,
        FinalStatus::Cancelled => Status::Cancelled,
    });
    if let Some(driver) = &run.driver {
        return (ended.unwrap_or(Status::Running), Some(driver.until.plus(TAKEOVER_MARGIN_MS)));
    }
    let next = next(run, now);
    let due_at = match &next {
        Next::Rest { open, until } if open.is_empty() => *until,
        Next::Rest { .. }
        | Next::Dispatch(_)
        | Next::Await
        | Next::CallModel
        | Next::Expire(_)
        | Next::StopWaiting(_)
        | Next::Reopen
        | Next::Finish(_) => Some(now),
    };
    let status = if let Some(ended) = ended {
        ended
    } else if run.paused && run.cancel.is_none() {
        Status::Paused
    } else if !next.is_work() && run.waits_for_others() {
        Status::Waiting
    } else {
        Status::Queued
    };
    (status, due_at)
}

/// What a step makes of a run that it was woken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// It takes the run.
    Take,
    /// Another driver holds it.
    Busy,
    /// There is nothing to do.
    Idle,
}

/// Whether a step may take `run` at `now`. `holder_is_gone`: whoever holds it is known to be dead.
#[must_use]
pub fn claim(run: &Run, now: Millis, holder_is_gone: bool) -> Claim {
    match &run.driver {
        Some(driver) if !holder_is_gone && now < driver.until.plus(TAKEOVER_MARGIN_MS) => Claim::Busy,
        Some(_) => Claim::Take,
        None if next(run, now).is_work() => Claim::Take,
        None => Claim::Idle,
    }
}

/// When a message is to wake `run`, sent at `now`. What is further away than a message can be delayed
/// is the sweep's.
#[must_use]
pub fn wake_at(run: &Run, now: Millis) -> Option<Millis> {
    // A driver that holds the run sees what was written at its next append (I4).
    let (_, due_at) = run.driver.is_none().then(|| standing(run, now))?;
    due_at.filter(|due_at| due_at.since(now) <= LONGEST_DELAY_MS)
}

/// Where the sweep moves the `due_at` of a run that it wakes at `now`, and woke `wakes` times before
/// without anything happening.
#[must_use]
pub fn postponed(now: Millis, wakes: u32) -> Millis {
    now.plus(FIRST_POSTPONE_MS.saturating_mul(1 << wakes.min(10)).min(LONGEST_POSTPONE_MS))
}

fn title(run: &Run) -> String {
    let said = run.messages.first().into_iter().flat_map(|message| &message.content);
    let first = said.filter_map(|content| match content {
        Content::Text { text } => text.trim().lines().next(),
        Content::Image { .. } => None,
    });
    let line = first.into_iter().next().unwrap_or_default();
    json::cut(line, TITLE_BYTES).to_owned()
}
