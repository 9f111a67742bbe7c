//! Agent definitions: stored once under their digest, read often, never changed, hence cached.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use dormouse_domain::{Definition, Digest};
use dormouse_engine::ports::{StoreError, WriteError};
use tokio::time::sleep;

use crate::{
    action::{Action, Role},
    attrs::key,
    body::{self, Seen},
    keys::{self, DEFINITION_SK},
    table::Table,
    write::{self, Write},
};

/// How many definitions are kept in memory.
const CACHED: usize = 256;

/// How often a definition is looked at again of which a part was not visible yet.
const LOOKS: u32 = 5;

#[derive(Debug, Default)]
struct Kept {
    known: BTreeMap<Digest, Arc<Definition>>,
    /// Oldest first.
    order: VecDeque<Digest>,
}

/// The definitions that were read or put last.
#[derive(Debug, Default)]
pub(crate) struct Cache(Mutex<Kept>);

impl Cache {
    fn get(&self, digest: &Digest) -> Option<Arc<Definition>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).known.get(digest).cloned()
    }

    fn keep(&self, digest: &Digest, definition: &Arc<Definition>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Kept { known, order } = &mut *kept;
        if known.insert(digest.clone(), Arc::clone(definition)).is_none() {
            order.push_back(digest.clone());
        }
        if order.len() > CACHED
            && let Some(oldest) = order.pop_front()
        {
            known.remove(&oldest);
        }
    }
}

pub(crate) async fn put(
    table: &Table,
    cache: &Cache,
    digest: &Digest,
    definition: &Definition,
) -> Result<(), WriteError> {
    if cache.get(digest).is_some() {
        return Ok(());
    }
    let text = serde_json::to_string(definition)
        .map_err(|error| WriteError::Unavailable(format!("the definition cannot be encoded: {error}")))?;
    let mut items = body::split(key(keys::definition_pk(digest), DEFINITION_SK), "the definition", text)?.into_iter();
    let head = items.next().map(|head| Action::put(Role::Definition, head, Some("attribute_not_exists(#PK)")));
    let parts = items.map(|part| Action::put(Role::Part, part, None));
    let token = write::token("definition", digest.as_str());
    Write::new(token, head.into_iter().chain(parts).collect())?.make(table).await?;
    cache.keep(digest, &Arc::new(definition.clone()));
    Ok(())
}

pub(crate) async fn get(table: &Table, cache: &Cache, digest: &Digest) -> Result<Option<Arc<Definition>>, StoreError> {
    if let Some(known) = cache.get(digest) {
        return Ok(Some(known));
    }
    let range = (DEFINITION_SK.to_owned(), format!("{DEFINITION_SK}#~"));
    for look in 1..=LOOKS {
        let wholes = match body::gather(table.range(&keys::definition_pk(digest), range.clone()).await?)? {
            Seen::All(wholes) => wholes,
            Seen::Missing(_) => {
                sleep(Duration::from_millis(20) * look).await;
                continue;
            }
        };
        let Some(whole) = wholes.first() else { return Ok(None) };
        let definition: Definition = serde_json::from_str(&whole.body()?)
            .map_err(|error| StoreError::Corrupt(format!("definition {digest}: {error}")))?;
        let definition = Arc::new(definition);
        cache.keep(digest, &definition);
        return Ok(Some(definition));
    }
    Err(StoreError::Corrupt(format!("definition {digest} has lost a part")))
}
