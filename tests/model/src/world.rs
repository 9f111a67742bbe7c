//! What lies outside: tools, and what they did.

use std::collections::BTreeMap;

use dormouse_domain::{CallKey, entry::CallResult, message::Content};

/// What tools did: how often each attempt at each call took effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Acts(pub BTreeMap<(CallKey, u32), u8>);

/// How an attempt at a call goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// The tool acts and answers.
    Answers,
    /// The tool acts, and its answer is lost.
    Silent,
    /// The call is lost on the way, which its caller cannot tell from the case before.
    Vanishes,
    /// The tool is not reached, and its caller knows.
    Refused,
}

impl Effect {
    /// Whether the tool acted.
    #[must_use]
    pub fn acted(self) -> bool {
        match self {
            Self::Answers | Self::Silent => true,
            Self::Vanishes | Self::Refused => false,
        }
    }

    /// What the caller reports.
    #[must_use]
    pub fn result(self) -> CallResult {
        match self {
            Self::Answers => CallResult::Returned { content: vec![Content::text("done")], is_error: false },
            Self::Silent | Self::Vanishes => CallResult::Unknown { why: "no answer".to_owned() },
            Self::Refused => CallResult::NotSent { why: "refused".to_owned() },
        }
    }
}
