//! The fold: a journal's entries become a run's state. Here: the run, its drivers, its replies; in
//! `calls`: its calls and requests.

mod calls;
mod forked;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use forked::Fork;

use crate::{
    agent::Definition,
    budget::{Amounts, Consumed, Spent, next_call_at_most},
    entry::{DriverStop, Entry, Fact, FinalStatus, Outcome},
    ids::{CallKey, Millis, RunId},
    kv::State,
    message::{Content, ReplyBlock},
    next::wants_model,
    request::RequestStatus,
    run::{Call, Cancel, Deaths, Driver, Ending, Repeats, Run, Trouble, Turn, UserMessage},
    transcript,
};

/// A journal that no release of ours writes: a hole, an entry that cannot follow, an unknown kind.
/// It is never folded over (I1).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the journal of {run} is corrupt at entry {index}: {problem}")]
pub struct Corrupt {
    /// The run.
    pub run: RunId,
    /// Where.
    pub index: u32,
    /// What is wrong there.
    pub problem: String,
}

type Folded = Result<(), String>;

impl Run {
    /// The state after entry 0, which must be [`Fact::RunStarted`].
    ///
    /// # Errors
    /// [`Corrupt`] if it is anything else.
    pub fn start(id: RunId, definition: Arc<Definition>, first: &Entry) -> Result<Self, Corrupt> {
        let corrupt = |problem: &str| Corrupt { run: id.clone(), index: first.index, problem: problem.to_owned() };
        if first.index != 0 {
            return Err(corrupt("the journal does not begin at 0"));
        }
        if definition.models.is_empty() {
            return Err(corrupt("the agent has no model"));
        }
        let Fact::RunStarted { owner, agent, definition: digest, mode, input, metadata, parent } = &first.fact else {
            return Err(corrupt("the first entry is not RunStarted"));
        };
        let limits = Amounts::from(&definition.limits);
        let ceilings = parent.as_ref().map_or(limits, |parent| limits.min(&parent.share));
        Ok(Self {
            id,
            definition,
            definition_digest: digest.clone(),
            owner: owner.clone(),
            agent: agent.clone(),
            mode: *mode,
            metadata: metadata.clone(),
            parent: parent.clone(),
            forks: Vec::new(),
            created_at: first.at,
            updated_at: first.at,
            len: 1,
            turns: Vec::new(),
            messages: vec![UserMessage { index: 0, content: input.clone(), late: None }],
            requests: BTreeMap::new(),
            moved_on: BTreeSet::new(),
            repeats: Repeats::default(),
            driver: None,
            paused: false,
            cancel: None,
            outcome: None,
            state: State::default(),
            usage: crate::message::Usage::default(),
            cost: Spent::default(),
            children: Consumed::default(),
            ceilings,
            worked_ms: 0,
            trouble: Trouble::default(),
            deaths: Deaths::default(),
            wire_ids: BTreeSet::new(),
        })
    }

    /// The state after one more entry.
    ///
    /// # Errors
    /// [`Corrupt`] if it cannot follow; the state is then not to be used.
    pub fn apply(&mut self, entry: &Entry) -> Result<(), Corrupt> {
        let folded = if entry.index == self.len {
            self.fold(entry)
        } else {
            Err(format!("entry {} stands where {} should", entry.index, self.len))
        };
        folded.map_err(|problem| Corrupt { run: self.id.clone(), index: entry.index, problem })?;
        self.len += 1;
        self.updated_at = entry.at;
        Ok(())
    }

    fn fold(&mut self, entry: &Entry) -> Folded {
        if !matches!(entry.fact, Fact::DriverStarted { .. } | Fact::DriverStopped { .. }) {
            self.deaths = Deaths::default();
        }
        self.check_writer(entry)?;
        match &entry.fact {
            Fact::RunStarted { .. } => Err("a second RunStarted".to_owned()),
            Fact::DriverStarted { until } => self.driver_started(entry, *until),
            Fact::DriverStopped { stop } => self.driver_stopped(entry.at, stop),
            Fact::ModelReplied { .. } => self.model_replied(entry),
            Fact::ModelFailed { message, attempt, retry_at, next_model, waited_ms, free, .. } => {
                if !free {
                    self.cost.add_at_most(next_call_at_most(self));
                }
                let other_model = *next_model != self.trouble.model;
                self.usage.incomplete = true;
                self.trouble = Trouble {
                    attempts: if other_model { 0 } else { *attempt },
                    model: *next_model,
                    since: (!other_model).then(|| Millis(entry.at.0.saturating_sub(*waited_ms))),
                    retry_at: *retry_at,
                    gave_up: if retry_at.is_none() { Some(message.clone()) } else { None },
                    unraised: self.trouble.unraised,
                };
                Ok(())
            }
            Fact::CallDispatched { calls } => calls.iter().try_for_each(|start| self.call_started(*start)),
            Fact::CallsReplanned { calls } => calls.iter().try_for_each(|change| self.withheld(change)),
            Fact::CallFinished { call, attempt, result, kv, used } => {
                self.call_finished(*call, *attempt, result)?;
                if let Some(used) = used {
                    self.children.add(used);
                }
                self.kept(result, kv)
            }
            Fact::Suspended { requests, .. } => self.suspended(entry, requests),
            Fact::RequestDecided { request, decision, by, .. } => self.decided(*request, decision, by),
            Fact::WaitExpired { requests } => requests.iter().try_for_each(|key| self.stop_waiting(*key)),
            Fact::RequestExpired { requests } => requests.iter().try_for_each(|key| {
                let call = self.close(*key, RequestStatus::Expired)?;
                let kind = self.requests[key].kind;
                match call {
                    Some(call) => self.end(call, Ending::Expired { kind }, false),
                    None => {
                        self.trouble.unraised = true;
                        Ok(())
                    }
                }
            }),
            Fact::MessageAdded { content, supersedes, .. } => self.message_added(entry.index, content, *supersedes),
            Fact::ModeChanged { mode, calls, .. } => {
                self.mode = *mode;
                calls.iter().try_for_each(|change| self.replanned(change))
            }
            Fact::Paused { .. } => {
                self.paused = true;
                Ok(())
            }
            Fact::Resumed { .. } => {
                self.paused = false;
                self.trouble.since = None;
                Ok(())
            }
            Fact::CancelRequested { by, reason } => {
                let why = reason.clone().unwrap_or_else(|| "cancelled".to_owned());
                self.cancelled(Cancel { by: by.clone(), why })
            }
            Fact::Reopened {} => {
                if !self.has_completed() {
                    return Err("a run that has not completed is reopened".to_owned());
                }
                self.outcome = None;
                self.trouble = Trouble::default();
                Ok(())
            }
            Fact::Forked { from, last, mode, metadata, calls, .. } => {
                self.forked(entry, &Fork { from, last: *last, mode: *mode, metadata, calls })
            }
            Fact::RunFinished(outcome) => {
                // Somebody's decision ends it, whatever its driver is doing.
                if entry.driver.is_none() && self.driver.is_some() {
                    self.interrupt_model_call(entry.at);
                }
                self.finished(entry.at, outcome)
            }
        }
    }

    /// What only the driver that holds the run writes is written by that one: a result alone may come
    /// from one that held it before.
    fn check_writer(&self, entry: &Entry) -> Folded {
        let holders_own = match &entry.fact {
            Fact::DriverStopped { .. }
            | Fact::ModelReplied { .. }
            | Fact::ModelFailed { .. }
            | Fact::CallDispatched { .. }
            | Fact::CallsReplanned { .. }
            | Fact::Suspended { .. }
            | Fact::WaitExpired { .. }
            | Fact::RequestExpired { .. }
            | Fact::Reopened {} => true,
            Fact::RunFinished(_) => entry.driver.is_some(),
            Fact::RunStarted { .. }
            | Fact::DriverStarted { .. }
            | Fact::CallFinished { .. }
            | Fact::RequestDecided { .. }
            | Fact::MessageAdded { .. }
            | Fact::ModeChanged { .. }
            | Fact::Paused { .. }
            | Fact::Resumed { .. }
            | Fact::CancelRequested { .. }
            | Fact::Forked { .. } => false,
        };
        let holder = self.driver.as_ref().map(|driver| &driver.id);
        if holders_own && (holder.is_none() || holder != entry.driver.as_ref()) {
            return Err(format!("{} by one that does not hold the run", entry.fact.kind()));
        }
        Ok(())
    }

    fn call_mut(&mut self, key: CallKey) -> Result<&mut Call, String> {
        let turn = self.turns.binary_search_by_key(&key.entry, |turn| turn.index);
        turn.ok()
            .and_then(|turn| self.turns[turn].calls.get_mut(key.ordinal as usize))
            .ok_or_else(|| format!("there is no call {key}"))
    }

    fn driver_started(&mut self, entry: &Entry, until: Millis) -> Folded {
        if self.is_over() {
            return Err("a driver of a run that failed or was cancelled".to_owned());
        }
        let Some(id) = entry.driver.clone() else {
            return Err("a driver without a name".to_owned());
        };
        if let Some(until) = self.driver.as_ref().map(|dead| dead.until) {
            self.interrupt_model_call(entry.at.min(until));
        }
        if let Some(dead) = self.driver.take() {
            // The platform killed it at its deadline at the latest, so that is all it can have worked.
            self.worked_ms = self.worked_ms.saturating_add(entry.at.min(dead.until).since(dead.since));
            self.deaths.unexplained += 1;
            self.deaths.since.get_or_insert(entry.at);
            self.lose_running("the step that ran it ended before its result was stored")?;
        }
        self.driver = Some(Driver { id, since: entry.at, until });
        Ok(())
    }

    fn driver_stopped(&mut self, at: Millis, stop: &DriverStop) -> Folded {
        if matches!(stop, DriverStop::Crashed { .. }) {
            self.interrupt_model_call(at);
        }
        self.release(at);
        match stop {
            DriverStop::HandedOff => self.lose_running("its step handed the run on while it ran"),
            DriverStop::Crashed { .. } => {
                self.deaths.panics += 1;
                self.deaths.since.get_or_insert(at);
                self.deaths.last = Some(at);
                self.lose_running("its step crashed while it ran")
            }
        }
    }

    /// Whatever a model was being asked, its usage is not known (B9).
    fn interrupt_model_call(&mut self, at: Millis) {
        if wants_model(self, at) {
            self.usage.incomplete = true;
            self.cost.add_at_most(next_call_at_most(self));
        }
    }

    fn message_added(&mut self, index: u32, content: &[Content], supersedes: bool) -> Folded {
        if self.cancel.is_some() {
            return Err("a message to a cancelled run".to_owned());
        }
        if supersedes {
            self.supersede()?;
        }
        self.messages.push(UserMessage { index, content: content.to_vec(), late: None });
        if self.outcome.take().is_some() {
            self.trouble = Trouble::default();
        }
        Ok(())
    }

    fn finished(&mut self, at: Millis, outcome: &Outcome) -> Folded {
        // What a completed run still has to run can turn out to crash its step: then it has failed.
        let fails_late = self.has_completed() && outcome.status == FinalStatus::Failed;
        if self.outcome.is_some() && !fails_late {
            return Err("a second end".to_owned());
        }
        self.release(at);
        self.outcome = Some(outcome.clone());
        match outcome.status {
            FinalStatus::Completed => Ok(()),
            FinalStatus::Failed | FinalStatus::Cancelled => self.drop_pending(),
        }
    }

    fn release(&mut self, at: Millis) {
        if let Some(driver) = self.driver.take() {
            self.worked_ms = self.worked_ms.saturating_add(at.since(driver.since));
        }
    }

    fn model_replied(&mut self, entry: &Entry) -> Folded {
        let Fact::ModelReplied { model, content, stop, usage, seen, calls: plans } = &entry.fact else {
            return Err("not a reply".to_owned());
        };
        if self.awaited_calls().next().is_some() {
            return Err("a reply while calls of the last one are open".to_owned());
        }
        let mut calls = Vec::with_capacity(plans.len());
        let mut plans = plans.iter();
        for (block, part) in content.iter().enumerate() {
            let ReplyBlock::ToolCall { id, name, .. } = part else { continue };
            let Some(plan) = plans.next() else {
                return Err("a call without a plan".to_owned());
            };
            let key = CallKey::new(entry.index, u32::try_from(calls.len()).map_err(|error| error.to_string())?);
            let wire_id = transcript::wire_id(id, key, &self.wire_ids);
            self.wire_ids.insert(wire_id.clone());
            let state = self.planned(plan, *seen)?;
            let attempts = u32::from(plan.starts());
            let tool = name.clone();
            calls.push(Call {
                key,
                block,
                tool,
                wire_id,
                attempts,
                approved: false,
                edited: None,
                later: false,
                moved_on: None,
                state,
            });
        }
        if plans.next().is_some() {
            return Err("a plan without a call".to_owned());
        }
        if usage.incomplete {
            self.cost.add_at_most(next_call_at_most(self).max(self.definition.price(model).of(usage)));
        } else {
            self.cost.add(self.definition.price(model).of(usage));
        }
        self.usage.add(usage);
        self.trouble = Trouble { model: self.trouble.model, ..Trouble::default() };
        self.turns.push(Turn {
            index: entry.index,
            model: model.clone(),
            content: content.clone(),
            stop: stop.clone(),
            seen: *seen,
            tokens: (!usage.incomplete).then(|| usage.tokens()),
            calls,
        });
        Ok(())
    }
}
