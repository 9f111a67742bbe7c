//! The store: journals, requests, and what is derived from them.

use std::sync::Arc;

use async_trait::async_trait;
use dormouse_domain::{
    Definition, Digest, Entry, EntryId, Inbox, Millis, Principal, RequestId, RunId,
    item::RunItem,
    policy::{Revoked, Scope, StandingRule},
    request::{Request, RequestStatus, Settled},
    run::Status,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A read that failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store did not answer; try again later.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// What is stored is not what this release, or any earlier one, writes.
    #[error("what is stored cannot be read: {0}")]
    Corrupt(String),
    /// A cursor that this store did not give out.
    #[error("the cursor is not one of this list's")]
    BadCursor,
}

/// A write that was not made, or of which that is not known.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Another's entry stands at the index, or the index before it is free: read on.
    #[error("another entry stands at this index")]
    LostIndex,
    /// A request is not pending any more, its time is over, or it is not this person's or digest's.
    #[error("the request can not be written as asked")]
    RequestCondition,
    /// A file is not at the version that the write expects.
    #[error("the file {path} was changed by another")]
    FileChanged {
        /// Which.
        path: String,
    },
    /// An answer is stored under this idempotency key already: read it.
    #[error("this idempotency key has been used")]
    ReceiptExists,
    /// The run's item is not there, or, when it should be created, is there.
    #[error("the run item is not as expected")]
    ItemCondition,
    /// Writers kept getting in each other's way; nothing was written. Read the tail, try again.
    #[error("too much contention; nothing was written")]
    Contention,
    /// More than the store takes in one piece; nothing was written.
    #[error("too large to store: {0}")]
    TooLarge(String),
    /// The store refused or did not take the write; nothing was written.
    #[error("the store is unavailable, nothing was written: {0}")]
    Unavailable(String),
    /// It is not known whether the write landed (B13).
    #[error("it is not known whether the write landed: {0}")]
    Ambiguous(String),
}

/// How a run's item is written along.
#[derive(Debug, Clone, PartialEq)]
pub enum ItemWrite {
    /// It must not exist.
    Create(RunItem),
    /// It must exist.
    Replace(RunItem),
}

/// How a request's row is written along.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestWrite {
    /// A new one.
    Open(Box<Request>),
    /// Its one decision. The condition is in the write (I6): pending, `decide_by >= now`, in this inbox and
    /// not barred to `settled.by`, and of this digest.
    Decide {
        /// Which.
        id: RequestId,
        /// The inbox in which it was decided.
        inbox: Inbox,
        /// The decision.
        settled: Settled,
        /// The digest that the row must have, where the decision is about arguments.
        digest: Option<Digest>,
        /// The time that `decide_by` must not be before.
        now: Millis,
    },
    /// It is closed undecided; it must be pending.
    Close {
        /// Which.
        id: RequestId,
        /// Expired or cancelled.
        status: RequestStatus,
    },
}

/// The version at which a file must be for a write to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileVersion {
    /// It must not exist.
    Absent,
    /// It must be at this version.
    At(u64),
}

/// A write of a workspace file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileWrite {
    /// The workspace.
    pub workspace: String,
    /// The path, normalised.
    pub path: String,
    /// The new text.
    pub content: String,
    /// What must be there now.
    pub expect: FileVersion,
}

/// The answer that was given under an `Idempotency-Key`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Digest of the write that was asked for: the same key with another write is an error.
    pub fingerprint: Digest,
    /// The answer.
    pub answer: Value,
}

/// A receipt to be stored along with the write that it is about, for 24 hours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReceipt {
    /// Whose key it is.
    pub owner: Principal,
    /// The key, as the client chose it.
    pub key: String,
    /// The receipt.
    pub receipt: Receipt,
    /// When it may be forgotten.
    pub expires_at: Millis,
}

/// Everything that one transaction writes about one run: all of it or nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Commit {
    /// The run.
    pub run: RunId,
    /// Identity of this intended write, made anew for each: the transaction's client request token
    /// comes from it, and the same one with other content is refused.
    pub id: EntryId,
    /// Entries at consecutive indexes; each index must be free.
    pub entries: Vec<Entry>,
    /// With no entries: the index that must be free, so that what the rest was derived from is
    /// still all there is.
    pub free_index: Option<u32>,
    /// The run's item.
    pub item: Option<ItemWrite>,
    /// Requests.
    pub requests: Vec<RequestWrite>,
    /// Workspace files.
    pub files: Vec<FileWrite>,
    /// A standing rule that a decision makes; it must not exist.
    pub rule: Option<StandingRule>,
    /// The receipt.
    pub receipt: Option<NewReceipt>,
}

impl Commit {
    /// The write of this identity about `run` that writes nothing yet.
    #[must_use]
    pub fn new(run: RunId, id: EntryId) -> Self {
        Self {
            run,
            id,
            entries: Vec::new(),
            free_index: None,
            item: None,
            requests: Vec::new(),
            files: Vec::new(),
            rule: None,
            receipt: None,
        }
    }
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where the next page begins, if there is more. Opaque.
    pub next: Option<String>,
}

/// A run that somebody must look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Which.
    pub run: RunId,
    /// Since when.
    pub due_at: Millis,
    /// Where it stands.
    pub status: Status,
    /// How often the sweep woke it since it last did anything.
    pub wakes: u32,
}

/// The store.
#[async_trait]
pub trait Store: Send + Sync {
    /// All entries of `run` from index `from`, in order, whole, read consistently; none if there is
    /// no such run. An entry whose parts are not all visible yet is read again, bounded.
    async fn load(&self, run: &RunId, from: u32) -> Result<Vec<Entry>, StoreError>;

    /// At most `limit` entries from index `from`; [`Page::next`] is not used.
    async fn page(&self, run: &RunId, from: u32, limit: u32) -> Result<Vec<Entry>, StoreError>;

    /// Writes one entry at its index, which must be free: one conditional put. A put whose reply
    /// was lost is resolved by the entry's id: if what stands there is ours, it succeeded.
    async fn append(&self, run: &RunId, entry: &Entry) -> Result<(), WriteError>;

    /// Writes all of `commit` or nothing, resolved like [`append`](Self::append) when a reply is lost.
    async fn commit(&self, commit: &Commit) -> Result<(), WriteError>;

    /// Keeps a definition under its digest. Repeating it is harmless.
    async fn put_definition(&self, digest: &Digest, definition: &Definition) -> Result<(), WriteError>;

    /// The definition of this digest.
    async fn definition(&self, digest: &Digest) -> Result<Option<Arc<Definition>>, StoreError>;

    /// The run's item, read consistently.
    async fn item(&self, run: &RunId) -> Result<Option<RunItem>, StoreError>;

    /// The request, read consistently.
    async fn request(&self, id: &RequestId) -> Result<Option<Request>, StoreError>;

    /// The run's item and all requests of the run that are pending, read consistently in one query.
    async fn overview(&self, run: &RunId) -> Result<Option<(RunItem, Vec<Request>)>, StoreError>;

    /// The standing rules of one scope of a tenant, the revoked ones too, oldest first, read consistently.
    async fn rules(&self, tenant: &str, scope: &Scope) -> Result<Vec<StandingRule>, StoreError>;

    /// Revokes a standing rule, once; false if it is not there or was revoked already.
    async fn revoke(&self, tenant: &str, scope: &Scope, id: &str, revoked: &Revoked) -> Result<bool, StoreError>;

    /// The answer given under this key of this owner, read consistently.
    async fn receipt(&self, owner: &Principal, key: &str) -> Result<Option<Receipt>, StoreError>;

    /// Runs of `owner`, last changed first.
    async fn runs(&self, owner: &Principal, cursor: Option<&str>, limit: u32) -> Result<Page<RunItem>, StoreError>;

    /// Requests that wait in any of `inboxes`, oldest first, by index and then checked consistently:
    /// what is no longer pending is left out, so a page can be shorter than `limit`. A cursor is good for the
    /// same inboxes only.
    async fn inbox(&self, inboxes: &[Inbox], cursor: Option<&str>, limit: u32) -> Result<Page<Request>, StoreError>;

    /// Runs of `shard` (0..[`DUE_SHARDS`](Self::due_shards)) that are due at `now` or before, at most `limit`.
    async fn due(&self, shard: u32, now: Millis, limit: u32) -> Result<Vec<Due>, StoreError>;

    /// How many shards the due index has.
    fn due_shards(&self) -> u32;

    /// Moves a run's `due_at` from `due.due_at` to `to` and counts a wake; false if it is no longer
    /// there.
    async fn postpone(&self, due: &Due, to: Millis) -> Result<bool, StoreError>;
}
