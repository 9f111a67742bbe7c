//! What the table holds, as seen from below: entered write by write, in the raw, and checked after each.
//!
//! Here are the rules that the table alone can break: entries are written once and in order (I1), rows and
//! journal always agree (I5), the run's item is what the fold makes of the journal, and whatever wants
//! something can be found (I9). What a journal may hold is the auditor's (`dormouse_domain::audit`), which
//! is asked too; what the world outside saw is `ledger`'s.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use dormouse_domain::{
    Definition, Digest, Entry, Fact, Millis, RequestId, RequestKey, Run, RunId,
    audit::Audit,
    item::{RunItem, standing},
    request::{Request, RequestStatus},
};
use serde_json::Value;

use crate::{
    coverage, grants,
    raw::{self, Raw},
    sim::{Sim, locked},
};

/// What is stored of one run.
pub(crate) struct Book {
    /// Its journal.
    pub(crate) entries: Vec<Entry>,
    /// Its requests' rows.
    pub(crate) rows: BTreeMap<RequestKey, Request>,
    /// Its item.
    pub(crate) item: Option<RunItem>,
    /// What the fold makes of it.
    pub(crate) run: Run,
    audit: Audit,
}

/// The books of all runs.
pub(crate) struct Books {
    sim: Arc<Sim>,
    definitions: BTreeMap<Digest, Arc<Definition>>,
    runs: Mutex<BTreeMap<RunId, Book>>,
}

/// What one write touched.
#[derive(Default)]
struct Touched {
    runs: Vec<RunId>,
    items: Vec<RunItem>,
    entries: Vec<(RunId, Entry)>,
}

impl Books {
    /// Empty books about runs of these agents.
    pub(crate) fn new(sim: Arc<Sim>, agents: &[Arc<Definition>]) -> Self {
        let definitions = agents.iter().filter_map(|agent| Some((agent.digest().ok()?, Arc::clone(agent))));
        Self { sim, definitions: definitions.collect(), runs: Mutex::default() }
    }

    /// The runs that were started.
    pub(crate) fn runs(&self) -> Vec<RunId> {
        locked(&self.runs).keys().cloned().collect()
    }

    /// `run`, and the runs that it delegated to, at any depth.
    pub(crate) fn family(&self, run: &RunId) -> Vec<RunId> {
        let runs = locked(&self.runs);
        let mut family = vec![run.clone()];
        let mut place = 0;
        while let Some(above) = family.get(place).cloned() {
            let is_child = |book: &&Book| book.run.parent.as_ref().is_some_and(|parent| parent.run == above);
            family.extend(runs.values().filter(is_child).map(|book| book.run.id.clone()));
            place += 1;
        }
        family
    }

    /// Asks the book of `run`; none if there is no such run.
    pub(crate) fn of<T>(&self, run: &RunId, ask: impl FnOnce(&Book) -> T) -> Option<T> {
        locked(&self.runs).get(run).map(ask)
    }

    /// Enters the items that one write has put, as they stand now.
    pub(crate) fn wrote(&self, items: &[Value]) {
        let mut runs = locked(&self.runs);
        let mut touched = Touched::default();
        for item in items {
            let entered = raw::read(item).and_then(|raw| self.enter(&mut runs, raw, &mut touched));
            if let Err(problem) = entered {
                self.sim.accuse(problem);
            }
        }
        for item in touched.items {
            if let Some(book) = runs.get(&item.run_id) {
                let at = touched.entries.iter().rev().find(|(run, _)| *run == item.run_id).map(|(_, entry)| entry.at);
                self.check_item(book, &item, at);
            }
        }
        touched.runs.dedup();
        for run in touched.runs {
            if let Some(book) = runs.get(&run) {
                self.check_rows(book);
                self.check_due(book);
            }
        }
    }

    fn enter(&self, runs: &mut BTreeMap<RunId, Book>, raw: Raw, touched: &mut Touched) -> Result<(), String> {
        match raw {
            Raw::Other => {}
            Raw::Entry(run, entry) => {
                self.enter_entry(runs, &run, &entry)?;
                touched.runs.push(run.clone());
                touched.entries.push((run, *entry));
            }
            Raw::Run(item) => {
                let book = runs.get_mut(&item.run_id).ok_or_else(|| format!("an item before {}", item.run_id))?;
                book.item = Some((*item).clone());
                touched.runs.push(item.run_id.clone());
                touched.items.push(*item);
            }
            Raw::Request(row) => {
                let RequestId { run, key } = row.id.clone();
                let book = runs.get_mut(&run).ok_or_else(|| format!("a request of no run: {}", row.id))?;
                if let Some(before) = book.rows.get(&key) {
                    let changed = before.status != row.status;
                    let may = !changed || before.status == RequestStatus::Pending;
                    self.sim.ensure(may, || format!("I6: {} was {:?}, is {:?}", row.id, before.status, row.status));
                    let same = Request { status: row.status, decision: row.decision.clone(), ..before.clone() };
                    self.sim.ensure(same == *row, || format!("C3: what {} asks changed", row.id));
                }
                book.rows.insert(key, *row);
                touched.runs.push(run);
            }
        }
        Ok(())
    }

    fn enter_entry(&self, runs: &mut BTreeMap<RunId, Book>, id: &RunId, entry: &Entry) -> Result<(), String> {
        self.sim.say(format_args!("{} {} {}", short(id), entry.index, entry.fact.kind()));
        coverage::count(&self.sim, entry);
        if let Err(why) = grants::check(runs, id, entry) {
            self.sim.accuse(why);
        }
        let Some(book) = runs.get_mut(id) else {
            let Fact::RunStarted { definition, .. } = &entry.fact else {
                return Err(format!("I1: {id} begins with {}", entry.fact.kind()));
            };
            let definition = self.definitions.get(definition).ok_or("a run of an agent that nobody has")?;
            let run = Run::start(id.clone(), Arc::clone(definition), entry).map_err(|error| error.to_string())?;
            let audit = Audit::new(id.clone(), Arc::clone(definition));
            let mut book = Book { entries: vec![entry.clone()], rows: BTreeMap::new(), item: None, run, audit };
            self.audit(&mut book, entry);
            runs.insert(id.clone(), book);
            return Ok(());
        };
        if let Some(stands) = book.entries.get(entry.index as usize) {
            return match stands == entry {
                true => Ok(()),
                false => Err(format!("I1: entry {} of {id} was overwritten", entry.index)),
            };
        }
        if book.run.outcome.is_some() && matches!(entry.fact, Fact::RequestDecided { .. }) {
            self.sim.count("decided after the end");
        }
        book.run.apply(entry).map_err(|corrupt| format!("I1: {corrupt}"))?;
        book.entries.push(entry.clone());
        self.audit(book, entry);
        Ok(())
    }

    fn audit(&self, book: &mut Book, entry: &Entry) {
        for violation in book.audit.check(entry, &book.run) {
            self.sim.accuse(format!("{}: {violation}", short(&book.run.id)));
        }
    }

    /// The run's item is what the fold makes of the journal; `at` is when it was written, if an entry
    /// says so. What depends on the time is compared only then; what the sweep pushed on is not at all.
    fn check_item(&self, book: &Book, item: &RunItem, at: Option<Millis>) {
        let mut expected = RunItem::of(&book.run, at.unwrap_or(book.run.updated_at));
        if at.is_none() {
            (expected.due_at, expected.status) = (item.due_at, item.status);
        }
        self.sim.ensure(item.wakes > 0 || *item == expected, || {
            format!("the item of {} is {item:?} where {expected:?} is wanted", short(&book.run.id))
        });
    }

    /// Rows and journal agree at every moment (I5).
    fn check_rows(&self, book: &Book) {
        let id = short(&book.run.id);
        for (key, opened) in &book.run.requests {
            let Some(row) = book.rows.get(key) else {
                self.sim.accuse(format!("I5: {id} has opened {key}, and there is no row"));
                continue;
            };
            let agrees = (row.status, row.call, row.kind, row.windows)
                == (opened.status, opened.call, opened.kind, opened.windows);
            self.sim.ensure(agrees, || format!("I5: row {key} of {id} is {row:?}, the journal says {opened:?}"));
        }
        let unknown = book.rows.keys().find(|key| !book.run.requests.contains_key(key));
        self.sim.ensure(unknown.is_none(), || format!("I5: row {unknown:?} of {id} is in no entry"));
        for entry in &book.entries {
            if let Fact::RequestDecided { request, decision, by, via, .. } = &entry.fact {
                let stands = book.rows.get(request).and_then(|row| row.decision.as_ref());
                let same = stands.is_some_and(|settled| {
                    (&settled.decision, &settled.by, settled.at, &settled.via) == (decision, by, entry.at, via)
                });
                self.sim.ensure(same, || format!("I5: {request} of {id} is decided {decision:?}, its row {stands:?}"));
            }
        }
    }

    /// Whatever wants something can be found (I9): between writes a driver's item can be older than its
    /// journal, but never without a time at which somebody looks.
    fn check_due(&self, book: &Book) {
        let wanted = standing(&book.run, book.run.updated_at).1;
        let due_at = book.item.as_ref().and_then(|item| item.due_at);
        self.sim.ensure(wanted.is_none() || due_at.is_some(), || {
            format!("I9: {} wants something at {wanted:?}, and nobody will look", short(&book.run.id))
        });
    }
}

/// The end of a run's name: enough to tell runs of one simulation apart.
pub(crate) fn short(run: &RunId) -> &str {
    let text = run.as_str();
    &text[text.len() - 6..]
}
