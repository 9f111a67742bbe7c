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
    crate::model::run(root, &[])?;
    crate::simulate::run(root, &["--seeds", SEEDS])
}

fn cargo(root: &Path, args: &[&str]) -> Result<()> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(args).env("RUSTDOCFLAGS", "-D warnings");
    eprintln!("$ cargo {}", args.join(" "));
    let status = command.status().with_context(|| format!("cargo {} did not start", args.join(" ")))?;
    if status.success() { Ok(()) } else { bail!("cargo {} failed", args.join(" ")) }
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
