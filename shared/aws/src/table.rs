//! The table: the few calls to DynamoDB that this crate makes, each in one place.

use aws_sdk_dynamodb::{
    Client,
    config::retry::RetryConfig,
    operation::{
        put_item::PutItemError, query::builders::QueryFluentBuilder, transact_write_items::TransactWriteItemsError,
    },
    types::KeysAndAttributes,
};
use dormouse_engine::ports::StoreError;
use tokio::time::sleep;

use crate::{
    action::{Action, Role, names},
    attrs::{Item, s},
    cancel,
    failure::{self, Attempt, unread},
    keys::{PK, SK},
    write::pause,
};

/// Most keys of one batch read.
pub(crate) const MAX_BATCH: usize = 100;

/// How often a batch read asks for what it did not get.
const BATCH_ROUNDS: u32 = 6;

/// A table, and the client to reach it with.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) client: Client,
    pub(crate) name: String,
}

/// A range of sort keys, both ends inclusive.
pub(crate) type Range = (String, String);

impl Table {
    /// The item of `key`, read consistently.
    pub(crate) async fn get(&self, key: Item) -> Result<Option<Item>, StoreError> {
        let answer = self.client.get_item().table_name(&self.name).set_key(Some(key)).consistent_read(true);
        Ok(answer.send().await.map_err(unread)?.item)
    }

    /// The attributes `only` of the item of `key`, read consistently.
    pub(crate) async fn get_only(&self, key: Item, only: &[&str]) -> Result<Option<Item>, StoreError> {
        let projection = projection(only);
        let call = self.client.get_item().table_name(&self.name).set_key(Some(key)).consistent_read(true);
        let call = call.set_expression_attribute_names(names([projection.as_str()].into_iter()));
        Ok(call.projection_expression(projection).send().await.map_err(unread)?.item)
    }

    /// The items of partition `pk` in `range`, in order, read consistently.
    pub(crate) async fn range(&self, pk: &str, range: Range) -> Result<Vec<Item>, StoreError> {
        let condition = "#PK = :pk AND #SK BETWEEN :from AND :to";
        let query = self.partition(pk, condition).expression_attribute_values(":from", s(range.0));
        all_pages(query.expression_attribute_values(":to", s(range.1))).await
    }

    /// The attributes `only` of the items of partition `pk` whose sort key begins with `prefix`, in
    /// order, read consistently.
    pub(crate) async fn beginning_with(&self, pk: &str, prefix: &str, only: &[&str]) -> Result<Vec<Item>, StoreError> {
        let (condition, projection) = ("#PK = :pk AND begins_with(#SK, :prefix)", projection(only));
        let query = self.partition(pk, condition).expression_attribute_values(":prefix", s(prefix));
        let query = query.set_expression_attribute_names(names([condition, projection.as_str()].into_iter()));
        all_pages(query.projection_expression(projection)).await
    }

    fn partition(&self, pk: &str, condition: &str) -> QueryFluentBuilder {
        let query = self.client.query().table_name(&self.name).consistent_read(true);
        let query = query.set_expression_attribute_names(names([condition].into_iter()));
        query.key_condition_expression(condition).expression_attribute_values(":pk", s(pk))
    }

    /// The items of `keys`, at most [`MAX_BATCH`], in no order, read consistently.
    pub(crate) async fn batch(&self, keys: Vec<Item>) -> Result<Vec<Item>, StoreError> {
        let mut found = Vec::with_capacity(keys.len());
        let mut open = keys;
        for round in 0..BATCH_ROUNDS {
            if open.is_empty() {
                return Ok(found);
            }
            if round > 0 {
                sleep(pause(round)).await;
            }
            let wanted = KeysAndAttributes::builder().set_keys(Some(open)).consistent_read(true).build();
            let wanted = wanted.map_err(failure::unavailable)?;
            let answer = self.client.batch_get_item().request_items(&self.name, wanted).send().await.map_err(unread)?;
            found.extend(answer.responses.unwrap_or_default().remove(&self.name).unwrap_or_default());
            let rest = answer.unprocessed_keys.unwrap_or_default().remove(&self.name);
            open = rest.map(|rest| rest.keys).unwrap_or_default();
        }
        if open.is_empty() { Ok(found) } else { Err(failure::unavailable("a batch read did not get all it asked for")) }
    }

    /// One attempt at a conditional put.
    pub(crate) async fn put(&self, action: Action) -> Attempt {
        let role = action.role.clone();
        let put = action.into_put(self.client.put_item().table_name(&self.name));
        let put = put.customize().config_override(once());
        let Err(error) = put.send().await else { return Attempt::Landed };
        if let Some(PutItemError::ConditionalCheckFailedException(failed)) = error.as_service_error() {
            return cancel::broken(&role, failed.item());
        }
        failure::judge(&error)
    }

    /// One attempt at a transaction.
    pub(crate) async fn transact(&self, token: &str, actions: Vec<Action>) -> Attempt {
        let roles: Vec<Role> = actions.iter().map(|action| action.role.clone()).collect();
        let items: Result<Vec<_>, _> = actions.into_iter().map(|action| action.into_transact(&self.name)).collect();
        let items = match items {
            Ok(items) => items,
            Err(error) => return Attempt::NotWritten { error, again: false },
        };
        let call = self.client.transact_write_items().set_transact_items(Some(items)).client_request_token(token);
        let Err(error) = call.customize().config_override(once()).send().await else { return Attempt::Landed };
        if let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) = error.as_service_error() {
            return cancel::judge(&roles, cancelled.cancellation_reasons());
        }
        failure::judge(&error)
    }
}

/// Without the SDK's retries; see [`crate::write`].
fn once() -> aws_sdk_dynamodb::config::Builder {
    aws_sdk_dynamodb::Config::builder().retry_config(RetryConfig::disabled())
}

/// An expression for the attributes `only`.
fn projection(only: &[&str]) -> String {
    only.iter().map(|name| format!("#{name}")).collect::<Vec<_>>().join(", ")
}

/// What `query` finds, page by page: a page ends after 1 MB.
async fn all_pages(query: QueryFluentBuilder) -> Result<Vec<Item>, StoreError> {
    let (mut items, mut start) = (Vec::new(), None);
    loop {
        let page = query.clone().set_exclusive_start_key(start).send().await.map_err(unread)?;
        items.extend(page.items.unwrap_or_default());
        start = page.last_evaluated_key;
        if start.is_none() {
            return Ok(items);
        }
    }
}

/// The key of an item, to find it in a batch's answer.
pub(crate) fn place(item: &Item) -> (String, String) {
    let text = |name| item.get(name).and_then(|value| value.as_s().ok()).cloned().unwrap_or_default();
    (text(PK), text(SK))
}
