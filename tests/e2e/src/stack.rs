//! A stack in this process. Its models are scripted: others are configured by the environment,
//! which a test cannot change safely; see [`Process`](crate::Process) for those.

use dormouse_domain::token::KeyRing;
use dormouse_localstack::{
    Backend, Config, Stack,
    emulators::{EmbeddedDynamo, EmbeddedSqs, sdk_config},
};

use crate::{agents::Agents, api::Api, wire::Wire};

/// A running stack and a client of it. Dropping it is a crash.
pub struct TestStack {
    /// Somebody who talks to it.
    pub api: Api,
    stack: Stack,
}

impl TestStack {
    /// A stack in memory with these agents.
    pub async fn in_memory(agents: &Agents) -> Self {
        Self::start(Self::config(Backend::Memory, agents)).await
    }

    /// The default configuration, to be changed before [`start`](Self::start).
    pub fn config(backend: Backend, agents: &Agents) -> Config {
        Config::new(backend, agents.path().to_owned())
    }

    /// A stack as configured, on a free port.
    pub async fn start(config: Config) -> Self {
        let mut stack = Stack::start(config).await.expect("a stack that starts");
        let address = stack.serve(0).await.expect("a free port");
        Self { api: Api::new(address), stack }
    }

    /// Lets the steps that run come to their end.
    pub async fn stop(self) {
        self.stack.stop().await;
    }
}

/// DynamoDB and SQS in memory, behind networks that record and can fail.
#[derive(Debug)]
pub struct Network {
    /// The network to DynamoDB.
    pub dynamo: Wire,
    /// The network to SQS.
    pub sqs: Wire,
    keys: KeyRing,
}

impl Network {
    /// An empty table and no queues.
    pub fn new() -> Self {
        let dynamo = EmbeddedDynamo::memory().expect("a database in memory");
        let keys = KeyRing::parse(&KeyRing::text_of_one("e2e", &[7; 32])).expect("legal keys");
        Self { dynamo: Wire::to(dynamo.http_client()), sqs: Wire::to(EmbeddedSqs::new().http_client()), keys }
    }

    /// The same table with another SQS, which knows nothing of the messages of this one.
    #[must_use]
    pub fn with_new_sqs(self) -> Self {
        Self { sqs: Wire::to(EmbeddedSqs::new().http_client()), ..self }
    }

    /// The backend of a stack on these.
    pub fn backend(&self) -> Backend {
        Backend::Clients {
            dynamo: Box::new(sdk_config(self.dynamo.http_client())),
            sqs: Box::new(sdk_config(self.sqs.http_client())),
            keys: self.keys.clone(),
        }
    }
}

impl Default for Network {
    fn default() -> Self {
        Self::new()
    }
}
