//! The tools that agents can use, and the files that agents are written in.
//!
//! [`Registry`] is the engine's `Tools` port: it checks arguments against a tool's JSON Schema and
//! sends a call where its definition says, to a web service (`http`) or to a tool over the workspace
//! (`workspace`). [`load_dir`] reads a directory of agent files into an [`AgentSet`], the engine's
//! `Agents` port.
//!
//! What a tool does is told apart in three ways that the engine relies on (B1, B4): it answered
//! (with a result or an error for the model), it was certainly never reached, or nobody knows. When
//! in doubt it is the last. Nothing here writes: a workspace tool returns the files to be written,
//! and the engine stores them in the same transaction as the result.
//!
//! Read in this order: `registry`, `http`, `workspace`, `agents`; `bounds`, `schema` and `path` are
//! what they share.

mod agents;
mod bounds;
mod http;
mod path;
mod registry;
mod schema;
#[cfg(test)]
mod testing;
mod workspace;

pub use agents::{AgentSet, FileFaults, Unusable, load_deployed, load_dir};
pub use bounds::{MAX_IMAGE_BYTES, MAX_RESULT_BYTES};
pub use path::{MAX_PATH_BYTES, normalise};
pub use registry::{Checker, Registry};
pub use workspace::MAX_FILE_BYTES;
