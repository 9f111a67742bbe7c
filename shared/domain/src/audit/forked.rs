//! What the auditor keeps of a fork: whose the entries before it are, and what they leave open.

use std::{collections::BTreeMap, sync::Arc};

use super::{Audit, Broken, Checked, broken, call::CallBook, ensure};
use crate::{
    agent::{Definition, Replay},
    entry::{Entry, Fact, FinalStatus},
    ids::RunId,
    plan::{self, Plan},
};

impl Audit {
    /// Empty books about run `id`, whose journal is `entries`: a fork's begins with those of another run, which
    /// have its name in their digests.
    #[must_use]
    pub fn of(id: RunId, definition: Arc<Definition>, entries: &[Entry]) -> Self {
        let forks = entries.iter().filter_map(|entry| {
            let Fact::Forked { from, .. } = &entry.fact else { return None };
            Some((entry.index, from.clone()))
        });
        let forks: Vec<_> = forks.collect();
        let Some((_, first)) = forks.first() else { return Self::new(id, definition) };
        let next = forks.iter().skip(1).map(|(_, from)| from.clone()).chain(std::iter::once(id));
        let names = forks.iter().map(|(index, _)| *index).zip(next).collect();
        Self { names, ..Self::new(first.clone(), definition) }
    }

    /// All before is a copy of another run's entries, and from here on it is another run.
    pub(super) fn forked(&mut self, entry: &Entry) -> Checked {
        let Fact::Forked { from, last, by, mode, calls, .. } = &entry.fact else { return broken("X8", "no fork") };
        let Some(id) = self.names.remove(&entry.index) else {
            return broken("X8", "a fork in the midst of a journal that was not copied");
        };
        self.id = id;
        (self.holder, self.widest) = (None, None);
        (self.paused, self.mode) = (false, *mode);
        self.requests.values_mut().for_each(|book| book.pending = false);
        self.prompts.clear();
        self.answered.clear();
        let mut plans: BTreeMap<_, _> = calls.iter().map(|change| (change.call, &change.plan)).collect();
        let twice = plans.len() != calls.len();
        let index = self.index;
        let mut checks = Vec::new();
        for (key, call) in &mut self.calls {
            call.digest_as(self.owner.as_ref(), &self.id);
            if !call.settled {
                checks.push(call.fork(index, plans.remove(key)).map_err(|Broken(rule, what)| (rule, *key, what)));
            }
        }
        for change in calls {
            let tool = self.call(change.call)?.tool.clone();
            let reads = self.definition.tool(&tool).is_some_and(|tool| !tool.kind.mutates());
            ensure(reads || !change.plan.allows(), "X8", &format!("{} may have been made there", change.call))?;
            self.verdict(change.call, &change.plan)?;
        }
        for check in checks {
            check.map_err(|(rule, key, what)| Broken(rule, format!("{key} {what}")))?;
        }
        ensure(!twice && plans.is_empty(), "X8", "it says what becomes of calls that are not open")?;
        ensure(self.id != *from && entry.driver.is_none(), "X8", "a fork of itself, or by a driver")?;
        ensure(last.checked_add(1) == Some(index), "X8", "it names another entry than the one before it")?;
        ensure(self.owner.as_ref() == Some(by), "A16", &format!("it is not {by}'s to fork"))?;
        let goes_on = matches!(self.ended, None | Some(FinalStatus::Completed)) && !self.cancelled;
        ensure(goes_on, "X8", "a fork of a run that had failed or was cancelled")
    }
}

impl CallBook {
    /// Its digests are over the run's name.
    fn digest_as(&mut self, owner: Option<&crate::Principal>, id: &RunId) {
        let digest = |arguments: &Option<serde_json::Value>| {
            owner.and_then(|owner| plan::call_digest(owner, id, &self.tool, arguments.as_ref()?).ok())
        };
        (self.asked, self.digest) = (digest(&self.asked_for), digest(&self.arguments));
    }

    /// What the copy leaves open of it: no approval, no request, nobody who runs it.
    fn fork(&mut self, index: u32, plan: Option<&Plan>) -> Checked {
        let was_allowed = self.may_run() && !self.approved;
        let ran_unasked = was_allowed && self.waits.is_none();
        (self.approved, self.runs, self.waits) = (false, false, None);
        // Whoever runs it there writes there.
        self.announced_by = None;
        match plan {
            None if self.attempts == 0 => broken("X8", "is open, and the fork does not say what becomes of it"),
            Some(_) if self.attempts > 0 => broken("X8", "was announced before the fork, and gets a plan"),
            None if self.replay == Replay::Safe && was_allowed => {
                // As on its first attempt: that one is the other run's.
                (self.lost_at, self.retried_at) = (None, None);
                Ok(())
            }
            None => {
                (self.lost_at, self.retried_at, self.left_there) = (Some(index), None, true);
                self.later = false;
                Ok(())
            }
            Some(plan) => {
                let question = self.plan == Plan::Question;
                (self.arguments, self.digest) = (self.asked_for.clone(), self.asked.clone());
                self.plan = plan.clone();
                match plan {
                    Plan::Allow { .. } => ensure(ran_unasked, "I7", "keeps what a person allowed in the other run"),
                    Plan::Ask { .. } => ensure(!question, "X8", "is a question, and asks for approval"),
                    Plan::Question => ensure(question, "X8", "is no question"),
                    Plan::Deny { .. } => {
                        self.settle(index);
                        Ok(())
                    }
                    Plan::Start { .. } | Plan::Invalid { .. } | Plan::Joins { .. } | Plan::Known { .. } => {
                        broken("X8", "gets a plan that no fork gives")
                    }
                }
            }
        }
    }
}
