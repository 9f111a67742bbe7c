//! What the auditor keeps about one call.

use serde_json::Value;

use super::{Audit, Broken, Checked, broken, ensure};
use crate::{
    agent::Replay,
    entry::CallResult,
    ids::{Digest, DriverId, RequestKey},
    kv::{self, KvPatch},
    plan::Plan,
    request::RequestKind,
};

/// Attempts at a call before a person is asked, or it is given up, where repeating is harmless.
const ATTEMPTS: u32 = 3;

/// A call, as its facts tell.
#[derive(Debug, Clone)]
pub(super) struct CallBook {
    /// The tool's name.
    pub(super) tool: String,
    /// What the tool says of repeating it; manual if there is no such tool.
    pub(super) replay: Replay,
    /// Digest of the arguments that the model asked for, if they can be read.
    pub(super) asked: Option<Digest>,
    /// These arguments.
    pub(super) asked_for: Option<Value>,
    /// Digest of the arguments that run: the same, unless a person changed them.
    pub(super) digest: Option<Digest>,
    /// These arguments.
    pub(super) arguments: Option<Value>,
    /// The latest plan.
    pub(super) plan: Plan,
    /// Whether a person approved it, or said that it may run once more.
    pub(super) approved: bool,
    /// Attempts that were announced.
    pub(super) attempts: u32,
    /// Who announced the last of them.
    pub(super) announced_by: Option<DriverId>,
    /// Whether that one runs.
    pub(super) runs: bool,
    /// Whether the tool may say that another system completes a call.
    may_be_later: bool,
    /// Whether its calls go to another agent.
    pub(super) delegates: bool,
    /// Whether it said so of the last attempt.
    pub(super) later: bool,
    /// The entry since which it is not known what the last attempt did.
    pub(super) lost_at: Option<u32>,
    /// The entry at which a person said that it may run once more.
    pub(super) retried_at: Option<u32>,
    /// The request that waits.
    pub(super) waits: Option<RequestKey>,
    /// Whether it has its one result.
    pub(super) settled: bool,
    /// The entry since which it has.
    pub(super) settled_at: Option<u32>,
    /// Whether the conversation went on without it.
    pub(super) moved_on: bool,
    /// Whether its ending was handed to the same call, made again.
    pub(super) handed_on: bool,
    /// Whether it was announced in the run that this one was forked from, and nobody said since what to do.
    pub(super) left_there: bool,
}

impl CallBook {
    pub(super) fn new(
        tool: &str,
        replay: Replay,
        digest: Option<Digest>,
        arguments: Option<Value>,
        plan: &Plan,
        index: u32,
    ) -> Self {
        Self {
            tool: tool.to_owned(),
            replay,
            asked: digest.clone(),
            asked_for: arguments.clone(),
            digest,
            arguments,
            plan: plan.clone(),
            approved: false,
            attempts: 0,
            announced_by: None,
            runs: false,
            may_be_later: false,
            delegates: false,
            later: false,
            lost_at: None,
            retried_at: None,
            waits: None,
            settled: refuses(plan),
            settled_at: refuses(plan).then_some(index),
            moved_on: false,
            handed_on: false,
            left_there: false,
        }
    }

    /// Whether the conversation waits for it.
    pub(super) fn is_awaited(&self) -> bool {
        !self.settled && !self.moved_on
    }

    /// Whether it runs, or may without anybody being asked.
    pub(super) fn goes_on(&self) -> bool {
        self.runs
            || self.is_delegated()
            || (self.may_run() && self.waits.is_none() && !(self.is_lost() && self.needs_person()))
    }

    /// Whether another run does it.
    pub(super) fn is_delegated(&self) -> bool {
        self.delegates && self.later && !self.settled
    }

    /// Whether its latest verdict is Allow, or a person said yes (I7).
    pub(super) fn may_run(&self) -> bool {
        self.approved || self.plan.allows()
    }

    /// Whether it is not known what it did, and nobody said since what to do about that.
    fn is_lost(&self) -> bool {
        self.lost_at > self.retried_at
    }

    /// Whether only a person can say what now.
    fn needs_person(&self) -> bool {
        self.left_there || self.replay == Replay::Manual || self.attempts >= ATTEMPTS
    }

    /// An attempt is announced.
    pub(super) fn announce(&mut self, attempt: u32, by: Option<&DriverId>) -> Result<(), Broken> {
        let (was_running, expected) = (self.runs, self.attempts + 1);
        let delegated = self.is_delegated();
        let repeats_unasked = self.is_lost() && self.needs_person();
        self.attempts = attempt;
        self.announced_by = by.cloned();
        self.runs = true;
        self.later = false;
        if self.settled {
            return broken("I3", "it starts, and has its result already");
        }
        if delegated {
            return broken("D6", "it starts, and another run does it already");
        }
        if was_running || attempt != expected {
            return broken("I2", &format!("attempt {attempt} starts where {expected} should, or before it ended"));
        }
        if repeats_unasked {
            return broken("I8", &format!("attempt {attempt} starts, and no person said so since the last was lost"));
        }
        if self.waits.is_some() || !self.may_run() {
            return broken("I7", "it starts, and neither its latest verdict nor a person allows it");
        }
        if self.digest.is_none() {
            return broken("I7", "it starts, and its arguments cannot be read");
        }
        Ok(())
    }

    /// An attempt ended. Tells whether that answers a request that waits.
    pub(super) fn finish(
        &mut self,
        index: u32,
        attempt: u32,
        result: &CallResult,
        by: Option<&DriverId>,
    ) -> Result<Option<RequestKey>, Broken> {
        if attempt == 0 || attempt > self.attempts {
            return broken("I2", &format!("attempt {attempt} ended, and was never announced"));
        }
        if self.settled || attempt < self.attempts {
            return broken("I3", &format!("a result of attempt {attempt}, which is no news any more"));
        }
        // Whoever has the token of the attempt completes it: nobody's driver.
        let completed = by.is_none() && self.may_be_later && matches!(result, CallResult::Returned { .. });
        if by != self.announced_by.as_ref() && !completed {
            return broken("I1", "a result by one that did not run it");
        }
        if matches!(result, CallResult::Later {}) && !self.may_be_later {
            return broken("I3", "it is to be completed later, and its tool has no such answer");
        }
        let says_something = match result {
            CallResult::Returned { .. } => true,
            CallResult::NotSent { .. } => attempt == 1,
            CallResult::Unknown { .. } | CallResult::Later {} => false,
        };
        if says_something {
            self.runs = false;
            return Ok(self.settle(index));
        }
        if !self.runs {
            return broken("I3", &format!("attempt {attempt} is lost a second time"));
        }
        self.later = matches!(result, CallResult::Later {});
        self.lose(index);
        Ok(None)
    }

    /// Its tool may say that another system completes a call.
    pub(super) fn later(mut self, may_be: bool, delegates: bool) -> Self {
        (self.may_be_later, self.delegates) = (may_be, delegates);
        self
    }

    /// If it runs: its driver is gone, or said that it does not know.
    pub(super) fn lose(&mut self, index: u32) {
        if !self.runs {
            return;
        }
        self.runs = false;
        self.lost_at = Some(index);
        if self.replay == Replay::Safe && self.attempts >= ATTEMPTS {
            self.settle(index);
        }
    }

    /// A request is opened for it.
    pub(super) fn ask(&mut self, key: RequestKey, kind: RequestKind) -> Result<(), Broken> {
        let asked_already = self.waits.replace(key).is_some();
        let untouched = self.attempts == 0 && !self.approved;
        let needed = match kind {
            RequestKind::Approval => matches!(self.plan, Plan::Ask { .. }) && untouched,
            RequestKind::Question => self.plan == Plan::Question,
            RequestKind::Uncertain => self.is_lost() && !self.later && (self.needs_person() || !self.may_run()),
            RequestKind::External => self.is_lost() && self.later && !self.delegates,
            RequestKind::Budget => false,
        };
        if asked_already || self.settled || !needed {
            return broken("I5", &format!("a request of kind {kind:?} for a call that does not need it"));
        }
        Ok(())
    }

    /// A person said that it may run; `again` if it may have run before.
    pub(super) fn allow(&mut self, index: u32, again: bool) {
        self.approved = true;
        self.waits = None;
        if again {
            self.retried_at = Some(index);
            self.left_there = false;
        }
    }

    /// It has its result, or none will come. Returns what waited for it.
    pub(super) fn settle(&mut self, index: u32) -> Option<RequestKey> {
        self.settled = true;
        self.settled_at.get_or_insert(index);
        self.waits.take()
    }

    /// Its request was closed because the run ended: a lost attempt stays lost.
    pub(super) fn close(&mut self, index: u32) {
        self.waits = None;
        if self.attempts == 0 {
            self.settle(index);
        }
    }

    /// It gets another verdict.
    pub(super) fn replan(&mut self, plan: &Plan, index: u32) -> Result<(), Broken> {
        let untouched = !self.settled && !self.runs && self.waits.is_none() && !self.approved && !self.is_question();
        self.plan = plan.clone();
        if refuses(plan) {
            self.settle(index);
        }
        let recognised = matches!(plan, Plan::Joins { .. } | Plan::Known { .. });
        if !untouched {
            return broken("I7", "another verdict for a call that ran, was asked about or is settled");
        }
        if plan.starts() || recognised {
            return broken("I2", "a change of mode starts it, or takes it for another");
        }
        Ok(())
    }

    /// It was about to start, and may not any more.
    pub(super) fn withhold(&mut self, plan: &Plan, index: u32) -> Result<(), Broken> {
        let would_start = !self.settled && !self.runs && self.waits.is_none() && self.may_run();
        let asked_again = self.approved && matches!(plan, Plan::Ask { .. });
        self.plan = plan.clone();
        match plan {
            Plan::Deny { .. } => {
                self.settle(index);
            }
            Plan::Ask { .. } => {}
            Plan::Start { .. }
            | Plan::Allow { .. }
            | Plan::Question
            | Plan::Invalid { .. }
            | Plan::Joins { .. }
            | Plan::Known { .. } => return broken("I7", "it is withheld by a plan that does not stop it"),
        }
        if !would_start || asked_again {
            return broken("I7", "it is withheld, and was not about to start, or a person said yes already");
        }
        Ok(())
    }

    fn is_question(&self) -> bool {
        self.plan == Plan::Question
    }
}

impl Audit {
    /// What a tool keeps for the run comes with its answer, and fits.
    pub(super) fn kept(&mut self, result: &CallResult, patch: &KvPatch) -> Checked {
        let answered = matches!(result, CallResult::Returned { .. });
        ensure(answered || patch.is_empty(), "A13", "a call that did not answer changes the state")?;
        for (name, value) in patch.iter() {
            self.kept.insert(name.to_owned(), value.clone());
        }
        self.kept.retain(|_, value| !value.is_null());
        let bytes: usize = self.kept.iter().map(|(name, value)| name.len() + value.to_string().len()).sum();
        let fits = self.kept.len() <= kv::MAX_NAMES && bytes <= kv::MAX_STATE_BYTES;
        ensure(fits, "A13", "more is kept than may be")
    }
}

/// Whether a call with this plan never runs.
fn refuses(plan: &Plan) -> bool {
    match plan {
        Plan::Deny { .. } | Plan::Invalid { .. } | Plan::Joins { .. } | Plan::Known { .. } => true,
        Plan::Start { .. } | Plan::Allow { .. } | Plan::Ask { .. } | Plan::Question => false,
    }
}
