//! Starts runs. Each freezes what the agent files say.
//!
//! `DORMOUSE_AGENTS` is their directory, `/var/task/agents` if unset. A tool must fit into one step,
//! whose timeout is `DORMOUSE_STEP_TIMEOUT_S`.

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
    // A fork has the files of another run as they were: they are made again from its calls, and no tool is called.
    let tools = Arc::new(Checker::default());
    let engine = host.engine(Parts { agents: Arc::new(agents), tools, ..Parts::none() });
    let handler = service_fn(async |event: LambdaEvent<ApiGatewayProxyRequest>| {
        Ok::<_, Infallible>(dormouse_api::start(&engine, event.payload).await)
    });
    lambda_runtime::run(handler).await.map_err(anyhow::Error::from_boxed)
}
