//! Everybody but a driver who writes: mirrors `engine/src/{amend,respond,control}.rs`. Load, judge,
//! write in one transaction, wake; whoever loses the index loads again.

use dormouse_domain::{
    Fact, Mode, Principal, RequestKey, Run,
    agent::OnMessage,
    budget::Amounts,
    decide::{self, Answer, Deciding, Refusal, Resolution},
    item::wake_at,
    message::Content,
    plan,
    request::{DecisionKind, Request, RequestKind, RequestStatus, Settled},
};
use serde_json::Value;

use crate::{
    Protocol,
    config::{Intent, Say},
    driver::{Heard, entry},
    fault::Fault,
    journal::Journal,
    marks::Mark,
    rules::Rule,
    shared::Shared,
    state::State,
    store::{Decide, Write},
};

/// A person, or the functions that act for one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Person {
    /// What they are about to do, and then.
    pub intents: &'static [Intent],
    /// Where they are with the first of these.
    pub phase: Phase,
}

/// Where a person's write stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Not begun.
    Idle,
    /// The journal is loaded.
    Loaded {
        /// What they want.
        task: Task,
        /// What was loaded.
        known: Shared<Journal>,
    },
    /// The answer was checked against the row, and is to be written.
    Judged {
        /// What they want.
        task: Task,
        /// What is to be written.
        write: Shared<Write>,
        /// Whether the wake is sent already: a planted fault.
        woke: bool,
    },
    /// It is written, and the wake is not sent.
    Owing {
        /// What was written; none if it had been before.
        after: Option<Shared<Journal>>,
    },
}

/// What a person wants, in particular.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Task {
    /// To decide a request.
    Decide {
        /// Which.
        request: RequestKey,
        /// How.
        say: Say,
        /// The key that goes with it.
        key: Option<u8>,
    },
    /// To cancel.
    Cancel,
    /// To pause.
    Pause,
    /// To let it go on.
    Resume,
    /// To say something.
    Speak,
    /// To set the mode.
    Mode(Mode),
}

/// What a person does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// Begins: the journal is loaded.
    Begin(Task),
    /// What they want is judged, an answer against the row.
    Judge,
    /// It is written.
    Write(Heard),
    /// The wake is sent.
    Wake,
}

/// Whose run it is.
#[must_use]
pub fn owner() -> Principal {
    Principal { tenant: "t".to_owned(), subject: "owner".to_owned() }
}

impl Say {
    fn fits(self, kind: RequestKind) -> bool {
        match kind {
            RequestKind::Approval => match self {
                Self::Approve | Self::Edit | Self::Deny | Self::Forged | Self::Stranger => true,
                Self::Answer | Self::Quit | Self::Result | Self::Retry | Self::Abort | Self::Raise | Self::Stop => {
                    false
                }
            },
            RequestKind::Question => matches!(self, Self::Answer | Self::Quit),
            RequestKind::Uncertain | RequestKind::External => matches!(self, Self::Result | Self::Retry | Self::Abort),
            RequestKind::Budget => matches!(self, Self::Raise | Self::Stop),
        }
    }

    /// The answer, by whom, as a client sends it after it was shown `row`.
    pub(crate) fn answer(self, row: &Request) -> (Principal, Answer) {
        let shown = Some(row.digest.as_str().to_owned());
        let bare = Answer::new;
        let settle = |resolution| Answer { resolution: Some(resolution), ..bare(DecisionKind::Settle) };
        let reply = |word: &str| Answer { answer: Some(Value::from(word)), ..bare(DecisionKind::Answer) };
        let approve = Answer { digest: shown.clone(), ..bare(DecisionKind::Approve) };
        match self {
            Self::Approve => (owner(), approve),
            Self::Edit => {
                let arguments = Some(serde_json::json!({ "edited": true }));
                (owner(), Answer { digest: shown, arguments, ..bare(DecisionKind::Edit) })
            }
            Self::Deny => (owner(), bare(DecisionKind::Deny)),
            Self::Answer => (owner(), reply("yes")),
            Self::Quit => (owner(), reply("no")),
            Self::Result => (owner(), settle(Resolution::Result("it did".to_owned()))),
            Self::Retry => (owner(), Answer { digest: shown, ..settle(Resolution::Retry) }),
            Self::Abort => (owner(), settle(Resolution::Abort)),
            Self::Raise => {
                let by = Some(Amounts { turns: 1, ..Amounts::default() });
                (owner(), Answer { by, ..bare(DecisionKind::Raise) })
            }
            Self::Stop => (owner(), bare(DecisionKind::Stop)),
            Self::Forged => {
                let other = dormouse_domain::Digest::of(b"other").as_str().to_owned();
                (owner(), Answer { digest: Some(other), ..approve })
            }
            Self::Stranger => (Principal { subject: "stranger".to_owned(), ..owner() }, approve),
        }
    }
}

impl Protocol {
    /// What `person` can do now.
    pub(crate) fn deeds(&self, state: &State, person: &Person) -> Vec<Deed> {
        match &person.phase {
            Phase::Idle => {
                let Some(intent) = person.intents.first() else { return Vec::new() };
                self.tasks(state, *intent).into_iter().map(Deed::Begin).collect()
            }
            Phase::Loaded { .. } => vec![Deed::Judge],
            Phase::Judged { woke, write, .. } => {
                if self.fault == Some(Fault::WakeFirst) && !woke {
                    return vec![Deed::Wake];
                }
                let mut deeds = vec![Deed::Write(Heard::Yes)];
                if state.left.lost_replies > 0 && !state.store.is_taken(&write.known) {
                    deeds.push(Deed::Write(Heard::Landed));
                    // One that was not stored is as good as one that nobody sent.
                    if self.fault == Some(Fault::HopesForTheBest) {
                        deeds.push(Deed::Write(Heard::Vanished));
                    }
                }
                deeds
            }
            Phase::Owing { .. } => vec![Deed::Wake],
        }
    }

    fn tasks(&self, state: &State, intent: Intent) -> Vec<Task> {
        match intent {
            Intent::Decide { says, key } => {
                // They see the requests that wait, and may click when one no longer does.
                let waiting = state.store.rows.iter().filter(|(_, row)| row.status == RequestStatus::Pending);
                let fitting = |(request, row): (&RequestKey, &Request)| {
                    let (request, kind) = (*request, row.kind);
                    let says = says.iter().filter(move |say| say.fits(kind));
                    says.map(move |say| Task::Decide { request, say: *say, key })
                };
                waiting.flat_map(fitting).collect()
            }
            Intent::Cancel => vec![Task::Cancel],
            Intent::Pause => vec![Task::Pause],
            Intent::Resume => vec![Task::Resume],
            Intent::Speak => vec![Task::Speak],
            Intent::Mode(mode) => vec![Task::Mode(mode)],
        }
    }

    /// What becomes of `person` by `deed`.
    pub(crate) fn act(&self, state: &mut State, person: &Person, deed: Deed) -> Person {
        match (&person.phase, deed) {
            (Phase::Idle, Deed::Begin(task)) => self.load(state, person, task),
            (Phase::Loaded { task, known }, _) => self.attempt(state, person, *task, known),
            (Phase::Judged { task, write, .. }, Deed::Wake) => {
                state.queue.send(state.now, state.now);
                person.at(Phase::Judged { task: *task, write: write.clone(), woke: true })
            }
            (Phase::Judged { task, write, .. }, Deed::Write(heard)) => self.write(state, person, *task, write, heard),
            (Phase::Owing { after }, _) => {
                match after {
                    Some(after) => self.wake_when_due(state, after),
                    None => state.queue.send(state.now, state.now),
                }
                person.done()
            }
            (Phase::Idle | Phase::Judged { .. }, _) => person.clone(),
        }
    }

    /// The beginning of an attempt in `amend`: the earlier answer, or else the journal. What is read and
    /// judged in one step could as well have been read later, unless the configuration tells them apart.
    fn load(&self, state: &mut State, person: &Person, task: Task) -> Person {
        if let Task::Decide { request, key: Some(key), .. } = task
            && self.answered_before(state, request, key)
        {
            return person.at(Phase::Owing { after: None });
        }
        let known = state.store.journal.clone();
        if self.config.loads_apart {
            return person.at(Phase::Loaded { task, known });
        }
        self.attempt(state, person, task, &known)
    }

    /// The rest of it: judged, and written if that depends on nothing but the journal.
    fn attempt(&self, state: &mut State, person: &Person, task: Task, known: &Shared<Journal>) -> Person {
        if let Task::Decide { request, say, key } = task {
            return match self.judge(state, known, request, say, key) {
                Some(write) => person.at(Phase::Judged { task, write: Shared::new(write), woke: false }),
                None => self.refused(state, person, key, request),
            };
        }
        let Some(fact) = amendment(&known.run, task) else { return person.done() };
        let write = self.amend(state, known, vec![fact]);
        self.write(state, person, task, &write, Heard::Yes)
    }

    /// Whether the same write was made under this key; then its answer is given again.
    fn answered_before(&self, state: &mut State, request: RequestKey, key: u8) -> bool {
        let Some(settled) = state.store.receipts.get(&key).cloned() else { return false };
        self.mark(Mark::AnsweredAgain);
        told(state, request, &settled);
        true
    }

    /// `Engine::decision`: the answer is checked against the persisted row, as it is now.
    fn judge(
        &self,
        state: &mut State,
        known: &Shared<Journal>,
        key: RequestKey,
        say: Say,
        receipt: Option<u8>,
    ) -> Option<Write> {
        let row = state.store.rows.get(&key)?;
        let (by, answer) = say.answer(row);
        let decision = match decide::check(row, &answer, &by.clone().into(), state.now, &|_| Ok(())) {
            Ok(decision) => decision,
            Err(refusal) => {
                self.told_why_not(state, key, &refusal);
                return None;
            }
        };
        if known.run.requests.get(&key).is_none_or(|request| request.status != RequestStatus::Pending) {
            return None; // 503
        }
        // Nobody in the model says `always`: it decides as an approval does.
        let Deciding { facts, settled, digest, rule: _ } =
            decide::record(&known.run, row, decision, &by, None, state.now).ok()?;
        let write = self.amend(state, known, facts);
        let decide = Decide { key, settled, digest, now: state.now };
        Some(Write { decide: Some(decide), receipt, ..write })
    }

    fn amend(&self, state: &State, known: &Shared<Journal>, facts: Vec<Fact>) -> Write {
        let entries = (known.run.len..).zip(facts).map(|(index, fact)| entry(index, state.now, None, fact));
        self.with_rows(Write::new(&self.folded, known, entries.collect()).whole(state.now))
    }

    /// What a person is told who may not decide must be so.
    fn told_why_not(&self, state: &mut State, key: RequestKey, refusal: &Refusal) {
        let Some(row) = state.store.rows.get(&key) else { return };
        let in_time = row.status == RequestStatus::Pending && state.now <= row.windows.decide_by;
        let holds = match refusal {
            Refusal::AlreadyDecided(settled) => {
                self.mark(Mark::ToldWhatStands);
                row.decision.as_ref() == Some(settled)
            }
            Refusal::Gone(_) => {
                self.mark(Mark::ToldGone);
                !in_time
            }
            Refusal::NotFound
            | Refusal::NotEntitled(_)
            | Refusal::NotOffered { .. }
            | Refusal::DigestMissing
            | Refusal::DigestMismatch
            | Refusal::LinkExpired
            | Refusal::Invalid(_)
            | Refusal::BadEdit(_) => true,
        };
        state.broken.unless(holds, Rule::I6);
    }

    fn refused(&self, state: &mut State, person: &Person, key: Option<u8>, request: RequestKey) -> Person {
        if key.is_some_and(|key| self.answered_before(state, request, key)) {
            // `unless_answered` sends no wake: whoever wrote it does.
            return person.done();
        }
        person.done()
    }

    fn write(&self, state: &mut State, person: &Person, task: Task, write: &Write, heard: Heard) -> Person {
        let blind = self.fault == Some(Fault::DecidesBlindly);
        let taken = state.store.is_taken(&write.known);
        let written = match heard {
            Heard::Vanished => Ok(()),
            Heard::Yes | Heard::Landed if blind && taken => {
                state.store.force(&Write { decide: None, ..write.clone() }, &mut state.broken)
            }
            Heard::Yes | Heard::Landed => state.store.commit(write, &mut state.broken),
        };
        if written.is_err() {
            self.mark(Mark::PersonLostIndex);
            return self.load(state, person, task);
        }
        if heard != Heard::Yes {
            state.left.lost_replies -= 1;
            if self.fault != Some(Fault::HopesForTheBest) {
                // They are told that it is not known, and no wake is sent.
                state.lossless = false;
                let repeats = matches!(task, Task::Decide { key: Some(_), .. });
                return if repeats { person.at(Phase::Idle) } else { person.done() };
            }
        }
        if let (Task::Decide { request, .. }, Some(decide)) = (task, &write.decide) {
            self.mark(Mark::Decided);
            told(state, request, &decide.settled);
        }
        if self.fault == Some(Fault::WakeFirst) {
            return person.done();
        }
        person.at(Phase::Owing { after: Some(write.after.clone()) })
    }

    /// `wake_when_due` of the engine.
    pub(crate) fn wake_when_due(&self, state: &mut State, known: &Journal) {
        if let Some(at) = wake_at(&known.run, state.now) {
            state.queue.send(at, state.now);
        }
    }
}

/// A person is told that this decision stands: it must.
fn told(state: &mut State, request: RequestKey, settled: &Settled) {
    let stored = state.store.rows.get(&request).and_then(|row| row.decision.as_ref());
    state.broken.unless(stored.is_some(), Rule::I11);
    state.broken.unless(stored == Some(settled), Rule::I6);
}

/// What `control.rs` makes of a wish, if it grants it.
fn amendment(run: &Run, task: Task) -> Option<Fact> {
    let by = owner();
    let unfinished = run.outcome.is_none();
    match task {
        Task::Decide { .. } => None,
        Task::Cancel if unfinished && run.cancel.is_none() => Some(Fact::CancelRequested { by, reason: None }),
        Task::Pause if unfinished && !run.paused => Some(Fact::Paused { by }),
        Task::Resume if unfinished && run.paused => Some(Fact::Resumed { by }),
        Task::Speak if run.cancel.is_none() => {
            let supersedes =
                run.definition.on_message == OnMessage::Supersede && run.driver.is_none() && run.waits_for_person();
            Some(Fact::MessageAdded { by, content: vec![Content::text("listen")], supersedes })
        }
        Task::Mode(mode) if run.cancel.is_none() => {
            Some(Fact::ModeChanged { by, mode, calls: plan::replan(run, mode, plan::Rules::none()) })
        }
        Task::Cancel | Task::Pause | Task::Resume | Task::Speak | Task::Mode(_) => None,
    }
}

impl Person {
    fn at(&self, phase: Phase) -> Self {
        Self { intents: self.intents, phase }
    }

    /// They go on to the next thing.
    fn done(&self) -> Self {
        Self { intents: self.intents.get(1..).unwrap_or_default(), phase: Phase::Idle }
    }
}
