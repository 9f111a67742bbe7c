//! The store's contract, on an in-memory DynamoDB reached over HTTP. Its network can be made to
//! lose requests and replies: what a caller is told then is half of the contract.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy knows test functions, not the rest of a test crate"
)]

mod bed;
mod commits;
mod decisions;
mod journal;
mod lists;
mod lost_replies;
mod rows;
mod rules;
mod samples;
mod wire;
