//! The table and its indexes (DESIGN section 3), for the embedded stack and for tests; a deployed
//! stack's template says the same.
//!
//! Both indexes are sparse. `listing` holds keys only: its pages are read from the table before they
//! are shown. `due` holds what a sweep needs to know besides.

use std::time::Duration;

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::{
    Client,
    error::ProvideErrorMetadata as _,
    operation::create_table::builders::CreateTableFluentBuilder,
    types::{
        AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection, ProjectionType,
        ScalarAttributeType, TableStatus, TimeToLiveSpecification,
    },
};
use dormouse_engine::ports::StoreError;
use tokio::time::sleep;

use crate::{
    failure::{unavailable, unread},
    keys::{DA, DP, LP, LS, PK, SK},
    receipt::EXPIRES_AT,
    run_row::{STATUS, WAKES},
};

/// The index of runs by owner and requests by inbox.
pub const LISTING_INDEX: &str = "listing";

/// The index of runs that somebody must look at.
pub const DUE_INDEX: &str = "due";

/// How often, and how far apart, a new table is looked at until it can be used.
const LOOKS: u32 = 120;
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

fn keys(hash: &str, range: &str) -> Result<Vec<KeySchemaElement>, BuildError> {
    let key = |name, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build();
    Ok(vec![key(hash, KeyType::Hash)?, key(range, KeyType::Range)?])
}

fn described(client: &Client, name: &str) -> Result<CreateTableFluentBuilder, BuildError> {
    let attribute = |name, kind| AttributeDefinition::builder().attribute_name(name).attribute_type(kind).build();
    let index = |name, keys, projection| {
        GlobalSecondaryIndex::builder().index_name(name).set_key_schema(Some(keys)).projection(projection).build()
    };
    let keys_only = Projection::builder().projection_type(ProjectionType::KeysOnly).build();
    let with_standing = Projection::builder()
        .projection_type(ProjectionType::Include)
        .non_key_attributes(STATUS)
        .non_key_attributes(WAKES)
        .build();
    Ok(client
        .create_table()
        .table_name(name)
        .billing_mode(BillingMode::PayPerRequest)
        .set_key_schema(Some(keys(PK, SK)?))
        .attribute_definitions(attribute(PK, ScalarAttributeType::S)?)
        .attribute_definitions(attribute(SK, ScalarAttributeType::S)?)
        .attribute_definitions(attribute(LP, ScalarAttributeType::S)?)
        .attribute_definitions(attribute(LS, ScalarAttributeType::S)?)
        .attribute_definitions(attribute(DP, ScalarAttributeType::S)?)
        .attribute_definitions(attribute(DA, ScalarAttributeType::N)?)
        .global_secondary_indexes(index(LISTING_INDEX, keys(LP, LS)?, keys_only)?)
        .global_secondary_indexes(index(DUE_INDEX, keys(DP, DA)?, with_standing)?))
}

/// Creates the table `name`, unless it is there, and waits until it can be used.
///
/// # Errors
/// [`StoreError::Unavailable`] if DynamoDB refuses or takes longer than a minute.
pub async fn create_table(client: &Client, name: &str) -> Result<(), StoreError> {
    let call = described(client, name).map_err(unavailable)?;
    if let Err(error) = call.send().await
        && !error.as_service_error().is_some_and(|error| error.is_resource_in_use_exception())
    {
        return Err(unread(error));
    }
    active(client, name).await?;
    expire_receipts(client, name).await
}

async fn active(client: &Client, name: &str) -> Result<(), StoreError> {
    for _ in 0..LOOKS {
        let seen = client.describe_table().table_name(name).send().await.map_err(unread)?;
        if seen.table.and_then(|table| table.table_status) == Some(TableStatus::Active) {
            return Ok(());
        }
        sleep(BETWEEN_LOOKS).await;
    }
    Err(unavailable(format_args!("table {name} does not become active")))
}

async fn expire_receipts(client: &Client, name: &str) -> Result<(), StoreError> {
    let spec = TimeToLiveSpecification::builder().enabled(true).attribute_name(EXPIRES_AT).build();
    let spec = spec.map_err(unavailable)?;
    match client.update_time_to_live().table_name(name).time_to_live_specification(spec).send().await {
        // DynamoDB has no error of its own for a TTL that is on already.
        Err(error) if error.code() != Some("ValidationException") => Err(unread(error)),
        Ok(_) | Err(_) => Ok(()),
    }
}
