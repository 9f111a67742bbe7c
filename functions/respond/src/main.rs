//! Decides requests. Has no models: it records what a person said and wakes a step.

use std::convert::Infallible;

use aws_lambda_events::apigw::ApiGatewayProxyRequest;
use dormouse_host::{Host, Parts};
use lambda_runtime::{LambdaEvent, service_fn};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    dormouse_host::init_tracing();
    let engine = Host::from_env().await?.engine(Parts::none());
    let handler = service_fn(async |event: LambdaEvent<ApiGatewayProxyRequest>| {
        Ok::<_, Infallible>(dormouse_api::respond(&engine, event.payload).await)
    });
    lambda_runtime::run(handler).await.map_err(anyhow::Error::from_boxed)
}
