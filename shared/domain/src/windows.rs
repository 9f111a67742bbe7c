//! The two windows of a request: how long the conversation waits, and how long it can be decided.
//!
//! Both edges are computed once, when the request is opened, and stored. The two predicates here
//! are the only readers of them (E1), inclusive at the edge; the condition in the deciding write
//! says the same `decide_by >= now`. Where the end of the wait denies, both edges are one, so that
//! nothing can be decided that was already refused.

use serde::{Deserialize, Serialize};

use crate::{
    agent::{Definition, OnWaitExpired},
    ids::Millis,
};

/// The edges of both windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Windows {
    /// The conversation waits up to and including this moment.
    pub wait_until: Millis,
    /// The request can be decided up to and including this moment.
    pub decide_by: Millis,
}

impl Windows {
    /// The windows of a request of this agent opened at `now`.
    #[must_use]
    pub fn open(definition: &Definition, now: Millis) -> Self {
        let life = now.plus(definition.decide_within_ms);
        let wait_until = now.plus(definition.wait_ms).min(life);
        let decide_by = match definition.on_wait_expired {
            OnWaitExpired::MoveOn => life,
            OnWaitExpired::Deny => wait_until,
        };
        Self { wait_until, decide_by }
    }

    /// The windows of a request opened at `now` that the conversation cannot go on without.
    #[must_use]
    pub fn whole(definition: &Definition, now: Millis) -> Self {
        let decide_by = now.plus(definition.decide_within_ms);
        Self { wait_until: decide_by, decide_by }
    }

    /// Whether the conversation still waits at `now`.
    #[must_use]
    pub fn is_waiting(&self, now: Millis) -> bool {
        now <= self.wait_until
    }

    /// Whether the request can still be decided at `now`.
    #[must_use]
    pub fn is_decidable(&self, now: Millis) -> bool {
        now <= self.decide_by
    }

    /// The first moment at which it can no longer be decided.
    #[must_use]
    pub fn expires_at(&self) -> Millis {
        self.decide_by.plus(1)
    }

    /// The first moment at which the conversation no longer waits. Not after [`Self::expires_at`].
    #[must_use]
    pub fn stops_waiting_at(&self) -> Millis {
        self.wait_until.plus(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e1_both_edges_are_inclusive() {
        let windows = Windows { wait_until: Millis(10), decide_by: Millis(20) };
        assert!(windows.is_waiting(Millis(10)) && !windows.is_waiting(Millis(11)));
        assert!(windows.is_decidable(Millis(20)) && !windows.is_decidable(Millis(21)));
        assert!(!windows.is_decidable(windows.expires_at()));
        assert!(!windows.is_waiting(windows.stops_waiting_at()));
    }
}
