//! The store on DynamoDB.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use dormouse_domain::{
    Definition, Digest, Entry, Inbox, Millis, Principal, RequestId, RunId,
    item::RunItem,
    policy::{Revoked, Scope, StandingRule},
    request::{Request, RequestStatus},
};
use dormouse_engine::ports::{Clock, Commit, Due, File, FileInfo, Files, Page, Receipt, Store, StoreError, WriteError};

use crate::{
    attrs::text,
    commit, connect, definition, entry_item, file,
    keys::{self, DUE_SHARDS, REQUESTS, RUN_SK, SK},
    lists, receipt, request_row, rule_row, run_row,
    table::Table,
    write::{Write, token},
};

/// The store on DynamoDB: one table of the form that [`schema`](crate::schema) says.
pub struct DynamoStore {
    table: Table,
    /// Says which receipts have expired and which requests can still be decided; TTL decides nothing.
    clock: Arc<dyn Clock>,
    definitions: definition::Cache,
}

impl fmt::Debug for DynamoStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamoStore").field("table", &self.table.name).finish_non_exhaustive()
    }
}

impl DynamoStore {
    /// The store in `table`, reached by a client of [these timeouts](crate::timeouts).
    #[must_use]
    pub fn connect(config: &SdkConfig, table: impl Into<String>, clock: Arc<dyn Clock>) -> Self {
        Self::new(connect::dynamo(config), table, clock)
    }

    /// The store in `table`, reached by `client`, which must have attempt and operation timeouts.
    #[must_use]
    pub fn new(client: Client, table: impl Into<String>, clock: Arc<dyn Clock>) -> Self {
        Self { table: Table { client, name: table.into() }, clock, definitions: definition::Cache::default() }
    }

    /// The client that this store uses.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.table.client
    }
}

#[async_trait]
impl Store for DynamoStore {
    async fn load(&self, run: &RunId, from: u32) -> Result<Vec<Entry>, StoreError> {
        entry_item::load(&self.table, run, from, None).await
    }

    async fn page(&self, run: &RunId, from: u32, limit: u32) -> Result<Vec<Entry>, StoreError> {
        match limit.checked_sub(1) {
            Some(more) => entry_item::load(&self.table, run, from, Some(from.saturating_add(more))).await,
            None => Ok(vec![]),
        }
    }

    async fn append(&self, run: &RunId, entry: &Entry) -> Result<(), WriteError> {
        let token = token("append", &entry.entry_id.0);
        Write::new(token, commit::entry(run, entry)?)?.make(&self.table).await
    }

    async fn commit(&self, commit: &Commit) -> Result<(), WriteError> {
        let now = self.clock.now();
        Write::new(commit::token(commit, now), commit::actions(commit, now)?)?.in_transaction().make(&self.table).await
    }

    async fn put_definition(&self, digest: &Digest, definition: &Definition) -> Result<(), WriteError> {
        definition::put(&self.table, &self.definitions, digest, definition).await
    }

    async fn definition(&self, digest: &Digest) -> Result<Option<Arc<Definition>>, StoreError> {
        definition::get(&self.table, &self.definitions, digest).await
    }

    async fn item(&self, run: &RunId) -> Result<Option<RunItem>, StoreError> {
        self.table.get(run_row::run_key(run)).await?.as_ref().map(run_row::decode).transpose()
    }

    async fn request(&self, id: &RequestId) -> Result<Option<Request>, StoreError> {
        self.table.get(request_row::request_key(id)).await?.as_ref().map(request_row::decode).transpose()
    }

    async fn overview(&self, run: &RunId) -> Result<Option<(RunItem, Vec<Request>)>, StoreError> {
        let range = (REQUESTS.to_owned(), RUN_SK.to_owned());
        let (mut item, mut requests) = (None, Vec::new());
        for row in self.table.range(&keys::run_pk(run), range).await? {
            if text(&row, SK)? == RUN_SK {
                item = Some(run_row::decode(&row)?);
            } else {
                requests.push(request_row::decode(&row)?);
            }
        }
        requests.retain(|request| request.status == RequestStatus::Pending);
        Ok(item.map(|item| (item, requests)))
    }

    async fn rules(&self, tenant: &str, scope: &Scope) -> Result<Vec<StandingRule>, StoreError> {
        rule_row::list(&self.table, tenant, scope).await
    }

    async fn revoke(&self, tenant: &str, scope: &Scope, id: &str, revoked: &Revoked) -> Result<bool, StoreError> {
        rule_row::revoke(&self.table, tenant, scope, id, revoked).await
    }

    async fn receipt(&self, owner: &Principal, key: &str) -> Result<Option<Receipt>, StoreError> {
        receipt::get(&self.table, owner, key, self.clock.now()).await
    }

    async fn runs(&self, owner: &Principal, cursor: Option<&str>, limit: u32) -> Result<Page<RunItem>, StoreError> {
        lists::runs(&self.table, owner, cursor, limit).await
    }

    async fn inbox(&self, inboxes: &[Inbox], cursor: Option<&str>, limit: u32) -> Result<Page<Request>, StoreError> {
        lists::inbox(&self.table, inboxes, cursor, limit, self.clock.now()).await
    }

    async fn due(&self, shard: u32, now: Millis, limit: u32) -> Result<Vec<Due>, StoreError> {
        lists::due(&self.table, shard, now, limit).await
    }

    fn due_shards(&self) -> u32 {
        DUE_SHARDS
    }

    async fn postpone(&self, due: &Due, to: Millis) -> Result<bool, StoreError> {
        lists::postpone(&self.table, due, to).await
    }
}

#[async_trait]
impl Files for DynamoStore {
    async fn file(&self, workspace: &str, path: &str) -> Result<Option<File>, StoreError> {
        file::get(&self.table, workspace, path).await
    }

    async fn files(&self, workspace: &str) -> Result<Vec<FileInfo>, StoreError> {
        file::list(&self.table, workspace).await
    }
}
