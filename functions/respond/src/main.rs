//! Decides requests, for who signed in and through links. Has no models and runs no tools: it checks what a person
//! said, records it, and wakes a step. `DORMOUSE_LINK_SECRET` is the secret with the keys of links; without it there
//! are none. `DORMOUSE_AGENTS` is the directory of the agents; `/var/task/agents` if unset.

use std::{convert::Infallible, sync::Arc};

use aws_lambda_events::apigw::ApiGatewayProxyRequest;
use dormouse_host::{Environment, Host, Parts};
use dormouse_tools::Checker;
use lambda_runtime::{LambdaEvent, service_fn};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    dormouse_host::init_tracing();
    let host = Host::from_env().await?;
    let agents = dormouse_tools::load_deployed(
        Environment::of_process().get("DORMOUSE_AGENTS"),
        host.settings().max_tool_timeout_ms,
    )?;
    // Arguments that a person changed must fit the tool, and the rules of today as well as those of the run.
    let parts =
        Parts { tools: Arc::new(Checker::default()), agents: Arc::new(agents), keys: host.keys(), ..Parts::none() };
    let engine = host.engine(parts);
    let handler = service_fn(async |event: LambdaEvent<ApiGatewayProxyRequest>| {
        Ok::<_, Infallible>(dormouse_api::respond(&engine, event.payload).await)
    });
    lambda_runtime::run(handler).await.map_err(anyhow::Error::from_boxed)
}
