//! `cargo run`: Dormouse on one machine.

use std::process::ExitCode;

use anyhow::Result;
use aws_config::BehaviorVersion;
use dormouse_host::LINK_SECRET;
use dormouse_localstack::{Backend, Config, Flags, Stack, USAGE};
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> ExitCode {
    let flags = match Flags::parse(std::env::args().skip(1)) {
        Ok(flags) => flags,
        Err(wrong) if wrong.is_empty() => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            eprintln!("{wrong}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false).init();
    match run(flags).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(flags: Flags) -> Result<()> {
    let elsewhere = std::env::var("AWS_ENDPOINT_URL").ok().filter(|url| !url.is_empty());
    let (backend, kept) = match elsewhere {
        None => (Backend::Folder(flags.data.clone()), format!("runs are kept in {}", flags.data.display())),
        Some(url) => {
            let config = aws_config::load_defaults(BehaviorVersion::latest()).await;
            (Backend::Aws(Box::new(config)), format!("runs are kept at {url}"))
        }
    };
    let link_secret = std::env::var(LINK_SECRET).ok().filter(|secret| !secret.trim().is_empty());
    let config = Config { link_secret, ..Config::new(backend, flags.agents) };
    let mut stack = Stack::start(config).await?;
    let address = stack.serve(flags.port).await?;
    let agents = stack.engine().ports().agents.names().join(", ");
    println!("Dormouse is on http://{address} ({kept}; agents: {agents})");
    signal().await?;
    eprintln!("stopping: steps that run come to their end; press Ctrl-C again to leave at once");
    tokio::select! {
        () = stack.stop() => Ok(()),
        again = signal() => again,
    }
}

/// Waits until somebody asks the process to end.
async fn signal() -> Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    Ok(())
}
