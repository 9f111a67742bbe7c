//! Where the entries of a journal come from: a fork begins with a copy of another run's.

use super::{Call, CallState, Run};
use crate::ids::{RequestId, RequestKey, RunId};

/// Where a journal begins to be this run's, or that of the run it was forked from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Forked {
    /// The index of the entry.
    pub index: u32,
    /// Whose entries stand before it.
    pub from: RunId,
}

impl Run {
    /// The run that wrote entry `index`: this one, or one that it was forked from.
    #[must_use]
    pub fn writer(&self, index: u32) -> &RunId {
        self.forks.iter().find(|fork| index < fork.index).map_or(&self.id, |fork| &fork.from)
    }

    /// The public name of a request of the journal.
    #[must_use]
    pub fn request_id(&self, key: RequestKey) -> RequestId {
        RequestId { run: self.writer(key.entry).clone(), key }
    }
}

impl Call {
    /// Whether it has no result, and no attempt at it was announced.
    #[must_use]
    pub fn is_unannounced(&self) -> bool {
        self.attempts == 0 && !matches!(self.state, CallState::Done(_))
    }
}
