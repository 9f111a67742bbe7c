//! What the Lambda functions share: an engine on AWS, put together from the environment.
//!
//! A function has only the ports that its role allows. [`Host`] holds what all of them have, store
//! and queue; models, tools and agents are [`Parts`] that a `main` adds where it needs them, and
//! what is not added refuses. So the respond function cannot start a model: it has none, and does
//! not even link one.

mod absent;
mod environment;
mod world;

use std::{fmt, sync::Arc};

use aws_config::{BehaviorVersion, SdkConfig};
use dormouse_aws::{DynamoStore, SecretKeys, SqsQueue};
use dormouse_engine::{
    Engine, Ports, Settings,
    ports::{Agents, Files, Ids, Keys, Models, NoKeys, Queue, Tools},
};
use tracing_subscriber::EnvFilter;

pub use absent::{NoAgents, NoModels, NoQueue, NoTools};
pub use environment::{BadEnvironment, Environment, Variable};
pub use world::{SystemClock, UuidIds};

/// The DynamoDB table. Every function needs it.
pub const TABLE: Variable = Variable { name: "DORMOUSE_TABLE", holds: "the name of the DynamoDB table" };
/// The queue of wakes. Every function that writes needs it.
pub const QUEUE_URL: Variable = Variable { name: "DORMOUSE_QUEUE_URL", holds: "the URL of the SQS queue" };

/// The secret in Secrets Manager with the keys of approval links. Only what decides needs it, and may read it.
pub const LINK_SECRET: &str = "DORMOUSE_LINK_SECRET";

/// The store and the queue that the environment names.
pub struct Host {
    config: SdkConfig,
    store: Arc<DynamoStore>,
    queue: Arc<dyn Queue>,
    settings: Settings,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("store", &self.store).finish_non_exhaustive()
    }
}

/// The ports that not every function has.
pub struct Parts {
    /// Models.
    pub models: Arc<dyn Models>,
    /// Tools.
    pub tools: Arc<dyn Tools>,
    /// The agents that can be started.
    pub agents: Arc<dyn Agents>,
    /// The keys of tokens.
    pub keys: Arc<dyn Keys>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

impl Parts {
    /// None of them.
    #[must_use]
    pub fn none() -> Self {
        Self {
            models: Arc::new(NoModels),
            tools: Arc::new(NoTools),
            agents: Arc::new(NoAgents),
            keys: Arc::new(NoKeys),
        }
    }
}

impl Host {
    /// The host of a function that writes: needs [`TABLE`] and [`QUEUE_URL`]. The AWS SDK reads its
    /// own variables, `AWS_ENDPOINT_URL` among them.
    ///
    /// # Errors
    /// [`BadEnvironment`], which names every variable that is missing.
    pub async fn from_env() -> Result<Self, BadEnvironment> {
        let environment = Environment::of_process();
        let [table, url] = environment.require([TABLE, QUEUE_URL])?;
        let config = sdk_config().await;
        let queue = Arc::new(SqsQueue::connect(&config, url));
        Ok(Self { store: store(&config, table), config, queue, settings: settings(&environment)? })
    }

    /// The host of a function that only reads: needs [`TABLE`], and can wake nobody.
    ///
    /// # Errors
    /// [`BadEnvironment`], which names every variable that is missing.
    pub async fn reading_from_env() -> Result<Self, BadEnvironment> {
        let environment = Environment::of_process();
        let [table] = environment.require([TABLE])?;
        let config = sdk_config().await;
        let store = store(&config, table);
        Ok(Self { config, store, queue: Arc::new(NoQueue), settings: settings(&environment)? })
    }

    /// The engine's settings: `DORMOUSE_STEP_TIMEOUT_S` is the step function's timeout in seconds, 180
    /// if unset.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The keys in the secret that [`LINK_SECRET`] names. If it names none, there are no links, and the log says so.
    #[must_use]
    pub fn keys(&self) -> Arc<dyn Keys> {
        match Environment::of_process().get(LINK_SECRET) {
            Some(secret) => Arc::new(SecretKeys::connect(&self.config, secret.to_owned())),
            None => {
                tracing::warn!("{LINK_SECRET} is not set: approval links are refused");
                Arc::new(NoKeys)
            }
        }
    }

    /// The workspace files, for tools.
    #[must_use]
    pub fn files(&self) -> Arc<dyn Files> {
        Arc::clone(&self.store) as Arc<dyn Files>
    }

    /// The engine over this store and queue and these parts.
    #[must_use]
    pub fn engine(self, parts: Parts) -> Engine {
        let Parts { models, tools, agents, keys } = parts;
        let ports = Ports {
            store: self.store,
            queue: self.queue,
            models,
            tools,
            agents,
            clock: Arc::new(SystemClock),
            ids: Arc::new(UuidIds),
            keys,
        };
        Engine::new(ports, self.settings)
    }
}

fn settings(environment: &Environment) -> Result<Settings, BadEnvironment> {
    let step_s = environment.number("DORMOUSE_STEP_TIMEOUT_S", 180)?;
    // A name of its own for each process: the logs of two drivers are never mistaken for one.
    let host = format!("lambda-{:032x}", UuidIds.fresh());
    Ok(Settings::new(host, step_s.saturating_mul(1000)))
}

async fn sdk_config() -> SdkConfig {
    aws_config::load_defaults(BehaviorVersion::latest()).await
}

fn store(config: &SdkConfig, table: String) -> Arc<DynamoStore> {
    Arc::new(DynamoStore::connect(config, table, Arc::new(SystemClock)))
}

/// Writes the log to standard output, a JSON object a line, as `CloudWatch` takes it apart. What is
/// logged is set by `RUST_LOG`, else `info`. Does nothing if a log is set up already.
pub fn init_tracing() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let set = tracing_subscriber::fmt().json().flatten_event(true).with_env_filter(filter).try_init();
    // Set up already: whoever did that wants it so.
    drop(set);
}
