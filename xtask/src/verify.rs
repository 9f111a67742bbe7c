//! Everything that CI checks, in the order in which it fails fastest.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

/// The release of cargo-deny that `deny.toml` is written for.
const DENY_VERSION: &str = "0.20.2";

/// Seeds that are simulated.
const SEEDS: &str = "20000";

pub(crate) fn run(root: &Path) -> Result<()> {
    cargo(root, &["fmt", "--all", "--check"])?;
    crate::tidy::run(root)?;
    cargo(root, &["clippy", "--workspace", "--all-targets", "--locked"])?;
    deny(root)?;
    cargo(root, &["doc", "--workspace", "--no-deps", "--locked"])?;
    cargo(root, &["test", "--workspace", "--locked"])?;
    seeds(root)?;
    crate::model::run(root, &[])
}

/// Many more seeds than the tests. As a test of the workspace, because that is built already: of its package
/// alone, the dependencies would have other features and be built again.
fn seeds(root: &Path) -> Result<()> {
    let args = ["test", "--workspace", "--locked", "--test", "seeds", "--", "--nocapture", "x2_no_seed"];
    eprintln!("$ DORMOUSE_SEEDS={SEEDS} cargo {}", args.join(" "));
    succeed(command(root, &args).env("DORMOUSE_SEEDS", SEEDS))
}

fn cargo(root: &Path, args: &[&str]) -> Result<()> {
    eprintln!("$ cargo {}", args.join(" "));
    succeed(&mut command(root, args))
}

fn command(root: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(args).env("RUSTDOCFLAGS", "-D warnings");
    command
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?} did not start"))?;
    if status.success() { Ok(()) } else { bail!("{command:?} failed") }
}

/// Licences, sources, bans and wrappers. Advisories need a database that is fetched from elsewhere,
/// so they are a scheduled job's concern, not a build's.
fn deny(root: &Path) -> Result<()> {
    let tools = root.join("target/tools");
    let binary = tools.join("bin/cargo-deny");
    if !is_current(&binary) {
        let to = tools.to_str().context("the path of target/ is not Unicode")?;
        cargo(root, &["install", "cargo-deny", "--version", DENY_VERSION, "--locked", "--root", to])?;
    }
    eprintln!("$ cargo deny check bans licenses sources");
    let mut command = Command::new(&binary);
    let status = command.current_dir(root).args(["--locked", "check", "bans", "licenses", "sources"]).status()?;
    if status.success() { Ok(()) } else { bail!("cargo deny failed") }
}

fn is_current(binary: &PathBuf) -> bool {
    let output = Command::new(binary).arg("--version").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(DENY_VERSION))
}
