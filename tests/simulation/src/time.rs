//! Simulated time: tokio's paused clock, which jumps to the next timer when there is nothing to do. The
//! SDK's timeouts and backoffs, the engine's pauses, the tools and the people all run on it.

use std::time::Duration;

use dormouse_domain::Millis;
use dormouse_engine::ports::Clock;
use tokio::time::Instant;

/// When every simulation begins.
const EPOCH_MS: u64 = 1_800_000_000_000;

/// The true time of one simulation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SimTime(Instant);

impl SimTime {
    /// Time that begins now. Within a paused runtime.
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Milliseconds since the beginning.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Now, truly.
    pub(crate) fn now(&self) -> Millis {
        Millis(EPOCH_MS + self.elapsed_ms())
    }
}

impl dynoxide::storage_backend::Clock for SimTime {
    fn now_unix_secs(&self) -> u64 {
        self.now().0 / 1000
    }

    fn now_unix_secs_f64(&self) -> f64 {
        Duration::from_millis(self.now().0).as_secs_f64()
    }
}

/// A machine's clock, which is ahead of the true time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SkewedClock {
    /// The true time.
    pub(crate) time: SimTime,
    /// How far ahead it is, in milliseconds.
    pub(crate) ahead_ms: u64,
}

impl Clock for SkewedClock {
    fn now(&self) -> Millis {
        self.time.now().plus(self.ahead_ms)
    }
}

/// Pauses for this long, in simulated time.
pub(crate) async fn pause(span_ms: u64) {
    tokio::time::sleep(Duration::from_millis(span_ms)).await;
}
