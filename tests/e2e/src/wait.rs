//! Waiting for something that is sure to come.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long a test waits for anything: far longer than it takes on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(20);

/// Asks `probe` until it has something, at most [`PATIENCE`] long.
///
/// # Panics
/// If it never comes; `what` says what.
pub async fn eventually<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(Instant::now() < until, "waited {PATIENCE:?} in vain: {what}");
        sleep(INTERVAL).await;
    }
}
