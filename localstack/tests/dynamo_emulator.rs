//! What Dormouse's store leans on, asked of the embedded DynamoDB through the AWS SDK.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy takes the helpers of a test for something else than the test"
)]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, ConditionCheck, Delete, Get, GlobalSecondaryIndex,
    KeySchemaElement, KeyType, KeysAndAttributes, Projection, ProjectionType, Put, PutRequest, ReturnValue,
    ReturnValuesOnConditionCheckFailure, ScalarAttributeType, TimeToLiveSpecification, TransactGetItem,
    TransactWriteItem, Update, WriteRequest,
};
use dormouse_localstack::emulators::{EmbeddedDynamo, sdk_config};

const TABLE: &str = "runs";

type Item = HashMap<String, AttributeValue>;

fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn n(number: u64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

fn key(sk: &str) -> Item {
    HashMap::from([("PK".to_owned(), s("RUN#1")), ("SK".to_owned(), s(sk))])
}

fn item(sk: &str, version: u64) -> Item {
    let mut item = key(sk);
    item.insert("version".to_owned(), n(version));
    item
}

fn element(name: &str, kind: KeyType) -> KeySchemaElement {
    KeySchemaElement::builder().attribute_name(name).key_type(kind).build().unwrap()
}

async fn create_table(client: &Client) {
    let attribute =
        |name, kind| AttributeDefinition::builder().attribute_name(name).attribute_type(kind).build().unwrap();
    let due = GlobalSecondaryIndex::builder()
        .index_name("due")
        .key_schema(element("due_shard", KeyType::Hash))
        .key_schema(element("due_at", KeyType::Range))
        .projection(Projection::builder().projection_type(ProjectionType::All).build())
        .build()
        .unwrap();
    client
        .create_table()
        .table_name(TABLE)
        .key_schema(element("PK", KeyType::Hash))
        .key_schema(element("SK", KeyType::Range))
        .attribute_definitions(attribute("PK", ScalarAttributeType::S))
        .attribute_definitions(attribute("SK", ScalarAttributeType::S))
        .attribute_definitions(attribute("due_shard", ScalarAttributeType::S))
        .attribute_definitions(attribute("due_at", ScalarAttributeType::N))
        .global_secondary_indexes(due)
        .billing_mode(BillingMode::PayPerRequest)
        .send()
        .await
        .unwrap();
}

async fn table() -> Client {
    let client = EmbeddedDynamo::memory().unwrap().client();
    create_table(&client).await;
    client
}

async fn put(client: &Client, item: Item) {
    client.put_item().table_name(TABLE).set_item(Some(item)).send().await.unwrap();
}

async fn get(client: &Client, sk: &str) -> Option<Item> {
    let call = client.get_item().table_name(TABLE).set_key(Some(key(sk))).consistent_read(true);
    call.send().await.unwrap().item
}

#[tokio::test]
async fn a_lost_index_comes_back_with_the_item_that_won() {
    let client = table().await;
    put(&client, item("J#0", 7)).await;
    let lost = client
        .put_item()
        .table_name(TABLE)
        .set_item(Some(item("J#0", 8)))
        .condition_expression("attribute_not_exists(PK)")
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .send()
        .await
        .unwrap_err()
        .into_service_error();
    assert_eq!(lost.code(), Some("ConditionalCheckFailedException"));
    assert_eq!(lost.message(), Some("The conditional request failed"));
    let aws_sdk_dynamodb::operation::put_item::PutItemError::ConditionalCheckFailedException(lost) = lost else {
        panic!("{lost:?}")
    };
    assert_eq!(lost.item, Some(item("J#0", 7)));
    assert_eq!(get(&client, "J#0").await, Some(item("J#0", 7)));
}

#[tokio::test]
async fn without_all_old_a_failed_condition_carries_no_item() {
    let client = table().await;
    put(&client, item("RUN", 1)).await;
    let lost = client
        .delete_item()
        .table_name(TABLE)
        .set_key(Some(key("RUN")))
        .condition_expression("version = :seen")
        .expression_attribute_values(":seen", n(2))
        .send()
        .await
        .unwrap_err()
        .into_service_error();
    let aws_sdk_dynamodb::operation::delete_item::DeleteItemError::ConditionalCheckFailedException(lost) = lost else {
        panic!("{lost:?}")
    };
    assert_eq!(lost.item, None);
}

fn put_if_absent(item: Item) -> TransactWriteItem {
    let put = Put::builder()
        .table_name(TABLE)
        .set_item(Some(item))
        .condition_expression("attribute_not_exists(PK)")
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    TransactWriteItem::builder().put(put.build().unwrap()).build()
}

fn update_if_version(sk: &str, seen: u64) -> TransactWriteItem {
    let update = Update::builder()
        .table_name(TABLE)
        .set_key(Some(key(sk)))
        .update_expression("SET version = version + :one")
        .condition_expression("version = :seen")
        .expression_attribute_values(":one", n(1))
        .expression_attribute_values(":seen", n(seen))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    TransactWriteItem::builder().update(update.build().unwrap()).build()
}

#[tokio::test]
async fn a_cancelled_transaction_says_which_action_lost_and_to_what() {
    let client = table().await;
    put(&client, item("RUN", 3)).await;
    let actions = vec![put_if_absent(item("J#1", 1)), update_if_version("RUN", 2)];
    let call = client.transact_write_items().set_transact_items(Some(actions));
    let cancelled = call.send().await.unwrap_err().into_service_error();
    assert_eq!(cancelled.code(), Some("TransactionCanceledException"));
    let aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError::TransactionCanceledException(
        cancelled,
    ) = cancelled
    else {
        panic!("{cancelled:?}")
    };
    assert_eq!(
        cancelled.message(),
        Some(
            "Transaction cancelled, please refer cancellation reasons for specific reasons \
             [None, ConditionalCheckFailed]"
        )
    );
    let reasons = cancelled.cancellation_reasons();
    assert_eq!(reasons.len(), 2);
    assert_eq!((reasons[0].code(), reasons[0].item()), (Some("None"), None));
    assert_eq!(reasons[1].code(), Some("ConditionalCheckFailed"));
    assert_eq!(reasons[1].message(), Some("The conditional request failed"));
    assert_eq!(reasons[1].item(), Some(&item("RUN", 3)));
    assert_eq!(get(&client, "J#1").await, None, "nothing of it was written");
}

#[tokio::test]
async fn a_transaction_is_written_once_per_token() {
    let client = table().await;
    put(&client, item("RUN", 1)).await;
    let send = async |actions| {
        let call = client.transact_write_items().client_request_token("token-1");
        call.set_transact_items(Some(actions)).send().await
    };
    let check = ConditionCheck::builder()
        .table_name(TABLE)
        .set_key(Some(key("J#0")))
        .condition_expression("attribute_not_exists(PK)");
    let check = TransactWriteItem::builder().condition_check(check.build().unwrap()).build();
    let delete = Delete::builder().table_name(TABLE).set_key(Some(key("Q#1"))).build().unwrap();
    let delete = TransactWriteItem::builder().delete(delete).build();
    let actions = vec![update_if_version("RUN", 1), check, delete];
    send(actions.clone()).await.unwrap();
    send(actions).await.unwrap();
    assert_eq!(get(&client, "RUN").await, Some(item("RUN", 2)));
    let other = send(vec![update_if_version("RUN", 2)]).await.unwrap_err().into_service_error();
    assert!(other.is_idempotent_parameter_mismatch_exception(), "{other:?}");
}

#[tokio::test]
async fn reads_updates_and_batches() {
    let client = table().await;
    let puts = (0..3)
        .map(|n| PutRequest::builder().set_item(Some(item(&format!("J#{n}"), n))).build().unwrap())
        .map(|put| WriteRequest::builder().put_request(put).build())
        .collect();
    client.batch_write_item().request_items(TABLE, puts).send().await.unwrap();

    let wanted = KeysAndAttributes::builder().keys(key("J#2")).keys(key("J#9")).consistent_read(true);
    let read = client.batch_get_item().request_items(TABLE, wanted.build().unwrap());
    assert_eq!(read.send().await.unwrap().responses.unwrap()[TABLE], [item("J#2", 2)]);

    let get = Get::builder().table_name(TABLE).set_key(Some(key("J#1"))).build().unwrap();
    let read = client.transact_get_items().transact_items(TransactGetItem::builder().get(get).build());
    assert_eq!(read.send().await.unwrap().responses()[0].item(), Some(&item("J#1", 1)));

    let updated = client
        .update_item()
        .table_name(TABLE)
        .set_key(Some(key("J#0")))
        .update_expression("SET due_shard = :shard, due_at = :at")
        .expression_attribute_values(":shard", s("DUE#0"))
        .expression_attribute_values(":at", n(1000))
        .return_values(ReturnValue::AllNew);
    let updated = updated.send().await.unwrap().attributes.unwrap();
    assert_eq!(updated["due_at"], n(1000));

    let first = client
        .query()
        .table_name(TABLE)
        .key_condition_expression("PK = :run AND begins_with(SK, :journal)")
        .expression_attribute_values(":run", s("RUN#1"))
        .expression_attribute_values(":journal", s("J#"))
        .limit(2);
    let page = first.clone().send().await.unwrap();
    assert_eq!((page.count, page.last_evaluated_key.is_some()), (2, true));
    let rest = first.set_exclusive_start_key(page.last_evaluated_key).send().await.unwrap();
    assert_eq!(rest.items(), [item("J#2", 2)]);

    let due = client
        .query()
        .table_name(TABLE)
        .index_name("due")
        .key_condition_expression("due_shard = :shard AND due_at <= :now")
        .expression_attribute_values(":shard", s("DUE#0"))
        .expression_attribute_values(":now", n(2000));
    assert_eq!(due.send().await.unwrap().items(), [updated], "the index is sparse");
    assert_eq!(client.scan().table_name(TABLE).send().await.unwrap().count, 3);
}

#[tokio::test]
async fn the_table_is_described_and_takes_a_time_to_live() {
    let client = table().await;
    let described = client.describe_table().table_name(TABLE).send().await.unwrap().table.unwrap();
    assert_eq!(described.table_status.unwrap().as_str(), "ACTIVE");
    assert_eq!(described.global_secondary_indexes.unwrap().len(), 1);
    let ttl = TimeToLiveSpecification::builder().attribute_name("ttl").enabled(true);
    let call = client.update_time_to_live().table_name(TABLE);
    call.time_to_live_specification(ttl.build().unwrap()).send().await.unwrap();
    let missing = client.describe_table().table_name("none").send().await.unwrap_err();
    assert!(missing.into_service_error().is_resource_not_found_exception());
}

#[tokio::test]
async fn refusals_are_dynamodbs() {
    let client = table().await;
    let put = async |value| {
        let call = client.put_item().table_name(TABLE).set_item(Some(key("J#0"))).item("value", value);
        call.send().await.unwrap_err().into_service_error()
    };
    for value in [
        AttributeValue::N("many".to_owned()),
        AttributeValue::N("1".repeat(50)),
        AttributeValue::Ss(vec![]),
        s(&"x".repeat(400 * 1024)),
    ] {
        let refused = put(value).await;
        assert_eq!(refused.code(), Some("ValidationException"), "{refused:?}");
        assert!(!refused.message().unwrap().contains("VALIDATION"), "{refused:?}");
    }
}

#[tokio::test]
async fn an_operation_the_emulator_lacks_is_refused_by_name() {
    let refused = table().await.describe_limits().send().await.unwrap_err();
    assert_eq!(refused.code(), Some("UnsupportedOperation"));
    assert!(refused.message().unwrap().contains("DescribeLimits"), "{refused:?}");
}

/// The database works on threads that a paused clock knows nothing of: it must wait for them, or
/// each call would run into its timeout at once.
#[tokio::test(start_paused = true)]
async fn a_paused_clock_waits_for_the_database() {
    let emulator = EmbeddedDynamo::memory().unwrap();
    let timeouts = TimeoutConfig::builder().operation_timeout(Duration::from_secs(1)).build();
    let config = sdk_config(emulator.http_client()).into_builder().timeout_config(timeouts);
    let client = Client::new(&config.build());
    create_table(&client).await;
    let started = tokio::time::Instant::now();
    for version in 0..100 {
        put(&client, item("RUN", version)).await;
    }
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
}

/// 16 tasks, one index: what the whole design rests on.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_many_wins_an_index() {
    let client = Arc::new(table().await);
    for round in 0..20 {
        let racers = (0..16).map(|racer| {
            let client = Arc::clone(&client);
            tokio::spawn(async move {
                let call = client.put_item().table_name(TABLE);
                let call = call.set_item(Some(item(&format!("J#{round}"), racer)));
                call.condition_expression("attribute_not_exists(PK)").send().await.is_ok()
            })
        });
        let mut winners = 0;
        for racer in racers.collect::<Vec<_>>() {
            winners += usize::from(racer.await.unwrap());
        }
        assert_eq!(winners, 1, "round {round}");
    }
}

#[tokio::test]
async fn a_file_is_there_again_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dormouse.db");
    let before = EmbeddedDynamo::open(&path).unwrap();
    create_table(&before.client()).await;
    put(&before.client(), item("RUN", 1)).await;
    drop(before);
    let after = EmbeddedDynamo::open(&path).unwrap();
    assert_eq!(get(&after.client(), "RUN").await, Some(item("RUN", 1)));
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dormouse.db");
    std::fs::write(&path, "no database, but long enough to have a header ".repeat(10)).unwrap();
    assert!(EmbeddedDynamo::open(&path).is_err());
    assert!(EmbeddedDynamo::open(&folder.path().join("no/such/folder.db")).is_err());
}
