//! Answers given under an `Idempotency-Key`. DynamoDB deletes expired items days late (case 42), so
//! its TTL only tidies up: whether a receipt counts is decided here, by its time alone.

use dormouse_domain::{Digest, Millis, Principal};
use dormouse_engine::ports::{NewReceipt, Receipt, StoreError, WriteError};

use crate::{
    action::{Action, Role},
    attrs::{Item, corrupt, key, n, number, s, text},
    body,
    keys::{self, RECEIPT_SK},
    table::Table,
};

/// The TTL attribute, in seconds since the epoch.
pub(crate) const EXPIRES_AT: &str = "expires_at";

/// `now` as receipts count it.
pub(crate) fn now_secs(now: Millis) -> u64 {
    now.0 / 1000
}

fn receipt_key(owner: &Principal, client_key: &str) -> Item {
    key(keys::receipt_pk(owner, client_key), RECEIPT_SK)
}

/// Stores a receipt, unless one counts at `now`.
pub(crate) fn store(new: &NewReceipt, now: Millis) -> Result<Action, WriteError> {
    let mut item = receipt_key(&new.owner, &new.key);
    body::put(&mut item, "the answer", new.receipt.answer.to_string())?;
    item.insert("fingerprint".to_owned(), s(new.receipt.fingerprint.as_str()));
    item.insert(EXPIRES_AT.to_owned(), n(new.expires_at.0.div_ceil(1000)));
    let free = "attribute_not_exists(#PK) OR #expires_at < :now_secs";
    Ok(Action::put(Role::Receipt, item, Some(free)).with(vec![(":now_secs", n(now_secs(now)))]))
}

pub(crate) async fn get(
    table: &Table,
    owner: &Principal,
    client_key: &str,
    now: Millis,
) -> Result<Option<Receipt>, StoreError> {
    if !keys::fits(&keys::receipt_pk(owner, client_key), RECEIPT_SK) {
        return Ok(None);
    }
    let Some(item) = table.get(receipt_key(owner, client_key)).await? else { return Ok(None) };
    if number::<u64>(&item, EXPIRES_AT)? < now_secs(now) {
        return Ok(None);
    }
    let fingerprint =
        Digest::try_from(text(&item, "fingerprint")?.to_owned()).map_err(|error| corrupt(&item, error))?;
    let answer = serde_json::from_str(&body::get(&item)?).map_err(|error| corrupt(&item, error))?;
    Ok(Some(Receipt { fingerprint, answer }))
}
