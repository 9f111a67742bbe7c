//! A run's state, as the fold of its journal gives it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::Serialize;
use serde_json::Value;

use crate::{
    agent::{Definition, Mode},
    entry::{CallResult, Outcome},
    ids::{CallKey, Digest, DriverId, Millis, Principal, RequestKey, RunId},
    message::{Content, ModelRef, ReplyBlock, StopReason, Usage},
    plan,
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
    /// When it was started.
    pub created_at: Millis,
    /// When its last entry was written.
    pub updated_at: Millis,
    /// How many entries it has: the next free index.
    pub len: u32,
    /// The model's replies and what became of their calls.
    pub turns: Vec<Turn>,
    /// What people said, the input first.
    pub messages: Vec<UserMessage>,
    /// All requests ever opened.
    pub requests: BTreeMap<RequestKey, OpenedRequest>,
    /// The driver that holds the run, if one does.
    pub driver: Option<Driver>,
    /// Whether it is paused.
    pub paused: bool,
    /// Who cancelled it, if somebody did.
    pub cancel: Option<Cancel>,
    /// How it ended, if it did.
    pub outcome: Option<Outcome>,
    /// What its model calls used.
    pub usage: Usage,
    /// Time that drivers held it, in milliseconds, without the current one.
    pub worked_ms: u64,
    /// Where the current model call stands.
    pub trouble: Trouble,
    /// Deaths of drivers since something last happened.
    pub deaths: Deaths,
    /// Every tool call id that is on the wire.
    pub(crate) wire_ids: BTreeSet<String>,
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
    /// It may have run; only a person can say what now.
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
    /// The run was cancelled first.
    Cancelled,
}

impl Ending {
    /// Whether it is not known what the call did.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        match self {
            Self::GaveUp { .. } | Self::Abandoned | Self::Expired { kind: RequestKind::Uncertain } => true,
            Self::Returned { .. }
            | Self::NotSent { .. }
            | Self::Denied { .. }
            | Self::Invalid { .. }
            | Self::Declined { .. }
            | Self::Answered { .. }
            | Self::Expired { .. }
            | Self::Settled { .. }
            | Self::Cancelled => false,
        }
    }
}

/// What a person said.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UserMessage {
    /// The index of its entry.
    pub index: u32,
    /// What they said.
    pub content: Vec<Content>,
}

/// A request that was opened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OpenedRequest {
    /// The call that waits or waited.
    pub call: CallKey,
    /// What is asked.
    pub kind: RequestKind,
    /// Until when.
    pub windows: Windows,
    /// Where it stands.
    pub status: RequestStatus,
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
    /// When the call can be tried again.
    pub retry_at: Option<Millis>,
    /// Why it can't, if it can't.
    pub gave_up: Option<String>,
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

    /// The calls that can still have something to come: those of the last turn.
    pub fn open_calls(&self) -> impl Iterator<Item = &Call> {
        self.turns.last().into_iter().flat_map(|turn| &turn.calls)
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

/// Text of a reply: its text blocks joined by blank lines.
#[must_use]
pub fn reply_text(content: &[ReplyBlock]) -> String {
    let texts = content.iter().filter_map(|block| match block {
        ReplyBlock::Text { text, .. } if !text.trim().is_empty() => Some(text.as_str()),
        ReplyBlock::Text { .. }
        | ReplyBlock::ToolCall { .. }
        | ReplyBlock::Reasoning { .. }
        | ReplyBlock::Opaque { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

impl Call {
    /// The arguments as the model gave them.
    #[must_use]
    pub fn raw_arguments<'a>(&self, run: &'a Run) -> Option<&'a str> {
        let turn = run.turns.binary_search_by_key(&self.key.entry, |turn| turn.index).ok()?;
        match run.turns[turn].content.get(self.block)? {
            ReplyBlock::ToolCall { arguments, .. } => Some(arguments),
            ReplyBlock::Text { .. } | ReplyBlock::Reasoning { .. } | ReplyBlock::Opaque { .. } => None,
        }
    }

    /// The arguments that run: canonical, an object.
    ///
    /// # Errors
    /// What is wrong with them, for the model.
    pub fn arguments(&self, run: &Run) -> Result<Value, String> {
        plan::arguments(self.raw_arguments(run).unwrap_or_default())
    }

    /// Whether this result of this attempt is still news: it is the latest attempt, and nothing and
    /// nobody has settled the call since. A late writer is fenced by this (case 37). One that comes
    /// after a person said "retry" and before the next attempt is announced spares the repetition. That the outcome
    /// is not known is news only while the call runs: later it is known to be unknown, or decided. So it is with a
    /// further attempt that was not sent, which leaves unknown what the one before it did.
    #[must_use]
    pub fn takes(&self, attempt: u32, result: &CallResult) -> bool {
        let says_something = match result {
            CallResult::Returned { .. } => true,
            CallResult::NotSent { .. } => attempt == 1,
            CallResult::Unknown { .. } => false,
        };
        let news = match &self.state {
            CallState::Running { .. } => true,
            CallState::Unknown { .. } | CallState::Ready => says_something,
            CallState::Pending { .. } => says_something && self.attempts > 0,
            CallState::Asking(_) | CallState::Done(_) => false,
        };
        attempt > 0 && attempt == self.attempts && news
    }
}
