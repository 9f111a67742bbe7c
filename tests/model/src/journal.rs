//! A journal as the model keeps it: folded by the production code, with the auditor's books beside it,
//! by which each entry and each folded state are judged.

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
};

use dormouse_domain::{
    CallKey, Digest, Entry, Fact, Run,
    audit::{Audit, Violation},
    entry::Dispatched,
    message::ReplyBlock,
    plan,
    request::RequestStatus,
    run::{Call, CallState},
    transcript::{self, AssistantBlock, Message, UserBlock},
};

use crate::{
    rules::{Broken, Rule},
    shared::{Memo, Shared, hash_of},
};

/// A folded journal. A reader that is behind holds an earlier one; what it then reads brings it to the
/// present one, whatever it held, because there is one journal and the fold is a function. So the
/// entries themselves need not be kept.
#[derive(Debug, Clone)]
pub struct Journal {
    /// What the fold makes of it.
    pub run: Run,
    /// The kind of its last entry.
    pub last: &'static str,
    /// What the auditor makes of it.
    books: Audit,
    /// Which driver announced an attempt, by its number.
    announced: BTreeMap<(CallKey, u32), u32>,
}

impl Hash for Journal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_run(&self.run, state);
        self.announced.hash(state);
        // Two journals with one state can differ in what the auditor remembers of them.
        format!("{:?}", self.books).hash(state);
    }
}

/// What tells two folded runs apart. Left out is what nothing in the model's bounds depends on: names
/// that are the same in all states, and counters that only feed ceilings far out of reach.
fn hash_run<H: Hasher>(run: &Run, state: &mut H) {
    let Run {
        id: _,
        definition: _,
        definition_digest: _,
        owner: _,
        agent: _,
        mode,
        metadata: _,
        parent: _,
        forks: _,
        created_at: _,
        updated_at: _,
        len,
        turns,
        messages,
        requests,
        moved_on,
        repeats: _,
        driver,
        paused,
        cancel,
        outcome,
        state: _,
        usage: _,
        cost: _,
        children: _,
        ceilings,
        worked_ms: _,
        trouble,
        deaths,
        wire_ids: _,
    } = run;
    (mode, len, turns, messages, requests, moved_on, ceilings).hash(state);
    driver.as_ref().map(|driver| (&driver.id, driver.until)).hash(state);
    (paused, cancel, outcome, trouble, deaths).hash(state);
}

/// Journals that were folded before, so that each is folded once.
pub type Folded = Memo<(Shared<Journal>, Broken)>;

impl Journal {
    /// A journal of one entry, from which `run` was folded.
    #[must_use]
    pub fn new(run: Run, first: &Entry) -> (Self, Broken) {
        let mut books = Audit::new(run.id.clone(), run.definition.clone());
        let broken = named(&books.check(first, &run));
        (Self { run, last: first.fact.kind(), books, announced: BTreeMap::new() }, broken)
    }

    /// Whether driver `number` announced `attempt` of `call`.
    #[must_use]
    pub fn announced(&self, call: CallKey, attempt: u32, number: u32) -> bool {
        self.announced.get(&(call, attempt)) == Some(&number)
    }

    fn announce(&mut self, entry: &Entry) {
        let number = driver_number(entry);
        match &entry.fact {
            Fact::CallDispatched { calls } => {
                self.announced.extend(calls.iter().map(|start| ((start.call, start.attempt), number)));
            }
            Fact::ModelReplied { calls, .. } => {
                let starts = (0..).zip(calls).filter(|(_, plan)| plan.starts());
                self.announced.extend(starts.map(|(i, _)| ((CallKey::new(entry.index, i), 1), number)));
            }
            Fact::RunStarted { .. }
            | Fact::DriverStarted { .. }
            | Fact::DriverStopped { .. }
            | Fact::ModelFailed { .. }
            | Fact::CallsReplanned { .. }
            | Fact::CallFinished { .. }
            | Fact::Suspended { .. }
            | Fact::RequestDecided { .. }
            | Fact::WaitExpired { .. }
            | Fact::RequestExpired { .. }
            | Fact::MessageAdded { .. }
            | Fact::ModeChanged { .. }
            | Fact::Paused { .. }
            | Fact::Resumed { .. }
            | Fact::CancelRequested { .. }
            | Fact::Reopened {}
            | Fact::Forked { .. }
            | Fact::RunFinished(_) => {}
        }
    }
}

/// `before` with `entry` after it, and the rules that this breaks. If the fold refuses the entry, I1 is
/// broken and `before` is all there is.
pub fn follow(folded: &Folded, before: &Shared<Journal>, entry: &Entry) -> (Shared<Journal>, Broken) {
    folded.get((before.hash64(), hash_of(entry)), || {
        let mut journal = Journal::clone(before);
        let mut broken = named(&journal.books.entry(entry));
        if journal.run.apply(entry).is_err() {
            broken.unless(false, Rule::I1);
            return (before.clone(), broken);
        }
        broken.add(named(&journal.books.state(&journal.run, entry.at)));
        stays(&before.run, &journal.run, &mut broken);
        journal.announce(entry);
        journal.last = entry.fact.kind();
        (Shared::new(journal), broken)
    })
}

fn named(violations: &[Violation]) -> Broken {
    let mut broken = Broken::default();
    for violation in violations {
        broken.unless(false, Rule::of(violation.invariant));
    }
    broken
}

/// What is known of a call's or a request's end is never unlearnt.
fn stays(before: &Run, after: &Run, broken: &mut Broken) {
    for call in before.calls().filter(|call| matches!(call.state, CallState::Done(_))) {
        broken.unless(after.call(call.key) == Some(call), Rule::I3);
    }
    for (key, request) in before.requests.iter().filter(|(_, request)| request.status != RequestStatus::Pending) {
        broken.unless(after.requests.get(key) == Some(request), Rule::I6);
    }
}

/// The number of a driver: the index of the entry by which it claimed the run.
fn driver_number(entry: &Entry) -> u32 {
    let number = entry.driver.as_ref().and_then(|driver| driver.0.rsplit('.').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(u32::MAX)
}

/// The calls that the journal says are running.
#[must_use]
pub fn running(run: &Run) -> Vec<Dispatched> {
    let running = run.open_calls().filter_map(|call| match call.state {
        CallState::Running { attempt } => Some(Dispatched { call: call.key, attempt }),
        CallState::Ready
        | CallState::Asking(_)
        | CallState::Pending { .. }
        | CallState::Delegated { .. }
        | CallState::Unknown { .. }
        | CallState::Done(_) => None,
    });
    running.collect()
}

/// The digest of the arguments that would run, worked out anew from what the model wrote.
#[must_use]
pub fn digest(run: &Run, call: &Call) -> Option<Digest> {
    let turn = run.turns.iter().find(|turn| turn.index == call.key.entry)?;
    let ReplyBlock::ToolCall { arguments, .. } = turn.content.get(call.block)? else { return None };
    let arguments = plan::arguments(arguments).ok()?;
    plan::call_digest(&run.owner, &run.id, &call.tool, &arguments).ok()
}

/// The content blocks of the prompt that `run` makes, in order, each as its hash.
#[must_use]
pub fn prompt(run: &Run) -> Vec<u64> {
    let mut hashes = Vec::new();
    for message in transcript::prompt(run).messages {
        match message {
            Message::User(blocks) => hashes.extend(blocks.iter().map(|block| match block {
                UserBlock::Result { id, content, is_error } => hash_of(&("result", id, content, is_error)),
                UserBlock::Said(content) => hash_of(&("said", content)),
            })),
            Message::Assistant { model, blocks } => hashes.extend(blocks.iter().map(|block| match block {
                AssistantBlock::Call { id, block } => hash_of(&("call", model, id, block)),
                AssistantBlock::Plain(block) => hash_of(&("plain", model, block)),
            })),
        }
    }
    hashes
}
