//! Chance that can be had again.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A stream of numbers that depends on its seed alone (SplitMix64).
#[derive(Debug, Clone)]
pub struct Seed(u64);

impl Seed {
    /// The seed in `DORMOUSE_SEED`, or a new one. It is printed, so that a failure can be repeated.
    pub fn printed() -> Self {
        let given = std::env::var("DORMOUSE_SEED").ok().map(|text| text.parse().expect("DORMOUSE_SEED is a number"));
        let fresh = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos().into();
        let seed = given.unwrap_or_else(fresh);
        println!("DORMOUSE_SEED={seed}");
        Self(seed)
    }

    /// This seed.
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound.max(1)
    }

    /// A time below `bound`, in whole milliseconds.
    pub fn time_below(&mut self, bound: Duration) -> Duration {
        Duration::from_millis(self.below(u64::try_from(bound.as_millis()).unwrap_or(u64::MAX)))
    }
}
