//! Completion tokens: what lets another system finish one attempt at one call, once.
//!
//! A tool that answers "later" was given one with the call, and hands it to whoever will know the result. What is done with
//! it is what a driver does with a result that comes after it lost the run: it is taken as long as it is news
//! ([`Call::takes`](crate::run::Call::takes)), and a later attempt or a person's settlement fences it (case 37).

use serde::{Deserialize, Serialize};

use super::{Claims, Purpose, TokenId};
use crate::ids::{CallKey, Millis, Principal, RunId};

/// What a completion token says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Wire", into = "Wire")]
pub struct Completion {
    /// Its name.
    pub id: TokenId,
    /// The run.
    pub run: RunId,
    /// The call.
    pub call: CallKey,
    /// The attempt.
    pub attempt: u32,
    /// It is good up to and including this moment.
    pub expires_at: Millis,
    /// Whose run it is.
    pub owner: Principal,
}

/// As it is signed.
type Wire = (TokenId, RunId, CallKey, u32, Millis, String, String);

impl From<Wire> for Completion {
    fn from((id, run, call, attempt, expires_at, tenant, subject): Wire) -> Self {
        Self { id, run, call, attempt, expires_at, owner: Principal { tenant, subject } }
    }
}

impl From<Completion> for Wire {
    fn from(token: Completion) -> Self {
        let Principal { tenant, subject } = token.owner;
        (token.id, token.run, token.call, token.attempt, token.expires_at, tenant, subject)
    }
}

impl Claims for Completion {
    const PURPOSE: Purpose = Purpose::Completion;
}

impl Completion {
    /// Whether it is still good at `now`: inclusive at the edge.
    #[must_use]
    pub fn is_good(&self, now: Millis) -> bool {
        now <= self.expires_at
    }
}
