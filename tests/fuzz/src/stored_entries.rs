//! What comes back from the store: entries, requests, run items, rules, definitions.

use std::sync::Arc;

use dormouse_domain::{
    CallKey, Definition, DriverId, Entry, EntryId, Fact, Millis, Mode, Next, Principal, Run, RunId,
    audit::Audit,
    budget::{self, Budget},
    display::{self, Extent},
    entry::Opened,
    item::{self, RunItem},
    message::Content,
    next,
    plan::{self, Rules},
    policy::StandingRule,
    request::{self, DecisionKind, Request, RequestKind},
    run::CallState,
    transcript,
    windows::Windows,
};
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::survives_its_stored_form;

/// Entries of one journal at most: what goes wrong does so early, and what is small is fast.
const MAX_LINES: usize = 64;

/// Takes each line for something stored. `<driver> <at> <kind> <body>` is an entry of a journal, whose driver is `-` for
/// none and whose time is `+<ms>` after that of the one before; `definition`, `request`, `item`, `rule` and a space come
/// before the JSON of one, and a definition begins a new journal.
///
/// What can be read is written so that it is read as the same. Folding an entry, wherever it stands, does not panic, and
/// neither does anything that is asked of a run which it was folded into, at any time.
pub fn stored_entries(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut journal = Journal::of(crate::agent());
    for line in text.lines().take(MAX_LINES) {
        let Some((head, rest)) = line.split_once(' ') else { continue };
        match head {
            "definition" => {
                if let Some(definition) = read::<Definition>(rest) {
                    // A definition without a digest is refused when a run is started; one without a model when it is folded.
                    drop(definition.digest());
                    journal.ask();
                    journal = Journal::of(Arc::new(definition));
                }
            }
            "request" => drop(read::<Request>(rest).inspect(show)),
            "item" => drop(read::<RunItem>(rest)),
            "rule" => drop(read::<StandingRule>(rest)),
            driver => journal.entry(driver, rest),
        }
    }
    journal.ask();
}

/// Reads `text`, and whether what it says survives being stored.
fn read<T: DeserializeOwned + serde::Serialize + PartialEq + std::fmt::Debug>(text: &str) -> Option<T> {
    let value = serde_json::from_str(text).ok()?;
    survives_its_stored_form(&value);
    Some(value)
}

fn show(request: &Request) {
    for extent in [Extent::Listed, Extent::Whole] {
        let shown = display::request(request, extent);
        assert!(!shown.summary.contains('\n'), "a summary is one line: {:?}", shown.summary);
    }
}

/// A journal that grows by whatever can follow.
struct Journal {
    definition: Arc<Definition>,
    run: Option<Run>,
    audit: Audit,
    entries: u32,
    at: Millis,
}

impl Journal {
    fn of(definition: Arc<Definition>) -> Self {
        let id = RunId::from_bits(1);
        let audit = Audit::new(id.clone(), definition.clone());
        let mut journal = Self { definition, run: None, audit, entries: 0, at: Millis(1_700_000_000_000) };
        let fact = Fact::RunStarted {
            owner: Principal { tenant: "acme".to_owned(), subject: "ann".to_owned() },
            agent: "ops".to_owned(),
            definition: dormouse_domain::Digest::of(b"definition"),
            mode: Mode::Normal,
            input: vec![Content::text("go")],
            metadata: std::collections::BTreeMap::new(),
            parent: None,
        };
        let first = journal.next_entry(None, fact);
        if let Ok(run) = Run::start(id, journal.definition.clone(), &first) {
            let _ = journal.audit.entry(&first);
            journal.taken(run);
        }
        journal
    }

    fn next_entry(&self, driver: Option<DriverId>, fact: Fact) -> Entry {
        let index = self.entries;
        Entry { index, entry_id: EntryId(format!("e{index}")), at: self.at, driver, fact }
    }

    fn entry(&mut self, driver: &str, rest: &str) {
        let mut words = rest.splitn(3, ' ');
        let (Some(at), Some(kind), Some(body)) = (words.next(), words.next(), words.next()) else { return };
        let at = match at.strip_prefix('+') {
            Some(span) => span.parse().ok().map(|span| self.at.plus(span)),
            None => at.parse().ok().map(Millis),
        };
        let Some(at) = at else { return };
        let Ok(fact) = Fact::decode(kind, body) else { return };
        assert!(serde_json::from_str::<IgnoredAny>(body).is_ok(), "a body is one JSON value: {body}");
        let (kind, text) = fact.encode().expect("what was read can be written");
        assert_eq!(Fact::decode(kind, &text).ok().as_ref(), Some(&fact), "{text}");
        let driver = (driver != "-").then(|| DriverId(driver.to_owned()));
        let before = self.at;
        self.at = at;
        let entry = self.next_entry(driver, fact);
        let _ = entry.view(&self.definition);
        let Some(mut run) = self.run.clone() else { return };
        if run.apply(&entry).is_err() {
            self.at = before;
            return;
        }
        let _ = self.audit.entry(&entry);
        if let Some(earlier) = &self.run {
            let _ = request::closed(earlier, &run);
        }
        self.taken(run);
    }

    /// Asks all that is asked of a run, when it was last written to, and later, and at either end of time.
    fn ask(&self) {
        let Some(run) = &self.run else { return };
        for now in [self.at, self.at.plus(100_000), Millis(0), Millis(u64::MAX)] {
            ask(run, now);
        }
    }

    fn taken(&mut self, run: Run) {
        let _ = self.audit.state(&run, self.at);
        let _ = (item::standing(&run, self.at), next(&run, self.at));
        self.entries += 1;
        self.run = Some(run);
    }
}

/// Asks all that is asked of a run at `now`.
fn ask(run: &Run, now: Millis) {
    let _ = (item::standing(run, now), item::wake_at(run, now), run.output(), Budget::of(run, now));
    let _ = (item::claim(run, now, false), item::claim(run, now, true));
    survives_its_stored_form(&RunItem::of(run, now));
    let _ = (transcript::prompt(run), budget::next_call_at_most(run));
    match next(run, now) {
        Next::Rest { open, .. } => build(run, &open, now),
        Next::Dispatch(calls) => {
            assert!(!calls.is_empty(), "nothing to dispatch");
            let _ = plan::recheck(run, &calls, Rules::none());
        }
        Next::Expire(requests) | Next::StopWaiting(requests) => assert!(!requests.is_empty(), "nothing to say"),
        Next::Await | Next::CallModel | Next::Reopen | Next::Finish(_) => {}
    }
    for mode in [Mode::Plan, Mode::Yolo] {
        let _ = (plan::replan(run, mode, Rules::none()), plan::fork(run, mode, Rules::none()));
    }
    // Also what nobody asks for.
    let windows = Windows::open(&run.definition, now);
    let opened = |call: Option<CallKey>, kind| Opened { call, kind, windows, decisions: DecisionKind::offered(kind) };
    let every = run.calls().map(|call| match call.state {
        CallState::Unknown { .. } => opened(Some(call.key), RequestKind::Uncertain),
        CallState::Ready
        | CallState::Asking(_)
        | CallState::Pending { .. }
        | CallState::Running { .. }
        | CallState::Delegated { .. } => opened(Some(call.key), RequestKind::Approval),
        CallState::Done(_) => opened(Some(call.key), RequestKind::Question),
    });
    let every: Vec<_> = every.chain([opened(None, RequestKind::Budget)]).collect();
    build(run, &every, now);
}

fn build(run: &Run, opened: &[Opened], now: Millis) {
    for (ordinal, opened) in (0..).zip(opened) {
        if let Some(request) = request::build(run, run.len, ordinal, opened, now) {
            survives_its_stored_form(&request);
            show(&request);
        }
    }
}
