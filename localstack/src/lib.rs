//! The stacks on one machine, under which the same handlers run as on AWS.
//!
//! [`Stack`] is all of it: the emulators (or any endpoint that speaks DynamoDB and SQS), the table
//! and the queue, the engine, and what AWS does around functions: `pump` hands wake messages to
//! the step function, `sweeper` is the minute's schedule, `server` is the API's front. `main`
//! only reads its flags.

mod config;
mod database;
pub mod emulators;
mod link_keys;
mod lock;
mod page;
mod pump;
mod server;
mod stack;

pub use config::{Backend, Config, Flags, USAGE};
pub use lock::{DataLock, LockError};
pub use stack::{Stack, StackError};
