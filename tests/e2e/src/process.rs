//! The real binary as a child process.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::OnceLock,
    time::SystemTime,
};

use tempfile::NamedTempFile;

use crate::{agents::Agents, api::Api, wait::eventually};

/// The binary's name.
const BINARY: &str = "dormouse-localstack";

/// The binary, which is built if it is not there or older than its sources. `cargo test --workspace`
/// has built it already.
fn binary() -> &'static Path {
    static BINARY_PATH: OnceLock<PathBuf> = OnceLock::new();
    BINARY_PATH.get_or_init(|| {
        let tests = std::env::current_exe().expect("the path of this test");
        let folder = tests.ancestors().nth(2).expect("tests are in target/<profile>/deps");
        let path = folder.join(BINARY);
        if !is_current(&path) {
            let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            build.args(["build", "--package", BINARY]).current_dir(env!("CARGO_MANIFEST_DIR"));
            if folder.ends_with("release") {
                build.arg("--release");
            }
            assert!(build.status().expect("cargo").success(), "{BINARY} does not build");
        }
        path
    })
}

/// Whether the binary is there and not older than what it was made from, which cargo lists beside it.
fn is_current(binary: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    let (Some(made), Ok(sources)) = (modified(binary), fs::read_to_string(binary.with_extension("d"))) else {
        return false;
    };
    let older = |source: &str| modified(Path::new(source)).is_some_and(|at: SystemTime| at <= made);
    sources.split_whitespace().skip(1).all(older)
}

/// A process that was started, and may not be serving.
#[derive(Debug)]
pub struct Spawned {
    child: Child,
    log: NamedTempFile,
}

impl Spawned {
    /// Starts the binary on a free port, with runs kept in `data`.
    pub fn new(data: &Path, agents: &Agents, environment: &[(&str, String)]) -> Self {
        let log = NamedTempFile::new().expect("a temporary file");
        let mut command = Command::new(binary());
        command.args(["--port", "0", "--data"]).arg(data).arg("--agents").arg(agents.path());
        for variable in ["AWS_ENDPOINT_URL", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "RUST_LOG"] {
            command.env_remove(variable);
        }
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log.reopen().expect("a log"));
        Self { child: command.spawn().expect("the binary starts"), log }
    }

    /// What it wrote to standard error.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log.path()).unwrap_or_default()
    }

    /// How it ended, as soon as it has.
    pub async fn ended(&mut self) -> ExitStatus {
        eventually("the end of a process", async || self.child.try_wait().expect("a child")).await
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        // Both fail only for a process that has ended already.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- the log of process {}\n{}", self.child.id(), self.log());
        }
    }
}

/// A process that serves.
#[derive(Debug)]
pub struct Process {
    /// Somebody who talks to it.
    pub api: Api,
    spawned: Spawned,
}

impl Process {
    /// Starts the binary and waits until it serves.
    pub async fn start(data: &Path, agents: &Agents, environment: &[(&str, String)]) -> Self {
        let mut spawned = Spawned::new(data, agents, environment);
        let output = spawned.child.stdout.take().expect("standard output");
        let line = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(output).read_line(&mut line).expect("standard output is text");
            line
        });
        let line = line.await.expect("a line");
        let address = line.split_once("http://").and_then(|(_, rest)| rest.split_whitespace().next());
        let address = address.and_then(|address| address.parse().ok());
        let Some(address) = address else { panic!("it does not serve: {line:?}\n{}", spawned.log()) };
        Self { api: Api::new(address), spawned }
    }

    /// `kill -9`.
    pub fn kill(self) {
        drop(self);
    }

    /// What it logged.
    pub fn log(&self) -> String {
        self.spawned.log()
    }
}
