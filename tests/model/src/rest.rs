//! What follows if nothing fails any more: the rule "rest", checked from every state.
//!
//! The worst is assumed: all processes die and all messages are lost, so only the store is left, and
//! the sweep. It is run, and what it wakes is run to its end; when nothing moves, the clock goes on to
//! the next `due_at`. There is one way to do that, so no search: a state is good if this ends in an end
//! or a rest within bounds, if each request that waits on the way can be decided, and if no rule is
//! broken on the way. It depends on the store and the time alone, so each pair is worked out once.
//!
//! That is "eventually" without the checker's own, which overlooks cycles and joins: a run that is
//! alive ends or stops in one of the states explored, and from each of these this holds.

use dormouse_domain::{
    Millis, decide, next,
    request::{RequestKind, RequestStatus},
};

use crate::{
    Action, Protocol,
    config::Say,
    driver::Move,
    marks::Mark,
    rules::{Broken, Rule},
    shared::{Shared, hash_of},
    state::{Bounds, Queue, State},
    store::Store,
    world::Acts,
};

/// Moves of one step, at most, between two rests.
const MOST_MOVES: usize = 200;
/// Rests on the way to the last.
const MOST_RESTS: usize = 24;

impl Protocol {
    /// What is broken on the way from `store` at `now` to an end or to rest, by the sweep alone.
    pub(crate) fn rests(&self, store: &Store, now: Millis) -> Broken {
        self.rests.get((hash_of(store), now.0), || self.comes_to_rest(store, now))
    }

    fn comes_to_rest(&self, store: &Store, now: Millis) -> Broken {
        let mut state = State {
            now,
            store: store.clone(),
            drivers: Vec::new(),
            people: Vec::new(),
            swept: None,
            queue: Queue::default(),
            acts: Shared::new(Acts::default()),
            asked: Shared::new(Vec::new()),
            left: Bounds { sweeps: u8::MAX, ..Bounds::default() },
            lossless: false,
            broken: Broken::default(),
        };
        let rests = self.sweeps_to_rest(&mut state);
        if !state.broken.any() {
            state.broken.unless(rests, Rule::Rest);
        }
        state.broken
    }

    fn sweeps_to_rest(&self, state: &mut State) -> bool {
        for _ in 0..MOST_RESTS {
            if !self.runs_dry(state) {
                return false;
            }
            let run = &state.store.journal.run;
            let at_rest = run.driver.is_none() && !next(run, state.now).is_work();
            if at_rest && !all_decidable(state) {
                return false;
            }
            if at_rest && run.pending().next().is_some() {
                self.mark(Mark::Rested);
            }
            match state.store.item.due_at {
                // Nothing will look again, so nothing may be left to do.
                None if at_rest => {
                    if run.outcome.is_some() {
                        self.mark(Mark::Ended);
                    }
                    return true;
                }
                None => return false,
                Some(due_at) => {
                    state.now = state.now.max(due_at);
                    self.sweep(state);
                    self.postpone(state);
                }
            }
        }
        false
    }

    /// Lets the steps that are woken do what they can.
    fn runs_dry(&self, state: &mut State) -> bool {
        for _ in 0..MOST_MOVES {
            if state.broken.any() {
                return false;
            }
            let Some(driver) = state.drivers.first() else {
                if state.queue.ready == 0 {
                    return true;
                }
                self.apply(state, Action::Deliver { again: false });
                continue;
            };
            // No bound is left for anything to go wrong, so the first move is as good as any.
            let what: Option<Move> = self.moves(state, driver).first().copied();
            let Some(what) = what else { return false };
            self.apply(state, Action::Step(0, what));
        }
        false
    }
}

/// Whether each request that waits would take its answer.
fn all_decidable(state: &State) -> bool {
    let waiting = state.store.rows.values().filter(|row| row.status == RequestStatus::Pending);
    waiting.into_iter().all(|row| {
        let say = match row.kind {
            RequestKind::Approval => Say::Approve,
            RequestKind::Question => Say::Answer,
            RequestKind::Uncertain | RequestKind::External => Say::Retry,
            RequestKind::Budget => Say::Raise,
        };
        let (by, answer) = say.answer(row);
        decide::check(row, &answer, &by.into(), state.now, &|_| Ok(())).is_ok()
    })
}
