//! The loop of a driver: mirrors `engine/src/step/{drive,calls,stop}.rs`. What to do is asked of the
//! production `next`, what to write is made by the production code; mirrored is when, and what follows.

use dormouse_domain::{
    CallKey, Fact, Millis, Next, Run, ToolDef,
    entry::{Dispatched, DriverStop, Opened},
    kv::KvPatch,
    message::Usage,
    next,
    plan::{self, Circumstances, Plan, Rules},
    request::{self, RequestKind},
    retry::{self, Failure, FailureClass},
};
use serde_json::Value;

use crate::{
    Protocol,
    config::SLOW,
    driver::{Driver, Heard, Left, Move, driver_id, entry},
    fault::Fault,
    journal::{self, Journal},
    marks::Mark,
    rules::Rule,
    shared::Shared,
    state::State,
    store::Write,
    world::{Acts, Effect},
};

/// A driver at work.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Drive {
    /// What it has read and written.
    pub known: Shared<Journal>,
    /// The index of the entry by which it claimed the run.
    pub number: u32,
    /// The calls that it runs.
    pub running: Vec<Dispatched>,
    /// Whether its time is short.
    pub draining: bool,
    /// Whether it has appended anything since its claim.
    pub worked: bool,
    /// Whether a wake is to be sent for what it wrote as one that no longer holds the run.
    pub owes: bool,
    /// What it is in the middle of.
    pub hand: Hand,
}

/// What a driver is in the middle of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Hand {
    /// Nothing: it asks `next`.
    Empty,
    /// A model call, with so many entries in its prompt, begun at this time.
    Asking(u32, Millis),
    /// Its reply lost the index.
    Replied(u32),
    /// Its failure lost the index.
    Failed(FailureClass, Millis),
    /// A write of which it heard nothing.
    Unheard {
        /// The write.
        write: Shared<Write>,
        /// Whether it is stored.
        landed: bool,
        /// What follows if it is.
        then: Then,
        /// What it is in the middle of if not.
        hand: Box<Hand>,
    },
}

/// What follows a write.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Then {
    /// The next thing.
    Work,
    /// These calls are started.
    Start(Vec<Dispatched>),
    /// The calls that the reply announced are started.
    StartReply,
    /// The call in this place is over.
    Taken(usize),
    /// The driver is done, and may have a wake to send.
    Stop,
}

/// What the planner must know from outside: all arguments fit, and one tool never does.
struct Outside;

impl Circumstances for Outside {
    fn rules(&self) -> Rules<'_> {
        Rules::none()
    }
    fn validate(&self, _: &ToolDef, _: &Value) -> Result<(), String> {
        Ok(())
    }
    fn fits(&self, tool: &ToolDef) -> bool {
        tool.name != SLOW
    }
}

impl Drive {
    fn holds(&self) -> bool {
        self.known.run.driver.as_ref().is_some_and(|driver| driver.id == driver_id(self.number))
    }
}

/// A model is sent its prompt. Of two prompts one begins with the other (I10): the later one with the
/// earlier, unless it comes from a driver that is behind.
fn ask(state: &mut State, run: &Run) {
    let prompt = journal::prompt(run);
    if prompt.starts_with(&state.asked) {
        state.asked = Shared::new(prompt);
    } else {
        state.broken.unless(state.asked.starts_with(&prompt), Rule::I10);
    }
}

impl Protocol {
    /// What a driver can do now.
    pub(crate) fn drive_moves(&self, state: &State, drive: &Drive, moves: &mut Vec<Move>) {
        if drive.owes {
            return moves.push(Move::Wake);
        }
        match &drive.hand {
            Hand::Unheard { .. } => return moves.push(Move::Repeat),
            Hand::Asking(..) => {
                self.heard(state, &drive.known, true, moves, Move::Reply);
                if state.left.model_failures > 0 {
                    moves.push(Move::Fail(FailureClass::Overloaded, Heard::Yes));
                    moves.push(Move::Fail(FailureClass::Rejected, Heard::Yes));
                }
            }
            Hand::Replied(_) | Hand::Failed(..) => self.heard(state, &drive.known, true, moves, Move::Record),
            Hand::Empty => self.next_moves(state, drive, moves),
        }
        if state.left.panics > 0 {
            moves.push(Move::Panic);
        }
    }

    fn next_moves(&self, state: &State, drive: &Drive, moves: &mut Vec<Move>) {
        let next = self.next(&drive.known.run, state.now);
        let starts = matches!(next, Next::Dispatch(_) | Next::CallModel);
        let awaits = !drive.holds() || next == Next::Await || (starts && drive.draining);
        if awaits && !drive.running.is_empty() {
            for place in 0..drive.running.len() {
                self.heard(state, &drive.known, true, moves, |heard| Move::Take(place, Effect::Answers, heard));
                if state.left.unknowns > 0 {
                    moves.extend(Effect::FAILURES.map(|effect| Move::Take(place, effect, Heard::Yes)));
                }
            }
            return;
        }
        let writes = drive.holds() && next != Next::CallModel;
        self.heard(state, &drive.known, writes, moves, Move::Go);
        if starts && drive.holds() && drive.worked && !drive.draining && state.left.hand_offs > 0 {
            moves.push(Move::Short);
        }
    }

    /// What becomes of a driver by `what`.
    pub(crate) fn drive(&self, state: &mut State, mut drive: Box<Drive>, what: Move) -> Left {
        match what {
            Move::Wake => {
                drive.owes = false;
                self.wake_when_due(state, &drive.known);
                Some(Driver::Driving(drive))
            }
            Move::Short => {
                state.left.hand_offs -= 1;
                drive.draining = true;
                Some(Driver::Driving(drive))
            }
            Move::Repeat => self.repeat(state, drive),
            Move::Take(place, effect, heard) => self.take(state, drive, (place, effect), heard),
            Move::Reply(heard) => {
                if let Hand::Asking(seen, _) = drive.hand {
                    drive.hand = Hand::Replied(seen);
                }
                if self.fault == Some(Fault::ToolsFirst) {
                    self.start_early(state, &mut drive);
                }
                self.record(state, drive, heard)
            }
            Move::Fail(class, heard) => {
                state.left.model_failures -= 1;
                if let Hand::Asking(_, began) = drive.hand {
                    drive.hand = Hand::Failed(class, began);
                }
                self.record(state, drive, heard)
            }
            Move::Record(heard) => self.record(state, drive, heard),
            Move::Go(heard) => self.go(state, drive, heard),
            Move::Load | Move::Claim(_) | Move::Correct | Move::Crash | Move::Panic => Some(Driver::Driving(drive)),
        }
    }

    /// The production `next`, with the fault that is planted.
    fn next(&self, run: &Run, now: Millis) -> Next {
        match (self.fault, next(run, now)) {
            (Some(Fault::Impatient), Next::Rest { open, .. }) if open.is_empty() && run.waits_for_person() => {
                let waiting = run.pending().filter(|(_, request)| !request.moved_on);
                Next::StopWaiting(waiting.map(|(key, _)| key).collect())
            }
            (Some(Fault::IgnoresPause), _) if run.paused => next(&Run { paused: false, ..run.clone() }, now),
            (Some(Fault::NeverAsks), Next::Rest { open, .. })
                if open.iter().any(|opened| opened.kind == RequestKind::Uncertain) =>
            {
                Next::Dispatch(open.iter().filter_map(|opened| opened.call).collect())
            }
            (Some(Fault::Spends), Next::Rest { open, .. })
                if open.iter().any(|opened| opened.kind == RequestKind::Budget) =>
            {
                Next::CallModel
            }
            (_, next) => next,
        }
    }

    fn go(&self, state: &mut State, mut drive: Box<Drive>, heard: Heard) -> Left {
        if !drive.holds() {
            self.mark(Mark::StoodDown);
            return None; // nothing runs any more, or there would be a result to take
        }
        let known = drive.known.clone();
        let run = &known.run;
        let fact = match self.next(run, state.now) {
            Next::Dispatch(_) | Next::CallModel if drive.draining => {
                self.mark(Mark::HandedOff);
                Fact::DriverStopped { stop: DriverStop::HandedOff }
            }
            Next::Dispatch(calls) => {
                let withheld = plan::recheck(run, &calls, Rules::none());
                if !withheld.is_empty() {
                    let fact = Fact::CallsReplanned { calls: withheld };
                    return self.append(state, drive, fact, Then::Work, heard);
                }
                let calls = calls.into_iter().filter_map(|key| {
                    let attempt = run.call(key)?.attempts + 1;
                    Some(Dispatched { call: key, attempt })
                });
                let calls: Vec<_> = calls.collect();
                let fact = Fact::CallDispatched { calls: calls.clone() };
                return self.append(state, drive, fact, Then::Start(calls), heard);
            }
            Next::Await => {
                // The engine calls this a bug, and stops: a result that is not in the journal is gone.
                state.broken.unless(false, Rule::I3);
                return None;
            }
            Next::CallModel => {
                ask(state, run);
                drive.hand = Hand::Asking(run.len, state.now);
                return Some(Driver::Driving(drive));
            }
            Next::Expire(requests) => {
                self.mark(Mark::Expired);
                return self.note(state, drive, Fact::RequestExpired { requests }, heard);
            }
            Next::StopWaiting(requests) => {
                self.mark(Mark::MovedOn);
                return self.note(state, drive, Fact::WaitExpired { requests }, heard);
            }
            Next::Reopen => {
                self.mark(Mark::Reopened);
                return self.note(state, drive, Fact::Reopened {}, heard);
            }
            Next::Finish(outcome) => Fact::RunFinished(outcome),
            Next::Rest { open, until } => return self.suspend(state, drive, open, until, heard),
        };
        self.put(state, drive, Then::Stop, heard, |_, known, number, now| self.whole(known, number, fact, now))
    }

    /// That a window closed, or that the run is open again: not a stop.
    fn note(&self, state: &mut State, drive: Box<Drive>, fact: Fact, heard: Heard) -> Left {
        self.put(state, drive, Then::Work, heard, |_, known, number, now| self.whole(known, number, fact, now))
    }

    fn suspend(
        &self,
        state: &mut State,
        drive: Box<Drive>,
        open: Vec<Opened>,
        until: Option<Millis>,
        heard: Heard,
    ) -> Left {
        self.put(state, drive, Then::Stop, heard, |_, known, number, now| {
            let run = &known.run;
            let timer = open.iter().map(|opened| opened.windows.stops_waiting_at()).chain(until).min();
            let rows = (0..).zip(&open).filter_map(|(i, opened)| request::build(run, run.len, i, opened, now));
            let rows: Vec<_> = rows.collect();
            let fact = Fact::Suspended { requests: open, until: timer };
            let mut write = Write { open: rows, ..self.whole(known, number, fact, now) };
            if self.fault == Some(Fault::NoDueTime) {
                write.item = write.item.map(|item| crate::store::Item { due_at: None, ..item });
            }
            write
        })
    }

    /// Stores what the model answered: `record_reply` and `record_failure` of the engine.
    fn record(&self, state: &mut State, mut drive: Box<Drive>, heard: Heard) -> Left {
        if !drive.holds() {
            drive.hand = Hand::Empty;
            return Some(Driver::Driving(drive));
        }
        let run = &drive.known.run;
        match drive.hand {
            Hand::Failed(class, began) => {
                let failure = Failure::new(class, "no");
                let fact = retry::after(run, &failure, began, state.now);
                self.append(state, drive, fact, Then::Work, heard)
            }
            Hand::Replied(seen) => {
                let (content, stop) = self.config.reply(run.turns.len());
                let mut calls = plan::plan_reply(run, &content, &stop, seen, &Outside);
                if self.fault == Some(Fault::AskIgnored) {
                    for plan in &mut calls {
                        if matches!(plan, Plan::Ask { .. }) {
                            *plan = Plan::Start { rule: None };
                        }
                    }
                }
                let said = if self.fault == Some(Fault::WrongSeen) { drive.number + 1 } else { seen };
                let usage = Usage::default();
                let model = run.model().clone();
                let fact = Fact::ModelReplied { model, content, stop, usage, seen: said, calls };
                self.append(state, drive, fact, Then::StartReply, heard)
            }
            Hand::Empty | Hand::Asking(..) | Hand::Unheard { .. } => Some(Driver::Driving(drive)),
        }
    }

    /// Stores the result of an attempt, unless the call was settled meanwhile: `record` of the engine.
    fn take(&self, state: &mut State, mut drive: Box<Drive>, came: (usize, Effect), heard: Heard) -> Left {
        let (place, effect) = came;
        let Dispatched { call, attempt } = drive.running[place];
        let result = effect.result();
        let run = &drive.known.run;
        let news = run.call(call).is_some_and(|call| call.takes(attempt, &result));
        if !news || run.is_over() {
            self.mark(Mark::LateForNothing);
            drive.running.remove(place);
            return Some(Driver::Driving(drive));
        }
        if effect != Effect::Answers {
            if state.store.is_taken(&drive.known) {
                drive.known = state.store.journal.clone();
                return Some(Driver::Driving(drive)); // what came is judged again, and may be another
            }
            state.left.unknowns -= 1;
        }
        let fact = Fact::CallFinished { call, attempt, result, kv: KvPatch::new(), used: None };
        if drive.holds() {
            return self.append(state, drive, fact, Then::Taken(place), heard);
        }
        self.mark(Mark::LateResult);
        self.put(state, drive, Then::Taken(place), heard, |_, known, number, now| self.whole(known, number, fact, now))
    }

    /// Starts calls. Their tools act at once, for all that anybody can know.
    pub(crate) fn start(&self, state: &mut State, drive: &mut Drive, calls: Vec<Dispatched>) {
        let stored = &state.store.journal;
        let mut acts = Acts::clone(&state.acts);
        for start in &calls {
            let Dispatched { call, attempt } = *start;
            state.broken.unless(stored.announced(call, attempt, drive.number), Rule::I2);
            let known = stored.run.call(call);
            state.broken.unless(known.is_some_and(|call| journal::digest(&stored.run, call).is_some()), Rule::I11);
            state.broken.unless(acts.0.insert((call, attempt)), Rule::I8);
        }
        state.acts = Shared::new(acts);
        drive.running.extend(calls);
    }

    /// The fault of a driver that starts the tools of a reply before it is stored.
    fn start_early(&self, state: &mut State, drive: &mut Drive) {
        let run = &drive.known.run;
        let (content, stop) = self.config.reply(run.turns.len());
        let plans = plan::plan_reply(run, &content, &stop, run.len, &Outside);
        let index = run.len;
        let starts = (0..).zip(plans).filter(|(_, plan)| plan.starts());
        let starts: Vec<_> = starts.map(|(i, _)| Dispatched { call: CallKey::new(index, i), attempt: 1 }).collect();
        self.start(state, drive, starts);
    }

    /// A write of one entry with the item and the rows that follow from it.
    fn whole(&self, known: &Shared<Journal>, number: u32, fact: Fact, now: Millis) -> Write {
        let entry = entry(known.run.len, now, Some(driver_id(number)), fact);
        self.with_rows(Write::new(&self.folded, known, vec![entry]).whole(now))
    }

    /// A fact that changes nothing but the journal.
    fn append(&self, state: &mut State, drive: Box<Drive>, fact: Fact, then: Then, heard: Heard) -> Left {
        self.put(state, drive, then, heard, |_, known, number, now| {
            let entry = entry(known.run.len, now, Some(driver_id(number)), fact);
            Write::new(&self.folded, known, vec![entry])
        })
    }

    /// Makes a write: `append`, `commit` and `settle` of the engine. One that loses its index reads on;
    /// both in one step, since the refusal would be the same just before the reading.
    fn put(
        &self,
        state: &mut State,
        mut drive: Box<Drive>,
        then: Then,
        heard: Heard,
        write: impl FnOnce(&Self, &Shared<Journal>, u32, Millis) -> Write,
    ) -> Left {
        let stops = then == Then::Stop;
        let taken = state.store.is_taken(&drive.known);
        let blind = self.fault == Some(Fault::NoSecondLook) || (stops && self.fault == Some(Fault::StopsBlindly));
        if taken && !blind {
            self.lost(state, &mut drive, &then);
            return Some(Driver::Driving(drive));
        }
        let write = Write { stops, ..write(self, &drive.known, drive.number, state.now) };
        let landed = match heard {
            Heard::Vanished => false,
            Heard::Yes | Heard::Landed if blind => state.store.force(&write, &mut state.broken).is_ok(),
            Heard::Yes | Heard::Landed => state.store.commit(&write, &mut state.broken).is_ok(),
        };
        match heard {
            Heard::Yes if landed => {
                drive.known = if blind { state.store.journal.clone() } else { write.after };
                self.done(state, drive, then)
            }
            Heard::Yes => {
                self.lost(state, &mut drive, &then);
                Some(Driver::Driving(drive))
            }
            Heard::Landed | Heard::Vanished => {
                state.left.lost_replies -= 1;
                let hand = Box::new(std::mem::replace(&mut drive.hand, Hand::Empty));
                drive.hand = Hand::Unheard { write: Shared::new(write), landed, then, hand };
                Some(Driver::Driving(drive))
            }
        }
    }

    fn lost(&self, state: &State, drive: &mut Drive, then: &Then) {
        self.mark(Mark::LostIndex);
        drive.known = state.store.journal.clone();
        if let (Then::Taken(place), Some(Fault::ResultDropped)) = (then, self.fault) {
            drive.running.remove(*place);
        }
    }

    /// The very same write once more: `persist` of the engine. What stands there is known by its id.
    fn repeat(&self, state: &mut State, mut drive: Box<Drive>) -> Left {
        let Hand::Unheard { write, landed, then, hand } = std::mem::replace(&mut drive.hand, Hand::Empty) else {
            return Some(Driver::Driving(drive));
        };
        drive.hand = *hand;
        if landed || state.store.commit(&write, &mut state.broken).is_ok() {
            self.mark(Mark::Recognised);
            drive.known = write.after.clone();
            return self.done(state, drive, then);
        }
        self.lost(state, &mut drive, &then);
        Some(Driver::Driving(drive))
    }

    fn done(&self, state: &mut State, mut drive: Box<Drive>, then: Then) -> Left {
        // It is told apart only where a step can hand over.
        drive.worked = self.config.bounds.hand_offs > 0;
        match then {
            Then::Work => drive.hand = Hand::Empty,
            Then::Start(calls) => self.start(state, &mut drive, calls),
            Then::StartReply => {
                drive.hand = Hand::Empty;
                if self.fault != Some(Fault::ToolsFirst) {
                    let calls = journal::running(&drive.known.run);
                    self.start(state, &mut drive, calls);
                }
            }
            Then::Taken(place) => {
                drive.running.remove(place);
                drive.owes = !drive.holds();
            }
            Then::Stop => return Some(Driver::Stopped { known: drive.known.clone() }),
        }
        Some(Driver::Driving(drive))
    }
}
