//! A network between client and table with faults on demand.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use aws_smithy_runtime_api::client::{
    http::{
        HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
    },
    orchestrator::{HttpRequest, HttpResponse},
    result::ConnectorError,
    runtime_components::RuntimeComponents,
};
use aws_smithy_types::body::SdkBody;

/// What happens to one request.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// It is carried out; the connection breaks before the reply.
    LoseReply,
    /// The connection breaks before the server sees it, which the client cannot know.
    LoseRequest,
    /// It is carried out; no reply ever comes.
    Hang,
    /// It is carried out; a proxy answers with this status and a page.
    Replace(u16),
    /// It is carried out; the server says that something went wrong inside it.
    Stumble,
    /// The server refuses it with this error before it does anything.
    Refuse(&'static str),
    /// The server cancels it for these reasons before it does anything.
    Cancel(Vec<&'static str>),
}

#[derive(Debug, Default)]
struct Plan {
    faults: VecDeque<(&'static str, Fault)>,
    seen: Vec<String>,
}

/// The network.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wire(Arc<Mutex<Plan>>);

impl Wire {
    /// The next request for `operation` that no earlier fault takes meets `fault`.
    pub(crate) fn plan(&self, operation: &'static str, fault: Fault) {
        self.0.lock().unwrap().faults.push_back((operation, fault));
    }

    /// The operations that were asked for since the last call of this; faults that nobody met fail.
    pub(crate) fn seen(&self) -> Vec<String> {
        let mut plan = self.0.lock().unwrap();
        assert!(plan.faults.is_empty(), "faults that nobody met: {:?}", plan.faults);
        std::mem::take(&mut plan.seen)
    }

    fn meet(&self, request: &HttpRequest) -> Option<Fault> {
        let operation = request.headers().get("x-amz-target").and_then(|target| target.split('.').next_back());
        let operation = operation.unwrap_or_default().to_owned();
        let mut plan = self.0.lock().unwrap();
        let place = plan.faults.iter().position(|(of, _)| *of == operation);
        plan.seen.push(operation);
        place.and_then(|place| plan.faults.remove(place)).map(|(_, fault)| fault)
    }

    /// The network as the SDK's HTTP client.
    pub(crate) fn http_client(&self) -> SharedHttpClient {
        SharedHttpClient::new(Client { wire: self.clone(), real: aws_smithy_http_client::Builder::new().build_http() })
    }
}

#[derive(Debug)]
struct Client {
    wire: Wire,
    real: SharedHttpClient,
}

impl HttpClient for Client {
    fn http_connector(&self, settings: &HttpConnectorSettings, parts: &RuntimeComponents) -> SharedHttpConnector {
        let real = self.real.http_connector(settings, parts);
        SharedHttpConnector::new(Connector { wire: self.wire.clone(), real })
    }
}

#[derive(Debug)]
struct Connector {
    wire: Wire,
    real: SharedHttpConnector,
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let fault = self.wire.meet(&request);
        let real = self.real.clone();
        HttpConnectorFuture::new(async move {
            match fault {
                None => real.call(request).await,
                Some(Fault::LoseRequest) => Err(broken()),
                Some(Fault::LoseReply) => {
                    carried_out(real, request).await;
                    Err(broken())
                }
                Some(Fault::Hang) => {
                    carried_out(real, request).await;
                    std::future::pending().await
                }
                Some(Fault::Replace(status)) => {
                    carried_out(real, request).await;
                    answer(status, "<html>".to_owned())
                }
                Some(Fault::Stumble) => {
                    carried_out(real, request).await;
                    answer(500, serde_json::json!({ "__type": "InternalServerError" }).to_string())
                }
                Some(Fault::Refuse(code)) => answer(400, serde_json::json!({ "__type": code }).to_string()),
                Some(Fault::Cancel(codes)) => {
                    let reasons: Vec<_> = codes.iter().map(|code| serde_json::json!({ "Code": code })).collect();
                    let body =
                        serde_json::json!({ "__type": "TransactionCanceledException", "CancellationReasons": reasons });
                    answer(400, body.to_string())
                }
            }
        })
    }
}

async fn carried_out(real: SharedHttpConnector, request: HttpRequest) {
    real.call(request).await.expect("the server is there");
}

fn broken() -> ConnectorError {
    ConnectorError::io(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into())
}

fn answer(status: u16, body: String) -> Result<HttpResponse, ConnectorError> {
    let status = status.try_into().expect("a status");
    let mut response = HttpResponse::new(status, SdkBody::from(body));
    response.headers_mut().insert("content-type", "application/x-amz-json-1.0");
    Ok(response)
}
