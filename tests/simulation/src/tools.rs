//! The tools: each call has its effect once, at a moment of its own, and then the world may end.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use dormouse_domain::{ToolDef, entry::CallResult, kv::KvPatch, message::Content};
use dormouse_engine::ports::{ToolCall, ToolReply, Tools};
use serde_json::Value;

use crate::{
    actor::Actor,
    ledger::Ledger,
    sim::{Sim, locked},
};

/// The tools as one host reaches them.
pub(crate) struct SimTools {
    pub(crate) sim: Arc<Sim>,
    pub(crate) ledger: Arc<Ledger>,
    /// The host's name, and what it is running: a tool's task is not the invocation's own.
    pub(crate) host: String,
    pub(crate) invocation: Mutex<Option<Arc<Actor>>>,
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Returns,
    Fails,
    NotSent,
    Unknown,
    Hangs,
    Panics,
    DiesBefore,
    DiesAfter,
}

impl SimTools {
    fn turn(&self) -> Turn {
        let swarm = &self.sim.swarm;
        let dies = swarm.tool_dies / 2;
        let turns = [
            (swarm.tool_fails, Turn::Fails),
            (swarm.tool_not_sent, Turn::NotSent),
            (swarm.tool_unknown, Turn::Unknown),
            (swarm.tool_hangs, Turn::Hangs),
            (swarm.tool_panics, Turn::Panics),
            (dies, Turn::DiesBefore),
            (dies, Turn::DiesAfter),
        ];
        let faults: u64 = turns.iter().map(|(weight, _)| weight).sum();
        if self.sim.fault(faults) {
            let turn = self.sim.dice.weighted(&turns);
            self.sim.count(format!("tool {turn:?}"));
            return turn;
        }
        Turn::Returns
    }

    /// What a call that answers keeps for the run: its own key, under the name of its tool. Every other time it
    /// takes away what another tool kept.
    fn keeps(&self, call: &ToolCall) -> KvPatch {
        let mut kept = KvPatch::new();
        let others = call.state.iter().map(|(name, _)| name).filter(|name| *name != call.tool.name);
        let other = others.last().filter(|_| self.sim.dice.chance(500));
        let set = kept.set(&call.tool.name, &call.call.to_string().into());
        let removed = other.map_or(Ok(()), |name| kept.remove(name));
        self.sim.ensure(set.and(removed).is_ok(), || format!("A13: {} cannot keep its key", call.tool.name));
        kept
    }

    /// The process dies here.
    async fn die(&self) -> ToolReply {
        if let Some(invocation) = locked(&self.invocation).as_ref() {
            invocation.kill();
        }
        std::future::pending().await
    }
}

fn reply(result: CallResult) -> ToolReply {
    result.into()
}

#[async_trait]
impl Tools for SimTools {
    fn validate(&self, _: &ToolDef, arguments: &Value) -> Result<(), String> {
        match arguments.get("n") {
            Some(Value::String(_)) => Err("n must not be text".to_owned()),
            Some(_) | None => Ok(()),
        }
    }

    async fn call(&self, call: &ToolCall) -> ToolReply {
        let turn = self.turn();
        let dice = &self.sim.dice;
        let longest = if dice.chance(100) { call.tool.timeout_ms + 500 } else { call.tool.timeout_ms / 4 };
        tokio::time::sleep(Duration::from_millis(dice.range(1..=longest.max(1)))).await;
        let text = format!("{} did {}", call.tool.name, call.arguments);
        if turn == Turn::NotSent {
            return reply(CallResult::NotSent { why: "refused".to_owned() });
        }
        if turn == Turn::DiesBefore {
            return self.die().await;
        }
        if turn == Turn::Unknown && dice.chance(500) {
            return reply(CallResult::Unknown { why: "lost on the way".to_owned() });
        }
        self.ledger.executes(call, &self.host);
        tokio::time::sleep(Duration::from_millis(dice.range(0..=20))).await;
        match turn {
            Turn::DiesAfter => self.die().await,
            Turn::Hangs => std::future::pending().await,
            // Without the hook of a panic that nobody expects.
            Turn::Panics => std::panic::resume_unwind(Box::new("the tool panics")),
            Turn::Unknown => reply(CallResult::Unknown { why: "the connection broke".to_owned() }),
            Turn::Returns | Turn::Fails | Turn::NotSent | Turn::DiesBefore => {
                let result = CallResult::Returned { content: vec![Content::text(text)], is_error: turn == Turn::Fails };
                ToolReply { kv: self.keeps(call), ..reply(result) }
            }
        }
    }
}
