//! The fold of a fork: a copy of another run's entries becomes a run of its own, which nobody drives and nobody
//! was asked about.

use std::collections::BTreeMap;

use super::Folded;
use crate::{
    agent::{Mode, Replay},
    entry::{Entry, Replanned},
    ids::{CallKey, RunId},
    plan::Plan,
    request::RequestStatus,
    run::{CallState, Deaths, Forked, Run, Trouble},
    transcript,
};

/// What the fact says.
pub(super) struct Fork<'f> {
    pub(super) from: &'f RunId,
    pub(super) last: u32,
    pub(super) mode: Mode,
    pub(super) metadata: &'f BTreeMap<String, String>,
    pub(super) calls: &'f [Replanned],
}

impl Run {
    pub(super) fn forked(&mut self, entry: &Entry, fork: &Fork<'_>) -> Folded {
        if entry.index != fork.last.saturating_add(1) || *fork.from == self.id {
            return Err(format!("a fork of {} at {} stands here", fork.from, fork.last));
        }
        if self.cancel.is_some() || self.is_over() {
            return Err("a fork of a run that had failed or was cancelled".to_owned());
        }
        if let Some(driver) = self.driver.take() {
            self.worked_ms = self.worked_ms.saturating_add(self.updated_at.since(driver.since));
        }
        // Ceilings are not escaped by a fork: what was used carries over. What went wrong there does not.
        (self.trouble, self.deaths) = (Trouble::default(), Deaths::default());
        (self.paused, self.mode, self.created_at) = (false, fork.mode, entry.at);
        self.metadata = fork.metadata.clone();
        // Nobody waits for a fork.
        self.parent = None;
        let pending: Vec<_> = self.pending().map(|(key, _)| key).collect();
        for key in pending {
            self.close(key, RequestStatus::Cancelled)?;
        }
        self.forks.push(Forked { index: entry.index, from: fork.from.clone() });
        self.name_news();
        let mut plans: BTreeMap<CallKey, &Plan> = fork.calls.iter().map(|change| (change.call, &change.plan)).collect();
        if plans.len() != fork.calls.len() {
            return Err("the fork says twice what becomes of a call".to_owned());
        }
        let open = self.open_calls().filter(|call| !matches!(call.state, CallState::Done(_)));
        let open: Vec<_> = open.map(|call| (call.key, call.is_unannounced())).collect();
        for (key, unannounced) in open {
            match (unannounced, plans.remove(&key)) {
                (true, Some(plan)) => self.asks_anew(key, plan)?,
                (false, None) => self.may_have_run_there(key, fork.from)?,
                (true, None) => return Err(format!("the fork does not say what becomes of call {key}")),
                (false, Some(_)) => return Err(format!("call {key} was announced before the fork")),
            }
        }
        if plans.is_empty() { Ok(()) } else { Err("the fork changes calls that are not open".to_owned()) }
    }

    /// A call of which no attempt was announced stands as on the first day: what a person made of it was for the
    /// other run.
    fn asks_anew(&mut self, key: CallKey, plan: &Plan) -> Folded {
        let state = match plan {
            Plan::Allow { .. } | Plan::Ask { .. } | Plan::Question | Plan::Deny { .. } => {
                self.planned(plan, self.len)?
            }
            Plan::Start { .. } | Plan::Invalid { .. } | Plan::Joins { .. } | Plan::Known { .. } => {
                return Err(format!("a fork gives call {key} no such plan"));
            }
        };
        let call = self.call_mut(key)?;
        (call.approved, call.edited) = (false, None);
        match state {
            CallState::Done(ending) => self.end(key, ending, false),
            state @ (CallState::Ready
            | CallState::Asking(_)
            | CallState::Pending { .. }
            | CallState::Running { .. }
            | CallState::Delegated { .. }
            | CallState::Unknown { .. }) => {
                call.state = state;
                Ok(())
            }
        }
    }

    /// A call that was announced and has no result may have run in the other run. Nobody looks for it there, and
    /// its key is not this run's: so only what may be repeated at will, and nobody was asked about, is.
    fn may_have_run_there(&mut self, key: CallKey, from: &RunId) -> Folded {
        let name = self.call_mut(key)?.tool.clone();
        let safe = self.definition.tool(&name).is_some_and(|tool| tool.replay == Replay::Safe);
        let call = self.call_mut(key)?;
        let approved = std::mem::replace(&mut call.approved, false);
        // Who completes it has the token of the other run's call.
        call.later = false;
        call.state = if safe && !approved {
            CallState::Ready
        } else {
            let why =
                format!("it was announced in {from} before this run was forked from that, and may have run there");
            CallState::Unknown { attempt: call.attempts, why }
        };
        Ok(())
    }

    /// What the model was told of requests names them as that run did whose they were: prompts go on as they
    /// were (I10).
    fn name_news(&mut self) {
        let mut messages = std::mem::take(&mut self.messages);
        for message in &mut messages {
            let Some(late) = message.late else { continue };
            let Some(call) = self.call(late.call) else { continue };
            message.content = transcript::late(self, call);
        }
        self.messages = messages;
    }
}
