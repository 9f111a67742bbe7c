//! What the auditor keeps about calls that the conversation went on without (E6 to E9).

use super::{Audit, Checked, broken, ensure};
use crate::{
    agent::Replay,
    entry::FinalStatus,
    ids::{CallKey, Millis, RequestKey},
    plan::Plan,
    run::Run,
};

impl Audit {
    /// The conversation goes on without the call of this request, which stays pending.
    pub(super) fn wait_expired(&mut self, key: RequestKey, at: Millis) -> Checked {
        let Some(book) = self.requests.get(&key).filter(|book| book.pending) else {
            return broken("E6", &format!("it goes on without request {key}, which does not wait"));
        };
        let (call, windows) = (book.call, book.windows);
        let Some(call) = call else {
            return broken("C5", &format!("it goes on without request {key}, at its ceiling"));
        };
        let book = self.call(call)?;
        let twice = std::mem::replace(&mut book.moved_on, true);
        ensure(!twice, "E6", &format!("it goes on without {call} a second time"))?;
        ensure(at > windows.wait_until, "E1", &format!("it goes on without {key} while it waits"))?;
        ensure(at <= windows.decide_by, "E1", &format!("it goes on without {key}, which has expired"))
    }

    pub(super) fn reopened(&mut self) -> Checked {
        let ended = self.ended.take();
        ensure(ended == Some(FinalStatus::Completed), "E7", "it is reopened, and had not completed")
    }

    /// A message takes the place of what the conversation waits for.
    pub(super) fn superseded(&mut self) -> Checked {
        let index = self.index;
        let awaited = self.calls.iter_mut().filter(|(_, call)| !call.settled && !call.moved_on && !call.goes_on());
        let requests: Vec<_> = awaited.filter_map(|(_, call)| call.settle(index)).collect();
        requests.into_iter().try_for_each(|key| self.take_request(key).map(|_| ()))
    }

    /// A call that was recognised as another: it is the same one, and stands as the plan says.
    pub(super) fn recognised(&mut self, key: CallKey, plan: &Plan, seen: u32) -> Checked {
        let (of, joins) = match plan {
            Plan::Joins { call } => (*call, true),
            Plan::Known { call } => (*call, false),
            Plan::Start { .. }
            | Plan::Allow { .. }
            | Plan::Ask { .. }
            | Plan::Question
            | Plan::Deny { .. }
            | Plan::Invalid { .. } => return Ok(()),
        };
        let same = self.call(key)?.asked.clone();
        let first = self.call(of)?;
        ensure(same.is_some() && same == first.asked, "E8", &format!("{key} is taken for {of}, another call"))?;
        if joins {
            return ensure(first.moved_on && !first.settled, "E9", &format!("{key} joins {of}, which does not wait"));
        }
        let untold = first.moved_on && first.settled_at.is_some_and(|at| at >= seen);
        if untold {
            let twice = std::mem::replace(&mut first.handed_on, true);
            return ensure(!twice, "E9", &format!("what became of {of} is handed on twice"));
        }
        let reuses = first.replay == Replay::Idempotent && first.settled && first.asked == first.digest;
        ensure(reuses, "E9", &format!("{key} is given the ending of {of}, which is known or none"))
    }

    /// What the conversation went on without and has an ending reaches the model in exactly one way,
    /// and what has none is kept for it (E7).
    pub(super) fn told_once(&self, after: &Run) -> Checked {
        for (key, call) in self.calls.iter().filter(|(_, call)| call.moved_on) {
            let news = after.messages.iter().filter(|message| message.late.is_some_and(|late| late.call == *key));
            let expected = usize::from(call.settled && !call.handed_on);
            ensure(news.count() == expected, "E7", &format!("what became of {key} is not told exactly once"))?;
            ensure(
                after.moved_on.contains(key) != call.settled,
                "E7",
                &format!("the fold disagrees on whether {key} has something to come"),
            )?;
        }
        let known = after.moved_on.iter().all(|key| self.calls.get(key).is_some_and(|call| call.moved_on));
        ensure(known, "E6", "the fold goes on without a call that is awaited")
    }
}
