//! Decides requests. Has no models and runs no tools: it checks what a person said, records it, and wakes a
//! step.

use std::{convert::Infallible, sync::Arc};

use aws_lambda_events::apigw::ApiGatewayProxyRequest;
use dormouse_host::{Host, Parts};
use dormouse_tools::Checker;
use lambda_runtime::{LambdaEvent, service_fn};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    dormouse_host::init_tracing();
    // Arguments that a person changed must fit the tool.
    let parts = Parts { tools: Arc::new(Checker::default()), ..Parts::none() };
    let engine = Host::from_env().await?.engine(parts);
    let handler = service_fn(async |event: LambdaEvent<ApiGatewayProxyRequest>| {
        Ok::<_, Infallible>(dormouse_api::respond(&engine, event.payload).await)
    });
    lambda_runtime::run(handler).await.map_err(anyhow::Error::from_boxed)
}
