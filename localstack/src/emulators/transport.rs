//! The seam to the AWS SDK: an HTTP client that carries a request to an emulator by a function
//! call. Both services speak AWS JSON 1.0: one path, the operation in `X-Amz-Target`.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;

/// A service that answers requests inside this process.
pub(super) trait Emulator: Send + Sync + 'static {
    /// Answers one request. An `Err` is what a broken connection would be: the caller cannot know
    /// whether the operation took place.
    fn answer(
        self: Arc<Self>,
        request: http::Request<Bytes>,
    ) -> impl Future<Output = Result<http::Response<Bytes>, ConnectorError>> + Send;
}

/// The emulator as the SDK's HTTP client.
pub(super) fn http_client<E: Emulator>(emulator: Arc<E>) -> SharedHttpClient {
    SharedHttpClient::new(InProcess(emulator))
}

struct InProcess<E>(Arc<E>);

// By hand, so that nobody's data ends up in a debug print of an SDK configuration.
impl<E> fmt::Debug for InProcess<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcess")
    }
}

impl<E: Emulator> HttpClient for InProcess<E> {
    // The settings are the timeouts for connecting and for the first byte, and there is no
    // connection. The SDK's own attempt and operation timeouts apply as ever.
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(Self(Arc::clone(&self.0)))
    }
}

impl<E: Emulator> HttpConnector for InProcess<E> {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let emulator = Arc::clone(&self.0);
        HttpConnectorFuture::new(async move {
            let response = emulator.answer(buffered(request)?).await?;
            HttpResponse::try_from(response.map(SdkBody::from)).map_err(other)
        })
    }
}

fn buffered(request: HttpRequest) -> Result<http::Request<Bytes>, ConnectorError> {
    let request = request.try_into_http1x().map_err(other)?;
    let (parts, body) = request.into_parts();
    // Neither service has an operation that streams its request.
    let body = body.bytes().ok_or_else(|| other("a request body that streams"))?;
    let body = Bytes::copy_from_slice(body);
    Ok(http::Request::from_parts(parts, body))
}

/// A failure of the transport itself, never retried by the SDK.
pub(super) fn other(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ConnectorError {
    ConnectorError::other(source.into(), None)
}
