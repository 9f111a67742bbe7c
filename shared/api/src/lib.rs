//! Lambda events in, engine calls, answers out: the HTTP interface and the two triggers.
//!
//! Each function of the deployment has one entry point here, and its `main` is thin: [`start`],
//! [`respond`], [`control`] and [`query`] take an API Gateway REST (v1) proxy event and always give
//! an answer, [`step`](fn@step) takes a batch of wake messages, [`sweep`](fn@sweep) takes nothing.
//! A host that serves HTTP itself builds the same proxy event, asks [`function_for`] which of the
//! four it is for, and calls that; what it names none for, it answers by [`unrouted`].
//!
//! Read in this order: [`routes`] (what can be called), `call` (what a handler gets: who, which key,
//! which body), [`identity`], `body` (what clients send), `view` (what they read), [`problem`] (how
//! everything else ends), then a module for each function.

mod body;
mod call;
mod complete;
mod control;
mod events;
mod export;
pub mod identity;
mod link;
mod page;
pub mod problem;
mod query;
mod respond;
pub mod routes;
mod start;
mod step;
mod view;

use aws_lambda_events::apigw::{ApiGatewayProxyRequest, ApiGatewayProxyResponse};
use dormouse_engine::{Engine, Swept, ports::StoreError};

pub use call::MAX_BODY_BYTES;
pub use routes::{Access, Function, Route, function_for, route_for};
pub use step::step;

/// Starts runs: `POST /v1/runs`.
pub async fn start(engine: &Engine, request: ApiGatewayProxyRequest) -> ApiGatewayProxyResponse {
    problem::answer(start::handle(engine, &request).await)
}

/// Decides requests: `POST /v1/requests/{id}/respond`, `POST /v1/runs/{id}/respond`, and by links. Completes calls, by tokens.
pub async fn respond(engine: &Engine, request: ApiGatewayProxyRequest) -> ApiGatewayProxyResponse {
    problem::answer(respond::handle(engine, &request).await)
}

/// Changes runs: messages, pause, resume, cancel, mode.
pub async fn control(engine: &Engine, request: ApiGatewayProxyRequest) -> ApiGatewayProxyResponse {
    problem::answer(control::handle(engine, &request).await)
}

/// Reads: runs, requests, journals, recordings, events. `GET /v1/runs/{id}/events` can take 20 seconds.
pub async fn query(engine: &Engine, request: ApiGatewayProxyRequest) -> ApiGatewayProxyResponse {
    problem::answer(query::handle(engine, &request).await)
}

/// The answer to a request that no function takes, of which [`function_for`] says none: 404.
#[must_use]
pub fn unrouted() -> ApiGatewayProxyResponse {
    problem::answer(Err(routes::no_route()))
}

/// Wakes every run that is due. For the scheduled event, which carries nothing that matters.
///
/// # Errors
/// If the store fails; the next sweep goes on.
pub async fn sweep(engine: &Engine) -> Result<Swept, StoreError> {
    let swept = engine.sweep().await?;
    tracing::info!(due = swept.due, woken = swept.woken, "swept");
    Ok(swept)
}
