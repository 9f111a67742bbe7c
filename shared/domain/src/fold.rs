//! The fold: a journal's entries become a run's state.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    agent::{Definition, Replay},
    decide::{Decision, Resolution},
    entry::{CallResult, DriverStop, Entry, Fact, Opened, Outcome},
    ids::{CallKey, Millis, Principal, RequestKey, RunId},
    message::ReplyBlock,
    plan::Plan,
    request::{RequestKind, RequestStatus},
    run::{AskWhy, Call, CallState, Cancel, Deaths, Driver, Ending, OpenedRequest, Run, Trouble, Turn, UserMessage},
    transcript,
};

/// Attempts at a call that may be repeated.
const ATTEMPTS: u32 = 3;

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
        let Fact::RunStarted { owner, agent, definition: digest, mode, input, metadata } = &first.fact else {
            return Err(corrupt("the first entry is not RunStarted"));
        };
        Ok(Self {
            id,
            definition,
            definition_digest: digest.clone(),
            owner: owner.clone(),
            agent: agent.clone(),
            mode: *mode,
            metadata: metadata.clone(),
            created_at: first.at,
            updated_at: first.at,
            len: 1,
            turns: Vec::new(),
            messages: vec![UserMessage { index: 0, content: input.clone() }],
            requests: BTreeMap::new(),
            driver: None,
            paused: false,
            cancel: None,
            outcome: None,
            usage: crate::message::Usage::default(),
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
            Fact::ModelFailed { message, attempt, retry_at, next_model, .. } => {
                let moved_on = *next_model != self.trouble.model;
                self.usage.incomplete = true;
                self.trouble = Trouble {
                    attempts: if moved_on { 0 } else { *attempt },
                    model: *next_model,
                    retry_at: *retry_at,
                    gave_up: if retry_at.is_none() { Some(message.clone()) } else { None },
                };
                Ok(())
            }
            Fact::CallDispatched { calls } => calls.iter().try_for_each(|start| {
                let call = self.call_mut(start.call)?;
                if call.state != CallState::Ready || start.attempt != call.attempts + 1 {
                    return Err(format!("call {} cannot start attempt {}", start.call, start.attempt));
                }
                call.attempts = start.attempt;
                call.state = CallState::Running { attempt: start.attempt };
                Ok(())
            }),
            Fact::CallFinished { call, attempt, result } => self.call_finished(*call, *attempt, result),
            Fact::Suspended { requests, .. } => self.suspended(entry, requests),
            Fact::RequestDecided { request, decision, by, .. } => self.decided(*request, decision, by),
            Fact::RequestExpired { requests } => requests.iter().try_for_each(|key| {
                let (call, kind) = self.close(*key, RequestStatus::Expired)?;
                self.call_mut(call)?.state = CallState::Done(Ending::Expired { kind });
                Ok(())
            }),
            Fact::MessageAdded { content, .. } => {
                if self.cancel.is_some() {
                    return Err("a message to a cancelled run".to_owned());
                }
                self.messages.push(UserMessage { index: entry.index, content: content.clone() });
                if self.outcome.take().is_some() {
                    self.trouble = Trouble::default();
                }
                Ok(())
            }
            Fact::ModeChanged { mode, calls, .. } => {
                self.mode = *mode;
                calls.iter().try_for_each(|change| {
                    let call = self.call_mut(change.call)?;
                    call.state = replanned(call.attempts, &change.plan);
                    Ok(())
                })
            }
            Fact::Paused { .. } => {
                self.paused = true;
                Ok(())
            }
            Fact::Resumed { .. } => {
                self.paused = false;
                Ok(())
            }
            Fact::CancelRequested { by, reason } => {
                let why = reason.clone().unwrap_or_else(|| "cancelled".to_owned());
                self.cancelled(Cancel { by: by.clone(), why })
            }
            Fact::RunFinished(outcome) => self.finished(entry.at, outcome),
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
            | Fact::Suspended { .. }
            | Fact::RequestExpired { .. } => true,
            Fact::RunFinished(_) => entry.driver.is_some(),
            Fact::RunStarted { .. }
            | Fact::DriverStarted { .. }
            | Fact::CallFinished { .. }
            | Fact::RequestDecided { .. }
            | Fact::MessageAdded { .. }
            | Fact::ModeChanged { .. }
            | Fact::Paused { .. }
            | Fact::Resumed { .. }
            | Fact::CancelRequested { .. } => false,
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
        if self.outcome.is_some() {
            return Err("a driver of a finished run".to_owned());
        }
        let Some(id) = entry.driver.clone() else {
            return Err("a driver without a name".to_owned());
        };
        if let Some(dead) = self.driver.take() {
            // The platform killed it at its deadline at the latest, so that is all it can have worked.
            self.worked_ms = self.worked_ms.saturating_add(entry.at.min(dead.until).since(dead.since));
            self.deaths.unexplained += 1;
            self.deaths.since.get_or_insert(entry.at);
            self.interrupt_model_call();
            self.lose_running("the step that ran it ended before its result was stored")?;
        }
        self.driver = Some(Driver { id, since: entry.at, until });
        Ok(())
    }

    fn driver_stopped(&mut self, at: Millis, stop: &DriverStop) -> Folded {
        self.release(at);
        match stop {
            DriverStop::HandedOff => self.lose_running("its step handed the run on while it ran"),
            DriverStop::Crashed { .. } => {
                self.deaths.panics += 1;
                self.deaths.since.get_or_insert(at);
                self.deaths.last = Some(at);
                self.interrupt_model_call();
                self.lose_running("its step crashed while it ran")
            }
        }
    }

    /// Whatever a model was being asked, its usage is not known (B9).
    fn interrupt_model_call(&mut self) {
        let asked = self.open_calls().all(|call| matches!(call.state, CallState::Done(_)));
        self.usage.incomplete |= asked;
    }

    fn release(&mut self, at: Millis) {
        if let Some(driver) = self.driver.take() {
            self.worked_ms = self.worked_ms.saturating_add(at.since(driver.since));
        }
    }

    /// The driver is gone: what it ran has no known outcome.
    fn lose_running(&mut self, why: &str) -> Folded {
        let running = self.open_calls().filter_map(|call| match call.state {
            CallState::Running { attempt } => Some((call.key, attempt)),
            CallState::Ready
            | CallState::Asking(_)
            | CallState::Pending { .. }
            | CallState::Unknown { .. }
            | CallState::Done(_) => None,
        });
        let running: Vec<_> = running.collect();
        running.into_iter().try_for_each(|(key, attempt)| self.outcome_unknown(key, attempt, why))
    }

    /// What follows when it is not known what an attempt did: the tool's replay policy says.
    fn outcome_unknown(&mut self, key: CallKey, attempt: u32, why: &str) -> Folded {
        let call = self.call_mut(key)?;
        let name = call.tool.clone();
        // A tool that is in no definition cannot have been dispatched; manual is the safe reading.
        let replay = self.definition.tool(&name).map_or(Replay::Manual, |tool| tool.replay);
        let why = why.to_owned();
        self.call_mut(key)?.state = match replay {
            Replay::Safe | Replay::Idempotent if attempt < ATTEMPTS => CallState::Ready,
            Replay::Safe => CallState::Done(Ending::GaveUp { why }),
            Replay::Idempotent | Replay::Manual => CallState::Unknown { attempt, why },
        };
        Ok(())
    }

    fn model_replied(&mut self, entry: &Entry) -> Folded {
        let Fact::ModelReplied { model, content, stop, usage, seen, calls: plans } = &entry.fact else {
            return Err("not a reply".to_owned());
        };
        if self.open_calls().any(|call| !matches!(call.state, CallState::Done(_))) {
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
            let state = planned(plan);
            let attempts = u32::from(*plan == Plan::Start);
            calls.push(Call { key, block, tool: name.clone(), wire_id, attempts, approved: false, state });
        }
        if plans.next().is_some() {
            return Err("a plan without a call".to_owned());
        }
        self.usage.add(usage);
        self.trouble = Trouble { model: self.trouble.model, ..Trouble::default() };
        self.turns.push(Turn {
            index: entry.index,
            model: model.clone(),
            content: content.clone(),
            stop: stop.clone(),
            seen: *seen,
            calls,
        });
        Ok(())
    }

    fn call_finished(&mut self, key: CallKey, attempt: u32, result: &CallResult) -> Folded {
        let call = self.call_mut(key)?;
        if !call.takes(attempt, result) {
            return Err(format!("call {key} takes no such result of attempt {attempt}"));
        }
        let superseded = match call.state {
            CallState::Pending { request } => Some(request),
            CallState::Ready
            | CallState::Asking(_)
            | CallState::Running { .. }
            | CallState::Unknown { .. }
            | CallState::Done(_) => None,
        };
        match result {
            CallResult::Returned { content, is_error } => {
                call.state = CallState::Done(Ending::Returned { content: content.clone(), is_error: *is_error });
            }
            CallResult::NotSent { why } if attempt == 1 => {
                call.state = CallState::Done(Ending::NotSent { why: why.clone() });
            }
            // There is a further attempt only because it is not known what the one before did.
            CallResult::NotSent { why } => {
                let why = format!("attempt {attempt} did not reach the tool ({why}), and an earlier one may have");
                return self.outcome_unknown(key, attempt, &why);
            }
            CallResult::Unknown { why } => return self.outcome_unknown(key, attempt, why),
        }
        if let Some(request) = superseded {
            self.close(request, RequestStatus::Cancelled)?;
        }
        Ok(())
    }

    fn suspended(&mut self, entry: &Entry, requests: &[Opened]) -> Folded {
        self.release(entry.at);
        for (ordinal, opened) in requests.iter().enumerate() {
            let ordinal = u32::try_from(ordinal).map_err(|error| error.to_string())?;
            let key = RequestKey::new(entry.index, ordinal);
            let call = self.call_mut(opened.call)?;
            match call.state {
                CallState::Asking(_) | CallState::Unknown { .. } => {}
                CallState::Ready | CallState::Pending { .. } | CallState::Running { .. } | CallState::Done(_) => {
                    return Err(format!("call {} asks for nothing", opened.call));
                }
            }
            call.state = CallState::Pending { request: key };
            let (call, kind, windows) = (opened.call, opened.kind, opened.windows);
            let request = OpenedRequest { call, kind, windows, status: RequestStatus::Pending };
            self.requests.insert(key, request);
        }
        self.lose_running("its step suspended while it ran")
    }

    /// Closes a pending request.
    fn close(&mut self, key: RequestKey, status: RequestStatus) -> Result<(CallKey, RequestKind), String> {
        let request = self.requests.get_mut(&key).ok_or_else(|| format!("there is no request {key}"))?;
        if request.status != RequestStatus::Pending {
            return Err(format!("request {key} is closed already"));
        }
        request.status = status;
        Ok((request.call, request.kind))
    }

    fn decided(&mut self, key: RequestKey, decision: &Decision, by: &Principal) -> Folded {
        let (call_key, _) = self.close(key, RequestStatus::Decided)?;
        let call = self.call_mut(call_key)?;
        let mut cancel = None;
        call.state = match decision {
            Decision::Approve => {
                call.approved = true;
                CallState::Ready
            }
            Decision::Deny { reason } => CallState::Done(Ending::Declined { reason: reason.clone() }),
            Decision::Answer { answer, cancels } => {
                cancel = cancels.then(|| Cancel { by: by.clone(), why: format!("the person chose {answer}") });
                CallState::Done(Ending::Answered { answer: answer.clone() })
            }
            Decision::Settle { resolution: Resolution::Result(result) } => {
                CallState::Done(Ending::Settled { result: result.clone() })
            }
            Decision::Settle { resolution: Resolution::Retry } => {
                call.approved = true;
                CallState::Ready
            }
            Decision::Settle { resolution: Resolution::Abort } => CallState::Done(Ending::Abandoned),
        };
        cancel.map_or(Ok(()), |cancel| self.cancelled(cancel))
    }

    /// Nothing starts any more, and nothing can be decided any more. What runs settles.
    fn cancelled(&mut self, cancel: Cancel) -> Folded {
        self.cancel.get_or_insert(cancel);
        self.drop_pending()
    }

    fn drop_pending(&mut self) -> Folded {
        let pending: Vec<_> = self.pending().map(|(key, _)| key).collect();
        for key in pending {
            let (call, kind) = self.close(key, RequestStatus::Cancelled)?;
            let call = self.call_mut(call)?;
            call.state = match kind {
                RequestKind::Uncertain => {
                    CallState::Unknown { attempt: call.attempts, why: "the run ended before anyone said".to_owned() }
                }
                RequestKind::Approval | RequestKind::Question | RequestKind::Budget | RequestKind::External => {
                    CallState::Done(Ending::Cancelled)
                }
            };
        }
        Ok(())
    }

    fn finished(&mut self, at: Millis, outcome: &Outcome) -> Folded {
        if self.outcome.is_some() {
            return Err("a second end".to_owned());
        }
        self.release(at);
        self.outcome = Some(outcome.clone());
        self.drop_pending()
    }
}

/// Where a call stands whose plan changed after `attempts` attempts. One that may have run is not run
/// again under a narrower mode, but it is not called "not run" either.
fn replanned(attempts: u32, plan: &Plan) -> CallState {
    match plan {
        Plan::Ask { reason } if attempts > 0 => CallState::Unknown { attempt: attempts, why: reason.clone() },
        Plan::Deny { because } if attempts > 0 => CallState::Done(Ending::GaveUp { why: because.clone() }),
        Plan::Start | Plan::Allow | Plan::Ask { .. } | Plan::Question | Plan::Deny { .. } | Plan::Invalid { .. } => {
            planned(plan)
        }
    }
}

/// Where a planned call stands.
fn planned(plan: &Plan) -> CallState {
    match plan {
        Plan::Start => CallState::Running { attempt: 1 },
        Plan::Allow => CallState::Ready,
        Plan::Ask { reason } => CallState::Asking(AskWhy::Approval { reason: reason.clone() }),
        Plan::Question => CallState::Asking(AskWhy::Question),
        Plan::Deny { because } => CallState::Done(Ending::Denied { because: because.clone() }),
        Plan::Invalid { problem } => CallState::Done(Ending::Invalid { problem: problem.clone() }),
    }
}
