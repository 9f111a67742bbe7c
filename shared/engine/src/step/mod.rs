//! A step: one short invocation that drives one run until nothing is left to do now.

mod calls;
mod drive;
mod persist;
mod stop;

use std::panic::AssertUnwindSafe;

use dormouse_domain::{
    DriverId, Entry, Fact, Millis, Run, RunId,
    entry::DriverStop,
    item::{self, RunItem, claim},
    json,
};
use futures::FutureExt;

use crate::{
    Engine,
    error::Problem,
    journal::{LoadError, catch_up},
    ports::{Commit, ItemWrite, WriteError},
};
pub(crate) use calls::made_call;
use drive::Drive;

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepReport {
    /// There is no such run; the message is stale.
    NoSuchRun,
    /// There was nothing to do.
    Idle,
    /// Another driver holds the run.
    Busy,
    /// It drove the run, and all that is left is to wait.
    Suspended,
    /// Its time ran short; another step goes on.
    HandedOff,
    /// The run is over.
    Finished,
    /// Another driver took the run from this one.
    TakenOver,
    /// It panicked, and said so in the journal.
    Crashed,
}

/// A step that could not do its work. Nothing is lost: the run's `due_at` brings it back.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The journal could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The store took no more writes until the time was up.
    #[error("could not write to the journal: {0}")]
    Write(#[from] WriteError),
    /// Another run that this one has to do with could not be written.
    #[error("the run that delegated, or one that was delegated to, could not be written: {0}")]
    Beside(#[source] Problem),
    /// The machine contradicts itself: a bug.
    #[error("internal contradiction: {0}")]
    Bug(&'static str),
}

/// How often a step that loses the race for the claim looks again.
const CLAIM_ATTEMPTS: u32 = 8;

enum Claim {
    Driving(Box<Run>, DriverId),
    Not(StepReport),
}

impl Engine {
    /// Drives `run_id` until nothing is left to do now, or until `deadline`, at which the platform
    /// kills this invocation.
    ///
    /// # Errors
    /// [`StepError`]: the wake message should come again.
    pub async fn step(&self, run_id: &RunId, deadline: Millis) -> Result<StepReport, StepError> {
        let (run, id) = match self.claim(run_id, deadline).await? {
            Claim::Driving(run, id) => (run, id),
            Claim::Not(report) => return Ok(report),
        };
        let mut drive = Drive::new(self, *run, id.clone(), deadline);
        let driven = AssertUnwindSafe(drive.go()).catch_unwind().await;
        // No task outlives the invocation: a frozen one would thaw in somebody else's.
        drive.abort().await;
        match driven {
            Ok(report) => report,
            Err(panic) => self.record_crash(run_id, &id, deadline, &panic_text(panic.as_ref())).await,
        }
    }

    async fn claim(&self, run_id: &RunId, deadline: Millis) -> Result<Claim, StepError> {
        let Some(mut run) = self.load(run_id).await? else {
            return Ok(Claim::Not(StepReport::NoSuchRun));
        };
        for _ in 0..CLAIM_ATTEMPTS {
            let now = self.ports.clock.now();
            let holder = run.driver.as_ref().map(|driver| driver.id.host());
            let gone = self.settings.sole_host && holder.is_some_and(|host| host != self.settings.host);
            match claim(&run, now, gone) {
                item::Claim::Take => {}
                item::Claim::Busy => return Ok(Claim::Not(StepReport::Busy)),
                item::Claim::Idle => {
                    self.correct_item(&run, now).await?;
                    return Ok(Claim::Not(StepReport::Idle));
                }
            }
            let id = self.driver_id();
            let fact = Fact::DriverStarted { until: deadline };
            let entry = Entry { index: run.len, entry_id: self.entry_id(), at: now, driver: Some(id.clone()), fact };
            let mut claimed = run.clone();
            claimed.apply(&entry).map_err(LoadError::from)?;
            let commit = commit(&claimed, vec![entry], now);
            match self.persist(run_id, deadline, || self.ports.store.commit(&commit)).await {
                Ok(()) => return Ok(Claim::Driving(Box::new(claimed), id)),
                Err(WriteError::LostIndex) => {
                    catch_up(self.ports.store.as_ref(), &mut run).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Claim::Not(StepReport::Busy))
    }

    /// With nothing to do, an item whose `due_at` or status is wrong would be swept for ever. One that is
    /// due later than its writer thought wants its wake then.
    async fn correct_item(&self, run: &Run, now: Millis) -> Result<(), StepError> {
        let right = RunItem::of(run, now);
        let stored = self.ports.store.item(&run.id).await.map_err(LoadError::from)?;
        if stored.is_none_or(|stored| stored.due_at == right.due_at && stored.status == right.status) {
            return Ok(());
        }
        let free_index = Some(run.len);
        let commit = Commit { id: self.entry_id(), free_index, ..commit(run, Vec::new(), now) };
        match self.ports.store.commit(&commit).await {
            Ok(()) => {
                self.wake_when_due(run, now).await;
                Ok(())
            }
            Err(WriteError::LostIndex | WriteError::Contention) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn record_crash(
        &self,
        run_id: &RunId,
        id: &DriverId,
        deadline: Millis,
        message: &str,
    ) -> Result<StepReport, StepError> {
        tracing::error!(run = %run_id, message, "the step panicked");
        let Some(mut run) = self.load(run_id).await? else {
            return Ok(StepReport::NoSuchRun);
        };
        for _ in 0..CLAIM_ATTEMPTS {
            if run.driver.as_ref().is_none_or(|driver| driver.id != *id) {
                return Ok(StepReport::TakenOver);
            }
            let now = self.ports.clock.now();
            let fact =
                Fact::DriverStopped { stop: DriverStop::Crashed { message: json::cut(message, 1_000).to_owned() } };
            let entry = Entry { index: run.len, entry_id: self.entry_id(), at: now, driver: Some(id.clone()), fact };
            let mut after = run.clone();
            after.apply(&entry).map_err(LoadError::from)?;
            let commit = commit(&after, vec![entry], now);
            match self.persist(run_id, deadline, || self.ports.store.commit(&commit)).await {
                Ok(()) => {
                    self.wake_when_due(&after, now).await;
                    return Ok(StepReport::Crashed);
                }
                Err(WriteError::LostIndex) => {
                    catch_up(self.ports.store.as_ref(), &mut run).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(StepError::Write(WriteError::Contention))
    }
}

/// The transaction that writes `entries`, which `run` has folded, and the run's item.
fn commit(run: &Run, entries: Vec<Entry>, now: Millis) -> Commit {
    let id = entries.first().map(|entry| entry.entry_id.clone());
    let id = id.unwrap_or_else(|| dormouse_domain::EntryId(String::new()));
    let item = Some(ItemWrite::Replace(RunItem::of(run, now)));
    Commit { entries, item, ..Commit::new(run.id.clone(), id) }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}
