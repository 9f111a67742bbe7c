//! Dormouse on AWS: the store on DynamoDB, the queue on SQS, the keys of tokens in Secrets Manager. The only user of
//! their SDKs.
//!
//! The promises are those of the ports ([`Store`](dormouse_engine::ports::Store),
//! [`Files`](dormouse_engine::ports::Files), [`Queue`](dormouse_engine::ports::Queue)); here is how
//! DynamoDB keeps them. Each fact is one conditional put at the next index, everything that
//! belongs to one fact is one transaction, and a write whose reply was lost is settled by looking
//! who stands at the index, never by guessing from the error.
//!
//! Read in this order: `keys` and [`schema`] (the table), `body` (what a stored body looks like),
//! `entry_item`, `run_row`, `request_row`, `definition`, `receipt`, `file` (one kind of item each),
//! `action` and `commit` (what a transaction consists of), `write` (how it is made, tried again and
//! settled; with `failure` and `cancel`), `lists` and `cursor`, [`store`](DynamoStore), `queue`, `link_keys`.

mod action;
mod attrs;
mod body;
mod cancel;
mod commit;
mod connect;
mod cursor;
mod definition;
mod entry_item;
mod failure;
mod file;
mod keys;
mod link_keys;
mod lists;
mod queue;
mod receipt;
mod request_row;
mod rule_row;
mod run_row;
pub mod schema;
mod store;
mod table;
mod write;

pub use connect::{ATTEMPT_TIMEOUT, CONNECT_TIMEOUT, OPERATION_TIMEOUT, READ_ATTEMPTS, timeouts};
pub use link_keys::{KEYS_FRESH, SecretKeys};
pub use queue::{Received, SqsQueue};
pub use store::DynamoStore;
