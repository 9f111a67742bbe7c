//! The protocol, model-checked: all ways in which two steps, people, the sweep and the queue can get in
//! each other's way within stated bounds, with a crash between any two store calls.
//!
//! What decides is the production code: the fold, `next`, `plan_reply`, `decide::check`,
//! `request::build`, `standing`, `retry::after`, `transcript::prompt`. What the engine does around it is
//! mirrored in small atomic steps, one for each store call: a step and its loop in `driver` and `drive`,
//! everybody else in `person`, the sweep here. `docs/model.md` says what the bounds are, what is merged
//! and why that is sound, and what is not covered. Children of a run and compaction do not exist yet:
//! a child is a second [`store::Store`] in [`state::State`], a compaction an entry that `drive` writes.
//!
//! Read in this order: [`rules`], [`state`], [`store`], [`driver`], `drive`, [`person`], `rest`,
//! [`config`].

pub mod config;
pub mod drive;
pub mod driver;
pub mod fault;
pub mod journal;
pub mod marks;
pub mod person;
mod rest;
pub mod rules;
pub mod shared;
pub mod state;
pub mod store;
pub mod world;

use std::{collections::BTreeMap, sync::Arc};

use dormouse_domain::{
    Definition, Fact, Millis, Run, RunId,
    item::{TAKEOVER_MARGIN_MS, postponed},
    message::Content,
    next,
};
use stateright::{Model, Property};

use config::Config;
use driver::Move;
use fault::Fault;
use journal::{Folded, Journal};
use marks::{Mark, Marks};
use person::{Deed, Person, Phase, owner};
use rules::{Broken, Rule};
use shared::{Memo, Shared};
use state::{Due, Queue, State};
use store::{Item, Store, Write};
use world::Acts;

/// When the run is started.
pub const START: Millis = Millis(1_000_000_000);
/// The protocol within the bounds of a configuration.
#[derive(Debug)]
pub struct Protocol {
    /// The bounds.
    pub config: Config,
    /// The fault that is planted, if one is.
    pub fault: Option<Fault>,
    /// Situations that were seen.
    pub marks: Arc<Marks>,
    definition: Arc<Definition>,
    folded: Folded,
    rests: Memo<Broken>,
}

/// One atomic step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The time becomes this.
    Tick(Millis),
    /// A wake message is delivered.
    Deliver {
        /// And will be once more.
        again: bool,
    },
    /// A step does something.
    Step(usize, Move),
    /// A person does something.
    Act(usize, Deed),
    /// The sweep finds the run, and sends a wake.
    Sweep,
    /// The sweep moves its `due_at` on.
    Postpone,
}

impl Protocol {
    /// The protocol within the bounds of `config`.
    ///
    /// # Errors
    /// If the agent of `config` is none.
    pub fn new(config: Config, fault: Option<Fault>) -> anyhow::Result<Self> {
        let definition = Arc::new(config.definition()?);
        let (folded, rests) = (Folded::new(), Memo::new());
        Ok(Self { config, fault, marks: Arc::new(Marks::default()), definition, folded, rests })
    }

    fn mark(&self, mark: Mark) {
        self.marks.set(mark);
    }

    /// The write as it is made, with the fault that is planted.
    fn with_rows(&self, write: Write) -> Write {
        match self.fault {
            Some(Fault::RowForgotten) => Write { close: Vec::new(), ..write },
            Some(_) | None => write,
        }
    }

    /// `Engine::start`, and its wake.
    fn started(&self) -> Option<State> {
        let fact = Fact::RunStarted {
            owner: owner(),
            agent: "agent".to_owned(),
            definition: self.definition.digest().ok()?,
            mode: self.definition.mode,
            input: vec![Content::text("go")],
            metadata: BTreeMap::new(),
            parent: None,
        };
        let first = driver::entry(0, START, None, fact);
        let run = Run::start(RunId::from_bits(1), self.definition.clone(), &first).ok()?;
        let item = Item::of(&run, START);
        let (journal, broken) = Journal::new(run, &first);
        let store = Store {
            journal: Shared::new(journal),
            rows: Shared::new(BTreeMap::new()),
            item,
            receipts: BTreeMap::new(),
        };
        let people = self.config.people.iter().map(|intents| Shared::new(Person { intents, phase: Phase::Idle }));
        let mut state = State {
            now: START,
            store,
            drivers: Vec::new(),
            people: people.collect(),
            swept: None,
            queue: Queue { ready: 1, ..Queue::default() },
            acts: Shared::new(Acts::default()),
            asked: Shared::new(Vec::new()),
            left: self.config.bounds,
            lossless: true,
            broken,
        };
        state.normalise();
        Some(state)
    }

    /// The moments at which something changes, from now on.
    fn edges(&self, state: &State) -> Vec<Millis> {
        let run = &state.store.journal.run;
        let driver = run.driver.as_ref().map(|driver| driver.until.plus(TAKEOVER_MARGIN_MS));
        let windows = run.pending().flat_map(|(_, request)| {
            let windows = request.windows;
            [windows.wait_until, windows.wait_until.plus(1), windows.decide_by, windows.decide_by.plus(1)]
        });
        let timers = [run.trouble.retry_at, run.deaths.retry_at(), state.store.item.due_at, driver];
        let mut edges: Vec<_> = timers.into_iter().flatten().chain(windows).collect();
        edges.extend(&state.queue.later);
        edges.retain(|edge| *edge > state.now);
        edges.sort_unstable();
        edges.dedup();
        edges
    }

    fn sweep(&self, state: &mut State) {
        let item = state.store.item;
        if let Some(due_at) = item.due_at.filter(|due_at| *due_at <= state.now) {
            state.left.sweeps -= 1;
            if self.fault != Some(Fault::SilentSweep) {
                state.queue.send(state.now, state.now);
            }
            state.swept = Some(Due { due_at, wakes: item.wakes });
        }
    }

    /// `postpone` of the store: on the condition that the time is still that which the sweep has seen.
    fn postpone(&self, state: &mut State) {
        let Some(due) = state.swept.take() else { return };
        let item = &mut state.store.item;
        if item.due_at == Some(due.due_at) {
            item.due_at = Some(postponed(state.now, due.wakes));
            item.wakes += 1;
        }
    }

    /// Takes `action` in `state`.
    fn apply(&self, state: &mut State, action: Action) {
        match action {
            Action::Tick(at) => {
                state.left.ticks -= 1;
                state.now = at;
                state.queue.advance(at);
            }
            Action::Deliver { again } => {
                if again {
                    state.left.duplicates -= 1;
                } else {
                    state.queue.ready -= 1;
                }
                state.drivers.push(Shared::new(self.woken(state)));
            }
            Action::Step(place, what) => {
                let driver = state.drivers.remove(place);
                let left = self.step(state, &driver, what);
                state.drivers.extend(left.map(Shared::new));
            }
            Action::Act(place, deed) => {
                let person = state.people.remove(place);
                let person = self.act(state, &person, deed);
                state.people.push(Shared::new(person));
            }
            Action::Sweep => self.sweep(state),
            Action::Postpone => self.postpone(state),
        }
        state.normalise();
    }

    /// The rules about a state, as opposed to a step.
    fn check(&self, before: &State, state: &mut State) {
        if state.now != before.now || state.store != before.store {
            state.store.check_due(state.now, &mut state.broken);
            state.broken.add(self.rests(&state.store, state.now));
        }
        let quiet = state.drivers.is_empty()
            && state.queue.ready == 0
            && !state.people.iter().any(|person| matches!(person.phase, Phase::Owing { .. }));
        if quiet && state.lossless {
            // Every wake has done its work, so no work may be left (I4, and D8 without its repair).
            let idle = !next(&state.store.journal.run, state.now).is_work();
            state.broken.unless(idle, Rule::I4);
        }
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        self.started().into_iter().collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.any() {
            return; // what follows a broken rule says nothing
        }
        for (place, driver) in state.drivers.iter().enumerate() {
            if place == 0 || state.drivers[place - 1] != *driver {
                actions.extend(self.moves(state, driver).into_iter().map(|what| Action::Step(place, what)));
            }
        }
        for (place, person) in state.people.iter().enumerate() {
            if place == 0 || state.people[place - 1] != *person {
                actions.extend(self.deeds(state, person).into_iter().map(|deed| Action::Act(place, deed)));
            }
        }
        if state.queue.ready > 0 && state.drivers.len() < self.config.steps {
            actions.push(Action::Deliver { again: false });
            if state.left.duplicates > 0 {
                actions.push(Action::Deliver { again: true });
            }
        }
        if state.left.ticks > 0 {
            actions.extend(self.edges(state).into_iter().map(Action::Tick));
        }
        if state.swept.is_some() {
            actions.push(Action::Postpone);
        } else if state.left.sweeps > 0 && state.store.item.due_at.is_some_and(|due_at| due_at <= state.now) {
            actions.push(Action::Sweep);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.apply(&mut state, action);
        self.check(last, &mut state);
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let conditions: [fn(&Self, &State) -> bool; Rule::ALL.len()] = [
            |_, state| !state.broken.has(Rule::I1),
            |_, state| !state.broken.has(Rule::I2),
            |_, state| !state.broken.has(Rule::I3),
            |_, state| !state.broken.has(Rule::I4),
            |_, state| !state.broken.has(Rule::I5),
            |_, state| !state.broken.has(Rule::I6),
            |_, state| !state.broken.has(Rule::I7),
            |_, state| !state.broken.has(Rule::I8),
            |_, state| !state.broken.has(Rule::I9),
            |_, state| !state.broken.has(Rule::I10),
            |_, state| !state.broken.has(Rule::I11),
            |_, state| !state.broken.has(Rule::C5),
            |_, state| !state.broken.has(Rule::B8),
            |_, state| !state.broken.has(Rule::Late),
            |_, state| !state.broken.has(Rule::Rest),
        ];
        Rule::ALL.iter().zip(conditions).map(|(rule, condition)| Property::always(rule.name(), condition)).collect()
    }
}
