//! The bounds that `docs/model.md` states are those of the configurations.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by stopping")]

use dormouse_model::config;

#[test]
fn x1_the_bounds_are_stated() {
    let stated = include_str!("../../../docs/model.md");
    let rows: Vec<_> = stated.lines().filter(|line| line.matches('|').count() == 10).skip(2).collect();
    let bounds: Vec<_> = config::all().iter().map(config::Config::row).collect();
    assert_eq!(rows.join("\n"), bounds.join("\n"), "docs/model.md should say:\n{}", bounds.join("\n"));
}
