//! What one call of a run is made with, and which results it still takes.

use serde_json::Value;

use super::{Call, CallState, Run};
use crate::{entry::CallResult, message::ReplyBlock, plan};

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

    /// The arguments that run: canonical, an object. A person's, where one changed them (E5).
    ///
    /// # Errors
    /// What is wrong with them, for the model.
    pub fn arguments(&self, run: &Run) -> Result<Value, String> {
        self.edited.clone().map_or_else(|| self.asked_arguments(run), Ok)
    }

    /// The arguments that the model asked for, canonical, whatever became of them.
    ///
    /// # Errors
    /// What is wrong with them, for the model.
    pub fn asked_arguments(&self, run: &Run) -> Result<Value, String> {
        plan::arguments(self.raw_arguments(run).unwrap_or_default())
    }

    /// Whether this result of this attempt is still news: it is the latest attempt, and nothing and
    /// nobody has settled the call since. A late writer is fenced by this (case 37). One that comes
    /// after a person said "retry" and before the next attempt is announced spares the repetition, if it
    /// is an answer. That the outcome is not known is news only while the call runs: later it is known
    /// to be unknown, or decided.
    #[must_use]
    pub fn takes(&self, attempt: u32, result: &CallResult) -> bool {
        let (answers, settles) = match result {
            CallResult::Returned { .. } => (true, true),
            // An earlier attempt may have reached the tool.
            CallResult::NotSent { .. } => (false, attempt == 1),
            CallResult::Unknown { .. } | CallResult::Later {} => (false, false),
        };
        let news = match &self.state {
            CallState::Running { .. } => true,
            CallState::Ready => answers,
            CallState::Unknown { .. } | CallState::Pending { .. } | CallState::Delegated { .. } => settles,
            CallState::Asking(_) | CallState::Done(_) => false,
        };
        attempt > 0 && attempt == self.attempts && news
    }
}
