//! The real time, and names that nobody drew before.

use std::time::{SystemTime, UNIX_EPOCH};

use dormouse_domain::Millis;
use dormouse_engine::ports::{Clock, Ids};
use uuid::Uuid;

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    /// A clock set before 1970 reads as the epoch.
    fn now(&self) -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Version 7 UUIDs (RFC 9562, section 5.7): they sort by when they were drawn.
#[derive(Debug, Clone, Copy, Default)]
pub struct UuidIds;

impl Ids for UuidIds {
    fn fresh(&self) -> u128 {
        Uuid::now_v7().as_u128()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_when_they_were_drawn_and_hold_the_time() {
        let before = SystemClock.now();
        let ids: Vec<_> = (0..1_000).map(|_| UuidIds.fresh()).collect();
        let after = SystemClock.now();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        let drawn = u64::try_from(ids[0] >> 80).unwrap();
        assert!((before.0..=after.0).contains(&drawn));
    }
}
