//! The model check: `tests/model`, built for speed and run.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, bail};

pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args([
        "run",
        "--quiet",
        "--profile",
        "model",
        "--package",
        "dormouse-model",
        "--locked",
        "--",
    ]);
    let status = command.args(arguments).status().context("cargo run did not start")?;
    if status.success() { Ok(()) } else { bail!("the model check failed") }
}
