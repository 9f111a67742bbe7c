//! What lies outside: tools, and what they did.

use std::collections::BTreeSet;

use dormouse_domain::{CallKey, entry::CallResult, message::Content};

/// What tools did: the attempts that were started.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Acts(pub BTreeSet<(CallKey, u32)>);

/// How an attempt at a call ends, as its caller sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// The tool answers.
    Answers,
    /// Nothing comes back. The tool may have acted or not: the journal cannot tell, nor can the model.
    Silence,
    /// The tool is not reached, and its caller knows.
    Refused,
}

impl Effect {
    /// What can go wrong.
    pub const FAILURES: [Self; 2] = [Self::Silence, Self::Refused];

    /// What the caller reports.
    #[must_use]
    pub fn result(self) -> CallResult {
        match self {
            Self::Answers => CallResult::Returned { content: vec![Content::text("done")], is_error: false },
            Self::Silence => CallResult::Unknown { why: "no answer".to_owned() },
            Self::Refused => CallResult::NotSent { why: "refused".to_owned() },
        }
    }
}
