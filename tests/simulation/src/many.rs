//! Many seeds at once, and what they add up to.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{Coverage, Outcome, sim::locked, simulate};

/// Seeds that failed, of which the rest is not tried: the first is what to look at.
const ENOUGH: usize = 3;

/// What many seeds came to.
#[derive(Debug, Default)]
pub struct Summary {
    /// How many were simulated.
    pub seeds: u64,
    /// How often each kind of thing happened.
    pub coverage: Coverage,
    /// Those that broke a promise.
    pub failed: Vec<Outcome>,
    /// How much time passed in them.
    pub simulated: Duration,
    /// How much passed here.
    pub took: Duration,
}

/// Simulates `count` seeds from `from` on, on all cores. Stops early if some fail.
#[must_use]
pub fn many(from: u64, count: u64) -> Summary {
    let began = Instant::now();
    let next = AtomicU64::new(from);
    let enough = AtomicBool::new(false);
    let summary = Mutex::new(Summary::default());
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !enough.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from.saturating_add(count) {
                        return;
                    }
                    let outcome = simulate_caught(seed);
                    let mut summary = locked(&summary);
                    summary.enter(outcome);
                    enough.fetch_or(summary.failed.len() >= ENOUGH, Ordering::Relaxed);
                }
            });
        }
    });
    let mut summary = summary.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    summary.took = began.elapsed();
    summary.failed.sort_by_key(|outcome| outcome.seed);
    summary
}

/// As [`simulate`]; a panic is a violation like any other.
#[must_use]
pub fn simulate_caught(seed: u64) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| simulate(seed))).unwrap_or_else(|_| Outcome {
        seed,
        trace: String::new(),
        coverage: Coverage::new(),
        violations: vec!["it panicked; see above".to_owned()],
        simulated_ms: 0,
    })
}

impl Summary {
    fn enter(&mut self, outcome: Outcome) {
        self.seeds += 1;
        self.simulated += Duration::from_millis(outcome.simulated_ms);
        for (kind, count) in &outcome.coverage {
            *self.coverage.entry(kind.clone()).or_default() += count;
        }
        if !outcome.violations.is_empty() {
            self.failed.push(outcome);
        }
    }
}
