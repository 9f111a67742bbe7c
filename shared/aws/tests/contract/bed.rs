//! A table of its own for each test, in memory, with a clock that stands still.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_sdk_dynamodb::{Client, types::AttributeValue};
use dormouse_aws::{DynamoStore, schema};
use dormouse_domain::{Millis, RunId};
use dormouse_engine::ports::Clock;

use crate::wire::Wire;

pub(crate) const TABLE: &str = "dormouse";

/// When all tests begin.
pub(crate) const NOW: Millis = Millis(1_800_000_000_000);

#[derive(Debug)]
pub(crate) struct StoppedClock(AtomicU64);

impl StoppedClock {
    pub(crate) fn at(now: Millis) -> Self {
        Self(AtomicU64::new(now.0))
    }

    pub(crate) fn set(&self, now: Millis) {
        self.0.store(now.0, Ordering::SeqCst);
    }
}

impl Clock for StoppedClock {
    fn now(&self) -> Millis {
        Millis(self.0.load(Ordering::SeqCst))
    }
}

pub(crate) struct Bed {
    /// The store, behind [`Wire`].
    pub(crate) store: Arc<DynamoStore>,
    /// The network between it and the table.
    pub(crate) wire: Wire,
    /// Its time.
    pub(crate) clock: Arc<StoppedClock>,
    /// The table itself.
    pub(crate) table: Client,
    /// How to reach it, for further stores.
    pub(crate) config: SdkConfig,
}

pub(crate) fn config_for(endpoint: &str, wire: &Wire) -> SdkConfig {
    let credentials = Credentials::new("test", "test", None, None, "test");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("eu-central-1"))
        .endpoint_url(endpoint)
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(wire.http_client())
        .build()
}

impl Bed {
    pub(crate) async fn new() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let database = dynoxide::Database::memory().unwrap();
        tokio::spawn(dynoxide::server::serve_with_shutdown(listener, database, std::future::pending()));

        let table = Client::new(&config_for(&endpoint, &Wire::default()));
        schema::create_table(&table, TABLE).await.unwrap();
        let wire = Wire::default();
        let config = config_for(&endpoint, &wire);
        let clock = Arc::new(StoppedClock::at(NOW));
        let store = Arc::new(DynamoStore::connect(&config, TABLE, Arc::clone(&clock) as Arc<dyn Clock>));
        Self { store, wire, clock, table, config }
    }

    /// Another process's store on the same table.
    pub(crate) fn another_store(&self) -> DynamoStore {
        DynamoStore::connect(&self.config, TABLE, Arc::clone(&self.clock) as Arc<dyn Clock>)
    }

    /// Sort keys of all items of the run's partition.
    pub(crate) async fn sort_keys(&self, run: &RunId) -> Vec<String> {
        let query = self.table.query().table_name(TABLE).key_condition_expression("PK = :pk").consistent_read(true);
        let query = query.expression_attribute_values(":pk", AttributeValue::S(format!("RUN#{run}")));
        let items = query.send().await.unwrap().items.unwrap_or_default();
        items.iter().map(|item| item["SK"].as_s().unwrap().clone()).collect()
    }

    /// How many items the table has.
    pub(crate) async fn count(&self) -> i32 {
        self.table.scan().table_name(TABLE).send().await.unwrap().count
    }

    /// Sets one attribute of an item behind the store's back.
    pub(crate) async fn tamper(&self, run: &RunId, sk: &str, name: &str, value: AttributeValue) {
        let call = self.table.update_item().table_name(TABLE).key("PK", AttributeValue::S(format!("RUN#{run}")));
        let call = call.key("SK", AttributeValue::S(sk.to_owned())).update_expression("SET #name = :value");
        let call = call.expression_attribute_names("#name", name).expression_attribute_values(":value", value);
        call.send().await.unwrap();
    }

    /// Takes an item out behind the store's back, and returns it.
    pub(crate) async fn remove(&self, run: &RunId, sk: &str) -> std::collections::HashMap<String, AttributeValue> {
        let call = self.table.delete_item().table_name(TABLE).key("PK", AttributeValue::S(format!("RUN#{run}")));
        let call = call.key("SK", AttributeValue::S(sk.to_owned()));
        let call = call.return_values(aws_sdk_dynamodb::types::ReturnValue::AllOld);
        call.send().await.unwrap().attributes.expect("an item to remove")
    }
}
