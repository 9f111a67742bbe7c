//! What the world outside saw: tools that ran, models that were asked, people who got answers. Each is
//! judged against what the table holds at that moment, or in the end.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use dormouse_domain::{
    CallKey, Entry, Fact, RequestId, RunId,
    decide::{Answer, Decision},
    message::{Content, ModelRef, ReplyBlock},
    request::{DecisionKind, Request, RequestStatus, Settled},
    transcript::{Message, Prompt},
};
use dormouse_engine::ports::ToolCall;

use crate::{
    books::{Book, Books, short},
    sanction::{may_ask, may_execute},
    sim::{Sim, locked},
};

/// What a client was told about a write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Told<T> {
    /// It is done.
    Done(T),
    /// Somebody was first, with this.
    AlreadyDecided(Settled),
    /// It is gone.
    Gone(RequestStatus),
    /// Nothing was changed.
    NotNow,
    /// It is not known whether it was stored.
    Unknown,
    /// Nothing at all.
    Nothing,
    /// It was refused for another reason.
    Refused(String),
}

impl<T> Told<T> {
    /// Whether the write may be stored, for all that the client knows.
    fn may_stand(&self) -> bool {
        match self {
            Self::Done(_) | Self::Unknown | Self::Nothing => true,
            Self::AlreadyDecided(_) | Self::Gone(_) | Self::NotNow | Self::Refused(_) => false,
        }
    }
}

/// A write with a text of its own that a client sent, once or again under the same key.
pub(crate) struct Sent {
    /// The run, if it is about one.
    pub(crate) run: Option<RunId>,
    /// The text.
    pub(crate) text: String,
    /// Whether it was sent with an idempotency key.
    pub(crate) keyed: bool,
    /// What the client was told, each time. The run that it was about.
    pub(crate) told: Vec<Told<RunId>>,
}

/// The ledger.
pub(crate) struct Ledger {
    pub(crate) sim: Arc<Sim>,
    pub(crate) books: Arc<Books>,
    attempts: Mutex<BTreeMap<(RunId, CallKey), Vec<u32>>>,
    keys: Mutex<BTreeMap<String, (RunId, CallKey)>>,
    prompts: Mutex<BTreeMap<(RunId, ModelRef), Vec<String>>>,
    pub(crate) answers: Mutex<Vec<(RequestId, Answer, Told<Settled>)>>,
    pub(crate) sent: Mutex<Vec<Sent>>,
}

impl Ledger {
    /// An empty ledger beside these books.
    pub(crate) fn new(sim: Arc<Sim>, books: Arc<Books>) -> Self {
        Self {
            sim,
            books,
            attempts: Mutex::default(),
            keys: Mutex::default(),
            prompts: Mutex::default(),
            answers: Mutex::default(),
            sent: Mutex::default(),
        }
    }

    /// A tool has its effect: on `host`, for this call.
    pub(crate) fn executes(&self, call: &ToolCall, host: &str) {
        let name = format!("{} call {} attempt {}", short(&call.run), call.call, call.attempt);
        self.sim.say(format_args!("{} runs: {name}", call.tool.name));
        let earlier = {
            let mut attempts = locked(&self.attempts);
            let made = attempts.entry((call.run.clone(), call.call)).or_default();
            made.push(call.attempt);
            made[..made.len() - 1].to_vec()
        };
        self.sim.ensure(!earlier.contains(&call.attempt), || format!("I3: {name} runs twice"));
        let place = (call.run.clone(), call.call);
        let key = locked(&self.keys).entry(call.execution_key.clone()).or_insert_with(|| place.clone()).clone();
        self.sim.ensure(key == place, || format!("B3: {name} has the execution key of {key:?}"));
        let judged = self.books.of(&call.run, |book| may_execute(book, call, host, earlier.len()));
        if let Err(why) = judged.unwrap_or_else(|| Err("I2: there is no such run".to_owned())) {
            self.sim.accuse(format!("{why}: {name}"));
        }
    }

    /// A model is asked, by `host`.
    pub(crate) fn asks(&self, model: &ModelRef, prompt: &Prompt<'_>, host: &str) {
        let blocks = blocks(prompt);
        let Some(run) = self.books.runs().into_iter().find(|run| self.is_about(run, &blocks)) else {
            return self.sim.accuse("a model is asked about no run that is stored");
        };
        let replies = prompt.messages.iter().filter(|message| matches!(message, Message::Assistant { .. })).count();
        let judged = self.books.of(&run, |book| {
            let stored = book.entries.iter().filter(|entry| is_shown(entry)).count();
            (stored, may_ask(book, host, self.sim.time.now()))
        });
        let (stored, holds) = judged.unwrap_or_default();
        self.sim.say(format_args!("{model} is asked about {} after {replies} replies", short(&run)));
        self.sim.ensure(replies == stored, || format!("A3: {model} sees {replies} replies of {stored} stored"));
        self.sim.ensure(holds, || format!("I4: {} asks a model for a run that another holds", host));
        let before = locked(&self.prompts).insert((run, model.clone()), blocks.clone());
        let grew = before.as_ref().is_none_or(|before| blocks.starts_with(before));
        self.sim.ensure(grew, || format!("I10: the prompt shrank or changed: {before:?} then {blocks:?}"));
    }

    fn is_about(&self, run: &RunId, blocks: &[String]) -> bool {
        let label = self.books.of(run, label).flatten();
        label.is_some_and(|label| blocks.get(1).is_some_and(|first| first.contains(&label)))
    }

    /// Judges what people were told by what stands in the end.
    pub(crate) fn settle(&self) {
        let answers = locked(&self.answers);
        for (id, answer, told) in answers.iter() {
            let row = self.books.of(&id.run, |book| book.rows.get(&id.key).cloned()).flatten();
            let Some(row) = row else {
                self.sim.accuse(format!("I5: {id} was answered, and there is no row"));
                continue;
            };
            let holds = match told {
                Told::Done(settled) | Told::AlreadyDecided(settled) => row.decision.as_ref() == Some(settled),
                Told::Gone(RequestStatus::Cancelled) => row.status == RequestStatus::Cancelled,
                // A machine whose clock is behind can still have taken it.
                Told::Gone(_) => row.status != RequestStatus::Pending || row.decision.is_none(),
                Told::NotNow | Told::Unknown | Told::Nothing | Told::Refused(_) => true,
            };
            self.sim.ensure(holds, || format!("E2: for {answer:?} a person was told {told:?}; {row:?} stands"));
        }
        for run in self.books.runs() {
            let rows = self.books.of(&run, |book| book.rows.values().cloned().collect::<Vec<_>>());
            for row in rows.into_iter().flatten() {
                let Some(settled) = &row.decision else { continue };
                let in_time = settled.at <= row.windows.decide_by;
                self.sim.ensure(in_time, || format!("E1: {} was decided after its time: {row:?}", row.id));
                let meant = answers.iter().any(|(id, answer, told)| {
                    *id == row.id && told.may_stand() && means(answer, &row, &settled.decision)
                });
                self.sim.ensure(meant, || format!("E3: nobody can have decided {}: {settled:?}", row.id));
            }
        }
        drop(answers);
        locked(&self.sent).iter().for_each(|sent| self.settle_sent(sent));
    }

    /// What was said is in the journal: once if it was taken, never twice under one key (D12).
    fn settle_sent(&self, sent: &Sent) {
        let times = |run: &RunId| self.books.of(run, |book| says(book, &sent.text)).unwrap_or(0);
        let all: usize = self.books.runs().iter().map(times).sum();
        let done = sent.told.iter().filter(|told| matches!(told, Told::Done(_))).count();
        let may = sent.told.iter().filter(|told| told.may_stand()).count();
        let most = if sent.keyed { may.min(1) } else { may };
        let least = if sent.keyed { done.min(1) } else { done };
        self.sim.ensure((least..=most).contains(&all), || {
            format!("D12: {:?} was sent and answered {:?}, and stands {all} times", sent.text, sent.told)
        });
        for told in &sent.told {
            if let Told::Done(run) = told {
                self.sim.ensure(times(run) >= 1, || format!("D12: {:?} is not in {}", sent.text, short(run)));
                let own = sent.run.as_ref().is_none_or(|own| own == run);
                self.sim.ensure(own, || format!("D12: {:?} went to {}", sent.text, short(run)));
            }
        }
    }
}

/// The text by which a run is known: what it was asked.
fn label(book: &Book) -> Option<String> {
    let Fact::RunStarted { input, .. } = &book.entries.first()?.fact else { return None };
    match input.first()? {
        Content::Text { text } => Some(text.clone()),
        Content::Image { .. } => None,
    }
}

fn says(book: &Book, text: &str) -> usize {
    let said = book.entries.iter().filter(|entry| {
        if let Fact::RunStarted { input: content, .. } | Fact::MessageAdded { content, .. } = &entry.fact {
            return content.contains(&Content::text(text));
        }
        false
    });
    said.count()
}

/// Whether this entry is a reply that later prompts show.
fn is_shown(entry: &Entry) -> bool {
    let Fact::ModelReplied { content, .. } = &entry.fact else { return false };
    content.iter().any(|block| !matches!(block, ReplyBlock::Text { text, .. } if text.trim().is_empty()))
}

fn blocks(prompt: &Prompt<'_>) -> Vec<String> {
    let mut blocks = vec![format!("{} {:?}", prompt.system, prompt.tools)];
    for message in &prompt.messages {
        match message {
            Message::User(parts) => blocks.extend(parts.iter().map(|part| format!("user {part:?}"))),
            Message::Assistant { blocks: parts, .. } => blocks.extend(parts.iter().map(|part| format!("{part:?}"))),
        }
    }
    blocks
}

/// Whether `decision` is what this answer asks for.
fn means(answer: &Answer, row: &Request, decision: &Decision) -> bool {
    match decision {
        // Arguments that change nothing are an approval.
        Decision::Approve => match &answer.arguments {
            None => answer.decision == DecisionKind::Approve,
            Some(arguments) => answer.decision == DecisionKind::Edit && *arguments == row.arguments,
        },
        Decision::Always { scope, pattern } => answer.scope == Some(*scope) && answer.pattern == *pattern,
        Decision::Edit { arguments } => answer.arguments.as_ref() == Some(arguments),
        Decision::Deny { reason } => answer.decision == DecisionKind::Deny && answer.reason == *reason,
        Decision::Answer { answer: given, .. } => answer.answer.as_ref() == Some(given),
        Decision::Settle { resolution } => answer.resolution.as_ref() == Some(resolution),
        Decision::Raise { amount } => answer.by == Some(*amount),
        Decision::Stop => answer.decision == DecisionKind::Stop,
    }
}
