//! Starts runs. The only function that reads the agent files; each run freezes what it finds there.
//!
//! `DORMOUSE_AGENTS` is their directory, `/var/task/agents` if unset. A tool must fit into one step,
//! whose timeout is `DORMOUSE_STEP_TIMEOUT_S`.

use std::{convert::Infallible, path::Path, sync::Arc};

use anyhow::anyhow;
use aws_lambda_events::apigw::ApiGatewayProxyRequest;
use dormouse_host::{Environment, Host, Parts};
use dormouse_tools::AgentSet;
use lambda_runtime::{LambdaEvent, service_fn};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    dormouse_host::init_tracing();
    let host = Host::from_env().await?;
    let agents = agents(&Environment::of_process(), host.settings().max_tool_timeout_ms)?;
    let engine = host.engine(Parts { agents: Arc::new(agents), ..Parts::none() });
    let handler = service_fn(async |event: LambdaEvent<ApiGatewayProxyRequest>| {
        Ok::<_, Infallible>(dormouse_api::start(&engine, event.payload).await)
    });
    lambda_runtime::run(handler).await.map_err(anyhow::Error::from_boxed)
}

fn agents(environment: &Environment, max_timeout_ms: u64) -> anyhow::Result<AgentSet> {
    let dir = environment.get("DORMOUSE_AGENTS").unwrap_or("/var/task/agents");
    dormouse_tools::load_dir(Path::new(dir), max_timeout_ms).map_err(|files| {
        let faults: Vec<_> = files.iter().map(ToString::to_string).collect();
        anyhow!("the agents cannot be used:\n{}", faults.join("\n"))
    })
}
