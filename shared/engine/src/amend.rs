//! How everybody but a driver writes: load, fold, judge, and put what follows at the next index, in
//! one transaction with all that depends on it. Who loses the index reads again and judges anew.

use std::time::Duration;

use dormouse_domain::{
    Digest, Entry, Fact, Millis, Principal, RequestId, Run, RunId,
    item::{RunItem, wake_at},
    policy::StandingRule,
    request::{self, Request},
    run::Status,
    token::TokenId,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Engine,
    error::{Problem, final_write_error},
    ports::{Commit, ItemWrite, NewReceipt, Receipt, RequestWrite, WriteError},
};

/// How long an answer is kept under its idempotency key, in milliseconds.
const RECEIPT_MS: u64 = 24 * 3600 * 1000;
/// How often a writer that loses the race for the index tries again.
const ATTEMPTS: u32 = 8;

/// A client's `Idempotency-Key`, and what it was sent with.
#[derive(Debug, Clone)]
pub struct IdempotencyKey {
    /// The key.
    pub key: String,
    /// Digest of method, path and body: the same key with another of these is an error.
    pub fingerprint: Digest,
}

impl IdempotencyKey {
    /// The same key as one of the token `id`'s, and of nobody else's: client keys have no spaces.
    pub(crate) fn of_token(&self, purpose: &str, id: &TokenId) -> Self {
        Self { key: format!("{purpose} {id} {}", self.key), ..self.clone() }
    }
}

/// What is to be written.
pub(crate) struct Amendment<T> {
    /// The facts, at least one.
    pub(crate) facts: Vec<Fact>,
    /// Request rows that are decided. Rows that the facts close are closed without being named.
    pub(crate) decided: Vec<RequestWrite>,
    /// The standing rule that this makes.
    pub(crate) rule: Option<StandingRule>,
    /// The answer, given the run's status afterwards.
    pub(crate) answer: Box<dyn FnOnce(Status) -> T + Send>,
}

impl Engine {
    /// Judges `run_id` by `judge` and writes what it says, as `by`. If `request` is given, its row
    /// is read first and handed to `judge` too.
    pub(crate) async fn amend<T, J>(
        &self,
        by: &Principal,
        key: Option<&IdempotencyKey>,
        run_id: &RunId,
        request: Option<&RequestId>,
        judge: J,
    ) -> Result<T, Problem>
    where
        T: Serialize + DeserializeOwned + Send,
        J: Fn(&Run, Option<&Request>, Millis) -> Result<Amendment<T>, Problem> + Send + Sync,
    {
        let mut lost = WriteError::Contention;
        for attempt in 0..ATTEMPTS {
            if let Some(answer) = self.earlier_answer(by, key).await? {
                // Its wake may have been lost with its reply (case 25).
                self.send_wake(run_id, 0).await;
                return Ok(answer);
            }
            self.back_off(attempt).await;
            // The journal first: a row read after it is never older than what the journal says.
            let run =
                self.load(run_id).await?.ok_or(Problem::NotFound(if request.is_some() { "request" } else { "run" }))?;
            let row = match request {
                Some(id) => Some(self.ports.store.request(id).await?.ok_or(Problem::NotFound("request"))?),
                None => None,
            };
            let now = self.ports.clock.now();
            let amendment = match judge(&run, row.as_ref(), now) {
                Ok(amendment) => amendment,
                Err(problem) => return self.unless_answered(by, key, problem).await,
            };
            // Runs are large.
            match Box::pin(self.write(by, key, run, amendment, now)).await {
                Ok(answer) => return Ok(answer),
                Err(WriteFailure::Problem(problem)) => return Err(problem),
                Err(WriteFailure::Write(
                    error @ (WriteError::LostIndex
                    | WriteError::RequestCondition
                    | WriteError::ReceiptExists
                    | WriteError::Contention),
                )) => lost = error,
                Err(WriteFailure::Write(error)) => return Err(final_write_error(error)),
            }
        }
        Err(Problem::Unavailable(lost.into()))
    }

    async fn write<T: Serialize>(
        &self,
        by: &Principal,
        key: Option<&IdempotencyKey>,
        before: Run,
        amendment: Amendment<T>,
        now: Millis,
    ) -> Result<T, WriteFailure> {
        let mut run = before.clone();
        let mut entries = Vec::with_capacity(amendment.facts.len());
        for fact in amendment.facts {
            let entry = Entry { index: run.len, entry_id: self.entry_id(), at: now, driver: None, fact };
            run.apply(&entry).map_err(|error| Problem::Corrupt(error.into()))?;
            entries.push(entry);
        }
        let item = RunItem::of(&run, now);
        let status = item.status;
        let mut requests = amendment.decided;
        requests.extend(closed(&before, &run));
        let answer = (amendment.answer)(status);
        let receipt = receipt(by, key, &answer, now)?;
        let commit = Commit {
            entries,
            item: Some(ItemWrite::Replace(item)),
            requests,
            rule: amendment.rule,
            receipt,
            ..Commit::new(run.id.clone(), self.entry_id())
        };
        self.ports.store.commit(&commit).await.map_err(WriteFailure::Write)?;
        self.wake_when_due(&run, now).await;
        Ok(answer)
    }

    /// The answer that was given under `key` before, if one was.
    pub(crate) async fn earlier_answer<T: DeserializeOwned>(
        &self,
        by: &Principal,
        key: Option<&IdempotencyKey>,
    ) -> Result<Option<T>, Problem> {
        let Some(key) = key else { return Ok(None) };
        let Some(receipt) = self.ports.store.receipt(by, &key.key).await? else {
            return Ok(None);
        };
        if receipt.fingerprint != key.fingerprint {
            return Err(Problem::KeyReused);
        }
        let answer = serde_json::from_value(receipt.answer).map_err(|error| Problem::Corrupt(error.into()))?;
        Ok(Some(answer))
    }

    /// `problem`, unless the same write was made meanwhile: then the problem is that very write, and
    /// this is its answer.
    pub(crate) async fn unless_answered<T: DeserializeOwned>(
        &self,
        by: &Principal,
        key: Option<&IdempotencyKey>,
        problem: Problem,
    ) -> Result<T, Problem> {
        self.earlier_answer(by, key).await?.ok_or(problem)
    }

    /// Sends a wake message. If that fails, the run's `due_at` brings it back (D8).
    pub(crate) async fn send_wake(&self, run: &RunId, delay_ms: u64) {
        if let Err(error) = self.ports.queue.wake(run, Duration::from_millis(delay_ms)).await {
            tracing::warn!(%run, %error, "wake message not sent; the sweep will");
        }
    }

    /// Sends the wake that `run` wants, if it wants one, with a delay if it wants it later.
    pub(crate) async fn wake_when_due(&self, run: &Run, now: Millis) {
        if let Some(at) = wake_at(run, now) {
            self.send_wake(&run.id, at.since(now)).await;
        }
    }

    async fn back_off(&self, attempt: u32) {
        if attempt == 0 {
            return;
        }
        let ceiling = 5_u64 << attempt.min(6);
        let jitter = u64::try_from(self.ports.ids.fresh() % u128::from(ceiling)).unwrap_or(0);
        tokio::time::sleep(Duration::from_millis(jitter)).await;
    }
}

/// The receipt to be stored with `answer`, if the client gave a key.
pub(crate) fn receipt<T: Serialize>(
    by: &Principal,
    key: Option<&IdempotencyKey>,
    answer: &T,
    now: Millis,
) -> Result<Option<NewReceipt>, Problem> {
    let Some(key) = key else { return Ok(None) };
    let answer = serde_json::to_value(answer).map_err(|error| Problem::Corrupt(error.into()))?;
    Ok(Some(NewReceipt {
        owner: by.clone(),
        key: key.key.clone(),
        receipt: Receipt { fingerprint: key.fingerprint.clone(), answer },
        expires_at: now.plus(RECEIPT_MS),
    }))
}

/// The rows that close with the entries that make `after` of `before` (I5).
pub(crate) fn closed(before: &Run, after: &Run) -> Vec<RequestWrite> {
    let id = |key| RequestId { run: after.id.clone(), key };
    let closed = request::closed(before, after).into_iter();
    closed.map(|(key, status)| RequestWrite::Close { id: id(key), status }).collect()
}

enum WriteFailure {
    Problem(Problem),
    Write(WriteError),
}

impl From<Problem> for WriteFailure {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}
