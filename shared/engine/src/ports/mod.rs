//! What the engine needs from outside. Each port says what its implementations promise; the
//! contract of [`Store`] is the one on which the invariants rest.

mod keys;
mod models;
mod store;
mod tools;
mod world;

pub use keys::{Keys, KeysError, NoKeys};
pub use models::{Models, Reply};
pub use store::{
    Commit, Due, FileVersion, FileWrite, ItemWrite, NewReceipt, Page, Receipt, RequestWrite, Store, StoreError,
    WriteError,
};
pub use tools::{File, FileInfo, Files, Handover, ToolCall, ToolReply, Tools};
pub use world::{Agents, Clock, Ids, Queue, QueueError, Wake};
