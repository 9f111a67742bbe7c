//! What the auditor keeps about requests: opened, decided, closed.

use super::{Audit, Broken, Checked, broken, call::CallBook, ensure};
use crate::{
    decide::{Decision, Resolution},
    entry::Opened,
    ids::{CallKey, Digest, Millis, Principal, RequestKey},
    plan,
    request::{DecisionKind, RequestKind},
    windows::Windows,
};

/// What the auditor keeps about one request.
#[derive(Debug, Clone)]
pub(super) struct RequestBook {
    pub(super) call: Option<CallKey>,
    kind: RequestKind,
    pub(super) windows: Windows,
    decisions: Vec<DecisionKind>,
    pub(super) pending: bool,
}

impl Audit {
    /// Closes a request that must be pending.
    pub(super) fn take_request(&mut self, key: RequestKey) -> Result<(Option<CallKey>, Windows), Broken> {
        match self.requests.get_mut(&key) {
            None => broken("I5", &format!("there is no request {key}")),
            Some(book) if !book.pending => broken("I6", &format!("request {key} is closed already")),
            Some(book) => {
                book.pending = false;
                Ok((book.call, book.windows))
            }
        }
    }

    pub(super) fn opened(&mut self, ordinal: u32, opened: &Opened) -> Checked {
        let key = RequestKey::new(self.index, ordinal);
        let Opened { call, kind, windows, decisions } = opened.clone();
        self.requests.insert(key, RequestBook { call, kind, windows, decisions, pending: true });
        match call {
            Some(call) => self.call(call)?.ask(key, kind)?,
            None => {
                let others = self.requests.iter().filter(|(other, book)| book.pending && **other != key);
                let asked = others.clone().any(|(_, book)| book.call.is_none());
                let goes_on = self.calls.values().any(CallBook::is_awaited);
                let fits = kind == RequestKind::Budget && !asked && !goes_on;
                ensure(fits, "C5", &format!("a request of kind {kind:?} that is about no call"))?;
            }
        }
        ensure(windows.wait_until <= windows.decide_by, "I5", "the conversation waits longer than one can decide")?;
        ensure(!self.cancelled, "I5", "a request of a cancelled run")
    }

    pub(super) fn decided(
        &mut self,
        key: RequestKey,
        decision: &Decision,
        by: &Principal,
        digest: Option<&Digest>,
        at: Millis,
    ) -> Checked {
        let (call_key, windows) = self.take_request(key)?;
        match call_key {
            Some(call) => self.call_decided(call, decision, digest)?,
            None => {
                if *decision == Decision::Stop {
                    self.cancelled = true;
                    self.close_all();
                }
                ensure(digest.is_none(), "I6", "a decision about a ceiling names arguments")?;
            }
        }
        let kind = decision.kind();
        let offered = self.requests.get(&key).is_some_and(|book| book.decisions.contains(&kind));
        ensure(offered, "I6", &format!("{} is not on offer for {key}", kind.as_str()))?;
        ensure(at <= windows.decide_by, "I6", &format!("{key} is decided after {}", windows.decide_by.0))?;
        ensure(self.may_decide(key, by), "I6", &format!("{key} is not {by}'s to decide"))
    }

    fn call_decided(&mut self, key: CallKey, decision: &Decision, digest: Option<&Digest>) -> Checked {
        let index = self.index;
        let (owner, id) = (self.owner.clone(), self.id.clone());
        let call = self.call(key)?;
        let about_arguments = match decision {
            Decision::Approve | Decision::Always { .. } | Decision::Edit { .. } => true,
            Decision::Settle { resolution } => *resolution == Resolution::Retry,
            Decision::Deny { .. } | Decision::Answer { .. } | Decision::Raise { .. } | Decision::Stop => false,
        };
        let right = call.digest.is_some() && digest == call.digest.as_ref();
        match decision {
            Decision::Approve | Decision::Always { .. } => call.allow(index, false),
            Decision::Edit { arguments } => {
                call.allow(index, false);
                let tool = call.tool.clone();
                let edited = owner.and_then(|owner| plan::call_digest(&owner, &id, &tool, arguments).ok());
                call.digest = edited;
                call.arguments = Some(arguments.clone());
            }
            Decision::Settle { resolution: Resolution::Retry } => call.allow(index, true),
            Decision::Settle { resolution: Resolution::Result(_) | Resolution::Abort }
            | Decision::Deny { .. }
            | Decision::Answer { .. } => drop(call.settle(index)),
            Decision::Raise { .. } | Decision::Stop => return broken("I6", "a ceiling, decided of a call"),
        }
        if matches!(decision, Decision::Answer { cancels: true, .. }) {
            // A run that has completed stays so; what waits beside it is closed.
            self.cancelled |= self.ended.is_none();
            self.close_all();
        }
        ensure(right || !(about_arguments || digest.is_some()), "I6", "the digest is not that of the call's arguments")
    }

    /// Whether `by` is somebody who decides this request, as far as a journal can show it: who was in a group is
    /// not in it.
    fn may_decide(&self, key: RequestKey, by: &Principal) -> bool {
        let Some((owner, book)) = self.owner.as_ref().zip(self.requests.get(&key)) else { return false };
        let call = book.call.and_then(|call| self.calls.get(&call));
        let tool = call.and_then(|call| self.definition.tool(&call.tool));
        let approvers = match book.kind {
            RequestKind::Question => None,
            RequestKind::Budget => self.definition.approvers.as_ref(),
            RequestKind::Approval | RequestKind::Uncertain | RequestKind::External => {
                tool.and_then(|tool| self.definition.approvers_of(tool))
            }
        };
        match approvers {
            None => owner == by,
            Some(approvers) => owner.tenant == by.tenant && !(approvers.not_requester && owner == by),
        }
    }

    /// Nothing can be decided any more.
    pub(super) fn close_all(&mut self) {
        let index = self.index;
        for book in self.requests.values_mut().filter(|book| book.pending) {
            book.pending = false;
            if let Some(call) = book.call.and_then(|call| self.calls.get_mut(&call)) {
                call.close(index);
            }
        }
    }
}
