//! Wakes every run that is due, each minute. The scheduled event carries nothing that matters.

use dormouse_host::{Host, Parts};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde::de::IgnoredAny;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    dormouse_host::init_tracing();
    let engine = Host::from_env().await?.engine(Parts::none());
    let handler = service_fn(async |_: LambdaEvent<IgnoredAny>| {
        dormouse_api::sweep(&engine).await?;
        Ok::<_, Error>(())
    });
    lambda_runtime::run(handler).await.map_err(anyhow::Error::from_boxed)
}
