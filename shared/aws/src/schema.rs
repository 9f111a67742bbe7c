//! The table and its indexes for the embedded stack and for tests; a deployed
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

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::config::{BehaviorVersion, Region};
    use yaml_rust2::{Yaml, YamlLoader};

    use super::*;

    fn text(yaml: &Yaml, name: &str) -> String {
        yaml[name].as_str().unwrap_or_else(|| panic!("{name} is no text in {yaml:?}")).to_owned()
    }

    fn pairs(yaml: &Yaml, one: &str, other: &str) -> Vec<(String, String)> {
        yaml.as_vec().unwrap().iter().map(|item| (text(item, one), text(item, other))).collect()
    }

    fn key_pairs(keys: &[KeySchemaElement]) -> Vec<(String, String)> {
        keys.iter().map(|key| (key.attribute_name().to_owned(), key.key_type().as_str().to_owned())).collect()
    }

    /// F5: the template deploys the table that this package works on, and that tests run against.
    #[test]
    fn the_template_says_the_same() {
        let template = YamlLoader::load_from_str(include_str!("../../../infra/table.yaml")).unwrap();
        let table = &template[0]["Resources"]["Table"]["Properties"];
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .build();
        let created = described(&Client::from_conf(config), "t").unwrap();
        let created = created.as_input();

        assert_eq!(text(table, "BillingMode"), created.get_billing_mode().as_ref().unwrap().as_str());
        let keys = created.get_key_schema().as_ref().unwrap();
        assert_eq!(pairs(&table["KeySchema"], "AttributeName", "KeyType"), key_pairs(keys));
        let attributes = created.get_attribute_definitions().as_ref().unwrap().iter();
        let attributes: Vec<_> =
            attributes.map(|one| (one.attribute_name().to_owned(), one.attribute_type().as_str().to_owned())).collect();
        assert_eq!(pairs(&table["AttributeDefinitions"], "AttributeName", "AttributeType"), attributes);
        let theirs = table["GlobalSecondaryIndexes"].as_vec().unwrap();
        let ours = created.get_global_secondary_indexes().as_ref().unwrap();
        assert_eq!(theirs.len(), ours.len());
        for (theirs, ours) in theirs.iter().zip(ours) {
            assert_eq!(text(theirs, "IndexName"), ours.index_name());
            assert_eq!(pairs(&theirs["KeySchema"], "AttributeName", "KeyType"), key_pairs(ours.key_schema()));
            let (theirs, ours) = (&theirs["Projection"], ours.projection().unwrap());
            assert_eq!(text(theirs, "ProjectionType"), ours.projection_type().unwrap().as_str());
            let names = theirs["NonKeyAttributes"].as_vec().into_iter().flatten();
            let names: Vec<_> = names.filter_map(Yaml::as_str).collect();
            assert_eq!(names, ours.non_key_attributes());
        }
        assert_eq!(text(&table["TimeToLiveSpecification"], "AttributeName"), EXPIRES_AT);
    }
}
