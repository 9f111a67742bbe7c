//! Situations that the exploration should have been in: without them, nothing broken means nothing.

use std::sync::atomic::{AtomicU64, Ordering};

/// A situation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Mark {
    /// A step died.
    Crashed,
    /// A step found another at work.
    Busy,
    /// A driver took the run from another.
    TakenOver,
    /// A driver that had lost the run stopped.
    StoodDown,
    /// A driver's write lost its index.
    LostIndex,
    /// A write whose reply was lost was recognised, or made again.
    Recognised,
    /// A driver handed the run on.
    HandedOff,
    /// A request expired.
    Expired,
    /// The conversation went on without a request.
    MovedOn,
    /// A run that had completed was opened again.
    Reopened,
    /// A result came after its driver had lost the run, and counted.
    LateResult,
    /// A result came too late to count.
    LateForNothing,
    /// A wrong item was set right.
    Corrected,
    /// A person's decision stands.
    Decided,
    /// A person was told of another's decision.
    ToldWhatStands,
    /// A person was told that a request is gone.
    ToldGone,
    /// A person's write lost its index.
    PersonLostIndex,
    /// An earlier answer was given again.
    AnsweredAgain,
    /// A run ended.
    Ended,
    /// A run rested for a person.
    Rested,
}

impl Mark {
    const ALL: [Self; 20] = [
        Self::Crashed,
        Self::Busy,
        Self::TakenOver,
        Self::StoodDown,
        Self::LostIndex,
        Self::Recognised,
        Self::HandedOff,
        Self::Expired,
        Self::MovedOn,
        Self::Reopened,
        Self::LateResult,
        Self::LateForNothing,
        Self::Corrected,
        Self::Decided,
        Self::ToldWhatStands,
        Self::ToldGone,
        Self::PersonLostIndex,
        Self::AnsweredAgain,
        Self::Ended,
        Self::Rested,
    ];
}

/// The situations that an exploration has been in.
#[derive(Debug, Default)]
pub struct Marks(AtomicU64);

impl Marks {
    /// It has been in this one.
    pub fn set(&self, mark: Mark) {
        let bit = 1 << mark as u8;
        if self.0.load(Ordering::Relaxed) & bit == 0 {
            self.0.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Those that it has not been in.
    #[must_use]
    pub fn missing(&self) -> Vec<Mark> {
        let seen = self.0.load(Ordering::Relaxed);
        Mark::ALL.into_iter().filter(|mark| seen & (1 << *mark as u8) == 0).collect()
    }
}
