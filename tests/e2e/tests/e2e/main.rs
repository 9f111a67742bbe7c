//! End-to-end tests: a whole stack, seen from outside. Each is named after the requirement
//! (`docs/promises.md`) or the case (`docs/cases.md`) that it holds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "clippy takes a test's helpers for its subject"
)]

mod bad_input;
mod claim;
mod completing;
mod counting;
mod deadlines;
mod deciding;
mod edge;
mod forking;
mod keeping;
mod killing;
mod late;
mod links;
mod losing;
mod messages;
mod racing;
mod restarting;
mod walk;
