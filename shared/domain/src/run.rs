//! A run's state, as the fold of its journal gives it.

mod call;
mod origin;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub use origin::Forked;
use serde::Serialize;
use serde_json::Value;

use crate::{
    agent::{Definition, Mode},
    budget::{self, Amounts, Consumed, Spent},
    delegate::Parent,
    entry::{FinalStatus, Outcome},
    ids::{CallKey, Digest, DriverId, Millis, Principal, RequestKey, RunId},
    kv::State,
    message::{Content, ModelRef, ReplyBlock, StopReason, Usage, reply_text},
    request::{RequestKind, RequestStatus},
    windows::Windows,
};

/// A run, folded.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its name.
    pub id: RunId,
    /// The agent's definition, as frozen at the start.
    pub definition: Arc<Definition>,
    /// The digest that it is stored under.
    pub definition_digest: Digest,
    /// Whose run it is.
    pub owner: Principal,
    /// The agent's name.
    pub agent: String,
    /// The mode now.
    pub mode: Mode,
    /// The client's labels.
    pub metadata: BTreeMap<String, String>,
    /// The run that delegated to it, if one did.
    pub parent: Option<Parent>,
    /// The forks it came by, in the order of the journal: none for a run that was started.
    pub forks: Vec<Forked>,
    /// When it was started, or forked.
    pub created_at: Millis,
    /// When its last entry was written.
    pub updated_at: Millis,
    /// How many entries it has: the next free index.
    pub len: u32,
    /// The model's replies and what became of their calls.
    pub turns: Vec<Turn>,
    /// What people said, the input first, and what came late, in the order of the journal.
    pub messages: Vec<UserMessage>,
    /// All requests ever opened.
    pub requests: BTreeMap<RequestKey, OpenedRequest>,
    /// Calls that the conversation went on without and that have no ending yet.
    pub moved_on: BTreeSet<CallKey>,
    /// How often the agent asked for the same thing again.
    pub repeats: Repeats,
    /// The driver that holds the run, if one does.
    pub driver: Option<Driver>,
    /// Whether it is paused.
    pub paused: bool,
    /// Who cancelled it, if somebody did.
    pub cancel: Option<Cancel>,
    /// How it ended, if it did.
    pub outcome: Option<Outcome>,
    /// What its tools keep for it.
    pub state: State,
    /// What its model calls used.
    pub usage: Usage,
    /// What they cost.
    pub cost: Spent,
    /// What the runs that it delegated to have used.
    pub children: Consumed,
    /// What it may use: the agent's limits, and what was added.
    pub ceilings: Amounts,
    /// Time that drivers held it, in milliseconds, without the current one.
    pub worked_ms: u64,
    /// Where the current model call stands.
    pub trouble: Trouble,
    /// Deaths of drivers since something last happened.
    pub deaths: Deaths,
    /// Every tool call id that is on the wire.
    pub wire_ids: BTreeSet<String>,
}

/// A model's reply and its calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Turn {
    /// The index of its entry.
    pub index: u32,
    /// Which model replied.
    pub model: ModelRef,
    /// The reply.
    pub content: Vec<ReplyBlock>,
    /// Why it stopped.
    pub stop: StopReason,
    /// How many entries its prompt contained.
    pub seen: u32,
    /// Tokens of its prompt and of itself, if they are known.
    pub tokens: Option<u64>,
    /// Its calls, in order.
    pub calls: Vec<Call>,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Call {
    /// Its key within the run.
    pub key: CallKey,
    /// Place of its block in the reply.
    pub block: usize,
    /// The tool's name as the model wrote it.
    pub tool: String,
    /// The id that it has on the wire: the model's own where it is unique and legal.
    pub wire_id: String,
    /// Attempts that were announced.
    pub attempts: u32,
    /// Whether a person said that it may run.
    pub approved: bool,
    /// The arguments that a person put in the place of the model's, if one did.
    pub edited: Option<Value>,
    /// The request that the conversation stopped waiting for, if it did. The call's result is then
    /// "pending, not confirmed" for ever; its ending reaches the model as a message.
    pub moved_on: Option<RequestKey>,
    /// Whether the tool said of the latest attempt that another system completes it.
    pub later: bool,
    /// Where it stands.
    pub state: CallState,
}

/// Where a call stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CallState {
    /// It may run.
    Ready,
    /// A person must be asked, and was not yet.
    Asking(AskWhy),
    /// A person was asked.
    Pending {
        /// The request.
        request: RequestKey,
    },
    /// The current driver runs it.
    Running {
        /// Which attempt.
        attempt: u32,
    },
    /// Another run does it.
    Delegated {
        /// The attempt that started that one.
        attempt: u32,
    },
    /// It may have run, or another system is to complete it; only that one, or a person, can say what now.
    Unknown {
        /// The attempt whose outcome is not known.
        attempt: u32,
        /// Why it is not known.
        why: String,
    },
    /// It has a result.
    Done(Ending),
}

/// Why a person must be asked about a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AskWhy {
    /// Policy says so.
    Approval {
        /// In these words.
        reason: String,
        /// Whether it is the safety floor that does.
        floor: bool,
    },
    /// It is a question.
    Question,
}

/// How a call ended. What the model reads follows from this alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The tool answered.
    Returned {
        /// Its answer.
        content: Vec<Content>,
        /// Whether it says that it failed.
        is_error: bool,
    },
    /// The tool was not reached.
    NotSent {
        /// Why.
        why: String,
    },
    /// Policy refused it.
    Denied {
        /// Why.
        because: String,
    },
    /// It could not run.
    Invalid {
        /// What was wrong with it.
        problem: String,
    },
    /// A person refused it.
    Declined {
        /// What they said about it.
        reason: Option<String>,
    },
    /// A person answered the question.
    Answered {
        /// The answer.
        answer: Value,
    },
    /// Nobody decided in time.
    Expired {
        /// What was asked.
        kind: RequestKind,
    },
    /// A person said what an uncertain call had done.
    Settled {
        /// Its result, in their words.
        result: String,
    },
    /// A person left an uncertain call as it is.
    Abandoned,
    /// All attempts ended without a known outcome, and repeating it was harmless.
    GaveUp {
        /// Why the last one did.
        why: String,
    },
    /// The same call waits already, and this one adds nothing to it.
    Joined {
        /// The request of the one that waits.
        request: RequestKey,
    },
    /// A person sent a message instead of deciding.
    Superseded,
    /// The run ended first.
    Cancelled,
}

impl Ending {
    /// Whether it is not known what the call did.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        match self {
            Self::GaveUp { .. }
            | Self::Abandoned
            | Self::Expired { kind: RequestKind::Uncertain | RequestKind::External } => true,
            Self::Returned { .. }
            | Self::NotSent { .. }
            | Self::Denied { .. }
            | Self::Invalid { .. }
            | Self::Declined { .. }
            | Self::Answered { .. }
            | Self::Expired { .. }
            | Self::Settled { .. }
            | Self::Joined { .. }
            | Self::Superseded
            | Self::Cancelled => false,
        }
    }
}

/// What the model is told between its replies, apart from results.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UserMessage {
    /// The index of its entry.
    pub index: u32,
    /// What it says.
    pub content: Vec<Content>,
    /// The call whose late ending it tells of; none: a person said it.
    pub late: Option<Late>,
}

/// The ending of a call that the conversation went on without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Late {
    /// The call.
    pub call: CallKey,
    /// Whether it came of a decision, so that the agent is woken for it where it is to be.
    pub decided: bool,
}

/// How often an agent asked for the same thing again (E10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, serde::Deserialize)]
pub struct Repeats {
    /// While the request for it was still open.
    pub while_pending: u32,
    /// After it was declined or had expired.
    pub after_refusal: u32,
}

/// A request that was opened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OpenedRequest {
    /// The call that waits or waited; none: it is the run that has reached a ceiling.
    pub call: Option<CallKey>,
    /// What is asked.
    pub kind: RequestKind,
    /// Until when.
    pub windows: Windows,
    /// Where it stands.
    pub status: RequestStatus,
    /// Whether the conversation went on without it.
    pub moved_on: bool,
}

impl OpenedRequest {
    /// The next moment at which its time is over: that of the conversation, or its own.
    #[must_use]
    pub fn times_out_at(&self) -> Millis {
        if self.moved_on { self.windows.expires_at() } else { self.windows.stops_waiting_at() }
    }
}

/// The driver that holds a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Driver {
    /// Which.
    pub id: DriverId,
    /// When it claimed the run.
    pub since: Millis,
    /// When its platform kills it.
    pub until: Millis,
}

/// A cancellation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cancel {
    /// By whom.
    pub by: Principal,
    /// Why.
    pub why: String,
}

/// Failures of the model call that is due.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Trouble {
    /// Failed attempts in a row at the current model.
    pub attempts: u32,
    /// Place of the current model in the agent's list.
    pub model: u32,
    /// When the current model was first asked for this reply, once that has failed.
    pub since: Option<Millis>,
    /// When the call can be tried again.
    pub retry_at: Option<Millis>,
    /// Why it can't, if it can't.
    pub gave_up: Option<String>,
    /// Whether nobody raised in time the ceiling that it would pass.
    pub unraised: bool,
}

/// Drivers that died since the run last made progress.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Deaths {
    /// Drivers that never said why.
    pub unexplained: u32,
    /// Drivers that panicked.
    pub panics: u32,
    /// When the first of them was noticed.
    pub since: Option<Millis>,
    /// When the last of them panicked.
    pub last: Option<Millis>,
}

impl Deaths {
    /// When to try again after a panic: after 1 s, 4 s, 16 s, … so that a passing cause can pass.
    #[must_use]
    pub fn retry_at(&self) -> Option<Millis> {
        let exponent = self.panics.saturating_sub(1).min(5);
        self.last.map(|last| last.plus(1_000 << (2 * exponent)))
    }
}

/// Status of a run, as clients see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// There is something to do, and nobody does it yet.
    Queued,
    /// A driver holds it.
    Running,
    /// It waits for a person.
    Waiting,
    /// Somebody paused it.
    Paused,
    /// It ended well.
    Completed,
    /// It could not go on.
    Failed,
    /// Somebody ended it.
    Cancelled,
}

impl Run {
    /// The call of this key.
    #[must_use]
    pub fn call(&self, key: CallKey) -> Option<&Call> {
        let turn = self.turns.binary_search_by_key(&key.entry, |turn| turn.index).ok()?;
        self.turns[turn].calls.get(key.ordinal as usize)
    }

    /// The calls of all turns.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.turns.iter().flat_map(|turn| &turn.calls)
    }

    /// The calls that can still have something to come: those that the conversation went on without,
    /// and those of the last turn.
    pub fn open_calls(&self) -> impl Iterator<Item = &Call> {
        let last = self.turns.last();
        let earlier = self.moved_on.iter().filter(move |key| last.is_none_or(|turn| turn.index != key.entry));
        earlier.filter_map(|key| self.call(*key)).chain(last.into_iter().flat_map(|turn| &turn.calls))
    }

    /// The calls that the conversation waits for.
    pub fn awaited_calls(&self) -> impl Iterator<Item = &Call> {
        let last = self.turns.last().into_iter().flat_map(|turn| &turn.calls);
        last.filter(|call| call.moved_on.is_none() && !matches!(call.state, CallState::Done(_)))
    }

    /// Whether the conversation waits for a person and for nothing else.
    #[must_use]
    pub fn waits_for_person(&self) -> bool {
        let mut awaited = self.awaited_calls().peekable();
        (awaited.peek().is_some() || budget::pending(self).is_some())
            && awaited.all(|call| match call.state {
                CallState::Asking(_) | CallState::Pending { .. } | CallState::Unknown { .. } => true,
                CallState::Ready | CallState::Running { .. } | CallState::Delegated { .. } | CallState::Done(_) => {
                    false
                }
            })
    }

    /// Whether the conversation waits for people, or runs that it delegated to, and for nothing else.
    #[must_use]
    pub fn waits_for_others(&self) -> bool {
        let delegated = |call: &Call| matches!(call.state, CallState::Delegated { .. });
        self.waits_for_person()
            || (self.awaited_calls().any(delegated)
                && self.awaited_calls().all(|call| match call.state {
                    CallState::Asking(_)
                    | CallState::Pending { .. }
                    | CallState::Unknown { .. }
                    | CallState::Delegated { .. } => true,
                    // One that delegates waits its turn.
                    CallState::Ready => self.delegates(call),
                    CallState::Running { .. } | CallState::Done(_) => false,
                }))
    }

    /// Whether this call goes to another agent.
    #[must_use]
    pub fn delegates(&self, call: &Call) -> bool {
        self.definition.tool(&call.tool).is_some_and(|tool| tool.delegates_to().is_some())
    }

    /// Whether it ended in a way that lets nothing run or be decided any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.outcome.is_some() && !self.has_completed()
    }

    /// Whether it ended well: then what the conversation went on without can still be decided and run.
    #[must_use]
    pub fn has_completed(&self) -> bool {
        self.outcome.as_ref().is_some_and(|outcome| outcome.status == FinalStatus::Completed)
    }

    /// Requests that wait, with their keys.
    pub fn pending(&self) -> impl Iterator<Item = (RequestKey, &OpenedRequest)> {
        self.requests
            .iter()
            .filter(|(_, request)| request.status == RequestStatus::Pending)
            .map(|(key, request)| (*key, request))
    }

    /// The model to call next.
    #[must_use]
    pub fn model(&self) -> &ModelRef {
        let models = &self.definition.models;
        models.get(self.trouble.model as usize).unwrap_or(&models[0])
    }

    /// Text of the last reply, its text blocks joined by blank lines; empty before the first.
    #[must_use]
    pub fn output(&self) -> String {
        self.turns.last().map(|turn| reply_text(&turn.content)).unwrap_or_default()
    }
}
