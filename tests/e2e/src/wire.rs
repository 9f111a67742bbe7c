//! The network between the AWS SDK and an emulator: it records every request, and can lose some.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use aws_smithy_runtime_api::client::{
    http::{
        HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
    },
    orchestrator::HttpRequest,
    result::ConnectorError,
    runtime_components::RuntimeComponents,
};

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is carried out and answered.
    Answered,
    /// It is carried out; the connection breaks before the reply arrives.
    ReplyLost,
    /// The connection breaks before it arrives, which the client cannot know.
    RequestLost,
    /// Nothing comes of it, ever.
    Stuck,
}

type Judge = Box<dyn FnMut(&str) -> Fate + Send>;

struct Traffic {
    seen: Vec<String>,
    judge: Judge,
}

/// The network. Clones are the same one.
#[derive(Clone)]
pub struct Wire {
    traffic: Arc<Mutex<Traffic>>,
    emulator: SharedHttpClient,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
    }
}

impl Wire {
    /// A network that loses nothing.
    pub fn to(emulator: SharedHttpClient) -> Self {
        let traffic = Traffic { seen: Vec::new(), judge: Box::new(|_| Fate::Answered) };
        Self { traffic: Arc::new(Mutex::new(traffic)), emulator }
    }

    /// From now on, `judge` says what becomes of each request; it is told the operation's name.
    pub fn judged_by(&self, judge: impl FnMut(&str) -> Fate + Send + 'static) {
        self.traffic.lock().expect("nobody panics with it").judge = Box::new(judge);
    }

    /// The operations since the last call of [`take`](Self::take), in order. A query of an index is
    /// named with it, `Query(due)`.
    pub fn seen(&self) -> Vec<String> {
        self.traffic.lock().expect("nobody panics with it").seen.clone()
    }

    /// As [`seen`](Self::seen), and forgets them.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.traffic.lock().expect("nobody panics with it").seen)
    }

    /// The network as the SDK's HTTP client.
    pub fn http_client(&self) -> SharedHttpClient {
        SharedHttpClient::new(self.clone())
    }

    fn meet(&self, request: &HttpRequest) -> Fate {
        let target = request.headers().get("x-amz-target").and_then(|target| target.split('.').next_back());
        let operation = target.unwrap_or_default();
        let body = request.body().bytes().unwrap_or_default();
        let index = serde_json::from_slice::<serde_json::Value>(body).unwrap_or_default();
        let name = match index["IndexName"].as_str() {
            Some(index) => format!("{operation}({index})"),
            None => operation.to_owned(),
        };
        let mut traffic = self.traffic.lock().expect("nobody panics with it");
        traffic.seen.push(name);
        (traffic.judge)(operation)
    }
}

impl HttpClient for Wire {
    fn http_connector(&self, settings: &HttpConnectorSettings, parts: &RuntimeComponents) -> SharedHttpConnector {
        let emulator = self.emulator.http_connector(settings, parts);
        SharedHttpConnector::new(Connector { wire: self.clone(), emulator })
    }
}

#[derive(Debug)]
struct Connector {
    wire: Wire,
    emulator: SharedHttpConnector,
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let fate = self.wire.meet(&request);
        let emulator = self.emulator.clone();
        HttpConnectorFuture::new(async move {
            match fate {
                Fate::Answered => emulator.call(request).await,
                Fate::ReplyLost => {
                    emulator.call(request).await?;
                    Err(broken())
                }
                Fate::RequestLost => Err(broken()),
                Fate::Stuck => std::future::pending().await,
            }
        })
    }
}

fn broken() -> ConnectorError {
    ConnectorError::io(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into())
}
