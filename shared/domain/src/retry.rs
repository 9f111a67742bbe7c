//! What follows a failed model call. Pure: the backoff's position is in the journal, so it survives
//! any number of suspensions (B10).

use serde::{Deserialize, Serialize};

use crate::{entry::Fact, ids::Millis, json, run::Run};

/// Kinds of failure of a model call, by what helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The provider has no capacity: try again later, or another model.
    Overloaded,
    /// Too many requests: try again later.
    RateLimited,
    /// It took too long, or the connection broke: try again.
    Network,
    /// The provider failed: try again.
    Server,
    /// The provider refuses the request as it is: trying again is useless, another model may do.
    Rejected,
    /// The credentials are missing or refused: another provider may do.
    Auth,
    /// The reply could not be read: try again.
    BadReply,
}

impl FailureClass {
    /// Whether the same call can succeed later.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        match self {
            Self::Overloaded | Self::RateLimited | Self::Network | Self::Server | Self::BadReply => true,
            Self::Rejected | Self::Auth => false,
        }
    }
}

/// A failed model call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Failure {
    /// What kind.
    pub class: FailureClass,
    /// What the provider or the network said.
    pub message: String,
    /// How long the provider asks to wait, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// Whether it is known that no model worked on the request, so that it costs nothing.
    pub free: bool,
}

impl Failure {
    /// A failure of this class, after which the provider asks for no wait. Unless its class says otherwise, no model
    /// worked on the request.
    #[must_use]
    pub fn new(class: FailureClass, message: impl Into<String>) -> Self {
        let free = match class {
            FailureClass::Overloaded
            | FailureClass::RateLimited
            | FailureClass::Server
            | FailureClass::Rejected
            | FailureClass::Auth => true,
            FailureClass::Network | FailureClass::BadReply => false,
        };
        Self { class, message: message.into(), retry_after_ms: None, free }
    }
}

/// Attempts in a row at one model.
const ATTEMPTS: u32 = 5;
/// First backoff; each further one is four times as long.
const FIRST_BACKOFF_MS: u64 = 2_000;
/// Longest backoff, and longest wait that a provider can ask for while there is another model to ask.
const LONGEST_WAIT_MS: u64 = 15 * 60 * 1000;
/// Longest wait that the last model's provider can ask for: waiting costs nothing.
const LONGEST_LAST_WAIT_MS: u64 = 24 * 3600 * 1000;
/// What any attempt may take.
const LEAST_PATIENCE_MS: u64 = 1_000;

/// How long the current model may still take for the reply that is asked of it at `now`, in milliseconds: what
/// is left of the time for it, and a second at least.
#[must_use]
pub fn patience_ms(run: &Run, now: Millis) -> u64 {
    let waited_ms = run.trouble.since.map_or(0, |since| now.since(since));
    run.definition.reply_within_ms.saturating_sub(waited_ms).max(LEAST_PATIENCE_MS)
}

/// The entry that records `failure` of the model call that `run` was about to make, and says what
/// comes next: the same model after a wait, the next one at once, or the end. The attempt was begun
/// at `began`. A model is not tried again if its time for a reply would be over by then.
#[must_use]
pub fn after(run: &Run, failure: &Failure, began: Millis, now: Millis) -> Fact {
    let attempt = run.trouble.attempts + 1;
    let current = run.trouble.model;
    let exponent = run.trouble.attempts.min(8);
    let backoff = FIRST_BACKOFF_MS.saturating_mul(4_u64.saturating_pow(exponent)).min(LONGEST_WAIT_MS);
    let wait = failure.retry_after_ms.unwrap_or(0).max(backoff);
    let has_next = (current as usize + 1) < run.definition.models.len();
    let longest = if has_next { LONGEST_WAIT_MS } else { LONGEST_LAST_WAIT_MS };
    let since = run.trouble.since.unwrap_or(began);
    let waited_ms = now.since(since);
    let in_time = waited_ms.saturating_add(wait) <= run.definition.reply_within_ms;
    let again = failure.class.is_retryable() && attempt < ATTEMPTS && wait <= longest && in_time;
    let (retry_at, next_model) = match (again, has_next) {
        (true, _) => (Some(now.plus(wait)), current),
        (false, true) => (Some(now), current + 1),
        (false, false) => (None, current),
    };
    Fact::ModelFailed {
        model: run.model().clone(),
        class: failure.class,
        message: json::cut(&failure.message, 2_000).to_owned(),
        attempt,
        retry_at,
        waited_ms,
        next_model,
        free: failure.free,
    }
}
