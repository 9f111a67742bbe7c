//! The project's own commands: `cargo xtask <verb>`.
//!
//! `verify` is exactly what CI runs; it installs the one tool that it needs below `target/`.

mod fuzz;
mod layers;
mod model;
mod mutants;
mod promises;
mod replay;
mod simulate;
mod tidy;
mod verify;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const USAGE: &str = "usage: cargo xtask <verb>

verbs:
  verify   everything that CI checks: format, tidy, lints, dependencies, docs, tests,
           the whole model, 20,000 seeds
  tidy     the rules that no other tool knows: layers, sizes, leftovers, links, and a test for each
           promise
  mutants [WORD]
           plants bugs in a copy of the code (those with WORD in their name), one after the other, and
           shows that the tests that are there for it catch each
  model [--short] [CONFIGURATION]
           explores every state of the protocol within stated bounds (docs/model.md)
  replay FILE
           folds a recording (GET /v1/runs/{id}/export), shows the state after each entry, and checks
           what a journal can show of the invariants
  fuzz [TARGET] [--seconds N]
           lets libFuzzer look for what breaks a target of tests/fuzz (docs/fuzzing.md), 600 seconds
           each; needs cargo-fuzz, and says how to install it
  simulate [--seeds N] [--from M] | [--seed N]
           simulates everything on AWS with faults: N seeds from M on, or one with its trace
";

fn main() -> Result<()> {
    let root = root()?;
    let args: Vec<_> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["verify"] => verify::run(&root),
        ["tidy"] => tidy::run(&root),
        ["mutants", rest @ ..] => mutants::main(&root, rest),
        ["model", rest @ ..] => model::run(&root, rest),
        ["replay", file] => replay::run(Path::new(file)),
        ["replay", ..] => bail!("replay takes one file\n\n{USAGE}"),
        ["fuzz", asked @ ..] => fuzz::run(&root, asked),
        ["simulate", asked @ ..] => simulate::run(&root, asked),
        [other, ..] => bail!("there is no verb {other:?}\n\n{USAGE}"),
        [] => bail!("{USAGE}"),
    }
}

/// The workspace's root: the folder above this package.
fn root() -> Result<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(own.parent().context("xtask stands in no workspace")?.to_owned())
}
