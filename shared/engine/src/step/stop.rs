//! The ways in which a driver stops, each by an entry that fails if there is one it has not seen (I4).

use dormouse_domain::{
    Fact, Millis,
    entry::{DriverStop, Opened, Outcome},
    request,
};

use super::{
    StepError, commit,
    drive::{Appended, Drive},
};
use crate::{
    amend::closed,
    journal::LoadError,
    ports::{Commit, RequestWrite},
};

impl Drive<'_> {
    /// All that is left is to wait: opens the requests for which, in the same transaction (I5).
    pub(super) async fn suspend(
        &mut self,
        open: Vec<Opened>,
        until: Option<Millis>,
        now: Millis,
    ) -> Result<Appended, StepError> {
        let timer = open.iter().map(|opened| opened.windows.stops_waiting_at()).chain(until).min();
        let mut rows = Vec::with_capacity(open.len());
        for (ordinal, opened) in (0_u32..).zip(&open) {
            let row = request::build(&self.run, self.run.len, ordinal, opened, now);
            let row = row.ok_or(StepError::Bug("a request for a call that cannot be read"))?;
            rows.push(RequestWrite::Open(Box::new(row)));
        }
        self.stop(Fact::Suspended { requests: open, until: timer }, rows).await
    }

    /// The run is over. Those that it delegated to go first, and whoever waits for it is told: should this step die before
    /// the entry is there, the next one does so again, to no effect.
    pub(super) async fn finish(&mut self, outcome: Outcome) -> Result<Appended, StepError> {
        if !self.run.ends_alone() {
            let engine = self.engine;
            Box::pin(engine.cancel_children(&self.run, &outcome)).await.map_err(StepError::Beside)?;
            Box::pin(engine.tell_parent(&self.run, &outcome)).await.map_err(StepError::Beside)?;
        }
        self.stop(Fact::RunFinished(outcome), Vec::new()).await
    }

    /// That a window closed, or that the run is open again. Not a stop: the run goes on at once.
    pub(super) async fn note(&mut self, fact: Fact) -> Result<Appended, StepError> {
        self.put(fact, Vec::new()).await
    }

    /// Time is short, nothing runs: another step goes on.
    pub(super) async fn hand_off(&mut self) -> Result<Appended, StepError> {
        self.stop(Fact::DriverStopped { stop: DriverStop::HandedOff }, Vec::new()).await
    }

    /// Writes a stop entry, and sends the wake that is due then: at once for what is left to do, later
    /// for a timer, also that of a request which outlives the end of its run.
    async fn stop(&mut self, fact: Fact, rows: Vec<RequestWrite>) -> Result<Appended, StepError> {
        let appended = self.put(fact, rows).await?;
        if let Appended::Done = appended {
            self.engine.wake_when_due(&self.run, self.now()).await;
        }
        Ok(appended)
    }

    /// Writes an entry that changes the run's item, with the rows that it opens or closes.
    async fn put(&mut self, fact: Fact, rows: Vec<RequestWrite>) -> Result<Appended, StepError> {
        let entry = self.entry(fact);
        let now = entry.at;
        let mut after = self.run.clone();
        after.apply(&entry).map_err(LoadError::from)?;
        let mut requests = rows;
        requests.extend(closed(&self.run, &after));
        let commit = Commit { requests, ..commit(&after, vec![entry], now) };
        self.commit(&commit, after).await
    }
}
