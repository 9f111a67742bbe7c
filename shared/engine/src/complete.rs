//! External completion: another system says what a call did that it had taken (X7).
//!
//! Its token lets it write the call's result, once, in the way in which a driver writes one that comes after it lost the
//! run: as long as it is news, in one transaction with the request that closes with it. It can come while the call still
//! runs, before the tool's own answer that it will; while the request waits; when the conversation has gone on; and while
//! nobody knows what the call did, because the step that made it died.

use dormouse_domain::{
    Fact, Millis, Run, RunId,
    entry::{CallResult, FinalStatus},
    kv::KvPatch,
    message::Content,
    run::{Call, CallState, Ending, Status},
    token::{Completion, TokenId},
};
use serde::{Deserialize, Serialize};

use crate::{
    Engine, IdempotencyKey,
    amend::Amendment,
    error::Problem,
    ports::{Handover, KeysError, ToolCall},
};

/// Longest content of a completion, in bytes: that of any tool's text.
pub const MAX_COMPLETION_BYTES: usize = 256 * 1024;

/// A call that was completed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completed {
    /// The run.
    pub run_id: RunId,
    /// The call, named as where it was made.
    pub call_id: String,
    /// Where the run stands.
    pub run_status: Status,
}

impl Engine {
    /// Writes what a call did, by the token that went with it.
    ///
    /// # Errors
    /// [`Problem::NotFound`] for what is no token; [`Problem::Gone`] if it or the run is over; [`Problem::WrongState`] if
    /// the call has its result, or another attempt, and says which.
    pub async fn complete(
        &self,
        token: &str,
        content: Vec<Content>,
        is_error: bool,
        key: Option<&IdempotencyKey>,
    ) -> Result<Completed, Problem> {
        let token: Completion = self.keys().await?.open(token).ok_or(Problem::NotFound("completion"))?;
        let bytes: usize = content.iter().map(Content::bytes).sum();
        if bytes > MAX_COMPLETION_BYTES {
            let detail = format!("the content has {bytes} bytes; at most {MAX_COMPLETION_BYTES} are taken");
            return Err(Problem::TooLarge(detail));
        }
        let key = key.map(|key| key.of_token("done", &token.id));
        let result = CallResult::Returned { content, is_error };
        let completed = self.amend(&token.owner, key.as_ref(), &token.run, None, |run, _, now| {
            let fact = finished(&token, run, &result, now)?;
            let (run_id, call_id) = (run.id.clone(), format!("{}.{}", run.id, token.call));
            Ok(Amendment {
                facts: vec![fact],
                decided: Vec::new(),
                rule: None,
                answer: Box::new(move |run_status| Completed { run_id, call_id, run_status }),
            })
        });
        let completed = completed.await.map_err(|problem| match problem.is_not_found() {
            true => Problem::NotFound("completion"),
            false => problem,
        })?;
        tracing::info!(run = %token.run, call = %token.call, attempt = token.attempt, token = %token.id, "completed");
        Ok(completed)
    }

    /// What a call of a tool that may answer later takes along, good for as long as anybody can say what it did: `held`
    /// is until when this driver can hold the run at most, and then a request is opened.
    pub(crate) async fn handover(&self, made: &ToolCall, held: Millis, life_ms: u64) -> Result<Handover, KeysError> {
        let token = Completion {
            id: TokenId::from_bits(self.ports.ids.fresh()),
            run: made.run.clone(),
            call: made.call,
            attempt: made.attempt,
            expires_at: held.plus(life_ms),
            owner: made.owner.clone(),
        };
        let text = self.ports.keys.ring().await?.sign(&token);
        let text = text.map_err(|error| KeysError::Unavailable(error.to_string()))?;
        Ok(Handover { token: text, expires_at: token.expires_at })
    }
}

/// The fact that completes a call, if it can still be completed.
fn finished(token: &Completion, run: &Run, result: &CallResult, now: Millis) -> Result<Fact, Problem> {
    if !token.is_good(now) {
        return Err(Problem::Gone("the time in which this call could be completed is over".to_owned()));
    }
    // A run that failed can go on, by a message: what was done is news then too.
    let cancelled = run.outcome.as_ref().is_some_and(|outcome| outcome.status == FinalStatus::Cancelled);
    if cancelled || run.cancel.is_some() {
        return Err(Problem::Gone("the run of this call is over; its result is not needed any more".to_owned()));
    }
    let call = run.call(token.call).ok_or(Problem::NotFound("completion"))?;
    if !call.takes(token.attempt, result) {
        return Err(Problem::WrongState(stands(call, token.attempt)));
    }
    Ok(Fact::CallFinished {
        call: token.call,
        attempt: token.attempt,
        result: result.clone(),
        kv: KvPatch::new(),
        used: None,
    })
}

/// Why a call takes no completion: what stands.
fn stands(call: &Call, attempt: u32) -> String {
    let what = match &call.state {
        CallState::Done(ending) => match ending {
            Ending::Returned { .. } => "it has its result",
            Ending::Settled { .. } => "a person recorded its result",
            Ending::Abandoned => "a person chose to leave it",
            Ending::Expired { .. } => "nobody said in time what it did",
            Ending::NotSent { .. }
            | Ending::Denied { .. }
            | Ending::Invalid { .. }
            | Ending::Declined { .. }
            | Ending::Answered { .. }
            | Ending::GaveUp { .. }
            | Ending::Joined { .. }
            | Ending::Superseded
            | Ending::Cancelled => "it has ended otherwise",
        },
        CallState::Ready
        | CallState::Asking(_)
        | CallState::Pending { .. }
        | CallState::Running { .. }
        | CallState::Delegated { .. }
        | CallState::Unknown { .. } => "a later attempt is under way",
    };
    format!("attempt {attempt} at this call cannot be completed any more: {what}")
}
