//! 500 seeds, or as many as the variable `DORMOUSE_SEEDS` says, or the one of the variable `SEED`; and whether they
//! meet all that they are for.

use std::fmt::Write as _;

use dormouse_simulation::{Coverage, EXPECTED, many, simulate_caught};

const SEEDS: u64 = 500;

/// X2, B13, D7, D8, E1 to E3, I1 to I11; cases 20 to 28, 33, 36 to 39, 42.
#[test]
fn x2_no_seed_breaks_a_promise() {
    if let Some(seed) = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        let outcome = simulate_caught(seed);
        println!("{}", outcome.trace);
        assert_eq!(outcome.violations, Vec::<String>::new(), "SEED={seed}");
        return;
    }
    let seeds = std::env::var("DORMOUSE_SEEDS").map_or(SEEDS, |seeds| seeds.parse().expect("a number of seeds"));
    let summary = many(0, seeds);
    println!("{} seeds in {} s", summary.seeds, summary.took.as_secs());
    if let Some(first) = summary.failed.first() {
        println!("{}", first.trace);
        let all = summary.failed.iter().map(|failed| format!("SEED={} fails: {:#?}", failed.seed, failed.violations));
        panic!("{}", all.collect::<Vec<_>>().join("\n"));
    }
    assert_eq!(summary.seeds, seeds);
    assert_eq!(missing(&summary.coverage), "", "things that never happened in {seeds} seeds");
}

/// What is expected and never happened, line by line.
fn missing(coverage: &Coverage) -> String {
    EXPECTED.iter().filter(|kind| !coverage.contains_key(**kind)).fold(String::new(), |mut text, kind| {
        let _ = writeln!(text, "{kind}");
        text
    })
}

#[test]
fn x2_a_seed_is_replayed_to_the_byte() {
    for seed in [1, 7, 1_000_003] {
        let (first, again) = (simulate_caught(seed), simulate_caught(seed));
        assert!(first.trace.lines().count() > 50, "seed {seed} does next to nothing");
        for (line, (one, other)) in first.trace.lines().zip(again.trace.lines()).enumerate() {
            assert_eq!(one, other, "seed {seed}, line {line}");
        }
        assert_eq!(first, again, "seed {seed}");
    }
}

#[test]
fn seeds_differ() {
    assert_ne!(simulate_caught(1).trace, simulate_caught(2).trace);
}
