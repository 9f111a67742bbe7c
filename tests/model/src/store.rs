//! The store, as its contract says (`engine/src/ports/store.rs`): each call is one atomic step, a write
//! is made whole or not at all, and its conditions are in the write.

use std::collections::BTreeMap;

use dormouse_domain::{
    Digest, Entry, Inbox, Millis, RequestKey, Run,
    item::standing,
    request::{self, Request, RequestStatus, Settled},
    run::Status,
};

use crate::{
    driver,
    journal::{Folded, Journal, follow},
    rules::{Broken, Rule},
    shared::Shared,
};

/// What is stored of the run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Store {
    /// The journal.
    pub journal: Shared<Journal>,
    /// The rows of its requests.
    pub rows: Shared<BTreeMap<RequestKey, Request>>,
    /// The run's item.
    pub item: Item,
    /// Decisions given under an idempotency key.
    pub receipts: BTreeMap<u8, Settled>,
}

/// What the run's item says that anything depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Item {
    /// Where the run stands.
    pub status: Status,
    /// When it is to be looked at.
    pub due_at: Option<Millis>,
    /// How often the sweep woke it since this was last written.
    pub wakes: u32,
}

impl Item {
    /// The item of `run` at `now`, as `RunItem::of` makes it.
    #[must_use]
    pub fn of(run: &Run, now: Millis) -> Self {
        let (status, due_at) = standing(run, now);
        Self { status, due_at, wakes: 0 }
    }
}

/// A decision of a request's row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Decide {
    /// Which request.
    pub key: RequestKey,
    /// The decision.
    pub settled: Settled,
    /// The digest that the row must have.
    pub digest: Option<Digest>,
    /// The time that `decide_by` must not be before.
    pub now: Millis,
}

/// One intended write.
#[derive(Debug, Clone, Hash)]
pub struct Write {
    /// What its writer had read.
    pub known: Shared<Journal>,
    /// The entries, from the first index that its writer holds for free.
    pub entries: Vec<Entry>,
    /// What the journal becomes.
    pub after: Shared<Journal>,
    /// Rules that the entries break by themselves.
    pub broken: Broken,
    /// The item along with them.
    pub item: Option<Item>,
    /// Rows that are opened.
    pub open: Vec<Request>,
    /// Rows that are closed undecided.
    pub close: Vec<(RequestKey, RequestStatus)>,
    /// A row that is decided.
    pub decide: Option<Decide>,
    /// A receipt under this key.
    pub receipt: Option<u8>,
    /// Whether the driver that writes it stops by it.
    pub stops: bool,
}

/// A write that was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost;

impl Write {
    /// The write of `entries` after `known`, and nothing with it.
    #[must_use]
    pub fn new(folded: &Folded, known: &Shared<Journal>, entries: Vec<Entry>) -> Self {
        let mut after = known.clone();
        let mut broken = Broken::default();
        for entry in &entries {
            let (next, found) = follow(folded, &after, entry);
            after = next;
            broken.add(found);
        }
        Self {
            known: known.clone(),
            entries,
            after,
            broken,
            item: None,
            open: Vec::new(),
            close: Vec::new(),
            decide: None,
            receipt: None,
            stops: false,
        }
    }

    /// With the item and the rows that follow from the entries.
    #[must_use]
    pub fn whole(mut self, now: Millis) -> Self {
        self.item = Some(Item::of(&self.after.run, now));
        self.close = request::closed(&self.known.run, &self.after.run);
        self
    }
}

impl Store {
    /// Whether `write` would lose its index: then nothing is written, now or later.
    #[must_use]
    pub fn is_taken(&self, known: &Journal) -> bool {
        self.journal.run.len != known.run.len
    }

    /// Makes `write`, or nothing of it.
    pub fn commit(&mut self, write: &Write, broken: &mut Broken) -> Result<(), Lost> {
        if self.is_taken(&write.known) {
            return Err(Lost);
        }
        self.force(write, broken)
    }

    /// Makes `write` without asking whether its index is free: at the end of the journal, whatever
    /// stands there. Only a planted fault does so where `commit` would not have.
    pub fn force(&mut self, write: &Write, broken: &mut Broken) -> Result<(), Lost> {
        let mut rows = None;
        if !write.open.is_empty() || !write.close.is_empty() || write.decide.is_some() {
            rows = Some(self.rows_after(write)?);
        }
        if write.receipt.is_some_and(|key| self.receipts.contains_key(&key)) {
            return Err(Lost);
        }
        if !write.entries.is_empty() {
            broken.unless(write.known == self.journal, Rule::I1);
            broken.unless(write.known == self.journal || !write.stops, Rule::I4);
        }
        if write.known == self.journal {
            self.journal = write.after.clone();
            broken.add(write.broken);
        } else {
            let folded = Folded::default();
            for entry in &write.entries {
                let index = self.journal.run.len;
                let entry = driver::entry(index, entry.at, entry.driver.clone(), entry.fact.clone());
                let (journal, found) = follow(&folded, &self.journal, &entry);
                self.journal = journal;
                broken.add(found);
            }
        }
        if let Some(rows) = rows {
            self.rows = Shared::new(rows);
        }
        if let Some(item) = write.item {
            self.item = item;
        }
        if let (Some(key), Some(decide)) = (write.receipt, &write.decide) {
            self.receipts.insert(key, decide.settled.clone());
        }
        self.check_rows(broken);
        Ok(())
    }

    fn rows_after(&self, write: &Write) -> Result<BTreeMap<RequestKey, Request>, Lost> {
        let mut rows = BTreeMap::clone(&self.rows);
        for row in &write.open {
            if rows.insert(row.id.key, row.clone()).is_some() {
                return Err(Lost);
            }
        }
        for (key, status) in &write.close {
            pending(&mut rows, *key)?.status = *status;
        }
        if let Some(decide) = &write.decide {
            let row = pending(&mut rows, decide.key)?;
            let theirs = row.inbox() == Inbox::Person(decide.settled.by.clone()) && row.windows.decide_by >= decide.now;
            if !theirs || decide.digest.as_ref().is_some_and(|digest| *digest != row.digest) {
                return Err(Lost);
            }
            row.status = RequestStatus::Decided;
            row.decision = Some(decide.settled.clone());
        }
        Ok(rows)
    }

    /// I5: the rows and the journal say the same.
    fn check_rows(&self, broken: &mut Broken) {
        let opened = &self.journal.run.requests;
        let same = opened.len() == self.rows.len()
            && opened.iter().zip(self.rows.iter()).all(|((key, opened), (row_key, row))| {
                let decided = row.decision.is_some() == (row.status == RequestStatus::Decided);
                key == row_key
                    && (opened.call, opened.kind, opened.windows, opened.status)
                        == (row.call, row.kind, row.windows, row.status)
                    && decided
            });
        broken.unless(same, Rule::I5);
    }

    /// I9: the item says when to look at the run, and the sweep has not been told otherwise.
    pub fn check_due(&self, now: Millis, broken: &mut Broken) {
        let (_, due_at) = standing(&self.journal.run, now);
        let holds = match (due_at, self.item.due_at) {
            (None, stored) => stored.is_none(),
            (Some(_), None) => false,
            (Some(wanted), Some(stored)) => stored <= wanted || self.item.wakes > 0,
        };
        broken.unless(holds, Rule::I9);
    }
}

fn pending(rows: &mut BTreeMap<RequestKey, Request>, key: RequestKey) -> Result<&mut Request, Lost> {
    rows.get_mut(&key).filter(|row| row.status == RequestStatus::Pending).ok_or(Lost)
}
