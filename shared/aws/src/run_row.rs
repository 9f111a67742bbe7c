//! The run item. What conditions, updates and indexes work on is kept in attributes of its own and
//! is *not* in the body, so that nothing is said twice: a `postpone` changes attributes only.

use dormouse_domain::{Millis, RunId, item::RunItem, run::Status};
use dormouse_engine::ports::{Due, StoreError, WriteError};
use serde_json::{Map, Value};

use crate::{
    attrs::{Item, corrupt, key, n, number, optional_number, s, text},
    body, keys,
    keys::{DA, DP, LP, LS, PK},
};

pub(crate) const STATUS: &str = "status";
pub(crate) const DUE_AT: &str = "due_at";
pub(crate) const WAKES: &str = "wakes";
const UPDATED_AT: &str = "updated_at";

pub(crate) fn run_key(run: &RunId) -> Item {
    key(keys::run_pk(run), keys::RUN_SK)
}

pub(crate) fn encode(run: &RunItem) -> Result<Item, WriteError> {
    let unencodable =
        |error: String| WriteError::Unavailable(format!("the item of {} cannot be encoded: {error}", run.run_id));
    let Value::Object(mut fields) = serde_json::to_value(run).map_err(|error| unencodable(error.to_string()))? else {
        return Err(unencodable("not an object".to_owned()));
    };
    let Some(Value::String(status)) = fields.remove(STATUS) else {
        return Err(unencodable("its status is not a string".to_owned()));
    };
    for name in [DUE_AT, WAKES, UPDATED_AT] {
        fields.remove(name);
    }
    let mut item = run_key(&run.run_id);
    body::put(&mut item, "the run item", Value::Object(fields).to_string())?;
    item.insert(STATUS.to_owned(), s(status));
    item.insert(WAKES.to_owned(), n(run.wakes));
    item.insert(UPDATED_AT.to_owned(), n(run.updated_at.0));
    item.insert(LP.to_owned(), s(keys::runs_lp(&run.owner)));
    item.insert(LS.to_owned(), s(keys::runs_ls(run.updated_at, &run.run_id)));
    if let Some(due_at) = run.due_at {
        item.insert(DUE_AT.to_owned(), n(due_at.0));
        item.insert(DP.to_owned(), s(keys::due_dp(keys::shard(&run.run_id))));
        item.insert(DA.to_owned(), n(due_at.0));
    }
    Ok(item)
}

pub(crate) fn decode(item: &Item) -> Result<RunItem, StoreError> {
    let mut fields: Map<String, Value> =
        serde_json::from_str(&body::get(item)?).map_err(|error| corrupt(item, error))?;
    fields.insert(STATUS.to_owned(), text(item, STATUS)?.into());
    fields.insert(WAKES.to_owned(), number::<u32>(item, WAKES)?.into());
    fields.insert(UPDATED_AT.to_owned(), number::<u64>(item, UPDATED_AT)?.into());
    if let Some(due_at) = optional_number::<u64>(item, DUE_AT)? {
        fields.insert(DUE_AT.to_owned(), due_at.into());
    }
    serde_json::from_value(Value::Object(fields)).map_err(|error| corrupt(item, error))
}

/// What the due index has of a run.
pub(crate) fn decode_due(item: &Item) -> Result<Due, StoreError> {
    let status: Result<Status, _> = serde_json::from_value(text(item, STATUS)?.into());
    Ok(Due {
        run: keys::run_of(text(item, PK)?).ok_or_else(|| corrupt(item, "not a run's"))?,
        due_at: Millis(number(item, DA)?),
        status: status.map_err(|error| corrupt(item, error))?,
        wakes: number(item, WAKES)?,
    })
}
