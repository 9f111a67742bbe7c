//! All of Dormouse in one process.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use aws_config::SdkConfig;
use dormouse_aws::{DynamoStore, SecretKeys, SqsQueue, schema::create_table};
use dormouse_engine::{
    Engine, Ports, Settings,
    ports::{Agents as _, Keys, NoKeys, StoreError},
};
use dormouse_host::{LINK_SECRET, SystemClock, UuidIds};
use dormouse_models::{Providers, scripted::Scripted};
use dormouse_tools::{AgentSet, Registry, load_dir};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use crate::{
    config::{Backend, Config},
    database,
    emulators::{EmbeddedDynamo, EmbeddedSqs, EmulatorError, sdk_config},
    link_keys::{self, LinkKeysError},
    lock::{DataLock, LockError},
    pump::{self, Pump},
    server,
};

/// A stack that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// The data folder can't be had.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The database can't be opened.
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
    /// The database file can't be made.
    #[error("no database can be made in {folder}")]
    Database {
        /// The data folder.
        folder: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The keys of tokens can't be had.
    #[error(transparent)]
    Keys(#[from] LinkKeysError),
    /// The table can't be made or read.
    #[error("the table cannot be used")]
    Store(#[from] StoreError),
    /// The queue can't be made.
    #[error("the queue cannot be used: {0}")]
    Queue(String),
    /// Agent files have faults: one line each.
    #[error("the agent files have faults:\n{0}")]
    Agents(String),
    /// The port can't be had.
    #[error("127.0.0.1:{port} cannot be used; choose another port with --port")]
    Port {
        /// The port.
        port: u16,
        /// Why.
        source: std::io::Error,
    },
}

/// A running stack. Dropping it ends everything at once, as a crash does; [`Stack::stop`] lets the
/// steps that run come to their end.
pub struct Stack {
    engine: Engine,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    _lock: Option<DataLock>,
}

impl Stack {
    /// Opens the table and the queue, takes over what earlier processes left, and starts to drive.
    ///
    /// # Errors
    /// [`StackError`], each with what to do about it.
    pub async fn start(config: Config) -> Result<Self, StackError> {
        let host = uuid::Uuid::now_v7().simple().to_string();
        let step_ms = u64::try_from(config.step_timeout.as_millis()).unwrap_or(u64::MAX);
        let sole_host = !matches!(config.backend, Backend::Aws(_));
        let settings = Settings { sole_host, ..Settings::new(host, step_ms) };
        let models = Providers::from_env(Scripted::in_folder(&config.agents));
        let agents = load_agents(&config, settings.max_tool_timeout_ms, &models)?;
        let (lock, dynamo, sqs) = backend(&config.backend, &config.table).await?;
        let keys = keys(&config)?;

        let clock = Arc::new(SystemClock);
        let store = Arc::new(DynamoStore::connect(&dynamo, &config.table, clock.clone()));
        create_table(store.client(), &config.table).await?;
        let url = pump::create_queue(&sqs, &config.queue, config.step_timeout).await.map_err(StackError::Queue)?;
        let queue = Arc::new(SqsQueue::connect(&sqs, url));
        let ports = Ports {
            store: store.clone(),
            queue: queue.clone(),
            models: Arc::new(models),
            tools: Arc::new(Registry::new(store)),
            agents: Arc::new(agents),
            clock,
            ids: Arc::new(UuidIds),
            keys,
        };
        let engine = Engine::new(ports, settings.clone());
        if settings.sole_host {
            let orphans = engine.wake_orphans().await?;
            if orphans.due > 0 {
                tracing::info!(runs = orphans.due, "took over runs of an earlier process");
            }
        }
        let (stop, stopped) = watch::channel(false);
        let pump = Pump::new(engine.clone(), queue, config.step_timeout, config.concurrency);
        let tasks = vec![
            tokio::spawn(pump.run(stopped.clone())),
            tokio::spawn(sweep(engine.clone(), config.sweep_every, stopped)),
        ];
        Ok(Self { engine, stop, tasks, _lock: lock })
    }

    /// The engine, for tests that look beneath the API.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Serves the API on `127.0.0.1:port`; returns the address, whose port is a free one if 0 is
    /// asked for.
    ///
    /// # Errors
    /// [`StackError::Port`].
    pub async fn serve(&mut self, port: u16) -> Result<SocketAddr, StackError> {
        let failed = |source| StackError::Port { port, source };
        let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let app = server::app(self.engine.clone());
        let mut stopped = self.stop.subscribe();
        self.tasks.push(tokio::spawn(async move {
            let until = async move {
                let _closed = stopped.wait_for(|stop| *stop).await;
            };
            if let Err(error) = axum::serve(listener, app).with_graceful_shutdown(until).await {
                tracing::error!(%error, "the API's front ended");
            }
        }));
        Ok(address)
    }

    /// Takes no more work, and waits until the steps that run have come to their end.
    pub async fn stop(mut self) {
        let _nobody_listens = self.stop.send(true);
        for task in std::mem::take(&mut self.tasks) {
            if let Err(error) = task.await {
                tracing::error!(%error, "a part of the stack ended badly");
            }
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// The agents, if no file has a fault and each model can be called.
fn load_agents(config: &Config, max_timeout_ms: u64, models: &Providers) -> Result<AgentSet, StackError> {
    let lines = |faults: Vec<String>| StackError::Agents(faults.join("\n"));
    let agents = load_dir(&config.agents, max_timeout_ms)
        .map_err(|faulty| lines(faulty.iter().map(ToString::to_string).collect()))?;
    let mut faults = Vec::new();
    for definition in agents.names().iter().filter_map(|name| agents.get(name)) {
        for model in &definition.models {
            faults.extend(models.check(model).err().map(|fault| format!("agent {}: {fault}", definition.name)));
        }
    }
    if faults.is_empty() { Ok(agents) } else { Err(lines(faults)) }
}

type Clients = (Option<DataLock>, SdkConfig, SdkConfig);

async fn backend(backend: &Backend, table: &str) -> Result<Clients, StackError> {
    Ok(match backend {
        Backend::Folder(folder) => {
            let lock = DataLock::take(folder)?;
            let dynamo = database::open(folder, table).await?;
            (Some(lock), sdk_config(dynamo.http_client()), sdk_config(EmbeddedSqs::new().http_client()))
        }
        Backend::Memory => {
            let dynamo = EmbeddedDynamo::memory()?;
            (None, sdk_config(dynamo.http_client()), sdk_config(EmbeddedSqs::new().http_client()))
        }
        Backend::Clients { dynamo, sqs, keys: _ } => (None, (**dynamo).clone(), (**sqs).clone()),
        Backend::Aws(config) => (None, (**config).clone(), (**config).clone()),
    })
}

/// The keys of tokens: in the data folder, which is locked by now; elsewhere than on this machine, in the secret that
/// is configured.
fn keys(config: &Config) -> Result<Arc<dyn Keys>, LinkKeysError> {
    Ok(match &config.backend {
        Backend::Folder(folder) => Arc::new(link_keys::in_folder(folder)?),
        Backend::Memory => Arc::new(link_keys::in_memory()?),
        Backend::Clients { keys, .. } => Arc::new(keys.clone()),
        Backend::Aws(aws) => match &config.link_secret {
            Some(secret) => Arc::new(SecretKeys::connect(aws, secret.clone())),
            None => {
                tracing::warn!("{LINK_SECRET} is not set: approval links are refused");
                Arc::new(NoKeys)
            }
        },
    })
}

/// What the schedule does on AWS, more often.
async fn sweep(engine: Engine, every: Duration, mut stopped: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => return,
            _ = ticks.tick() => {}
        }
        if let Err(error) = engine.sweep().await {
            tracing::error!(%error, "the sweep failed; the next one goes on");
        }
    }
}
