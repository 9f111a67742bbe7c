//! What a stack is made of, and the flags that say so.

use std::{path::PathBuf, time::Duration};

use aws_config::SdkConfig;
use dormouse_domain::token::KeyRing;

/// What `dormouse-localstack --help` prints.
pub const USAGE: &str = "Dormouse on one machine.

usage: cargo run -- [--port PORT] [--data DIR] [--agents DIR]

  --port PORT   port of the API on 127.0.0.1; default 8787
  --data DIR    where runs are kept; default .dormouse
  --agents DIR  where the agent files are; default agents

environment:
  ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL, OPENAI_API_KEY, OPENAI_BASE_URL
                models other than scripted ones
  AWS_ENDPOINT_URL
                a DynamoDB and SQS endpoint to use instead of the embedded ones
  DORMOUSE_LINK_SECRET
                with AWS_ENDPOINT_URL: the secret in Secrets Manager with the keys of approval links
  RUST_LOG      what to log; default info
";

/// The flags of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flags {
    /// The API's port; 0 for any that is free.
    pub port: u16,
    /// Where runs are kept.
    pub data: PathBuf,
    /// Where the agent files are.
    pub agents: PathBuf,
}

impl Flags {
    /// Reads flags, without the program's name.
    ///
    /// # Errors
    /// What is wrong with them; an empty text if help is asked for.
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut flags = Self { port: 8787, data: ".dormouse".into(), agents: "agents".into() };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let (name, inline) = match arg.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (arg, None),
            };
            if name == "--help" || name == "-h" {
                return Err(String::new());
            }
            if !["--port", "--data", "--agents"].contains(&name.as_str()) {
                return Err(format!("unknown flag {name}"));
            }
            let value = inline.or_else(|| args.next()).filter(|value| !value.is_empty());
            let value = value.ok_or_else(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--port" => flags.port = value.parse().map_err(|_| format!("{value:?} is no port"))?,
                "--data" => flags.data = value.into(),
                _ => flags.agents = value.into(),
            }
        }
        Ok(flags)
    }
}

/// Where the table and the queue are.
#[derive(Debug, Clone)]
pub enum Backend {
    /// In this process, in this folder, which no other process may use meanwhile.
    Folder(PathBuf),
    /// In this process, in memory: gone with it.
    Memory,
    /// In this process, behind these HTTP clients: for tests that count or break requests.
    Clients {
        /// Configuration of the DynamoDB client.
        dynamo: Box<SdkConfig>,
        /// Configuration of the SQS client.
        sqs: Box<SdkConfig>,
        /// The keys of tokens.
        keys: KeyRing,
    },
    /// Elsewhere: LocalStack or AWS.
    Aws(Box<SdkConfig>),
}

/// A stack's configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the table and the queue are.
    pub backend: Backend,
    /// The table's name.
    pub table: String,
    /// The queue's name.
    pub queue: String,
    /// Where the agent files are.
    pub agents: PathBuf,
    /// The step function's timeout: an invocation is ended then, as Lambda does.
    pub step_timeout: Duration,
    /// How often the sweep comes.
    pub sweep_every: Duration,
    /// Invocations of the step function at once.
    pub concurrency: usize,
    /// The secret with the keys of approval links, where table and queue are elsewhere.
    pub link_secret: Option<String>,
}

impl Config {
    /// The default configuration on this backend, with the agents of this folder.
    #[must_use]
    pub fn new(backend: Backend, agents: PathBuf) -> Self {
        Self {
            backend,
            table: "dormouse".to_owned(),
            queue: "dormouse-wake".to_owned(),
            agents,
            step_timeout: Duration::from_secs(180),
            sweep_every: Duration::from_secs(1),
            concurrency: 16,
            link_secret: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Flags, String> {
        Flags::parse(args.iter().map(|arg| (*arg).to_owned()))
    }

    #[test]
    fn flags() {
        let flags = parse(&["--port", "9000", "--data=/tmp/x"]).unwrap();
        assert_eq!((flags.port, flags.data, flags.agents), (9000, "/tmp/x".into(), "agents".into()));
        for bad in [&["--prot", "1"][..], &["--port"], &["--port", "70000"], &["--data="], &["run"]] {
            assert!(!parse(bad).unwrap_err().is_empty(), "{bad:?}");
        }
        assert_eq!(parse(&["--help"]), Err(String::new()));
    }
}
