//! The sweep: finds every run that something is due for, and wakes it. A lost wake message, a dead
//! driver and a timer all look the same to it: a `due_at` in the past.

use dormouse_domain::{
    Millis,
    item::{TAKEOVER_MARGIN_MS, postponed},
    run::Status,
};

use crate::{
    Engine,
    ports::{Due, StoreError},
};

/// Runs taken from one shard in one query.
const PAGE: u32 = 100;
/// Queries of one shard in one sweep; what is left waits for the next.
const PAGES: u32 = 50;
/// Longest step that [`Engine::wake_orphans`] reckons with, in milliseconds: Lambda's 15 minutes.
const LONGEST_STEP_MS: u64 = 15 * 60 * 1000;

/// What a sweep did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Runs that were due.
    pub due: u32,
    /// Runs that were woken.
    pub woken: u32,
}

impl Engine {
    /// Wakes every run that is due. A run that was woken is due again later, if it has not written
    /// anything by then.
    ///
    /// # Errors
    /// If the store fails; runs of earlier shards were woken then.
    pub async fn sweep(&self) -> Result<Swept, StoreError> {
        let now = self.ports.clock.now();
        let mut swept = Swept::default();
        for shard in 0..self.ports.store.due_shards() {
            for _ in 0..PAGES {
                let due = self.ports.store.due(shard, now, PAGE).await?;
                let full = due.len() as u64 >= u64::from(PAGE);
                let woken = self.wake_due(&due, now).await?;
                swept.due += u32::try_from(due.len()).unwrap_or(u32::MAX);
                swept.woken += woken;
                if !full || woken == 0 {
                    break;
                }
            }
        }
        Ok(swept)
    }

    /// Sends first and moves `due_at` on afterwards: a crash in between sends twice, never not at all.
    async fn wake_due(&self, due: &[Due], now: Millis) -> Result<u32, StoreError> {
        if due.is_empty() {
            return Ok(0);
        }
        let runs: Vec<_> = due.iter().map(|due| due.run.clone()).collect();
        let unsent = self.ports.queue.wake_all(&runs).await;
        let mut woken = 0;
        for due in due.iter().filter(|due| !unsent.contains(&due.run)) {
            if self.ports.store.postpone(due, postponed(now, due.wakes)).await? {
                woken += 1;
            }
        }
        Ok(woken)
    }

    /// Wakes every run that a driver holds, that is queued, or that a sweep woke and that has written
    /// nothing since. For a sole host that has just started: all those drivers are gone, and so are the
    /// messages of a queue in memory; none need wait for the time that they had.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn wake_orphans(&self) -> Result<Swept, StoreError> {
        let horizon = self.ports.clock.now().plus(LONGEST_STEP_MS + TAKEOVER_MARGIN_MS);
        let mut swept = Swept::default();
        for shard in 0..self.ports.store.due_shards() {
            let due = self.ports.store.due(shard, horizon, PAGE * PAGES).await?;
            let lost = due.iter().filter(|due| match due.status {
                // One that completed is due if something runs or is to run that was approved late.
                Status::Running | Status::Queued | Status::Completed => true,
                // It has no more than a timer, unless that is over and a sweep has seen it.
                Status::Waiting | Status::Paused | Status::Failed | Status::Cancelled => due.wakes > 0,
            });
            let held: Vec<_> = lost.map(|due| due.run.clone()).collect();
            let unsent = self.ports.queue.wake_all(&held).await;
            swept.due += u32::try_from(held.len()).unwrap_or(u32::MAX);
            swept.woken += u32::try_from(held.len().saturating_sub(unsent.len())).unwrap_or(u32::MAX);
        }
        Ok(swept)
    }
}
