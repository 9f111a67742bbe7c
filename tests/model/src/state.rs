//! A state of the whole: the store, the processes that are alive, the messages, the time, and how much
//! may still go wrong.

use std::collections::BTreeSet;

use dormouse_domain::Millis;

use crate::{driver::Driver, person::Person, rules::Broken, shared::Shared, store::Store, world::Acts};

/// A state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// The time, the same for all. A process that judged earlier and writes later is as good as one
    /// whose clock is behind.
    pub now: Millis,
    /// What is stored.
    pub store: Store,
    /// Steps that are alive, in an order of no meaning.
    pub drivers: Vec<Shared<Driver>>,
    /// Everybody else who writes to the run, in an order of no meaning.
    pub people: Vec<Shared<Person>>,
    /// What the sweep found and has not postponed yet.
    pub swept: Option<Due>,
    /// The queue.
    pub queue: Queue,
    /// What tools did.
    pub acts: Shared<Acts>,
    /// The longest prompt that a model was sent, block by block.
    pub asked: Shared<Vec<u64>>,
    /// What may still happen.
    pub left: Bounds,
    /// Whether nothing was lost so far: then messages alone must be enough.
    pub lossless: bool,
    /// What was broken on the way here.
    pub broken: Broken,
}

impl State {
    /// Steps and people that are alike are interchangeable, so their order is made one.
    pub fn normalise(&mut self) {
        self.drivers.sort_by_key(Shared::hash64);
        self.people.sort_by_key(Shared::hash64);
    }
}

/// A `due_at` that the sweep has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Due {
    /// The time.
    pub due_at: Millis,
    /// How often the sweep had woken the run by then.
    pub wakes: u32,
}

/// The queue of wake messages. Their order means nothing, and one that is never delivered is lost.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Queue {
    /// How many can be delivered; a third is taken for lost.
    pub ready: u8,
    /// When delayed ones can be.
    pub later: BTreeSet<Millis>,
}

/// Most messages that are ready at once.
const MOST_READY: u8 = 2;

impl Queue {
    /// Sends a wake to be delivered at `at` or after.
    pub fn send(&mut self, at: Millis, now: Millis) {
        if at <= now {
            self.ready = (self.ready + 1).min(MOST_READY);
        } else {
            self.later.insert(at);
        }
    }

    /// The time is `now`.
    pub fn advance(&mut self, now: Millis) {
        while let Some(at) = self.later.first().copied().filter(|at| *at <= now) {
            self.later.remove(&at);
            self.send(at, now);
        }
    }
}

/// How often each thing may happen on the way from the start to any state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Bounds {
    /// A step dies.
    pub crashes: u8,
    /// A step panics outside any tool.
    pub panics: u8,
    /// A write's reply is lost, whether the write landed or not.
    pub lost_replies: u8,
    /// A message is delivered and comes again.
    pub duplicates: u8,
    /// The time moves on to one of the moments at which something changes.
    pub ticks: u8,
    /// The sweep runs.
    pub sweeps: u8,
    /// A step's time runs short.
    pub hand_offs: u8,
    /// A model call fails.
    pub model_failures: u8,
    /// A tool's answer is lost, or it is not reached.
    pub unknowns: u8,
}
