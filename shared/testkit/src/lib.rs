//! What tests put in place of the world: a store in memory, a queue that remembers, models and tools
//! that do as they are told, a clock that stands still, and faults on demand.

mod faults;
mod store;
mod world;

pub use faults::{Fault, FaultyStore};
pub use store::MemoryStore;
pub use world::{
    AgentList, FakeTools, ManualClock, MemoryQueue, ScriptedModels, SequentialIds, World, agent, answer, approve, call,
    say, test_keys,
};
