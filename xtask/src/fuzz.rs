//! Fuzzing: the targets of `tests/fuzz`, each for a while, on top of the corpus that is kept.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

/// Where the targets are, and the corpora that are kept of them.
const FOLDER: &str = "tests/fuzz";
/// How long each target is run, unless said otherwise.
const SECONDS: &str = "600";
/// The longest input: what is found in a long one is found in a short one too, and sooner.
const MAX_BYTES: &str = "4096";
/// An input that takes longer than this, in seconds, hangs.
const HANGS_AFTER: &str = "10";

pub(crate) fn run(root: &Path, asked: &[&str]) -> Result<()> {
    let (wanted, seconds) = match asked {
        [] => (None, SECONDS),
        ["--seconds", seconds] => (None, *seconds),
        [target] => (Some(*target), SECONDS),
        [target, "--seconds", seconds] | ["--seconds", seconds, target] => (Some(*target), *seconds),
        _ => bail!("fuzz takes a target and --seconds N"),
    };
    seconds.parse::<u32>().with_context(|| format!("{seconds:?} is no number of seconds"))?;
    let targets = targets(root)?;
    let chosen: Vec<_> = targets.iter().filter(|target| wanted.is_none_or(|wanted| **target == wanted)).collect();
    if chosen.is_empty() {
        bail!("there is no such target; there are: {}", targets.join(", "));
    }
    needs_cargo_fuzz()?;
    chosen.into_iter().try_for_each(|target| fuzz(root, target, seconds))
}

/// The targets by name: one of each corpus.
fn targets(root: &Path) -> Result<Vec<String>> {
    let folders = fs::read_dir(root.join(FOLDER).join("corpus")).context("the corpora are not there")?;
    let mut names = Vec::new();
    for folder in folders {
        names.push(folder?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn needs_cargo_fuzz() -> Result<()> {
    let mut command = Command::new("cargo");
    let there = command.args(["fuzz", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if there.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    bail!("cargo-fuzz is not there, and needs a C++ compiler; install it by: cargo install --locked cargo-fuzz")
}

/// Finds go to a corpus below `target/`, so that the one that is kept stays small: docs/fuzzing.md says how they get there.
fn fuzz(root: &Path, target: &str, seconds: &str) -> Result<()> {
    let found = root.join("target/fuzz").join(target);
    fs::create_dir_all(&found).with_context(|| format!("making {}", found.display()))?;
    let kept = root.join(FOLDER).join("corpus").join(target);
    let mut command = Command::new("cargo");
    command.current_dir(root.join(FOLDER)).args(["fuzz", "run", "--fuzz-dir", "fuzz", "--sanitizer", "none", target]);
    command.arg(found).arg(kept).args([
        "--",
        "-len_control=0",
        &format!("-max_total_time={seconds}"),
        &format!("-max_len={MAX_BYTES}"),
    ]);
    command.args([&format!("-timeout={HANGS_AFTER}"), "-print_final_stats=1"]);
    let words = root.join(FOLDER).join("dictionaries").join(target);
    if words.exists() {
        command.arg(format!("-dict={}", words.display()));
    }
    eprintln!("{target}, for {seconds} s");
    let status = command.status().context("cargo fuzz did not start")?;
    if status.success() { Ok(()) } else { bail!("{target} found something; the input is in {FOLDER}/fuzz/artifacts") }
}
