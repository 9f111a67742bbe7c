//! Web services as tools: each path is one, and answers as it was told to.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    net::SocketAddr,
    panic::resume_unwind,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::{FutureExt, future::BoxFuture};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

/// A call, as it arrived.
#[derive(Debug, Clone)]
pub struct ToolRequest {
    /// The service: the path without its slash.
    pub service: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Value,
}

impl ToolRequest {
    /// The `Idempotency-Key`.
    ///
    /// # Panics
    /// If it has none.
    pub fn key(&self) -> &str {
        self.headers.get("idempotency-key").and_then(|key| key.to_str().ok()).expect("an Idempotency-Key")
    }
}

/// What a service does with a call.
#[derive(Debug, Clone)]
pub enum ToolAnswer {
    /// It answers.
    Answer {
        /// After so long.
        delay: Duration,
        /// The status.
        status: u16,
        /// The body's media type.
        media_type: &'static str,
        /// The body.
        body: Vec<u8>,
    },
    /// It reads the call and never answers.
    Hang,
    /// It reads the call and drops the connection.
    Drop,
}

impl ToolAnswer {
    /// 200 with this text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::bytes("text/plain", text.into().into_bytes())
    }

    /// 200 with these bytes.
    pub fn bytes(media_type: &'static str, body: Vec<u8>) -> Self {
        Self::Answer { delay: Duration::ZERO, status: 200, media_type, body }
    }

    /// The same after `delay`.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        match self {
            Self::Answer { status, media_type, body, .. } => Self::Answer { delay, status, media_type, body },
            Self::Hang => Self::Hang,
            Self::Drop => Self::Drop,
        }
    }
}

type Service = Arc<dyn Fn(ToolRequest) -> BoxFuture<'static, ToolAnswer> + Send + Sync>;

#[derive(Default)]
struct Services {
    services: Mutex<BTreeMap<String, Service>>,
    calls: Mutex<Vec<ToolRequest>>,
}

/// The services. They end with this value.
pub struct ToolServer {
    address: SocketAddr,
    services: Arc<Services>,
    task: JoinHandle<()>,
}

impl fmt::Debug for ToolServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolServer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl ToolServer {
    /// Services of any name, which all say `done`.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let services = Arc::new(Services::default());
        let app = Router::new().fallback(answer).with_state(Arc::clone(&services));
        let task = tokio::spawn(async move { axum::serve(listener, app).await.expect("a server that runs") });
        Self { address, services, task }
    }

    /// The address of a service.
    pub fn url(&self, service: &str) -> String {
        format!("http://{}/{service}", self.address)
    }

    /// From now on, `service` answers like this.
    pub fn answers(&self, service: &str, answer: ToolAnswer) {
        self.serves(service, move |_| {
            let answer = answer.clone();
            async { answer }
        });
    }

    /// From now on, `service` does this.
    pub fn serves<F>(&self, service: &str, serve: impl Fn(ToolRequest) -> F + Send + Sync + 'static)
    where
        F: Future<Output = ToolAnswer> + Send + 'static,
    {
        let serve: Service = Arc::new(move |request| serve(request).boxed());
        self.services.services.lock().expect("nobody panics with it").insert(service.to_owned(), serve);
    }

    /// All calls so far.
    pub fn calls(&self) -> Vec<ToolRequest> {
        self.services.calls.lock().expect("nobody panics with it").clone()
    }

    /// The calls of one service so far.
    pub fn calls_of(&self, service: &str) -> Vec<ToolRequest> {
        let mut calls = self.calls();
        calls.retain(|call| call.service == service);
        calls
    }
}

impl Drop for ToolServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(State(services): State<Arc<Services>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body: Bytes = axum::body::to_bytes(body, usize::MAX).await.expect("a body");
    let service = parts.uri.path().trim_start_matches('/').to_owned();
    let body = serde_json::from_slice(&body).expect("a call is JSON");
    let call = ToolRequest { service, headers: parts.headers, body };
    services.calls.lock().expect("nobody panics with it").push(call.clone());
    let serve = services.services.lock().expect("nobody panics with it").get(&call.service).cloned();
    let answer = match serve {
        Some(serve) => serve(call).await,
        None => ToolAnswer::text("done"),
    };
    match answer {
        ToolAnswer::Answer { delay, status, media_type, body } => {
            tokio::time::sleep(delay).await;
            let status = StatusCode::from_u16(status).expect("a status");
            (status, [(header::CONTENT_TYPE, media_type)], body).into_response()
        }
        ToolAnswer::Hang => std::future::pending().await,
        // Ends the connection's task, and with it the connection; quieter than a panic.
        ToolAnswer::Drop => resume_unwind(Box::new("a dropped connection")),
    }
}
