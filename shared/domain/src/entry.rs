//! The entries of a journal: facts, in past tense.
//!
//! An entry is written once, at the next free index, and never changed. Its body is stored as JSON
//! under the name of its kind; a kind that this release doesn't know makes the journal
//! [corrupt](crate::Corrupt) rather than being folded over (I1).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::{
    agent::{Definition, Mode},
    budget::Consumed,
    decide::Decision,
    delegate::Parent,
    display::reply,
    ids::{CallKey, Digest, DriverId, EntryId, Millis, Principal, RequestKey, RunId},
    kv::KvPatch,
    message::{Content, ModelRef, ReplyBlock, StopReason, Usage, is_false},
    plan::Plan,
    request::{DecisionKind, RequestKind, Via},
    retry::FailureClass,
    windows::Windows,
};

/// Version of the stored form of entries (A18). A release reads its own version and all earlier ones.
pub const FORMAT: u32 = 1;

/// One entry of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Entry {
    /// Its place, from 0.
    pub index: u32,
    /// Identity of the intended write.
    pub entry_id: EntryId,
    /// When it was written, by its writer's clock.
    pub at: Millis,
    /// The driver that wrote it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<DriverId>,
    /// What happened.
    pub fact: Fact,
}

impl Entry {
    /// The entry, of a run of `agent`, as API clients read it: `{index, kind, at, driver?, …the fact's
    /// fields}`, `at` in milliseconds, the secrets of calls masked.
    #[must_use]
    pub fn view(&self, agent: &Definition) -> Value {
        let mut view = match serde_json::to_value(reply::fact(&self.fact, agent)) {
            Ok(Value::Object(mut tagged)) => match tagged.remove("body") {
                Some(Value::Object(body)) => body,
                Some(_) | None => serde_json::Map::new(),
            },
            Ok(_) | Err(_) => serde_json::Map::new(),
        };
        view.insert("index".into(), self.index.into());
        view.insert("kind".into(), self.fact.kind().into());
        view.insert("at".into(), self.at.0.into());
        if let Some(driver) = &self.driver {
            view.insert("driver".into(), driver.0.clone().into());
        }
        Value::Object(view)
    }
}

/// A call that was started, and for which time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Dispatched {
    /// The call.
    pub call: CallKey,
    /// Which attempt this is, from 1.
    pub attempt: u32,
}

/// How an attempt at a call ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum CallResult {
    /// The tool answered.
    Returned {
        /// Its answer, raw.
        content: Vec<Content>,
        /// Whether it says that it failed.
        #[serde(default, skip_serializing_if = "is_false")]
        is_error: bool,
    },
    /// It is known that the tool was not reached.
    NotSent {
        /// Why.
        why: String,
    },
    /// The tool was reached, or may have been; what it did is not known.
    Unknown {
        /// Why.
        why: String,
    },
    /// The tool has taken the call, and says that another system, or another run, completes it later.
    Later {},
}

/// A request as the entry that suspends for it names it. Everything else about it follows from the
/// call, or from what the run has used.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Opened {
    /// The call that waits; none: it is the run that has reached a ceiling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallKey>,
    /// What is asked.
    pub kind: RequestKind,
    /// Until when.
    pub windows: Windows,
    /// What can be decided.
    pub decisions: Vec<DecisionKind>,
}

/// A call that got another verdict before it ran or was asked about, because the mode changed, or before it
/// was made, because the rules did.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Replanned {
    /// The call.
    pub call: CallKey,
    /// Its plan from now on.
    pub plan: Plan,
}

/// Why a driver stopped without suspending or finishing the run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum DriverStop {
    /// Its time ran short.
    HandedOff,
    /// A panic outside any tool.
    Crashed {
        /// The panic's message, cut.
        message: String,
    },
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalStatus {
    /// The model said all it wanted.
    Completed,
    /// It could not go on.
    Failed,
    /// Somebody ended it.
    Cancelled,
}

/// A run's end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub status: FinalStatus,
    /// Why, in one word or sentence.
    pub why: String,
    /// Who ended it, if somebody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Principal>,
    /// Calls of which it is not known what they did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_calls: Vec<CallKey>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", content = "body")]
pub enum Fact {
    /// Somebody started the run. Always entry 0, and only there.
    RunStarted {
        /// Whose run it is.
        owner: Principal,
        /// The agent's name.
        agent: String,
        /// The agent's definition, stored under this digest.
        definition: Digest,
        /// The mode it starts in.
        mode: Mode,
        /// What the agent is asked.
        input: Vec<Content>,
        /// The client's own labels.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        metadata: BTreeMap<String, String>,
        /// The run that delegated to it, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<Parent>,
    },
    /// A driver claimed the run.
    DriverStarted {
        /// The moment at which its platform kills it.
        until: Millis,
    },
    /// The driver stopped, and the run goes on with another.
    DriverStopped {
        /// Why.
        #[serde(flatten)]
        stop: DriverStop,
    },
    /// A model replied.
    ModelReplied {
        /// Which.
        model: ModelRef,
        /// Its reply.
        content: Vec<ReplyBlock>,
        /// Why it stopped.
        stop: StopReason,
        /// What it used.
        usage: Usage,
        /// How many entries its prompt contained.
        seen: u32,
        /// What becomes of each call, in order; [`Plan::Start`] announces its first attempt.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<Plan>,
    },
    /// A model call failed.
    ModelFailed {
        /// Which model.
        model: ModelRef,
        /// What kind of failure.
        class: FailureClass,
        /// What it said, cut.
        message: String,
        /// Which attempt in a row at this model it was, from 1.
        attempt: u32,
        /// When to try again; none: the run fails.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Millis>,
        /// Time since this model was first asked for this reply, in milliseconds: all attempts and
        /// all pauses between them.
        #[serde(default)]
        waited_ms: u64,
        /// Place in the agent's list of the model to try next.
        next_model: u32,
        /// Whether it is known that the provider did nothing for it, so that it costs nothing.
        #[serde(default, skip_serializing_if = "is_false")]
        free: bool,
    },
    /// Calls that were not announced with the reply are about to be made.
    CallDispatched {
        /// Which.
        calls: Vec<Dispatched>,
    },
    /// Calls that were about to be made may not run any more, because the rules changed since.
    CallsReplanned {
        /// What becomes of them.
        calls: Vec<Replanned>,
    },
    /// An attempt at a call ended.
    CallFinished {
        /// Which call.
        call: CallKey,
        /// Which attempt.
        attempt: u32,
        /// How.
        result: CallResult,
        /// What its tool keeps for the run from now on. Only with an answer.
        #[serde(default, skip_serializing_if = "KvPatch::is_empty")]
        kv: KvPatch,
        /// What the run has used that it was delegated to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        used: Option<Consumed>,
    },
    /// The driver stopped because all that is left is to wait.
    Suspended {
        /// Requests that this opens.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        requests: Vec<Opened>,
        /// When to look again even if nothing happens.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Millis>,
    },
    /// A request was decided, once and for all.
    RequestDecided {
        /// Which.
        request: RequestKey,
        /// What was decided.
        decision: Decision,
        /// By whom.
        by: Principal,
        /// The digest of what the person saw, where the decision is about arguments.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<Digest>,
        /// By what way it came, if not from somebody who had signed in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        via: Option<Via>,
    },
    /// The conversation goes on without waiting any longer for these requests, which can still be
    /// decided.
    WaitExpired {
        /// Which requests.
        requests: Vec<RequestKey>,
    },
    /// Nobody decided in time.
    RequestExpired {
        /// Which requests.
        requests: Vec<RequestKey>,
    },
    /// A person said something.
    MessageAdded {
        /// Who.
        by: Principal,
        /// What.
        content: Vec<Content>,
        /// Whether it takes the place of the decisions that the conversation waited for.
        #[serde(default, skip_serializing_if = "is_false")]
        supersedes: bool,
    },
    /// Somebody changed the mode.
    ModeChanged {
        /// Who.
        by: Principal,
        /// To which.
        mode: Mode,
        /// What becomes of calls that have neither run nor been asked about.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<Replanned>,
    },
    /// Somebody paused the run: nothing new starts.
    Paused {
        /// Who.
        by: Principal,
    },
    /// Somebody let it go on.
    Resumed {
        /// Who.
        by: Principal,
    },
    /// Somebody cancelled it. Running calls settle; nothing is undone.
    CancelRequested {
        /// Who.
        by: Principal,
        /// Why, if they said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The run had completed, and goes on because the agent must be told of a late decision.
    Reopened {},
    /// All entries before this one are a copy of another run's; from here on it is a run of its own.
    Forked {
        /// The other run: the one that wrote the last of them.
        from: RunId,
        /// The last entry that was copied: the one before this.
        last: u32,
        /// Who.
        by: Principal,
        /// The mode from now on.
        mode: Mode,
        /// The client's labels from now on.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        metadata: BTreeMap<String, String>,
        /// What becomes of the calls that have no result and were not announced.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<Replanned>,
    },
    /// The run ended.
    RunFinished(Outcome),
}

/// A body that is not what its kind says.
#[derive(Debug, thiserror::Error)]
#[error("entry of kind {kind:?} cannot be read: {source}")]
pub struct BadFact {
    kind: String,
    source: serde_json::Error,
}

impl Fact {
    /// The kind's name, as it is stored and shown.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::RunStarted { .. } => "RunStarted",
            Self::DriverStarted { .. } => "DriverStarted",
            Self::DriverStopped { .. } => "DriverStopped",
            Self::ModelReplied { .. } => "ModelReplied",
            Self::ModelFailed { .. } => "ModelFailed",
            Self::CallDispatched { .. } => "CallDispatched",
            Self::CallsReplanned { .. } => "CallsReplanned",
            Self::CallFinished { .. } => "CallFinished",
            Self::Suspended { .. } => "Suspended",
            Self::RequestDecided { .. } => "RequestDecided",
            Self::WaitExpired { .. } => "WaitExpired",
            Self::RequestExpired { .. } => "RequestExpired",
            Self::MessageAdded { .. } => "MessageAdded",
            Self::ModeChanged { .. } => "ModeChanged",
            Self::Paused { .. } => "Paused",
            Self::Resumed { .. } => "Resumed",
            Self::CancelRequested { .. } => "CancelRequested",
            Self::Reopened {} => "Reopened",
            Self::Forked { .. } => "Forked",
            Self::RunFinished(_) => "RunFinished",
        }
    }

    /// The kind and the JSON text of the body, as a store keeps them.
    ///
    /// # Errors
    /// If serde cannot serialize the body, which no fact's types give cause for.
    pub fn encode(&self) -> Result<(&'static str, String), serde_json::Error> {
        let mut text = serde_json::to_string(self)?;
        // Adjacent tagging writes {"kind":"<kind>","body":<body>}: the body is what stands between.
        let head = "{\"kind\":\"\",\"body\":".len() + self.kind().len();
        text.truncate(text.len() - 1);
        text.drain(..head);
        Ok((self.kind(), text))
    }

    /// The fact that a store keeps as this kind and body.
    ///
    /// # Errors
    /// For an unknown kind or a body that does not fit it. The journal is then corrupt, or written
    /// by a later release.
    pub fn decode(kind: &str, body: &str) -> Result<Self, BadFact> {
        let bad = |source| BadFact { kind: kind.chars().take(40).collect(), source };
        // By itself it is one value: what stands beside or after it would else be read with it.
        let body: &RawValue = serde_json::from_str(body).map_err(bad)?;
        let kind_json = serde_json::to_string(kind).map_err(bad)?;
        serde_json::from_str(&format!("{{\"kind\":{kind_json},\"body\":{body}}}")).map_err(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_survives_its_stored_form() {
        let by = Principal { tenant: "t".into(), subject: "s".into() };
        let mut kv = KvPatch::new();
        kv.set("cursor", &serde_json::json!({"page": 3})).unwrap();
        kv.remove("old").unwrap();
        for fact in [
            Fact::DriverStarted { until: Millis(5) },
            Fact::DriverStopped { stop: DriverStop::Crashed { message: "x}\"y".into() } },
            Fact::Suspended { requests: vec![], until: None },
            Fact::CallFinished {
                call: CallKey::new(3, 1),
                attempt: 1,
                result: CallResult::Returned { content: vec![Content::text("é\n}")], is_error: false },
                kv,
                used: None,
            },
            Fact::CancelRequested { by, reason: None },
            Fact::Reopened {},
            Fact::RunFinished(Outcome {
                status: FinalStatus::Failed,
                why: "x".into(),
                by: None,
                unknown_calls: vec![CallKey::new(1, 0)],
            }),
        ] {
            let (kind, body) = fact.encode().unwrap();
            assert!(serde_json::from_str::<Value>(&body).unwrap().is_object(), "{body}");
            assert_eq!(Fact::decode(kind, &body).unwrap(), fact);
        }
    }

    /// Case 55: what is stored is data. A kind that is none of ours is refused, whatever it names; a type
    /// that a result names is text in that result.
    #[test]
    fn case_55_stored_things_are_plain_data() {
        assert!(Fact::decode("os.system", "{\"args\":[\"rm\"]}").is_err());
        assert!(Fact::decode("RunTeleported", "{}").is_err());
        assert!(Fact::decode("DriverStarted", "{}").is_err());
        assert!(Fact::decode("DriverStarted", "{\"until\":1}},{").is_err());
        let text = r#"{"lc":2,"type":"constructor","id":["os","system"],"kwargs":{"command":"rm"}}"#;
        let result = CallResult::Returned { content: vec![Content::text(text)], is_error: false };
        let fact = Fact::CallFinished { call: CallKey::new(3, 1), attempt: 1, result, kv: KvPatch::new(), used: None };
        let (kind, body) = fact.encode().unwrap();
        assert!(!body.contains("kv"), "nothing is stored of an empty patch: {body}");
        assert_eq!(Fact::decode(kind, &body).unwrap(), fact);
    }
}
