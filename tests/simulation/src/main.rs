//! `cargo xtask simulate`: many seeds, or one with its trace.

#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use std::process::ExitCode;

use dormouse_simulation::{EXPECTED, many, simulate_caught};

const USAGE: &str = "usage: cargo xtask simulate [--seeds N] [--from M] | [--seed N]";

struct Asked {
    seed: Option<u64>,
    seeds: u64,
    from: u64,
}

fn read(mut words: impl Iterator<Item = String>) -> Option<Asked> {
    let mut asked = Asked { seed: None, seeds: 500, from: 0 };
    while let Some(word) = words.next() {
        let number = words.next()?.replace('_', "").parse().ok()?;
        match word.as_str() {
            "--seed" => asked.seed = Some(number),
            "--seeds" => asked.seeds = number,
            "--from" => asked.from = number,
            _ => return None,
        }
    }
    Some(asked)
}

fn main() -> ExitCode {
    let Some(asked) = read(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    let holds = match asked.seed {
        Some(seed) => replay(seed),
        None => run(&asked),
    };
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(seed: u64) -> bool {
    let outcome = simulate_caught(seed);
    println!("{}", outcome.trace);
    outcome.violations.iter().for_each(|violation| println!("SEED={seed} {violation}"));
    outcome.violations.is_empty()
}

fn run(asked: &Asked) -> bool {
    let summary = many(asked.from, asked.seeds);
    for (kind, count) in &summary.coverage {
        println!("{count:>9} {kind}");
    }
    let missing: Vec<_> = EXPECTED.iter().filter(|kind| !summary.coverage.contains_key(**kind)).collect();
    if !missing.is_empty() {
        println!("never happened: {missing:?}");
    }
    for outcome in &summary.failed {
        let first = outcome.violations.first().map_or("", String::as_str);
        println!("SEED={} {first}", outcome.seed);
    }
    let seconds = summary.took.as_secs_f64();
    println!(
        "{} seeds in {seconds:.1} s, {:.0} a second; {:.0} hours of simulated time; {} failed",
        summary.seeds,
        summary.seeds as f64 / seconds.max(f64::MIN_POSITIVE),
        summary.simulated.as_secs_f64() / 3600.0,
        summary.failed.len(),
    );
    summary.failed.is_empty()
}
