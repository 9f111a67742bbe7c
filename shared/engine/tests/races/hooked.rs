//! A store in which something else happens right before an operation.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use dormouse_domain::{
    Definition, Digest, Entry, Fact, Inbox, Millis, Principal, RequestId, RunId,
    item::RunItem,
    policy::{Revoked, Scope, StandingRule},
    request::Request,
};
use dormouse_engine::{
    Ports,
    ports::{Commit, Due, Page, Receipt, Store, StoreError, WriteError},
};
use dormouse_testkit::{MemoryStore, World};

pub(crate) type Hook = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    Load,
    Item,
    Overview,
    Row,
    Dispatch,
    FilesOfSecond,
    Suspend,
}

/// The world's store, with something that happens once, right before one of its operations.
pub(crate) struct Hooked {
    inner: Arc<MemoryStore>,
    at: At,
    skip: Mutex<u32>,
    hook: Mutex<Option<Hook>>,
}

impl Hooked {
    async fn reach(&self, at: At) {
        if at != self.at {
            return;
        }
        {
            let mut skip = self.skip.lock().unwrap();
            if *skip > 0 {
                *skip -= 1;
                return;
            }
        }
        let hook = self.hook.lock().unwrap().take();
        if let Some(hook) = hook {
            hook().await;
        }
    }
}

pub(crate) fn hooked<F>(world: &World, at: At, skip: u32, hook: impl FnOnce() -> F + Send + 'static) -> Ports
where
    F: Future<Output = ()> + Send + 'static,
{
    let hook: Hook = Box::new(move || Box::pin(hook()));
    let inner = world.memory.clone();
    let store = Hooked { inner, at, skip: Mutex::new(skip), hook: Mutex::new(Some(hook)) };
    Ports { store: Arc::new(store), ..world.engine.ports().clone() }
}

#[async_trait]
impl Store for Hooked {
    async fn load(&self, run: &RunId, from: u32) -> Result<Vec<Entry>, StoreError> {
        self.reach(At::Load).await;
        self.inner.load(run, from).await
    }
    async fn page(&self, run: &RunId, from: u32, limit: u32) -> Result<Vec<Entry>, StoreError> {
        self.inner.page(run, from, limit).await
    }
    async fn append(&self, run: &RunId, entry: &Entry) -> Result<(), WriteError> {
        if matches!(entry.fact, Fact::CallDispatched { .. }) {
            self.reach(At::Dispatch).await;
        }
        self.inner.append(run, entry).await
    }
    async fn commit(&self, commit: &Commit) -> Result<(), WriteError> {
        if !commit.files.is_empty() {
            self.reach(At::FilesOfSecond).await;
        }
        if commit.entries.iter().any(|entry| matches!(entry.fact, Fact::Suspended { .. })) {
            self.reach(At::Suspend).await;
        }
        self.inner.commit(commit).await
    }
    async fn put_definition(&self, digest: &Digest, definition: &Definition) -> Result<(), WriteError> {
        self.inner.put_definition(digest, definition).await
    }
    async fn definition(&self, digest: &Digest) -> Result<Option<Arc<Definition>>, StoreError> {
        self.inner.definition(digest).await
    }
    async fn item(&self, run: &RunId) -> Result<Option<RunItem>, StoreError> {
        self.reach(At::Item).await;
        self.inner.item(run).await
    }
    async fn request(&self, id: &RequestId) -> Result<Option<Request>, StoreError> {
        self.reach(At::Row).await;
        self.inner.request(id).await
    }
    async fn overview(&self, run: &RunId) -> Result<Option<(RunItem, Vec<Request>)>, StoreError> {
        self.reach(At::Overview).await;
        self.inner.overview(run).await
    }
    async fn rules(&self, tenant: &str, scope: &Scope) -> Result<Vec<StandingRule>, StoreError> {
        self.inner.rules(tenant, scope).await
    }

    async fn revoke(&self, tenant: &str, scope: &Scope, id: &str, revoked: &Revoked) -> Result<bool, StoreError> {
        self.inner.revoke(tenant, scope, id, revoked).await
    }

    async fn receipt(&self, owner: &Principal, key: &str) -> Result<Option<Receipt>, StoreError> {
        self.inner.receipt(owner, key).await
    }
    async fn runs(&self, owner: &Principal, cursor: Option<&str>, limit: u32) -> Result<Page<RunItem>, StoreError> {
        self.inner.runs(owner, cursor, limit).await
    }
    async fn inbox(&self, inboxes: &[Inbox], cursor: Option<&str>, limit: u32) -> Result<Page<Request>, StoreError> {
        self.inner.inbox(inboxes, cursor, limit).await
    }
    async fn due(&self, shard: u32, now: Millis, limit: u32) -> Result<Vec<Due>, StoreError> {
        self.inner.due(shard, now, limit).await
    }
    fn due_shards(&self) -> u32 {
        self.inner.due_shards()
    }
    async fn postpone(&self, due: &Due, to: Millis) -> Result<bool, StoreError> {
        self.inner.postpone(due, to).await
    }
}
