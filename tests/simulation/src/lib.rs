//! A simulation of everything that runs on AWS, in one thread, from one seed.
//!
//! **Real** is the production code: the engine, the store on DynamoDB and the queue on SQS, and the SDK
//! above its HTTP client. **Simulated** is what is around it: time, the network, DynamoDB (dynoxide in
//! memory, with indexes that can be behind), SQS, Lambda, the sweep's schedule, models, tools, people.
//! Not simulated: IAM, throttling by load, items over their size limit, the HTTP API above the engine.
//!
//! One `u64` decides everything. `SEED=<n> cargo test -p dormouse-simulation` and
//! `cargo xtask simulate --seed <n>` replay a seed and print its trace, the same to the byte.
//!
//! Read in this order: `swarm` (what goes wrong), `sim` and `time` (what all share), `wire` (the network,
//! and where a process dies), `table`, `index`, `torn`, `queue` (the services), `hosts` and `actor` (machines and
//! invocations), `pump`, `models`, `tools`, `people`, `client` (the world around them), then the judges:
//! `raw` and `books` (what the table holds), `ledger` and `sanction` (what the outside saw), and [`simulate`] in `world`.

#![allow(clippy::expect_used, reason = "a simulation that cannot be set up fails like a test")]

mod actor;
mod agents;
mod books;
mod client;
mod coverage;
mod dice;
mod grants;
mod hosts;
mod index;
mod ledger;
mod many;
mod models;
mod people;
mod pump;
mod queue;
mod raw;
mod sanction;
mod sim;
mod swarm;
mod table;
mod time;
mod tools;
mod torn;
mod wire;
mod world;

pub use coverage::EXPECTED;
pub use many::{Summary, many, simulate_caught};
pub use sim::Coverage;
pub use world::{Outcome, simulate};
