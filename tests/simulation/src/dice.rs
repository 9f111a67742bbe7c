//! Chance, all of it from the seed.

use std::{
    ops::RangeInclusive,
    sync::{Mutex, PoisonError},
};

/// The dice of one simulation.
pub(crate) struct Dice(Mutex<fastrand::Rng>);

impl Dice {
    /// Dice that fall the same way for the same seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    fn roll<T>(&self, roll: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        roll(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A number of this range.
    pub(crate) fn range(&self, range: RangeInclusive<u64>) -> u64 {
        self.roll(|rng| rng.u64(range))
    }

    /// True `per_mille` times in a thousand.
    pub(crate) fn chance(&self, per_mille: u64) -> bool {
        self.range(0..=999) < per_mille
    }

    /// One of these.
    pub(crate) fn pick<T: Copy>(&self, of: &[T]) -> T {
        of[self.roll(|rng| rng.usize(0..of.len()))]
    }

    /// One of these, as often as its weight says; the weights are not all zero.
    pub(crate) fn weighted<T: Copy>(&self, of: &[(u64, T)]) -> T {
        let all: u64 = of.iter().map(|(weight, _)| weight).sum();
        let mut left = self.range(0..=all.saturating_sub(1));
        for (weight, one) in of {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return *one,
            }
        }
        of[of.len() - 1].1
    }

    /// 128 bits.
    pub(crate) fn bits(&self) -> u128 {
        self.roll(|rng| rng.u128(..))
    }
}
