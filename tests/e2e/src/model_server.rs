//! A model provider that says what it was told to, in two dialects: Anthropic's Messages API and
//! Chat Completions.
//!
//! Which reply it gives depends on the prompt alone: the one after as many as the prompt holds. So
//! it is right however often a step that was killed asks again.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

/// A request, as it arrived.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, byte for byte.
    pub raw: String,
    /// The body, read.
    pub body: Value,
}

#[derive(Debug)]
struct Told {
    replies: Vec<String>,
    requests: Mutex<Vec<ModelRequest>>,
}

/// The provider. It ends with this value.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    told: Arc<Told>,
    task: JoinHandle<()>,
}

impl ModelServer {
    /// A provider with these replies: whole bodies, sent byte for byte.
    pub async fn start(replies: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let told = Arc::new(Told { replies, requests: Mutex::default() });
        let app = Router::new()
            .route("/v1/messages", post(answer))
            .route("/openai/chat/completions", post(answer))
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(Arc::clone(&told));
        let task = tokio::spawn(async move { axum::serve(listener, app).await.expect("a server that runs") });
        Self { address, told, task }
    }

    /// The variables that point a stack at it.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("ANTHROPIC_BASE_URL", format!("http://{}", self.address)),
            ("ANTHROPIC_API_KEY", "not-a-key".to_owned()),
            ("OPENAI_BASE_URL", format!("http://{}/openai", self.address)),
            ("OPENAI_API_KEY", "not-a-key".to_owned()),
        ]
    }

    /// What it was asked so far.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.told.requests.lock().expect("nobody panics with it").clone()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(State(told): State<Arc<Told>>, headers: HeaderMap, raw: Bytes) -> Response {
    let raw = String::from_utf8(raw.to_vec()).expect("a prompt is UTF-8");
    let body: Value = serde_json::from_str(&raw).expect("a prompt is JSON");
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let number = messages.iter().filter(|message| message["role"] == "assistant").count();
    told.requests.lock().expect("nobody panics with it").push(ModelRequest { headers, raw, body });
    match told.replies.get(number) {
        Some(reply) => ([(header::CONTENT_TYPE, "application/json")], reply.clone()).into_response(),
        None => (StatusCode::BAD_REQUEST, r#"{"error":{"message":"no reply was prepared"}}"#).into_response(),
    }
}

/// A message of Anthropic's with these content blocks, which are JSON.
pub fn anthropic(blocks: &[&str]) -> String {
    let stop = if blocks.iter().any(|block| block.contains("tool_use")) { "tool_use" } else { "end_turn" };
    format!(
        r#"{{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[{}],"stop_reason":"{stop}","stop_sequence":null,"usage":{{"input_tokens":10,"output_tokens":5}}}}"#,
        blocks.join(",")
    )
}

/// A chat completion with this message, which is JSON.
pub fn openai(message: &str) -> String {
    let finish = if message.contains("tool_calls") { "tool_calls" } else { "stop" };
    format!(
        r#"{{"id":"chatcmpl-1","object":"chat.completion","model":"gpt","choices":[{{"index":0,"message":{message},"finish_reason":"{finish}"}}],"usage":{{"prompt_tokens":10,"completion_tokens":5}}}}"#
    )
}
