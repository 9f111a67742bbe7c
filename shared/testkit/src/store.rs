//! A store in memory that keeps the port's contract: what a test sees of it, it sees of DynamoDB.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use dormouse_domain::{
    Definition, Digest, Entry, EntryId, Fact, Inbox, Millis, Principal, RequestId, RequestKey, RunId,
    item::RunItem,
    policy::{Revoked, Scope, StandingRule},
    request::{Request, RequestStatus},
};
use dormouse_engine::ports::{
    Clock, Commit, Due, File, FileInfo, FileVersion, Files, ItemWrite, Page, Receipt, RequestWrite, Store, StoreError,
    WriteError,
};

use crate::world::locked;

#[derive(Default, Clone)]
struct Data {
    entries: BTreeMap<RunId, Vec<Entry>>,
    items: BTreeMap<RunId, RunItem>,
    requests: BTreeMap<(RunId, RequestKey), Request>,
    definitions: BTreeMap<Digest, Arc<Definition>>,
    receipts: BTreeMap<(Principal, String), (Receipt, Millis)>,
    files: BTreeMap<(String, String), File>,
    rules: Vec<StandingRule>,
}

/// A store in memory.
pub struct MemoryStore {
    data: Mutex<Data>,
    clock: Arc<dyn Clock>,
    writes: Mutex<Vec<&'static str>>,
    /// What was committed under each id: the same once more changes nothing, another is refused.
    committed: Mutex<BTreeMap<EntryId, Commit>>,
}

impl MemoryStore {
    /// An empty store; `clock` says when receipts are forgotten and requests too old to be listed.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { data: Mutex::default(), clock, writes: Mutex::default(), committed: Mutex::default() }
    }

    /// The journal of a run.
    #[must_use]
    pub fn journal(&self, run: &RunId) -> Vec<Entry> {
        locked(&self.data).entries.get(run).cloned().unwrap_or_default()
    }

    /// The kinds of a run's entries, in order.
    #[must_use]
    pub fn kinds(&self, run: &RunId) -> Vec<&'static str> {
        self.journal(run).iter().map(|entry| entry.fact.kind()).collect()
    }

    /// All requests of a run, whatever became of them.
    #[must_use]
    pub fn all_requests(&self, run: &RunId) -> Vec<Request> {
        let data = locked(&self.data);
        data.requests.iter().filter(|((owner, _), _)| owner == run).map(|(_, request)| request.clone()).collect()
    }

    /// Takes the names of the writes made since the last call, `put` or `transaction`.
    pub fn take_writes(&self) -> Vec<&'static str> {
        std::mem::take(&mut locked(&self.writes))
    }
}

fn free_or_ours(journal: &[Entry], entry: &Entry) -> Result<bool, WriteError> {
    match journal.get(entry.index as usize) {
        Some(there) if there.entry_id == entry.entry_id => Ok(false),
        Some(_) => Err(WriteError::LostIndex),
        None if journal.len() == entry.index as usize => Ok(true),
        None => Err(WriteError::LostIndex),
    }
}

impl Data {
    /// Applies `commit` to a copy, so that a failed one leaves nothing.
    fn with(&self, commit: &Commit, now: Millis) -> Result<Option<Self>, WriteError> {
        let mut data = self.clone();
        let journal = data.entries.entry(commit.run.clone()).or_default();
        for entry in &commit.entries {
            if !free_or_ours(journal, entry)? {
                return Ok(None);
            }
            journal.push(entry.clone());
        }
        if commit.free_index.is_some_and(|index| journal.len() > index as usize) {
            return Err(WriteError::LostIndex);
        }
        let written = match &commit.item {
            None => None,
            Some(ItemWrite::Create(item)) => Some((item, false)),
            Some(ItemWrite::Replace(item)) => Some((item, true)),
        };
        if let Some((item, must_exist)) = written {
            let existed = data.items.insert(item.run_id.clone(), item.clone()).is_some();
            if existed != must_exist {
                return Err(WriteError::ItemCondition);
            }
        }
        commit.requests.iter().try_for_each(|write| data.write_request(write))?;
        for write in &commit.files {
            let key = (write.workspace.clone(), write.path.clone());
            let there = data.files.get(&key).map(|file| file.version);
            let version = match (write.expect, there) {
                (FileVersion::Absent, None) => 1,
                (FileVersion::At(expected), Some(version)) if expected == version => version + 1,
                (FileVersion::Absent | FileVersion::At(_), _) => {
                    return Err(WriteError::FileChanged { path: write.path.clone() });
                }
            };
            data.files.insert(key, File { content: write.content.clone(), version });
        }
        if let Some(rule) = &commit.rule {
            if data.rules.iter().any(|there| there.id == rule.id) {
                return Err(WriteError::RequestCondition);
            }
            data.rules.push(rule.clone());
        }
        if let Some(new) = &commit.receipt {
            let key = (new.owner.clone(), new.key.clone());
            if data.receipts.get(&key).is_some_and(|(_, expires_at)| *expires_at >= now) {
                return Err(WriteError::ReceiptExists);
            }
            data.receipts.insert(key, (new.receipt.clone(), new.expires_at));
        }
        Ok(Some(data))
    }

    fn write_request(&mut self, write: &RequestWrite) -> Result<(), WriteError> {
        match write {
            RequestWrite::Open(request) => {
                let key = (request.id.run.clone(), request.id.key);
                match self.requests.insert(key, (**request).clone()) {
                    None => Ok(()),
                    Some(_) => Err(WriteError::RequestCondition),
                }
            }
            RequestWrite::Decide { id, inbox, settled, digest, now } => {
                let row = self.pending(id)?;
                let theirs = row.inbox() == *inbox && row.barred() != Some(&settled.by);
                let ours = theirs && row.windows.is_decidable(*now);
                if !ours || digest.as_ref().is_some_and(|digest| *digest != row.digest) {
                    return Err(WriteError::RequestCondition);
                }
                row.status = RequestStatus::Decided;
                row.decision = Some(settled.clone());
                Ok(())
            }
            RequestWrite::Close { id, status } => {
                self.pending(id)?.status = *status;
                Ok(())
            }
        }
    }

    fn pending(&mut self, id: &RequestId) -> Result<&mut Request, WriteError> {
        let row = self.requests.get_mut(&(id.run.clone(), id.key));
        row.filter(|row| row.status == RequestStatus::Pending).ok_or(WriteError::RequestCondition)
    }
}

/// One page of `items`; the cursor is the number of items before it.
fn page<T>(items: Vec<T>, cursor: Option<&str>, limit: u32) -> Result<Page<T>, StoreError> {
    let skip = match cursor {
        None => 0,
        Some(text) => text.parse::<usize>().map_err(|_| StoreError::BadCursor)?,
    };
    let limit = limit as usize;
    let next = (items.len() > skip + limit).then(|| (skip + limit).to_string());
    Ok(Page { items: items.into_iter().skip(skip).take(limit).collect(), next })
}

#[async_trait]
impl Store for MemoryStore {
    async fn load(&self, run: &RunId, from: u32) -> Result<Vec<Entry>, StoreError> {
        Ok(self.journal(run).into_iter().skip(from as usize).collect())
    }

    async fn page(&self, run: &RunId, from: u32, limit: u32) -> Result<Vec<Entry>, StoreError> {
        Ok(self.journal(run).into_iter().skip(from as usize).take(limit as usize).collect())
    }

    async fn append(&self, run: &RunId, entry: &Entry) -> Result<(), WriteError> {
        // The stored form is part of what a test should see.
        let (kind, body) = entry.fact.encode().map_err(|error| WriteError::Unavailable(error.to_string()))?;
        let fact = Fact::decode(kind, &body).map_err(|error| WriteError::Unavailable(error.to_string()))?;
        let mut data = locked(&self.data);
        let journal = data.entries.entry(run.clone()).or_default();
        if free_or_ours(journal, entry)? {
            journal.push(Entry { fact, ..entry.clone() });
            locked(&self.writes).push("put");
        }
        Ok(())
    }

    async fn commit(&self, commit: &Commit) -> Result<(), WriteError> {
        let now = self.clock.now();
        let mut committed = locked(&self.committed);
        match committed.get(&commit.id) {
            Some(before) if before == commit => return Ok(()),
            Some(_) => return Err(WriteError::Unavailable("the id of another write".to_owned())),
            None => {}
        }
        let mut data = locked(&self.data);
        if let Some(after) = data.with(commit, now)? {
            *data = after;
            locked(&self.writes).push("transaction");
            committed.insert(commit.id.clone(), commit.clone());
        }
        Ok(())
    }

    async fn put_definition(&self, digest: &Digest, definition: &Definition) -> Result<(), WriteError> {
        locked(&self.data).definitions.entry(digest.clone()).or_insert_with(|| Arc::new(definition.clone()));
        Ok(())
    }

    async fn definition(&self, digest: &Digest) -> Result<Option<Arc<Definition>>, StoreError> {
        Ok(locked(&self.data).definitions.get(digest).cloned())
    }

    async fn item(&self, run: &RunId) -> Result<Option<RunItem>, StoreError> {
        Ok(locked(&self.data).items.get(run).cloned())
    }

    async fn request(&self, id: &RequestId) -> Result<Option<Request>, StoreError> {
        Ok(locked(&self.data).requests.get(&(id.run.clone(), id.key)).cloned())
    }

    async fn overview(&self, run: &RunId) -> Result<Option<(RunItem, Vec<Request>)>, StoreError> {
        let Some(item) = locked(&self.data).items.get(run).cloned() else { return Ok(None) };
        let mut requests = self.all_requests(run);
        requests.retain(|request| request.status == RequestStatus::Pending);
        Ok(Some((item, requests)))
    }

    async fn rules(&self, tenant: &str, scope: &Scope) -> Result<Vec<StandingRule>, StoreError> {
        let data = locked(&self.data);
        let rules = data.rules.iter().filter(|rule| rule.tenant == tenant && rule.scope == *scope);
        Ok(rules.cloned().collect())
    }

    async fn revoke(&self, tenant: &str, scope: &Scope, id: &str, revoked: &Revoked) -> Result<bool, StoreError> {
        let mut data = locked(&self.data);
        let open = |rule: &&mut StandingRule| rule.id == id && rule.tenant == tenant && rule.scope == *scope;
        let found = data.rules.iter_mut().find(open).filter(|rule| rule.revoked.is_none());
        Ok(found.map(|rule| rule.revoked = Some(revoked.clone())).is_some())
    }

    async fn receipt(&self, owner: &Principal, key: &str) -> Result<Option<Receipt>, StoreError> {
        let data = locked(&self.data);
        let found = data.receipts.get(&(owner.clone(), key.to_owned()));
        Ok(found.filter(|(_, expires_at)| *expires_at >= self.clock.now()).map(|(receipt, _)| receipt.clone()))
    }

    async fn runs(&self, owner: &Principal, cursor: Option<&str>, limit: u32) -> Result<Page<RunItem>, StoreError> {
        let data = locked(&self.data);
        let mut items: Vec<_> = data.items.values().filter(|item| item.owner == *owner).cloned().collect();
        items.sort_by_key(|item| (std::cmp::Reverse(item.updated_at), item.run_id.clone()));
        page(items, cursor, limit)
    }

    async fn inbox(&self, inboxes: &[Inbox], cursor: Option<&str>, limit: u32) -> Result<Page<Request>, StoreError> {
        let now = self.clock.now();
        let data = locked(&self.data);
        let waiting = data.requests.values().filter(|request| {
            inboxes.contains(&request.inbox())
                && request.status == RequestStatus::Pending
                && request.windows.is_decidable(now)
        });
        let mut waiting: Vec<_> = waiting.cloned().collect();
        waiting.sort_by_key(|request| (request.opened_at, request.id.clone()));
        page(waiting, cursor, limit)
    }

    async fn due(&self, shard: u32, now: Millis, limit: u32) -> Result<Vec<Due>, StoreError> {
        let data = locked(&self.data);
        let due = data.items.values().filter_map(|item| {
            let due_at = item.due_at.filter(|due_at| shard == 0 && *due_at <= now)?;
            Some(Due { run: item.run_id.clone(), due_at, status: item.status, wakes: item.wakes })
        });
        Ok(due.take(limit as usize).collect())
    }

    fn due_shards(&self) -> u32 {
        1
    }

    async fn postpone(&self, due: &Due, to: Millis) -> Result<bool, StoreError> {
        let mut data = locked(&self.data);
        let Some(item) = data.items.get_mut(&due.run).filter(|item| item.due_at == Some(due.due_at)) else {
            return Ok(false);
        };
        item.due_at = Some(to);
        item.wakes += 1;
        Ok(true)
    }
}

#[async_trait]
impl Files for MemoryStore {
    async fn file(&self, workspace: &str, path: &str) -> Result<Option<File>, StoreError> {
        Ok(locked(&self.data).files.get(&(workspace.to_owned(), path.to_owned())).cloned())
    }

    async fn files(&self, workspace: &str) -> Result<Vec<FileInfo>, StoreError> {
        let data = locked(&self.data);
        let files = data.files.iter().filter(|((owner, _), _)| owner == workspace);
        let infos = files.map(|((_, path), file)| FileInfo {
            path: path.clone(),
            bytes: file.content.len() as u64,
            version: file.version,
        });
        Ok(infos.collect())
    }
}
