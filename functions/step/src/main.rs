//! Drives runs: one wake message, one short invocation, until nothing is left to do now.
//!
//! Providers read their own variables (`ANTHROPIC_API_KEY`, `OPENAI_API_KEY`, …). Scripted models are
//! refused: they are for development. `DORMOUSE_AGENTS` is the directory of the agents, whose rules hold for
//! runs under way too; `/var/task/agents` if unset.

use std::{convert::Infallible, sync::Arc};

use aws_lambda_events::sqs::SqsEvent;
use dormouse_domain::Millis;
use dormouse_host::{Environment, Host, Parts};
use dormouse_models::{Providers, scripted::Scripted};
use dormouse_tools::Registry;
use lambda_runtime::{LambdaEvent, service_fn};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    dormouse_host::init_tracing();
    let host = Host::from_env().await?;
    let agents = dormouse_tools::load_deployed(
        Environment::of_process().get("DORMOUSE_AGENTS"),
        host.settings().max_tool_timeout_ms,
    )?;
    let parts = Parts {
        models: Arc::new(Providers::from_env(Scripted::refused())),
        tools: Arc::new(Registry::new(host.files())),
        // The agents of runs are frozen in the store; the rules that refuse are today's as well.
        agents: Arc::new(agents),
        // Tokens by which another system completes a call go with it.
        keys: host.keys(),
    };
    let engine = host.engine(parts);
    let handler = service_fn(async |event: LambdaEvent<SqsEvent>| {
        let deadline = Millis(event.context.deadline);
        Ok::<_, Infallible>(dormouse_api::step(&engine, event.payload, deadline).await)
    });
    lambda_runtime::run(handler).await.map_err(anyhow::Error::from_boxed)
}
