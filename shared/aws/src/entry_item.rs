//! Entries as items.

use std::time::Duration;

use dormouse_domain::{DriverId, Entry, EntryId, Fact, Millis, RunId};
use dormouse_engine::ports::{StoreError, WriteError};
use tokio::time::sleep;

use crate::{
    attrs::{Item, corrupt, key, n, number, optional_text, s, text},
    body::{self, Seen, Whole},
    keys::{self, SK},
    table::Table,
};

/// The attribute by which a writer recognises its own entry.
pub(crate) const ENTRY_ID: &str = "entry_id";

/// How long to wait before each further look at entries of which something was missing. A
/// transaction's items become visible within milliseconds of each other.
const LOOKS_AGAIN: [Duration; 5] = [
    Duration::from_millis(10),
    Duration::from_millis(30),
    Duration::from_millis(90),
    Duration::from_millis(200),
    Duration::from_millis(400),
];

/// The items of `entry`: its own, and one for each further part of its body.
pub(crate) fn encode(run: &RunId, entry: &Entry) -> Result<Vec<Item>, WriteError> {
    let (kind, text) = entry
        .fact
        .encode()
        .map_err(|error| WriteError::Unavailable(format!("entry {} cannot be encoded: {error}", entry.index)))?;
    let mut head = key(keys::run_pk(run), keys::entry_sk(entry.index));
    head.insert("kind".to_owned(), s(kind));
    head.insert(ENTRY_ID.to_owned(), s(entry.entry_id.0.as_str()));
    head.insert("at".to_owned(), n(entry.at.0));
    if let Some(driver) = &entry.driver {
        head.insert("driver".to_owned(), s(driver.0.as_str()));
    }
    body::split(head, kind, text)
}

fn decode(whole: &Whole, expected: u32) -> Result<Entry, StoreError> {
    let item = &whole.head;
    let fact = Fact::decode(text(item, "kind")?, &whole.body()?).map_err(|error| corrupt(item, error))?;
    Ok(Entry {
        index: expected,
        entry_id: EntryId(text(item, ENTRY_ID)?.to_owned()),
        at: Millis(number(item, "at")?),
        driver: optional_text(item, "driver")?.map(|driver| DriverId(driver.to_owned())),
        fact,
    })
}

/// The first index, counted from `from`, at which no entry stands although a later one exists.
fn hole(wholes: &[Whole], from: u32) -> Result<Option<u32>, StoreError> {
    // The entries first: where there are none, no index follows the last that there can be.
    for (whole, expected) in wholes.iter().zip(from..) {
        let index = keys::entry_index(text(&whole.head, SK)?).ok_or_else(|| corrupt(&whole.head, "not an entry"))?;
        if index != expected {
            return Ok(Some(expected));
        }
    }
    Ok(None)
}

/// The entries of `run` from index `from` up to `to`, or all that follow.
///
/// A query is read-committed only, entry by entry: while a transaction is being made it can see
/// one of its items without another. So what is missing is looked for again, and is a corrupt
/// journal only if it stays away (case 28).
pub(crate) async fn load(table: &Table, run: &RunId, from: u32, to: Option<u32>) -> Result<Vec<Entry>, StoreError> {
    let mut looks = LOOKS_AGAIN.iter();
    loop {
        let items = table.range(&keys::run_pk(run), keys::entry_range(from, to)).await?;
        let missing = match body::gather(items)? {
            Seen::All(wholes) => match hole(&wholes, from)? {
                None => return wholes.iter().zip(from..).map(|(whole, index)| decode(whole, index)).collect(),
                Some(index) => format!("entry {index}"),
            },
            Seen::Missing(what) => what,
        };
        match looks.next() {
            Some(pause) => sleep(*pause).await,
            None => {
                return Err(StoreError::Corrupt(format!("the journal of {run} has a hole: {missing} is not there")));
            }
        }
    }
}
