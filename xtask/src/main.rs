//! The project's own commands: `cargo xtask <verb>`.
//!
//! `verify` is exactly what CI runs; it installs the one tool that it needs below `target/`.

mod layers;
mod tidy;
mod verify;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const USAGE: &str = "usage: cargo xtask <verb>

verbs:
  verify   everything that CI checks: format, tidy, lints, dependencies, docs, tests
  tidy     the rules that no other tool knows: layers, sizes, leftovers, links
";

fn main() -> Result<()> {
    let root = root()?;
    match std::env::args().nth(1).as_deref() {
        Some("verify") => verify::run(&root),
        Some("tidy") => tidy::run(&root),
        Some(other) => bail!("there is no verb {other:?}\n\n{USAGE}"),
        None => bail!("{USAGE}"),
    }
}

/// The workspace's root: the folder above this package.
fn root() -> Result<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(own.parent().context("xtask stands in no workspace")?.to_owned())
}
