//! Deciding a request: the only code path, whoever calls it.
//!
//! The answer is checked against the persisted request, then one transaction decides the row under
//! I6's condition and puts `RequestDecided` at the next index (I5). Of two that race, one stands
//! and the other is told what stands (E2).

use dormouse_domain::{
    Caller, Millis, Principal, RequestId, Run, RunId,
    budget::Budget,
    decide::{self, Answer, Deciding},
    policy,
    request::{DecisionKind, Request, RequestStatus, Settled, Via},
    run::Status,
    token::Link,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Engine, IdempotencyKey,
    amend::Amendment,
    error::Problem,
    ports::{RequestWrite, WriteError},
    rules::no_room,
};

/// What a decision led to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Responded {
    /// The request.
    pub request_id: RequestId,
    /// Where it stands.
    pub status: RequestStatus,
    /// The decision that stands.
    pub decision: Settled,
    /// The run.
    pub run_id: RunId,
    /// Where the run stands.
    pub run_status: Status,
}

/// By what way somebody decides.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Through<'a> {
    /// They signed in.
    SignIn(&'a Caller),
    /// By a link, in the name of who made it.
    Link(&'a Link),
}

impl Engine {
    /// Decides request `id` by `answer`, as `by`.
    ///
    /// # Errors
    /// [`Problem::Refused`] says why the answer is not taken and what stands.
    pub async fn respond(
        &self,
        by: &Caller,
        id: &RequestId,
        answer: &Answer,
        key: Option<&IdempotencyKey>,
    ) -> Result<Responded, Problem> {
        self.decide(&by.principal, id, Through::SignIn(by), answer, key).await
    }

    /// Decides request `id` by `answer`, which `by` gives `through`.
    pub(crate) async fn decide(
        &self,
        by: &Principal,
        id: &RequestId,
        through: Through<'_>,
        answer: &Answer,
        key: Option<&IdempotencyKey>,
    ) -> Result<Responded, Problem> {
        let full = answer.decision == DecisionKind::Always && self.no_room_for_a_rule(id, answer.scope).await?;
        self.amend(by, key, &id.run, Some(id), |run, row, now| {
            let row = row.ok_or(Problem::NotFound("request"))?;
            let amendment = self.decision(run, row, answer, through, now)?;
            if full { Err(no_room()) } else { Ok(amendment) }
        })
        .await
    }

    /// Decides the one request of run `run_id` that waits, as `by`.
    ///
    /// # Errors
    /// As [`respond`](Self::respond). If none waits, what became of the last that did;
    /// [`Problem::WrongState`] if none ever did, or if several wait.
    pub async fn respond_to_run(
        &self,
        by: &Caller,
        run_id: &RunId,
        answer: &Answer,
        key: Option<&IdempotencyKey>,
    ) -> Result<Responded, Problem> {
        if let Some(earlier) = self.earlier_answer(&by.principal, key).await? {
            self.send_wake(run_id, 0).await;
            return Ok(earlier);
        }
        let view = self.run_view(by, run_id).await?;
        let problem = match view.pending.as_slice() {
            [one] => return self.respond(by, &one.id, answer, key).await,
            [] => self.nothing_waits(run_id).await?,
            several => {
                let count = several.len();
                Problem::WrongState(format!(
                    "{count} requests wait in this run; answer each under /v1/requests/{{id}}/respond"
                ))
            }
        };
        self.unless_answered(&by.principal, key, problem).await
    }

    /// Why no request of a run waits: whoever comes second, or late, through this endpoint is told what
    /// became of the last one, as through the other endpoint (cases 2 and 20).
    async fn nothing_waits(&self, run_id: &RunId) -> Result<Problem, Problem> {
        let run = self.load(run_id).await?.ok_or(Problem::NotFound("run"))?;
        if let Some(key) = run.requests.keys().next_back() {
            let id = RequestId { run: run_id.clone(), key: *key };
            let row = self.ports.store.request(&id).await?;
            let now = self.ports.clock.now();
            if let Some(refusal) = row.and_then(|row| decide::still_open(&row, now).err()) {
                return Ok(refusal.into());
            }
        }
        Ok(Problem::WrongState("nothing in this run waits for an answer".to_owned()))
    }

    fn decision(
        &self,
        run: &Run,
        row: &Request,
        answer: &Answer,
        through: Through<'_>,
        now: Millis,
    ) -> Result<Amendment<Responded>, Problem> {
        let policy = self.ports.agents.policy(&run.agent);
        let fits = |arguments: &Value| {
            let name = row.tool.as_deref().unwrap_or_default();
            let tool = run.definition.tool(name).ok_or_else(|| format!("the agent has no tool {name:?}"))?;
            self.ports.tools.validate(tool, arguments)?;
            // A person's word is no way around what is forbidden (E5, case 12).
            policy::forbidden(tool, arguments, &[&run.definition.policy, &policy]).map_or(Ok(()), Err)
        };
        // A call that was approved late may have worked since the ceiling was reached.
        let today = row.budget.map(|_| Request { budget: Some(Budget::of(run, now)), ..row.clone() });
        let row = today.as_ref().unwrap_or(row);
        let (decision, by, via) = match through {
            Through::SignIn(by) => (decide::check(row, answer, by, now, &fits)?, &by.principal, None),
            Through::Link(link) => {
                let via = Via::Link { id: link.id.clone() };
                (link.check(row, answer, now, &fits)?, &link.issuer, Some(via))
            }
        };
        if run.requests.get(&row.id.key).is_none_or(|request| request.status != RequestStatus::Pending) {
            // Row and journal are written together and the row was read last, so this is a read that
            // fell between a transaction's items.
            return Err(Problem::Unavailable(WriteError::Contention.into()));
        }
        let deciding = decide::record(run, row, decision, by, via, now);
        let Deciding { facts, settled, digest, rule } = deciding.map_err(|error| Problem::Corrupt(error.into()))?;
        let (request_id, run_id) = (row.id.clone(), run.id.clone());
        let (id, inbox) = (row.id.clone(), row.inbox());
        let decide = RequestWrite::Decide { id, inbox, settled: settled.clone(), digest, now };
        Ok(Amendment {
            facts,
            decided: vec![decide],
            rule,
            answer: Box::new(move |run_status| Responded {
                request_id,
                status: RequestStatus::Decided,
                decision: settled,
                run_id,
                run_status,
            }),
        })
    }
}
