//! The actions of a [`Commit`]: one for each item, which is all that a transaction allows.

use dormouse_domain::{Millis, RunId};
use dormouse_engine::ports::{Commit, ItemWrite, RequestWrite, WriteError};

use crate::{
    action::{Action, Role},
    attrs::{Item, key},
    entry_item, file, keys, receipt, request_row, rule_row, run_row, write,
};

const ABSENT: Option<&str> = Some("attribute_not_exists(#PK)");
const PRESENT: Option<&str> = Some("attribute_exists(#PK)");

/// The actions that put `entry`'s items. The parts need no condition of their own: whoever holds
/// the index holds them.
pub(crate) fn entry(run: &RunId, entry: &dormouse_domain::Entry) -> Result<Vec<Action>, WriteError> {
    let mut items: std::vec::IntoIter<Item> = entry_item::encode(run, entry)?.into_iter();
    let head = items.next().map(|head| Action::put(Role::Entry(entry.entry_id.clone()), head, ABSENT));
    Ok(head.into_iter().chain(items.map(|part| Action::put(Role::Part, part, None))).collect())
}

/// The client request token of `commit`. A receipt's condition contains the time, so a caller that
/// repeats such a commit later makes another request, which must not have the same token; what
/// became of the first one is then told by its entries, or by its receipt.
pub(crate) fn token(commit: &Commit, now: Millis) -> String {
    match &commit.receipt {
        Some(_) => write::token("commit with receipt", &format!("{}\n{}", commit.id.0, receipt::now_secs(now))),
        None => write::token("commit", &commit.id.0),
    }
}

/// The actions of `commit`; a receipt that is expired at `now` does not stand in its way.
pub(crate) fn actions(commit: &Commit, now: Millis) -> Result<Vec<Action>, WriteError> {
    if commit.entries.windows(2).any(|pair| Some(pair[1].index) != pair[0].index.checked_add(1)) {
        return Err(WriteError::Unavailable("the entries of a commit must have consecutive indexes".to_owned()));
    }
    let mut actions = Vec::new();
    for one in &commit.entries {
        actions.extend(entry(&commit.run, one)?);
    }
    if let (Some(index), true) = (commit.free_index, commit.entries.is_empty()) {
        actions.push(Action::free(Role::FreeIndex, key(keys::run_pk(&commit.run), keys::entry_sk(index))));
    }
    match &commit.item {
        Some(ItemWrite::Create(item)) => actions.push(Action::put(Role::Item, run_row::encode(item)?, ABSENT)),
        Some(ItemWrite::Replace(item)) => actions.push(Action::put(Role::Item, run_row::encode(item)?, PRESENT)),
        None => {}
    }
    for request in &commit.requests {
        actions.push(match request {
            RequestWrite::Open(request) => request_row::open(request)?,
            RequestWrite::Decide { id, inbox, settled, digest, now } => {
                request_row::decide(id, inbox, settled, digest.as_ref(), *now)?
            }
            RequestWrite::Close { id, status } => request_row::close(id, *status),
        });
    }
    for one in &commit.files {
        actions.push(file::write(one)?);
    }
    if let Some(rule) = &commit.rule {
        actions.push(rule_row::store(rule)?);
    }
    if let Some(new) = &commit.receipt {
        actions.push(receipt::store(new, now)?);
    }
    Ok(actions)
}
