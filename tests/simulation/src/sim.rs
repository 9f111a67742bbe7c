//! What everything in one simulation shares: time, chance, the trace, and what was found.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{actor, dice::Dice, swarm::Swarm, time::SimTime};

/// Violations that are kept; the first says most.
const KEPT: usize = 10;

/// How often each kind of thing happened.
pub type Coverage = BTreeMap<String, u64>;

#[derive(Default)]
struct Found {
    trace: String,
    coverage: Coverage,
    violations: Vec<String>,
}

/// One simulation.
pub(crate) struct Sim {
    pub(crate) time: SimTime,
    pub(crate) dice: Dice,
    pub(crate) swarm: Swarm,
    found: Mutex<Found>,
    faults: AtomicBool,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sim {
    /// The simulation of a seed, before anything happens: no faults yet.
    pub(crate) fn new(seed: u64) -> Self {
        let dice = Dice::new(seed);
        let swarm = Swarm::draw(&dice);
        let sim = Self { time: SimTime::start(), dice, swarm, found: Mutex::default(), faults: AtomicBool::new(false) };
        sim.say(format_args!("seed {seed}: {:?}", sim.swarm));
        sim
    }

    /// Lets faults happen, or ends them.
    pub(crate) fn set_faults(&self, on: bool) {
        self.faults.store(on, Ordering::Relaxed);
    }

    /// Whether faults happen.
    pub(crate) fn has_faults(&self) -> bool {
        self.faults.load(Ordering::Relaxed)
    }

    /// Whether a fault of this weight happens now.
    pub(crate) fn fault(&self, per_mille: u64) -> bool {
        self.has_faults() && per_mille > 0 && self.dice.chance(per_mille)
    }

    /// Writes a line of the trace.
    pub(crate) fn say(&self, what: fmt::Arguments<'_>) {
        let who = actor::current();
        let who = who.as_ref().map_or("-", |actor| actor.name.as_str());
        let ms = self.time.elapsed_ms();
        // Writing to a string does not fail.
        let _ = writeln!(locked(&self.found).trace, "{ms:>9} {who:<12} {what}");
    }

    /// Counts that something of this kind happened.
    pub(crate) fn count(&self, kind: impl Into<String>) {
        *locked(&self.found).coverage.entry(kind.into()).or_default() += 1;
    }

    /// Reports a promise that was broken.
    pub(crate) fn accuse(&self, what: impl Into<String>) {
        let what = what.into();
        self.say(format_args!("VIOLATION {what}"));
        let mut found = locked(&self.found);
        if found.violations.len() < KEPT {
            found.violations.push(what);
        }
    }

    /// Reports a broken promise unless `holds`.
    pub(crate) fn ensure(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.accuse(what());
        }
    }

    /// Whether a promise was broken.
    pub(crate) fn has_failed(&self) -> bool {
        !locked(&self.found).violations.is_empty()
    }

    /// The trace, what happened how often, and the broken promises.
    pub(crate) fn take(&self) -> (String, Coverage, Vec<String>) {
        let found = std::mem::take(&mut *locked(&self.found));
        (found.trace, found.coverage, found.violations)
    }
}
