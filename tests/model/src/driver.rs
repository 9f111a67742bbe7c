//! A step: what it does between two store calls, one function for each. Mirrors
//! `engine/src/step/mod.rs` (`claim`, `correct_item`, `record_crash`); the loop is in `drive`.

use dormouse_domain::{
    DriverId, Entry, EntryId, Fact, Millis,
    entry::DriverStop,
    item::{Claim, claim},
};

use crate::{
    Protocol,
    config::STEP_MS,
    drive::{Drive, Hand},
    fault::Fault,
    journal::{self, Journal},
    marks::Mark,
    shared::Shared,
    state::State,
    store::{Item, Write},
    world::Effect,
};
use dormouse_domain::retry::FailureClass;

/// A process that runs the step function for the run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Driver {
    /// It got a wake, and is killed at this time.
    Woken {
        /// Its deadline.
        deadline: Millis,
    },
    /// It has loaded the journal.
    Judging {
        /// Its deadline.
        deadline: Millis,
        /// What it loaded.
        known: Shared<Journal>,
    },
    /// It found nothing to do, and the run's item wrong.
    Correcting {
        /// What it loaded.
        known: Shared<Journal>,
    },
    /// It claims the run, and has not heard whether that was stored.
    Claiming {
        /// Its deadline.
        deadline: Millis,
        /// The claim.
        write: Shared<Write>,
        /// Whether it was.
        landed: bool,
    },
    /// It drives the run.
    Driving(Box<Drive>),
    /// It panicked, and has not said so yet.
    Panicked {
        /// Its number.
        number: u32,
    },
    /// Its stop entry is stored, and the wake that may follow is not sent yet.
    Stopped {
        /// What it knows.
        known: Shared<Journal>,
    },
}

/// Whether a writer hears what became of its write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Heard {
    /// Yes.
    Yes,
    /// No, and it was stored.
    Landed,
    /// No, and it was not stored.
    Vanished,
}

/// What a step does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// Loads the journal.
    Load,
    /// Claims the run, or finds that there is nothing to do.
    Claim(Heard),
    /// Sets the run's item right.
    Correct,
    /// Does what `next` says.
    Go(Heard),
    /// The model replies, and the reply is stored.
    Reply(Heard),
    /// The model call fails, and that is stored.
    Fail(FailureClass, Heard),
    /// What the model answered is tried again to be stored.
    Record(Heard),
    /// The call in this place ends so, and that is stored.
    Take(usize, Effect, Heard),
    /// The write of which nothing was heard is made again.
    Repeat,
    /// Its time runs short.
    Short,
    /// It dies.
    Crash,
    /// It panics.
    Panic,
    /// It sends the wake that is due.
    Wake,
}

/// What is left of a step after a move; none if it is gone.
pub(crate) type Left = Option<Driver>;

/// The id of the driver that claimed the run by entry `number`. One entry stands there, so no two
/// drivers have the same.
pub(crate) fn driver_id(number: u32) -> DriverId {
    DriverId::new("host", &number.to_string())
}

pub(crate) fn entry(index: u32, at: Millis, driver: Option<DriverId>, fact: Fact) -> Entry {
    // One entry stands at an index, and whose it is follows from the state of its writer.
    Entry { index, entry_id: EntryId(format!("e{index}")), at, driver, fact }
}

impl Protocol {
    /// What `driver` can do now.
    pub(crate) fn moves(&self, state: &State, driver: &Driver) -> Vec<Move> {
        let mut moves = Vec::new();
        let can_die = match driver {
            Driver::Woken { .. } => {
                if self.config.loads_apart {
                    moves.push(Move::Load);
                } else {
                    let known = &state.store.journal;
                    let claims = self.claims(state, known);
                    self.heard(state, known, claims, &mut moves, Move::Claim);
                }
                false
            }
            Driver::Judging { known, .. } => {
                let claims = self.claims(state, known);
                self.heard(state, known, claims, &mut moves, Move::Claim);
                false
            }
            Driver::Correcting { .. } => {
                moves.push(Move::Correct);
                false
            }
            Driver::Claiming { .. } => {
                moves.push(Move::Repeat);
                true
            }
            Driver::Driving(drive) => {
                self.drive_moves(state, drive, &mut moves);
                true
            }
            Driver::Panicked { .. } => {
                moves.push(Move::Go(Heard::Yes));
                true
            }
            Driver::Stopped { .. } => {
                moves.push(Move::Wake);
                true
            }
        };
        if can_die && state.left.crashes > 0 {
            moves.push(Move::Crash);
        }
        moves
    }

    /// The ways in which the reply to a write can come. Where the index is taken there is one: the
    /// refusal, which changes nothing and is the same however often it is asked for.
    pub(crate) fn heard(
        &self,
        state: &State,
        known: &Journal,
        writes: bool,
        moves: &mut Vec<Move>,
        how: impl Fn(Heard) -> Move,
    ) {
        moves.push(how(Heard::Yes));
        if writes && state.left.lost_replies > 0 && !state.store.is_taken(known) {
            moves.push(how(Heard::Landed));
            moves.push(how(Heard::Vanished));
        }
    }

    fn claims(&self, state: &State, known: &Journal) -> bool {
        claim(&known.run, state.now, false) == Claim::Take
    }

    /// What becomes of `driver` by `what`.
    pub(crate) fn step(&self, state: &mut State, driver: &Driver, what: Move) -> Left {
        match (driver, what) {
            (_, Move::Crash) => {
                self.mark(Mark::Crashed);
                state.left.crashes -= 1;
                state.lossless = false;
                None
            }
            (Driver::Woken { deadline }, Move::Claim(heard)) => {
                let known = state.store.journal.clone();
                self.claim(state, *deadline, &known, heard)
            }
            (Driver::Woken { deadline }, _) => {
                Some(Driver::Judging { deadline: *deadline, known: state.store.journal.clone() })
            }
            (Driver::Judging { deadline, known }, Move::Claim(heard)) => self.claim(state, *deadline, known, heard),
            (Driver::Correcting { known }, _) => {
                // The write's condition is that the next index is free.
                if !state.store.is_taken(known) {
                    self.mark(Mark::Corrected);
                    state.store.item = Item::of(&known.run, state.now);
                    self.wake_when_due(state, known);
                }
                None
            }
            (Driver::Claiming { deadline, write, landed }, _) => {
                if *landed || state.store.commit(write, &mut state.broken).is_ok() {
                    return Some(self.claimed(state, write));
                }
                Some(self.looks_again(state, *deadline))
            }
            (Driver::Driving(drive), Move::Panic) => {
                state.left.panics -= 1;
                Some(Driver::Panicked { number: drive.number })
            }
            (Driver::Driving(drive), what) => self.drive(state, Box::clone(drive), what),
            (Driver::Panicked { number }, _) => self.record_crash(state, *number),
            (Driver::Stopped { known }, _) => {
                self.wake_when_due(state, known);
                None
            }
            (Driver::Judging { .. }, _) => Some(driver.clone()),
        }
    }

    fn claim(&self, state: &mut State, deadline: Millis, known: &Shared<Journal>, heard: Heard) -> Left {
        let run = &known.run;
        match claim(run, state.now, false) {
            Claim::Take => {}
            Claim::Busy => {
                self.mark(Mark::Busy);
                return None;
            }
            Claim::Idle => {
                let (right, stored) = (Item::of(run, state.now), &state.store.item);
                let is_right = stored.due_at == right.due_at && stored.status == right.status;
                return (!is_right).then(|| Driver::Correcting { known: known.clone() });
            }
        }
        if state.store.is_taken(known) {
            return Some(self.looks_again(state, deadline));
        }
        let start = entry(run.len, state.now, Some(driver_id(run.len)), Fact::DriverStarted { until: deadline });
        let write = Write::new(&self.folded, known, vec![start]).whole(state.now);
        let landed = heard != Heard::Vanished && state.store.commit(&write, &mut state.broken).is_ok();
        if heard != Heard::Yes {
            state.left.lost_replies -= 1;
            return Some(Driver::Claiming { deadline, write: Shared::new(write), landed });
        }
        if known.run.driver.is_some() {
            self.mark(Mark::TakenOver);
        }
        Some(self.claimed(state, &write))
    }

    /// After a claim that lost its index.
    fn looks_again(&self, state: &State, deadline: Millis) -> Driver {
        if self.config.loads_apart {
            return Driver::Judging { deadline, known: state.store.journal.clone() };
        }
        Driver::Woken { deadline }
    }

    fn claimed(&self, state: &mut State, write: &Write) -> Driver {
        let mut drive = Drive::new(write.after.clone(), write.known.run.len);
        if self.fault == Some(Fault::RunsAgain) {
            self.start(state, &mut drive, journal::running(&write.known.run));
        }
        Driver::Driving(Box::new(drive))
    }

    /// A panic outside any tool. Its calls were aborted with it.
    fn record_crash(&self, state: &mut State, number: u32) -> Left {
        // Read and written at once: a write that loses its index is judged again after reading on.
        let known = state.store.journal.clone();
        if known.run.driver.as_ref().is_none_or(|driver| driver.id != driver_id(number)) {
            return None;
        }
        let stop = DriverStop::Crashed { message: "panic".to_owned() };
        let fact = Fact::DriverStopped { stop };
        let stop = entry(known.run.len, state.now, Some(driver_id(number)), fact);
        let write = Write { stops: true, ..Write::new(&self.folded, &known, vec![stop]).whole(state.now) };
        let written = state.store.commit(&write, &mut state.broken);
        written.ok().map(|()| Driver::Stopped { known: write.after })
    }

    /// A step begins.
    pub(crate) fn woken(&self, state: &State) -> Driver {
        Driver::Woken { deadline: state.now.plus(STEP_MS) }
    }
}

impl Drive {
    /// A driver that has just claimed the run by entry `number`.
    fn new(known: Shared<Journal>, number: u32) -> Self {
        Self { known, number, running: Vec::new(), draining: false, worked: false, owes: false, hand: Hand::Empty }
    }
}
