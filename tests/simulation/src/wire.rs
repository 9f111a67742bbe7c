//! The network between the SDK and the services: the SDK's HTTP client, in simulated time, with faults.

use std::{fmt, sync::Arc};

use aws_smithy_runtime_api::client::{
    http::{
        HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
    },
    orchestrator::{HttpRequest, HttpResponse},
    result::ConnectorError,
    runtime_components::RuntimeComponents,
};
use aws_smithy_types::body::SdkBody;
use serde_json::json;

use crate::{
    actor::{self, Actor},
    sim::Sim,
    swarm::Fate,
    time::pause,
};

/// Latest that a request is carried out whose caller has given up, in milliseconds.
const LATEST_MS: u64 = 20_000;

/// Writes of one invocation in a row that others were in the way of, at most: a sweep makes a few.
const MOST_BEATEN: u32 = 20;

/// Longest that a write is being applied, in milliseconds.
const SLOWEST_MS: u64 = 500;

/// A service that answers at once, in this thread: so the order of things is that of the requests.
pub(crate) trait Service: Send + Sync + 'static {
    /// Status and body. What it writes can be seen whole only after `tear_ms`.
    fn answer(&self, operation: &str, body: &[u8], tear_ms: u64) -> (u16, Vec<u8>);
    /// The error body for one that another write is in the way of, if it has such.
    fn conflict(&self, operation: &str, body: &[u8]) -> Option<Vec<u8>>;
    /// The error code with which it says "slow down".
    fn throttled(&self) -> &'static str;
}

/// The network to one service.
pub(crate) struct Wire<S> {
    sim: Arc<Sim>,
    service: Arc<S>,
}

impl<S: Service> Wire<S> {
    /// The network to `service`, as the SDK's HTTP client.
    pub(crate) fn http_client(sim: Arc<Sim>, service: Arc<S>) -> SharedHttpClient {
        SharedHttpClient::new(Client(Arc::new(Self { sim, service })))
    }

    async fn carry(&self, operation: &str, body: &[u8], wire: &Arc<Self>) -> Result<HttpResponse, ConnectorError> {
        let actor = actor::current();
        let fate = match self.sim.has_faults() {
            true => self.sim.swarm.fate(&self.sim.dice, self.sim.time.elapsed_ms()),
            false => Fate::Answered,
        };
        if fate != Fate::Answered {
            actor.iter().for_each(|actor| actor.harm());
            self.sim.count(format!("fault {fate:?}"));
            self.sim.say(format_args!("{operation}: {fate:?}"));
        }
        if fate == Fate::DiesBefore {
            return self.die(actor.as_deref()).await;
        }
        if fate == Fate::CarriedOutLate {
            self.later(operation, body, wire);
        }
        if matches!(fate, Fate::NeverArrives | Fate::CarriedOutLate) {
            return std::future::pending().await;
        }
        self.travel(actor.as_deref()).await;
        let slowly = fate == Fate::AppliedSlowly && operation == "TransactWriteItems";
        let tear_ms = if slowly { self.sim.dice.range(1..=SLOWEST_MS) } else { 0 };
        let (status, reply) = match self.refusal(fate, operation, body) {
            Some(refusal) => refusal,
            None if fate == Fate::RequestLost => return Err(broken()),
            None => self.answer(operation, body, tear_ms),
        };
        // Who lost looks what stands there, and then tries again.
        let in_a_row = actor.as_ref().map_or(0, |actor| actor.beaten(status, &reply));
        self.sim.ensure(in_a_row <= MOST_BEATEN, || format!("I1: {in_a_row} writes in a row lost, and nobody looked"));
        if tear_ms > 0 {
            pause(tear_ms).await;
        }
        if fate == Fate::DiesAfter {
            return self.die(actor.as_deref()).await;
        }
        if fate == Fate::NoReply {
            return std::future::pending().await;
        }
        self.travel(actor.as_deref()).await;
        if fate == Fate::ReplyLost {
            return Err(broken());
        }
        if fate == Fate::FailedAfter {
            return response(500, error("InternalServerError"));
        }
        response(status, reply)
    }

    /// The answer of a service that does nothing.
    fn refusal(&self, fate: Fate, operation: &str, body: &[u8]) -> Option<(u16, Vec<u8>)> {
        let (status, body) = if fate == Fate::Throttled {
            (400, error(self.service.throttled()))
        } else if fate == Fate::Failed {
            (500, error("InternalServerError"))
        } else if fate == Fate::Conflict {
            (400, self.service.conflict(operation, body)?)
        } else {
            return None;
        };
        Some((status, body))
    }

    fn answer(&self, operation: &str, body: &[u8], tear_ms: u64) -> (u16, Vec<u8>) {
        let (status, reply) = self.service.answer(operation, body, tear_ms);
        self.sim.say(format_args!("{operation}: {status}"));
        (status, reply)
    }

    /// One way. Somebody who acts at an exact moment is next to the service.
    async fn travel(&self, actor: Option<&Actor>) {
        if actor.is_none_or(|actor| !actor.instant) {
            pause(self.sim.dice.range(1..=self.sim.swarm.latency_ms)).await;
        }
    }

    async fn die(&self, actor: Option<&Actor>) -> Result<HttpResponse, ConnectorError> {
        match actor {
            Some(actor) => {
                actor.kill();
                std::future::pending().await
            }
            None => Err(broken()),
        }
    }

    /// The request is on its way although nobody waits for it any more.
    fn later(&self, operation: &str, body: &[u8], wire: &Arc<Self>) {
        let (wire, operation, body) = (Arc::clone(wire), operation.to_owned(), body.to_vec());
        let delay_ms = self.sim.dice.range(1..=LATEST_MS);
        tokio::spawn(async move {
            pause(delay_ms).await;
            wire.answer(&operation, &body, 0);
        });
    }
}

fn error(code: &str) -> Vec<u8> {
    json!({ "__type": code }).to_string().into_bytes()
}

fn broken() -> ConnectorError {
    ConnectorError::io(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into())
}

fn response(status: u16, body: Vec<u8>) -> Result<HttpResponse, ConnectorError> {
    let status = status.try_into().map_err(|_| broken())?;
    let mut response = HttpResponse::new(status, SdkBody::from(body));
    response.headers_mut().insert("content-type", "application/x-amz-json-1.0");
    Ok(response)
}

struct Client<S>(Arc<Wire<S>>);

impl<S> fmt::Debug for Client<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the simulated network")
    }
}

impl<S: Service> HttpClient for Client<S> {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(Self(Arc::clone(&self.0)))
    }
}

impl<S: Service> HttpConnector for Client<S> {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let wire = Arc::clone(&self.0);
        HttpConnectorFuture::new(async move {
            let target = request.headers().get("x-amz-target").unwrap_or_default();
            let operation = target.split('.').next_back().unwrap_or_default();
            let body = request.body().bytes().ok_or_else(broken)?;
            wire.carry(operation, body, &wire).await
        })
    }
}
