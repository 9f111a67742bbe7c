//! SQS in this process: the queue engine of `rustack-sqs-core`, without its HTTP server.
//!
//! In memory only. That is enough: a wake message is a hint, and the sweep finds again what a
//! restart forgot. Its clock is tokio's, so tests may pause it and skip an hour.

use std::sync::Arc;

use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_runtime_api::client::result::ConnectorError;
use bytes::Bytes;
use http_body_util::BodyExt;
use rustack_sqs_core::config::SqsConfig;
use rustack_sqs_core::handler::RustackSqsHandler;
use rustack_sqs_core::provider::RustackSqs;
use rustack_sqs_http::dispatch::SqsHandler;
use rustack_sqs_http::response::error_to_response;
use rustack_sqs_http::router::resolve_operation;

use super::transport::{self, Emulator};

/// In-process SQS.
///
/// Starts without queues. Each queue is a task on the tokio runtime that created it and ends with
/// that runtime or with the last handle to the emulator.
#[derive(Clone)]
pub struct EmbeddedSqs(Arc<Queues>);

struct Queues(RustackSqsHandler);

impl EmbeddedSqs {
    /// An SQS without queues.
    pub fn new() -> Self {
        // The host is only ever seen in queue URLs, of which the engine reads the last part.
        let config = SqsConfig { host: "embedded.invalid".to_owned(), ..SqsConfig::default() };
        Self(Arc::new(Queues(RustackSqsHandler::new(Arc::new(RustackSqs::new(config))))))
    }

    /// The emulator as an HTTP client for the AWS SDK.
    pub fn http_client(&self) -> SharedHttpClient {
        transport::http_client(Arc::clone(&self.0))
    }

    /// A client that needs no further configuration.
    pub fn client(&self) -> aws_sdk_sqs::Client {
        aws_sdk_sqs::Client::new(&super::sdk_config(self.http_client()))
    }
}

impl Default for EmbeddedSqs {
    fn default() -> Self {
        Self::new()
    }
}

impl Emulator for Queues {
    async fn answer(self: Arc<Self>, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, ConnectorError> {
        let (parts, body) = request.into_parts();
        let answered = match resolve_operation(&parts.headers) {
            Ok(operation) => self.0.handle_operation(operation, body).await,
            Err(unknown) => Err(unknown),
        };
        let response = answered.unwrap_or_else(|error| error_to_response(&error, &uuid::Uuid::new_v4().to_string()));
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map_err(transport::other)?.to_bytes();
        Ok(http::Response::from_parts(parts, body))
    }
}
