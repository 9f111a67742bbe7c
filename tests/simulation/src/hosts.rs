//! The machines: each has the production engine over the production adapters, and a clock of its own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use aws_config::{BehaviorVersion, Region, SdkConfig, retry::RetryConfig};
use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_sdk_dynamodb::config::retry::RetryPartition;
use aws_smithy_async::time::TimeSource;
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use dormouse_aws::{DynamoStore, READ_ATTEMPTS, SqsQueue, timeouts};
use dormouse_domain::token::KeyRing;
use dormouse_engine::{Engine, Ports, Settings, ports::Ids};

use crate::{
    actor::Actor,
    agents::SimAgents,
    ledger::Ledger,
    models::SimModels,
    queue::WakeQueue,
    sim::Sim,
    table::{TABLE, Table},
    time::SkewedClock,
    tools::SimTools,
    wire::Wire,
};

const QUEUE_URL: &str = "http://sqs.invalid/000000000000/wakes";

/// The clients that all hosts of a simulation share: as on AWS, what is behind them is the same.
pub(crate) struct Clients {
    pub(crate) dynamo: aws_sdk_dynamodb::Client,
    sqs: aws_sdk_sqs::Client,
}

#[derive(Debug)]
struct Fixed;

/// Signatures need a time, and nobody checks them.
impl TimeSource for Fixed {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
}

fn sdk_config(http: SharedHttpClient) -> SdkConfig {
    let credentials = Credentials::new("simulated", "simulated", None, None, "simulated");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .endpoint_url("http://simulated.invalid")
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .time_source(Fixed)
        .http_client(http)
        .build()
}

impl Clients {
    /// Clients of the adapter's own timeouts and retries. Only the budget of retries is of this
    /// simulation: the SDK's is one for the process, and would carry from seed to seed.
    pub(crate) fn connect(sim: &Arc<Sim>, table: Arc<Table>, queue: Arc<WakeQueue>) -> Self {
        let partition = || RetryPartition::custom("simulation").build();
        let retries = || RetryConfig::standard().with_max_attempts(READ_ATTEMPTS);
        let dynamo = sdk_config(Wire::http_client(Arc::clone(sim), table));
        let dynamo = aws_sdk_dynamodb::config::Builder::from(&dynamo)
            .timeout_config(timeouts())
            .retry_config(retries())
            .retry_partition(partition());
        let sqs = sdk_config(Wire::http_client(Arc::clone(sim), queue));
        let sqs = aws_sdk_sqs::config::Builder::from(&sqs)
            .timeout_config(timeouts())
            .retry_config(retries())
            .retry_partition(partition());
        Self {
            dynamo: aws_sdk_dynamodb::Client::from_conf(dynamo.build()),
            sqs: aws_sdk_sqs::Client::from_conf(sqs.build()),
        }
    }
}

struct SimIds(Arc<Sim>);

impl Ids for SimIds {
    fn fresh(&self) -> u128 {
        // As version 7 UUIDs, so that names sort by time.
        (u128::from(self.0.time.now().0) << 80) | (self.0.dice.bits() >> 48)
    }
}

/// A machine.
pub(crate) struct Host {
    /// Its name.
    pub(crate) name: String,
    /// Its clock.
    pub(crate) clock: SkewedClock,
    /// Its engine.
    pub(crate) engine: Engine,
    /// Its tools.
    pub(crate) tools: Arc<SimTools>,
    invocations: AtomicU64,
}

impl Host {
    /// A machine of this name, whose clock is `ahead_ms` ahead.
    pub(crate) fn new(
        name: &str,
        ahead_ms: u64,
        step_ms: u64,
        ledger: &Arc<Ledger>,
        agents: &Arc<SimAgents>,
        clients: &Clients,
        keys: &Arc<KeyRing>,
    ) -> Arc<Self> {
        let sim = &ledger.sim;
        let clock = SkewedClock { time: sim.time, ahead_ms };
        let (name, invocation) = (name.to_owned(), std::sync::Mutex::default());
        let tools = SimTools { sim: Arc::clone(sim), ledger: Arc::clone(ledger), host: name.clone(), invocation };
        let tools = Arc::new(tools);
        let ports = Ports {
            store: Arc::new(DynamoStore::new(clients.dynamo.clone(), TABLE, Arc::new(clock))),
            queue: Arc::new(SqsQueue::new(clients.sqs.clone(), QUEUE_URL)),
            models: Arc::new(SimModels { sim: Arc::clone(sim), ledger: Arc::clone(ledger) }),
            tools: Arc::clone(&tools) as _,
            agents: Arc::clone(agents) as _,
            clock: Arc::new(clock),
            ids: Arc::new(SimIds(Arc::clone(sim))),
            keys: Arc::clone(keys) as _,
        };
        let engine = Engine::new(ports, Settings::new(name.clone(), step_ms));
        Arc::new(Self { name, clock, engine, tools, invocations: AtomicU64::new(0) })
    }

    /// A new invocation on this machine.
    pub(crate) fn invocation(&self, instant: bool) -> Arc<Actor> {
        let number = self.invocations.fetch_add(1, Ordering::Relaxed);
        Actor::new(format!("{}.{number}", self.name), instant)
    }
}
