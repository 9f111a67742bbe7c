//! A store that fails on demand, at the port: before a write, or after it landed.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use dormouse_domain::{
    Definition, Digest, Entry, Inbox, Millis, Principal, RequestId, RunId,
    item::RunItem,
    policy::{Revoked, Scope, StandingRule},
    request::Request,
};
use dormouse_engine::ports::{Commit, Due, Page, Receipt, Store, StoreError, WriteError};

use crate::{MemoryStore, world::locked};

/// What goes wrong with a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: lets one write pass, so that a later one can be aimed at.
    None,
    /// The write is not made, and that is known.
    Refused,
    /// The write is not made, and that is not known.
    LostBefore,
    /// The write is made, and that is not known.
    LostAfter,
    /// Writers got in each other's way.
    Contention,
    /// The write is larger than the store takes.
    TooLarge,
}

/// A store in front of which faults can be queued, one per write.
pub struct FaultyStore {
    inner: Arc<MemoryStore>,
    faults: Mutex<VecDeque<Fault>>,
    down: Mutex<bool>,
    rules_hidden: Mutex<bool>,
}

impl FaultyStore {
    /// A store without faults.
    #[must_use]
    pub fn new(inner: Arc<MemoryStore>) -> Self {
        Self { inner, faults: Mutex::default(), down: Mutex::default(), rules_hidden: Mutex::default() }
    }

    /// Queues faults for the next writes, in order.
    pub fn inject(&self, faults: &[Fault]) {
        locked(&self.faults).extend(faults);
    }

    /// Makes every read and write fail, or work again.
    pub fn set_down(&self, down: bool) {
        *locked(&self.down) = down;
    }

    /// Makes standing rules unreadable from now on.
    pub fn hide_rules(&self) {
        *locked(&self.rules_hidden) = true;
    }

    fn next(&self) -> Fault {
        if *locked(&self.down) {
            return Fault::Refused;
        }
        locked(&self.faults).pop_front().unwrap_or(Fault::None)
    }

    fn up(&self) -> Result<&MemoryStore, StoreError> {
        if *locked(&self.down) { Err(StoreError::Unavailable("down".to_owned())) } else { Ok(&self.inner) }
    }

    async fn write<F>(&self, write: F) -> Result<(), WriteError>
    where
        F: Future<Output = Result<(), WriteError>> + Send,
    {
        match self.next() {
            Fault::None => write.await,
            Fault::Refused => Err(WriteError::Unavailable("refused by the test".to_owned())),
            Fault::LostBefore => Err(WriteError::Ambiguous("lost by the test".to_owned())),
            Fault::LostAfter => {
                write.await?;
                Err(WriteError::Ambiguous("lost by the test".to_owned()))
            }
            Fault::Contention => Err(WriteError::Contention),
            Fault::TooLarge => Err(WriteError::TooLarge("refused by the test".to_owned())),
        }
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn load(&self, run: &RunId, from: u32) -> Result<Vec<Entry>, StoreError> {
        self.up()?.load(run, from).await
    }
    async fn page(&self, run: &RunId, from: u32, limit: u32) -> Result<Vec<Entry>, StoreError> {
        self.up()?.page(run, from, limit).await
    }
    async fn append(&self, run: &RunId, entry: &Entry) -> Result<(), WriteError> {
        self.write(self.inner.append(run, entry)).await
    }
    async fn commit(&self, commit: &Commit) -> Result<(), WriteError> {
        self.write(self.inner.commit(commit)).await
    }
    async fn put_definition(&self, digest: &Digest, definition: &Definition) -> Result<(), WriteError> {
        if *locked(&self.down) {
            return Err(WriteError::Unavailable("down".to_owned()));
        }
        self.inner.put_definition(digest, definition).await
    }
    async fn definition(&self, digest: &Digest) -> Result<Option<Arc<Definition>>, StoreError> {
        self.up()?.definition(digest).await
    }
    async fn item(&self, run: &RunId) -> Result<Option<RunItem>, StoreError> {
        self.up()?.item(run).await
    }
    async fn request(&self, id: &RequestId) -> Result<Option<Request>, StoreError> {
        self.up()?.request(id).await
    }
    async fn overview(&self, run: &RunId) -> Result<Option<(RunItem, Vec<Request>)>, StoreError> {
        self.up()?.overview(run).await
    }
    async fn rules(&self, tenant: &str, scope: &Scope) -> Result<Vec<StandingRule>, StoreError> {
        if *locked(&self.rules_hidden) {
            return Err(StoreError::Unavailable("rules".to_owned()));
        }
        self.up()?.rules(tenant, scope).await
    }
    async fn revoke(&self, tenant: &str, scope: &Scope, id: &str, revoked: &Revoked) -> Result<bool, StoreError> {
        self.up()?.revoke(tenant, scope, id, revoked).await
    }
    async fn receipt(&self, owner: &Principal, key: &str) -> Result<Option<Receipt>, StoreError> {
        self.up()?.receipt(owner, key).await
    }
    async fn runs(&self, owner: &Principal, cursor: Option<&str>, limit: u32) -> Result<Page<RunItem>, StoreError> {
        self.up()?.runs(owner, cursor, limit).await
    }
    async fn inbox(&self, inboxes: &[Inbox], cursor: Option<&str>, limit: u32) -> Result<Page<Request>, StoreError> {
        self.up()?.inbox(inboxes, cursor, limit).await
    }
    async fn due(&self, shard: u32, now: Millis, limit: u32) -> Result<Vec<Due>, StoreError> {
        self.up()?.due(shard, now, limit).await
    }
    fn due_shards(&self) -> u32 {
        self.inner.due_shards()
    }
    async fn postpone(&self, due: &Due, to: Millis) -> Result<bool, StoreError> {
        self.up()?.postpone(due, to).await
    }
}
