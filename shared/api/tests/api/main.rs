//! The HTTP interface and the triggers, over an engine in memory: proxy events in, responses out.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers fail as the tests they serve do")]

mod app;
mod batch;
mod bodies;
mod completing;
mod controlling;
mod crossing;
mod deciding;
mod exporting;
mod following;
mod forking;
mod idempotency;
mod identity;
mod links;
mod pages;
mod problems;
mod reading;
mod routes;
mod shapes;
mod showing;
