//! The fold of calls and requests: how a call gets from its plan to its ending.

use super::Folded;
use crate::{
    agent::Replay,
    budget,
    decide::{Decision, Resolution},
    entry::{CallResult, Dispatched, Entry, Opened, Replanned},
    ids::{CallKey, Principal, RequestKey},
    kv::KvPatch,
    plan::Plan,
    request::{RequestKind, RequestStatus},
    run::{AskWhy, CallState, Cancel, Ending, Late, OpenedRequest, Run, Trouble, UserMessage},
    same, transcript,
};

/// Attempts at a call that may be repeated.
const ATTEMPTS: u32 = 3;

impl Run {
    /// Where a call stands that was planned with a reply whose prompt contained `seen` entries.
    pub(super) fn planned(&mut self, plan: &Plan, seen: u32) -> Result<CallState, String> {
        Ok(match plan {
            Plan::Start { .. } => CallState::Running { attempt: 1 },
            Plan::Allow { .. } => CallState::Ready,
            Plan::Ask { reason, floor } => {
                CallState::Asking(AskWhy::Approval { reason: reason.clone(), floor: *floor })
            }
            Plan::Question => CallState::Asking(AskWhy::Question),
            Plan::Deny { because } => CallState::Done(Ending::Denied { because: because.clone() }),
            Plan::Invalid { problem } => CallState::Done(Ending::Invalid { problem: problem.clone() }),
            Plan::Joins { call } => {
                let joined = self.call(*call).filter(|call| self.moved_on.contains(&call.key));
                let request = joined.and_then(|call| call.moved_on);
                let request = request.ok_or_else(|| format!("call {call} does not wait beside the conversation"))?;
                self.repeats.while_pending += 1;
                CallState::Done(Ending::Joined { request })
            }
            Plan::Known { call } => {
                let known = self.call(*call).map(|call| call.state.clone());
                let Some(CallState::Done(ending)) = known else {
                    return Err(format!("call {call} has no ending to hand on"));
                };
                // Handed on here, it is not told a second time.
                let late = |message: &UserMessage| message.late.is_some_and(|late| late.call == *call);
                self.messages.retain(|message| message.index < seen || !late(message));
                CallState::Done(ending)
            }
        })
    }

    /// A call that was about to be made may not run any more.
    pub(super) fn withheld(&mut self, change: &Replanned) -> Folded {
        let stops = matches!(change.plan, Plan::Ask { .. } | Plan::Deny { .. });
        if self.call_mut(change.call)?.state != CallState::Ready || !stops {
            return Err(format!("call {} is not about to be made, or is not stopped by its plan", change.call));
        }
        self.replanned(change)
    }

    /// Where a call stands whose plan changed. One that may have run is not run again under a
    /// narrower mode, but it is not called "not run" either.
    pub(super) fn replanned(&mut self, change: &Replanned) -> Folded {
        let attempts = self.call_mut(change.call)?.attempts;
        let state = match &change.plan {
            Plan::Ask { reason, .. } if attempts > 0 => CallState::Unknown { attempt: attempts, why: reason.clone() },
            Plan::Deny { because } if attempts > 0 => CallState::Done(Ending::GaveUp { why: because.clone() }),
            Plan::Allow { .. } | Plan::Ask { .. } | Plan::Deny { .. } => self.planned(&change.plan, self.len)?,
            Plan::Start { .. } | Plan::Question | Plan::Invalid { .. } | Plan::Joins { .. } | Plan::Known { .. } => {
                return Err(format!("a change of mode gives call {} no such plan", change.call));
            }
        };
        match state {
            // What a person was late to approve is told of, whatever becomes of it.
            CallState::Done(ending) => self.end(change.call, ending, true),
            CallState::Ready
            | CallState::Asking(_)
            | CallState::Pending { .. }
            | CallState::Running { .. }
            | CallState::Delegated { .. }
            | CallState::Unknown { .. } => {
                self.call_mut(change.call)?.state = state;
                Ok(())
            }
        }
    }

    pub(super) fn call_started(&mut self, start: Dispatched) -> Folded {
        let call = self.call_mut(start.call)?;
        if call.state != CallState::Ready || start.attempt != call.attempts + 1 {
            return Err(format!("call {} cannot start attempt {}", start.call, start.attempt));
        }
        call.attempts = start.attempt;
        call.later = false;
        call.state = CallState::Running { attempt: start.attempt };
        Ok(())
    }

    pub(super) fn call_finished(&mut self, key: CallKey, attempt: u32, result: &CallResult) -> Folded {
        let call = self.call_mut(key)?;
        if !call.takes(attempt, result) {
            return Err(format!("call {key} takes no such result of attempt {attempt}"));
        }
        if let CallState::Pending { request } = call.state {
            self.close(request, RequestStatus::Cancelled)?;
        }
        let ending = match result {
            CallResult::Returned { content, is_error } => {
                Ending::Returned { content: content.clone(), is_error: *is_error }
            }
            CallResult::NotSent { why } if attempt == 1 => Ending::NotSent { why: why.clone() },
            // There is a further attempt only because it is not known what the one before did.
            CallResult::NotSent { why } => {
                let why = format!("attempt {attempt} did not reach the tool ({why}), and an earlier one may have");
                return self.outcome_unknown(key, attempt, &why);
            }
            CallResult::Unknown { why } => return self.outcome_unknown(key, attempt, why),
            CallResult::Later {} if self.call(key).is_some_and(|call| self.delegates(call)) => {
                self.call_mut(key)?.state = CallState::Delegated { attempt };
                return Ok(());
            }
            CallResult::Later {} => {
                let call = self.call_mut(key)?;
                call.later = true;
                call.state = CallState::Unknown { attempt, why: "another system is to complete it".to_owned() };
                return Ok(());
            }
        };
        self.end(key, ending, true)
    }

    /// What the tool keeps for the run from now on.
    pub(super) fn kept(&mut self, result: &CallResult, patch: &KvPatch) -> Folded {
        let answered = match result {
            CallResult::Returned { .. } => true,
            CallResult::NotSent { .. } | CallResult::Unknown { .. } | CallResult::Later {} => false,
        };
        if !answered && !patch.is_empty() {
            return Err("a call that did not answer changes the run's state".to_owned());
        }
        if !patch.is_empty() {
            self.state = self.state.after(patch).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// The driver is gone: what it ran has no known outcome.
    pub(super) fn lose_running(&mut self, why: &str) -> Folded {
        let running = self.open_calls().filter_map(|call| match call.state {
            CallState::Running { attempt } => Some((call.key, attempt)),
            CallState::Ready
            | CallState::Asking(_)
            | CallState::Pending { .. }
            | CallState::Delegated { .. }
            | CallState::Unknown { .. }
            | CallState::Done(_) => None,
        });
        let running: Vec<_> = running.collect();
        running.into_iter().try_for_each(|(key, attempt)| self.outcome_unknown(key, attempt, why))
    }

    /// What follows when it is not known what an attempt did: the tool's replay policy says.
    fn outcome_unknown(&mut self, key: CallKey, attempt: u32, why: &str) -> Folded {
        let name = self.call_mut(key)?.tool.clone();
        // A tool that is in no definition cannot have been dispatched; manual is the safe reading.
        let replay = self.definition.tool(&name).map_or(Replay::Manual, |tool| tool.replay);
        let why = why.to_owned();
        self.call_mut(key)?.state = match replay {
            Replay::Safe | Replay::Idempotent if attempt < ATTEMPTS => CallState::Ready,
            Replay::Safe => return self.end(key, Ending::GaveUp { why }, true),
            Replay::Idempotent | Replay::Manual => CallState::Unknown { attempt, why },
        };
        Ok(())
    }

    /// Gives a call its ending. If the conversation went on without it, the model is told by a
    /// message: every ending passes here, so none is forgotten (E7).
    pub(super) fn end(&mut self, key: CallKey, ending: Ending, decided: bool) -> Folded {
        let call = self.call_mut(key)?;
        call.state = CallState::Done(ending);
        if self.moved_on.remove(&key) {
            let content = self.call(key).map(|call| transcript::late(self, call)).unwrap_or_default();
            let late = Some(Late { call: key, decided });
            self.messages.push(UserMessage { index: self.len, content, late });
        }
        Ok(())
    }

    pub(super) fn suspended(&mut self, entry: &Entry, requests: &[Opened]) -> Folded {
        self.release(entry.at);
        for (ordinal, opened) in requests.iter().enumerate() {
            let ordinal = u32::try_from(ordinal).map_err(|error| error.to_string())?;
            let key = RequestKey::new(entry.index, ordinal);
            let moved_on = match opened.call {
                Some(call) => self.asked_about(call, key)?,
                None if opened.kind == RequestKind::Budget && budget::pending(self).is_none() => false,
                None => return Err(format!("request {key} is about no call")),
            };
            let (call, kind, windows) = (opened.call, opened.kind, opened.windows);
            let request = OpenedRequest { call, kind, windows, status: RequestStatus::Pending, moved_on };
            self.requests.insert(key, request);
        }
        self.lose_running("its step suspended while it ran")
    }

    /// Call `asking` waits for request `key` from now on. Tells whether the conversation went on without it.
    fn asked_about(&mut self, asking: CallKey, key: RequestKey) -> Result<bool, String> {
        let call = self.call_mut(asking)?;
        match call.state {
            CallState::Asking(_) | CallState::Unknown { .. } => {}
            CallState::Ready
            | CallState::Pending { .. }
            | CallState::Running { .. }
            | CallState::Delegated { .. }
            | CallState::Done(_) => {
                return Err(format!("call {asking} asks for nothing"));
            }
        }
        call.state = CallState::Pending { request: key };
        let moved_on = call.moved_on.is_some();
        let repeats = self.call(asking).map(|call| same::repeats(self, call)).unwrap_or_default();
        self.repeats.after_refusal += u32::from(repeats.after_refusal > 0);
        Ok(moved_on)
    }

    /// The conversation goes on; the request stays.
    pub(super) fn stop_waiting(&mut self, key: RequestKey) -> Folded {
        let request = self.requests.get_mut(&key).ok_or_else(|| format!("there is no request {key}"))?;
        if request.status != RequestStatus::Pending || request.moved_on {
            return Err(format!("the conversation does not wait for request {key}"));
        }
        let Some(call) = request.call else {
            return Err(format!("the conversation cannot go on without request {key}"));
        };
        request.moved_on = true;
        self.call_mut(call)?.moved_on = Some(key);
        self.moved_on.insert(call);
        Ok(())
    }

    /// Closes a pending request. Returns the call that it is about, if it is about one.
    pub(super) fn close(&mut self, key: RequestKey, status: RequestStatus) -> Result<Option<CallKey>, String> {
        let request = self.requests.get_mut(&key).ok_or_else(|| format!("there is no request {key}"))?;
        if request.status != RequestStatus::Pending {
            return Err(format!("request {key} is closed already"));
        }
        request.status = status;
        Ok(request.call)
    }

    pub(super) fn decided(&mut self, key: RequestKey, decision: &Decision, by: &Principal) -> Folded {
        let Some(call) = self.close(key, RequestStatus::Decided)? else {
            return self.ceiling_decided(key, decision, by);
        };
        if self.has_completed() {
            // For this one the agent can be woken again, also where its models failed for the one before.
            self.trouble = Trouble::default();
        }
        let mut cancel = None;
        let ending = match decision {
            Decision::Approve | Decision::Always { .. } | Decision::Settle { resolution: Resolution::Retry } => {
                let call = self.call_mut(call)?;
                call.approved = true;
                call.state = CallState::Ready;
                return Ok(());
            }
            Decision::Edit { arguments } => {
                let call = self.call_mut(call)?;
                call.approved = true;
                call.edited = Some(arguments.clone());
                call.state = CallState::Ready;
                return Ok(());
            }
            Decision::Deny { reason } => Ending::Declined { reason: reason.clone() },
            Decision::Answer { answer, cancels } => {
                cancel = cancels.then(|| Cancel { by: by.clone(), why: format!("the person chose {answer}") });
                Ending::Answered { answer: answer.clone() }
            }
            Decision::Settle { resolution: Resolution::Result(result) } => Ending::Settled { result: result.clone() },
            Decision::Settle { resolution: Resolution::Abort } => Ending::Abandoned,
            Decision::Raise { .. } | Decision::Stop => return Err(format!("request {key} is about a call")),
        };
        self.end(call, ending, cancel.is_none())?;
        match (cancel, &self.outcome) {
            (None, _) => Ok(()),
            (Some(cancel), None) => self.cancelled(cancel),
            // The run is over already: what is left to cancel is what still waits beside it.
            (Some(_), Some(_)) => self.drop_pending(),
        }
    }

    /// Somebody said what becomes of a run that has reached a ceiling.
    fn ceiling_decided(&mut self, key: RequestKey, decision: &Decision, by: &Principal) -> Folded {
        match decision {
            Decision::Raise { amount } => {
                self.ceilings = self.ceilings.plus(amount);
                // The time that a model has for its reply does not run while a person is waited for.
                self.trouble.since = None;
                Ok(())
            }
            Decision::Stop => {
                let why = "a ceiling was reached, and was not raised".to_owned();
                self.cancelled(Cancel { by: by.clone(), why })
            }
            Decision::Approve
            | Decision::Always { .. }
            | Decision::Edit { .. }
            | Decision::Deny { .. }
            | Decision::Answer { .. }
            | Decision::Settle { .. } => Err(format!("request {key} is about no call")),
        }
    }

    /// A message takes the place of what a person was asked. What may have run stays unknown.
    pub(super) fn supersede(&mut self) -> Folded {
        let awaited: Vec<_> = self.awaited_calls().map(|call| (call.key, call.attempts, call.state.clone())).collect();
        for (key, attempts, state) in awaited {
            match state {
                CallState::Pending { request } => {
                    self.close(request, RequestStatus::Cancelled)?;
                }
                CallState::Asking(_) | CallState::Unknown { .. } => {}
                CallState::Ready | CallState::Running { .. } | CallState::Delegated { .. } | CallState::Done(_) => {
                    continue;
                }
            }
            self.end(key, if attempts > 0 { Ending::Abandoned } else { Ending::Superseded }, false)?;
        }
        Ok(())
    }

    /// Nothing starts any more, and nothing can be decided any more. What runs settles.
    pub(super) fn cancelled(&mut self, cancel: Cancel) -> Folded {
        self.cancel.get_or_insert(cancel);
        self.drop_pending()
    }

    pub(super) fn drop_pending(&mut self) -> Folded {
        let pending: Vec<_> = self.pending().map(|(key, request)| (key, request.kind)).collect();
        for (key, kind) in pending {
            let Some(call) = self.close(key, RequestStatus::Cancelled)? else { continue };
            match kind {
                RequestKind::Uncertain | RequestKind::External => {
                    let call = self.call_mut(call)?;
                    let why = "the run ended before anyone said".to_owned();
                    call.state = CallState::Unknown { attempt: call.attempts, why };
                }
                RequestKind::Approval | RequestKind::Question | RequestKind::Budget => {
                    self.end(call, Ending::Cancelled, false)?;
                }
            }
        }
        Ok(())
    }
}
