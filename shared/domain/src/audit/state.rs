//! What the fold makes of a journal, compared with the auditor's own books.

use super::{Audit, Broken, Checked, Violation, call::CallBook, ensure};
use crate::{
    entry::FinalStatus,
    ids::{Millis, RequestKey},
    item::{TAKEOVER_MARGIN_MS, standing},
    next::{Next, next},
    plan,
    run::{Call, CallState, Run, Status},
    transcript::{self, Message},
};

impl Audit {
    /// Compares the books with the state that the entries so far were folded to, at `at`.
    #[must_use]
    pub fn state(&mut self, after: &Run, at: Millis) -> Vec<Violation> {
        self.keep_prompt(after, at);
        let checks = [self.agrees(after), self.told_once(after), self.due(after, at)];
        let calls = after.calls().map(|call| self.call_agrees(after, call));
        let checks: Vec<_> = checks.into_iter().chain(calls).collect();
        self.violations(checks)
    }

    /// A prompt that a driver may be about to send.
    fn keep_prompt(&mut self, after: &Run, at: Millis) {
        let asks = match next(after, at) {
            Next::CallModel => true,
            // A pause between two tries can be over by the time the driver looks again.
            Next::Rest { open, .. } => open.is_empty(),
            Next::Dispatch(_)
            | Next::Await
            | Next::Expire(_)
            | Next::StopWaiting(_)
            | Next::Reopen
            | Next::Finish(_) => false,
        };
        if asks {
            self.prompts.insert(after.len, blocks(after));
        }
    }

    fn agrees(&self, after: &Run) -> Checked {
        ensure(after.len == self.next_index, "I1", "the fold counts other entries")?;
        let holder = self.holder.as_ref().map(|(id, _)| id);
        ensure(after.driver.as_ref().map(|driver| &driver.id) == holder, "I4", "the fold knows another driver")?;
        let ended = after.outcome.as_ref().map(|outcome| outcome.status);
        ensure(ended == self.ended, "I4", "the fold knows another end")?;
        ensure(after.cancel.is_some() == self.cancelled, "B8", "the fold disagrees on whether it is cancelled")?;
        ensure((after.paused, after.mode) == (self.paused, self.mode), "B8", "the fold knows another mode or pause")?;
        let kept: Vec<_> = self.kept.iter().map(|(name, value)| (name.as_str(), value)).collect();
        ensure(after.state.iter().eq(kept), "A13", "the fold keeps another state")?;
        let pending: Vec<_> = after.pending().map(|(key, _)| key).collect();
        ensure(pending == self.pending(), "I5", "the fold knows other pending requests")?;
        let over = matches!(self.ended, Some(FinalStatus::Failed | FinalStatus::Cancelled)) || self.cancelled;
        ensure(!over || pending.is_empty(), "I5", "a run that is over or cancelled has an open request")
    }

    fn pending(&self) -> Vec<RequestKey> {
        self.requests.iter().filter(|(_, book)| book.pending).map(|(key, _)| *key).collect()
    }

    fn call_agrees(&self, after: &Run, call: &Call) -> Checked {
        let key = call.key;
        let Some(book) = self.calls.get(&key) else {
            return Err(Broken("I2", format!("the fold invents call {key}")));
        };
        let (running, pending, ready, done) = match &call.state {
            CallState::Running { attempt } => (*attempt == call.attempts, None, false, false),
            CallState::Pending { request } => (false, Some(*request), false, false),
            CallState::Ready => (false, None, true, false),
            CallState::Done(_) => (false, None, false, true),
            CallState::Asking(_) | CallState::Unknown { .. } | CallState::Delegated { .. } => {
                (false, None, false, false)
            }
        };
        ensure(!ready || book.may_run(), "I7", &format!("the fold would run {key}, which nobody allowed"))?;
        ensure(!ready || book.goes_on(), "I8", &format!("the fold would run {key}, which only a person can settle"))?;
        let own = (ready || running).then(|| {
            let arguments = call.arguments(after).ok()?;
            plan::call_digest(&after.owner, &self.id, &call.tool, &arguments).ok()
        });
        ensure(
            own.is_none_or(|own| own == book.digest),
            "I7",
            &format!("the fold would run {key} with other arguments"),
        )?;
        ensure(
            running == book.runs && call.attempts == book.attempts,
            "I2",
            &format!("the fold runs {key} otherwise"),
        )?;
        ensure(call.approved == book.approved, "I7", &format!("the fold disagrees on whether {key} was approved"))?;
        ensure(done == book.settled, "I3", &format!("the fold disagrees on whether {key} has its result"))?;
        ensure(pending == book.waits, "I5", &format!("the fold disagrees on what {key} waits for"))
    }

    /// Whatever wants something has a time at which somebody looks at it; what wants nothing has none.
    fn due(&self, after: &Run, at: Millis) -> Checked {
        let (status, due_at) = standing(after, at);
        let next = next(after, at);
        let open = self.calls.values().any(CallBook::is_awaited);
        ensure(next != Next::CallModel || !open, "I3", "the model is asked while a call has no result")?;
        let queued = matches!(status, Status::Queued | Status::Paused | Status::Completed) || self.holder.is_some();
        ensure(!next.is_work() || queued, "I9", &format!("{status:?}, with something to do"))?;
        let latest = match next {
            _ if self.holder.is_some() => self.holder.as_ref().map(|(_, until)| until.plus(TAKEOVER_MARGIN_MS)),
            Next::Rest { open, until } if open.is_empty() => until,
            Next::Rest { .. }
            | Next::Dispatch(_)
            | Next::Await
            | Next::CallModel
            | Next::Expire(_)
            | Next::StopWaiting(_)
            | Next::Reopen
            | Next::Finish(_) => Some(at),
        };
        let in_time = match (due_at, latest) {
            (Some(due_at), Some(latest)) => due_at <= latest,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        ensure(in_time, "I9", &format!("due at {due_at:?} where {latest:?} is wanted"))?;
        // The same once more, from the books alone.
        let pending = self.requests.values().filter(|book| book.pending);
        let expires = pending.map(|book| match book.call.and_then(|call| self.calls.get(&call)) {
            Some(call) if !call.moved_on => book.windows.stops_waiting_at(),
            Some(_) | None => book.windows.expires_at(),
        });
        let expires = expires.min();
        let expires = expires.filter(|_| self.holder.is_none());
        let seen_in_time = expires.is_none_or(|expires| due_at.is_some_and(|due_at| due_at <= expires.max(at)));
        ensure(seen_in_time, "I9", "a request waits, and nobody looks when its time is over")?;
        let delegated = self.calls.values().any(CallBook::is_delegated) && !self.cancelled;
        let idle = self.ended.is_none() && !self.paused && self.pending().is_empty() && !delegated;
        ensure(!idle || due_at.is_some(), "I9", "an unfinished run that waits for nobody is never looked at")
    }
}

/// The blocks of a prompt, flattened: what I10 is about.
fn blocks(run: &Run) -> Vec<String> {
    let prompt = transcript::prompt(run);
    let mut blocks = vec![format!("{} {:?}", prompt.system, prompt.tools)];
    for message in prompt.messages {
        match message {
            Message::User(parts) => blocks.extend(parts.iter().map(|part| format!("user {part:?}"))),
            Message::Assistant { model, blocks: parts } => {
                blocks.extend(parts.iter().map(|part| format!("{model} {part:?}")));
            }
        }
    }
    blocks
}
