//! Running the simulation: it is a program of its own, so that this one stays quick to build.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, bail};

pub(crate) fn run(root: &Path, asked: &[&str]) -> Result<()> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let built_for_it = ["run", "--locked", "--package", "dormouse-simulation", "--"];
    command.current_dir(root).args(built_for_it);
    let status = command.args(asked).status().context("the simulation did not start")?;
    if status.success() { Ok(()) } else { bail!("the simulation failed") }
}
