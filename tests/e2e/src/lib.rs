//! Support for the end-to-end tests: everything around a stack that is not the stack.
//!
//! A test has agents in a folder ([`Agents`]), a stack that serves them (in this process,
//! [`TestStack`], or the real binary, [`Process`]), and talks to it as any client does ([`Api`]).
//! What the stack talks to is here too: a model provider ([`ModelServer`]), web services as tools
//! ([`ToolServer`]), and the network to DynamoDB and SQS ([`Wire`]). All of them record what they
//! are sent.
//!
//! Nothing here sleeps to be in step with the stack: [`eventually`] asks again until a deadline.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test's support fails like a test")]

mod agents;
mod api;
mod model_server;
mod process;
mod prompts;
mod seed;
mod stack;
mod tool_server;
mod wait;
mod wire;

pub use agents::{Agents, Tool};
pub use api::{Answer, Api};
pub use model_server::{ModelRequest, ModelServer, anthropic, openai};
pub use process::{Process, Spawned};
pub use prompts::{Prompt, assert_every_call_has_one_result};
pub use seed::Seed;
pub use stack::{Network, TestStack};
pub use tool_server::{ToolAnswer, ToolRequest, ToolServer};
pub use wait::{PATIENCE, eventually};
pub use wire::{Fate, Wire};
