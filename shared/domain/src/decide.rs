//! Judging an answer against the persisted request. Pure: what it accepts is then written under a
//! condition that says the same once more (I6), so a race is settled by the store, not here.

mod deciding;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::deciding::{Deciding, record};
use crate::{
    agent::Approvers,
    budget::Amounts,
    display::{self, secret},
    ids::{Caller, Digest, Millis},
    json, plan,
    request::{DecisionKind, Offer, Request, RequestStatus, RuleScope, Settled},
};

/// Longest text that a person can give as an answer, a reason or a result, in bytes.
pub const MAX_TEXT_BYTES: usize = 16 * 1024;
/// Largest arguments that a person can put in the place of the model's, in bytes of canonical text.
pub const MAX_EDIT_BYTES: usize = 64 * 1024;

/// A decision that can be stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// The call runs as it was shown.
    Approve,
    /// The call runs as it was shown, and its like from now on without asking.
    Always {
        /// Whose calls.
        scope: RuleScope,
        /// Those whose arguments match this pattern of the agent file; none: those with exactly these.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pattern: Option<String>,
    },
    /// The call runs with these arguments instead of the model's.
    Edit {
        /// The arguments, canonical: an object that fits the tool's schema.
        arguments: Value,
    },
    /// The call does not run.
    Deny {
        /// What the person said about it, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The answer to a question.
    Answer {
        /// The answer: a string, a number or a boolean.
        answer: Value,
        /// Whether the chosen option ends the run.
        #[serde(default, skip_serializing_if = "crate::message::is_false")]
        cancels: bool,
    },
    /// What becomes of a call whose outcome is not known.
    Settle {
        /// Which way.
        resolution: Resolution,
    },
    /// The run may use more, and goes on.
    Raise {
        /// How much more.
        amount: Amounts,
    },
    /// The run ends.
    Stop,
}

impl Decision {
    /// Which of the decisions on offer it is.
    #[must_use]
    pub fn kind(&self) -> DecisionKind {
        match self {
            Self::Approve => DecisionKind::Approve,
            Self::Always { .. } => DecisionKind::Always,
            Self::Edit { .. } => DecisionKind::Edit,
            Self::Deny { .. } => DecisionKind::Deny,
            Self::Answer { .. } => DecisionKind::Answer,
            Self::Settle { .. } => DecisionKind::Settle,
            Self::Raise { .. } => DecisionKind::Raise,
            Self::Stop => DecisionKind::Stop,
        }
    }

    /// What this decision promises and what it does not, in words (E4): that it is decided once is one
    /// thing, how often something runs is another.
    #[must_use]
    pub fn note(&self) -> &'static str {
        match self {
            Self::Approve => {
                "decided once and for all; the call may run, with exactly the arguments that were shown, unless the \
                 run is paused or ends first. Should a crash leave open what it did, it is repeated only if its tool \
                 allows that or a person says so"
            }
            Self::Always { .. } => {
                "decided once and for all; the call may run as with an approval, and from the next call on so may its \
                 like without anybody being asked, until the rule is revoked. It never passes a deny rule or the safety \
                 floor"
            }
            Self::Edit { .. } => {
                "decided once and for all; the call may run, with exactly the arguments that you gave, unless the run is \
                 paused or ends first, and the agent is told that a person changed them. Should a crash leave open what \
                 it did, it is repeated only if its tool allows that or a person says so"
            }
            Self::Deny { .. } => "decided once and for all; the call does not run",
            Self::Answer { cancels: false, .. } => "decided once and for all; the agent gets this answer",
            Self::Answer { cancels: true, .. } => "decided once and for all; the run ends, and nothing is undone",
            Self::Settle { resolution: Resolution::Result(_) } => {
                "decided once and for all; this is the call's result, and nothing runs"
            }
            Self::Settle { resolution: Resolution::Retry } => {
                "decided once and for all; the call runs again with the same execution key, and if the attempt \
                 before it did reach the tool, it has then run twice"
            }
            Self::Settle { resolution: Resolution::Abort } => {
                "decided once and for all; the call is left as it is, and the agent is told that nobody knows what it did"
            }
            Self::Raise { .. } => {
                "decided once and for all; the run goes on, and asks again when it reaches a ceiling. A model call that \
                 began below a ceiling can end above it"
            }
            Self::Stop => "decided once and for all; the run ends, and nothing is undone",
        }
    }
}

/// The ways to settle a call whose outcome is not known (B6).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// It did happen, and this was its result.
    Result(String),
    /// Run it again, accepting that it may then have run twice.
    Retry,
    /// Leave it; the model is told that nobody knows.
    Abort,
}

/// An answer as a client gives it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Which decision.
    pub decision: DecisionKind,
    /// The digest of what the person saw.
    #[serde(default)]
    pub digest: Option<String>,
    /// With `edit`: what the call is to run with.
    #[serde(default)]
    pub arguments: Option<Value>,
    /// With `always`: whose calls.
    #[serde(default)]
    pub scope: Option<RuleScope>,
    /// With `always`: which pattern, instead of exactly these arguments.
    #[serde(default)]
    pub pattern: Option<String>,
    /// With `deny`: why.
    #[serde(default)]
    pub reason: Option<String>,
    /// With `answer`: the answer. `null` is a missing answer; `false`, `0` and `""` are not.
    #[serde(default)]
    pub answer: Option<Value>,
    /// With `settle`: which way.
    #[serde(default)]
    pub resolution: Option<Resolution>,
    /// With `raise`: how much more the run may use.
    #[serde(default)]
    pub by: Option<Amounts>,
}

impl Answer {
    /// This decision, and nothing said with it.
    #[must_use]
    pub fn new(decision: DecisionKind) -> Self {
        Self {
            decision,
            digest: None,
            arguments: None,
            scope: None,
            pattern: None,
            reason: None,
            answer: None,
            resolution: None,
            by: None,
        }
    }
}

/// Why an answer is not taken. Each message says what to do.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// Not this person's to decide; to them it does not exist (A16).
    #[error("there is no such request")]
    NotFound,
    /// It is theirs to see, and others' to decide.
    #[error(
        "this request is decided by the group {}{}; ask one of its members",
        .0.group,
        if .0.not_requester { ", and not by the person whose run it is" } else { "" }
    )]
    NotEntitled(Approvers),
    /// Somebody was first.
    #[error("this request is already decided")]
    AlreadyDecided(Box<Settled>),
    /// It is gone.
    #[error("this request can no longer be decided: it is {}", .0.as_str())]
    Gone(RequestStatus),
    /// The link through which it came is over.
    #[error("this link has expired; ask for a new one, or sign in and decide there")]
    LinkExpired,
    /// This decision is not one of those offered.
    #[error("the decision {} is not on offer here; offered: {}", given.as_str(), names(offered))]
    NotOffered {
        /// What was given.
        given: DecisionKind,
        /// What is offered.
        offered: Vec<DecisionKind>,
    },
    /// The digest is needed and missing.
    #[error("send the request's `digest` along: it says what the person saw")]
    DigestMissing,
    /// The digest is of something else.
    #[error("the digest sent is not that of the stored arguments; load the request again and show it anew")]
    DigestMismatch,
    /// The answer does not fit the question.
    #[error("{0}")]
    Invalid(String),
    /// The call may not run with the arguments that a person put in the place of the model's.
    #[error("the call cannot run with these arguments: {0}; the request still waits")]
    BadEdit(String),
}

fn names(kinds: &[DecisionKind]) -> String {
    kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", ")
}

/// What became of `request` by `now`, if it can no longer be decided.
///
/// # Errors
/// [`Refusal::AlreadyDecided`] or [`Refusal::Gone`].
pub fn still_open(request: &Request, now: Millis) -> Result<(), Refusal> {
    match (request.status, &request.decision) {
        (RequestStatus::Decided, Some(settled)) => Err(Refusal::AlreadyDecided(Box::new(settled.clone()))),
        (RequestStatus::Pending, _) if request.windows.is_decidable(now) => Ok(()),
        (RequestStatus::Pending, _) => Err(Refusal::Gone(RequestStatus::Expired)),
        (status @ (RequestStatus::Decided | RequestStatus::Expired | RequestStatus::Cancelled), _) => {
            Err(Refusal::Gone(status))
        }
    }
}

/// Checks `answer`, given by `by` at `now`, against the stored `request`. `fits` says what is wrong with
/// arguments that are to take the place of the model's: the tool's schema, and what policy forbids.
///
/// # Errors
/// [`Refusal`], in this order: not theirs, no longer open, not on offer, digest, content.
pub fn check(
    request: &Request,
    answer: &Answer,
    by: &Caller,
    now: Millis,
    fits: &dyn Fn(&Value) -> Result<(), String>,
) -> Result<Decision, Refusal> {
    entitled(request, by)?;
    still_open(request, now)?;
    if !request.decisions.contains(&answer.decision) {
        return Err(Refusal::NotOffered { given: answer.decision, offered: request.decisions.clone() });
    }
    let retries = matches!(answer.resolution, Some(Resolution::Retry));
    check_digest(&request.digest, answer, retries)?;
    let decision = match answer.decision {
        DecisionKind::Approve => {
            only(answer, &[])?;
            Decision::Approve
        }
        DecisionKind::Deny => {
            only(answer, &["reason"])?;
            let reason = answer.reason.as_deref().map(|text| bounded("reason", text)).transpose()?;
            Decision::Deny { reason }
        }
        DecisionKind::Answer => {
            only(answer, &["answer"])?;
            check_answer(request, answer)?
        }
        DecisionKind::Settle => {
            only(answer, &["resolution"])?;
            check_settlement(answer)?
        }
        DecisionKind::Edit => {
            only(answer, &["arguments"])?;
            check_edit(request, answer, fits)?
        }
        DecisionKind::Always => {
            only(answer, &["scope", "pattern"])?;
            check_always(request, answer)?
        }
        DecisionKind::Raise => {
            only(answer, &["by"])?;
            check_raise(request, answer)?
        }
        DecisionKind::Stop => {
            only(answer, &[])?;
            Decision::Stop
        }
    };
    Ok(decision)
}

fn check_digest(stored: &Digest, answer: &Answer, retries: bool) -> Result<(), Refusal> {
    let required = match answer.decision {
        DecisionKind::Approve | DecisionKind::Edit | DecisionKind::Always => true,
        DecisionKind::Settle => retries,
        DecisionKind::Deny | DecisionKind::Answer | DecisionKind::Raise | DecisionKind::Stop => false,
    };
    match &answer.digest {
        None if required => Err(Refusal::DigestMissing),
        None => Ok(()),
        Some(given) if given == stored.as_str() => Ok(()),
        Some(_) => Err(Refusal::DigestMismatch),
    }
}

/// Whether `by` may decide `request`. To whom a request does not exist it is not found; whose run it is sees it, and
/// is told who decides.
///
/// # Errors
/// [`Refusal::NotFound`] or [`Refusal::NotEntitled`].
pub fn entitled(request: &Request, by: &Caller) -> Result<(), Refusal> {
    match &request.approvers {
        _ if request.is_for(by) => Ok(()),
        Some(approvers) if request.owner == by.principal => Err(Refusal::NotEntitled(approvers.clone())),
        Some(_) | None => Err(Refusal::NotFound),
    }
}

/// A field that belongs to another decision is a contradiction, not noise.
fn only(answer: &Answer, allowed: &[&str]) -> Result<(), Refusal> {
    let given = [
        ("arguments", answer.arguments.is_some()),
        ("scope", answer.scope.is_some()),
        ("pattern", answer.pattern.is_some()),
        ("reason", answer.reason.is_some()),
        ("answer", answer.answer.is_some()),
        ("resolution", answer.resolution.is_some()),
        ("by", answer.by.is_some()),
    ];
    for (field, present) in given {
        if present && !allowed.contains(&field) {
            let decision = answer.decision.as_str();
            return Err(Refusal::Invalid(format!("`{field}` does not go with the decision {decision}; leave it out")));
        }
    }
    Ok(())
}

fn bounded(what: &str, text: &str) -> Result<String, Refusal> {
    if text.len() > MAX_TEXT_BYTES {
        let size = text.len();
        return Err(Refusal::Invalid(format!("the {what} has {size} bytes; at most {MAX_TEXT_BYTES} are taken")));
    }
    Ok(text.to_owned())
}

/// What the person left as it was shown is what is stored, above all where it was masked. Arguments that are
/// those of the request are an approval: nothing was changed, and the model is not told that something was.
fn check_edit(
    request: &Request,
    answer: &Answer,
    fits: &dyn Fn(&Value) -> Result<(), String>,
) -> Result<Decision, Refusal> {
    let Some(given) = &answer.arguments else {
        return Err(Refusal::Invalid("send the `arguments` that the call is to run with, all of them".to_owned()));
    };
    let meant = display::restore(&request.arguments, given, &request.secret).map_err(Refusal::BadEdit)?;
    let arguments = plan::canonical_arguments(&meant, MAX_EDIT_BYTES).map_err(Refusal::BadEdit)?;
    if arguments == request.arguments {
        return Ok(Decision::Approve);
    }
    let hides = !request.secret.is_empty();
    fits(&arguments).map_err(|problem| Refusal::BadEdit(if hides { secret::PROBLEM.to_owned() } else { problem }))?;
    Ok(Decision::Edit { arguments })
}

fn check_always(request: &Request, answer: &Answer) -> Result<Decision, Refusal> {
    let no_offer = Offer { scopes: Vec::new(), patterns: Vec::new() };
    let offer = request.always.as_ref().unwrap_or(&no_offer);
    let Some(scope) = answer.scope.filter(|scope| offer.scopes.contains(scope)) else {
        let scopes = offer.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", ");
        return Err(Refusal::Invalid(format!("send a `scope` that is on offer: {scopes}")));
    };
    if let Some(pattern) = answer.pattern.as_ref().filter(|pattern| !offer.patterns.contains(pattern)) {
        let offered = offer.patterns.join(", ");
        let pattern = json::cut(pattern, 80);
        return Err(Refusal::Invalid(format!(
            "the pattern {pattern:?} is not on offer for these arguments; offered: {offered}; leave it out for exactly \
             these arguments"
        )));
    }
    Ok(Decision::Always { scope, pattern: answer.pattern.clone() })
}

fn check_answer(request: &Request, answer: &Answer) -> Result<Decision, Refusal> {
    let given = match &answer.answer {
        None => return Err(Refusal::Invalid("send the `answer`".to_owned())),
        Some(value @ (Value::String(_) | Value::Number(_) | Value::Bool(_))) => value,
        Some(_) => return Err(Refusal::Invalid("the `answer` must be a string, a number or a boolean".to_owned())),
    };
    if let Value::String(text) = given {
        bounded("answer", text)?;
    }
    let Some(question) = &request.question else {
        return Err(Refusal::Invalid("the stored request has no question".to_owned()));
    };
    // As the options were stored, so are answers compared: `1.0` is the number `1`.
    let canonical = json::canonical(given).ok();
    let is_given = |value: &Value| canonical.is_some() && json::canonical(value).ok() == canonical;
    if let Some(option) = question.options.iter().find(|option| is_given(&option.value)) {
        return Ok(Decision::Answer { answer: option.value.clone(), cancels: option.cancels });
    }
    if question.allow_free_text {
        return Ok(Decision::Answer { answer: given.clone(), cancels: false });
    }
    let values = question.options.iter().map(|option| option.value.to_string()).collect::<Vec<_>>().join(", ");
    Err(Refusal::Invalid(format!("the answer must be exactly one of the options: {values}")))
}

/// A ceiling that is reached is raised above what the run has used: else it would only ask again.
fn check_raise(request: &Request, answer: &Answer) -> Result<Decision, Refusal> {
    let amount = answer.by.filter(|by| *by != Amounts::default());
    let (Some(amount), Some(budget)) = (amount, &request.budget) else {
        let example = r#"send `by`, how much more the run may use, for example {"turns": 20, "cost_usd": 2.5}"#;
        return Err(Refusal::Invalid(example.to_owned()));
    };
    let still = budget.raised(&amount).reached();
    if still.is_empty() {
        return Ok(Decision::Raise { amount });
    }
    Err(Refusal::Invalid(format!("with that {}; raise it above what the run has used", still.join(", and "))))
}

fn check_settlement(answer: &Answer) -> Result<Decision, Refusal> {
    let resolution = match &answer.resolution {
        None => {
            return Err(Refusal::Invalid("send the `resolution`: {\"result\": …}, \"retry\" or \"abort\"".to_owned()));
        }
        Some(Resolution::Result(text)) => Resolution::Result(bounded("result", text)?),
        Some(resolution @ (Resolution::Retry | Resolution::Abort)) => resolution.clone(),
    };
    Ok(Decision::Settle { resolution })
}
