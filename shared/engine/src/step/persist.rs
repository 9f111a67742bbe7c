//! Writing while the store has a bad moment.

use std::time::Duration;

use dormouse_domain::{Millis, RunId};

use crate::{Engine, ports::WriteError};

/// First pause between two tries of one write, in milliseconds; doubled each time.
const FIRST_PAUSE_MS: u64 = 50;
/// Longest pause, in milliseconds.
const LONGEST_PAUSE_MS: u64 = 5_000;

impl Engine {
    /// Tries one write again, the very same, while the store fails and time is left: a driver ends
    /// by its stop entry, not by giving up (I4). The entry's id settles what an earlier try did.
    pub(super) async fn persist<F>(
        &self,
        run: &RunId,
        deadline: Millis,
        write: impl Fn() -> F,
    ) -> Result<(), WriteError>
    where
        F: Future<Output = Result<(), WriteError>>,
    {
        let mut pause_ms = FIRST_PAUSE_MS;
        loop {
            let error = match write().await {
                Err(error @ (WriteError::Unavailable(_) | WriteError::Ambiguous(_) | WriteError::Contention)) => error,
                settled => return settled,
            };
            if deadline.since(self.ports.clock.now()) <= pause_ms {
                return Err(error);
            }
            tracing::warn!(%run, %error, "a write failed; trying it again");
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            pause_ms = (pause_ms * 2).min(LONGEST_PAUSE_MS);
        }
    }
}
