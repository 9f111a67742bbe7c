//! The pure heart of Dormouse: what a run *is*, and what it does next.
//!
//! A run is a journal, an append-only list of facts. [`Run::apply`] folds the journal into state,
//! [`next()`] says what to do with that state, [`transcript::prompt`] turns it into the message list
//! that a model reads, [`decide::check`] judges a person's answer, and [`policy::authorize`] says
//! whether a call may run. Nothing here knows a clock, randomness or IO: the time comes in as an
//! argument, so the same journal gives the same answer on every machine, in the model checker and
//! in production.
//!
//! Read in this order: [`ids`], [`message`], [`price`], [`agent`], [`kv`], [`entry`], [`run`] (the fold),
//! [`budget`], [`delegate`], [`next`](mod@next), [`plan`], [`policy`], [`request`], [`display`], [`decide`], [`token`],
//! [`transcript`], [`item`].

pub mod agent;
pub mod agent_file;
pub mod audit;
pub mod budget;
pub mod builtin;
pub mod decide;
pub mod delegate;
pub mod display;
pub mod entry;
mod fold;
pub mod ids;
pub mod item;
pub mod json;
pub mod kv;
pub mod message;
pub mod next;
pub mod plan;
pub mod policy;
pub mod price;
pub mod record;
pub mod request;
pub mod retry;
pub mod run;
mod same;
pub mod token;
pub mod transcript;
pub mod windows;

pub use agent::{Definition, Mode, ToolDef};
pub use entry::{Entry, Fact};
pub use fold::Corrupt;
pub use ids::{CallKey, Caller, Digest, DriverId, EntryId, Inbox, Millis, Principal, RequestId, RequestKey, RunId};
pub use next::{Next, next};
pub use run::Run;
