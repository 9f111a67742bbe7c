//! The models: replies by chance, as good and as bad as real ones.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use dormouse_domain::{
    message::{ModelRef, ReplyBlock, StopReason, Usage},
    retry::{Failure, FailureClass},
    transcript::{AssistantBlock, Message, Prompt},
};
use dormouse_engine::ports::{Models, Reply};
use serde_json::json;

use crate::{actor, ledger::Ledger, sim::Sim};

/// Replies after which a run ends for certain.
const REPLIES: usize = 5;

/// The models.
pub(crate) struct SimModels {
    pub(crate) sim: Arc<Sim>,
    pub(crate) ledger: Arc<Ledger>,
}

#[async_trait]
impl Models for SimModels {
    async fn call(&self, model: &ModelRef, prompt: &Prompt<'_>, timeout: Duration) -> Result<Reply, Failure> {
        let (dice, swarm) = (&self.sim.dice, &self.sim.swarm);
        let actor = actor::current();
        let host = actor.as_ref().map(|actor| actor.host().to_owned());
        self.ledger.asks(model, prompt, host.as_deref().unwrap_or_default());
        let slow = !swarm.calm && dice.chance(60);
        let span = Duration::from_millis(dice.range(if slow { 3_000..=120_000 } else { 10..=3_000 }));
        tokio::time::sleep(span.min(timeout)).await;
        if span > timeout {
            self.sim.count("model too slow");
            let message = "no reply in time".to_owned();
            return Err(Failure::new(FailureClass::Network, message));
        }
        if self.sim.fault(swarm.model_dies)
            && let Some(actor) = actor
        {
            self.sim.count("model dies");
            actor.kill();
            return std::future::pending().await;
        }
        if self.sim.fault(swarm.model_panics) {
            self.sim.count("model panics");
            std::panic::resume_unwind(Box::new("the model's client panics"));
        }
        if self.sim.fault(swarm.model_fails) {
            return Err(self.failure(timeout).await);
        }
        Ok(self.reply(prompt))
    }
}

impl SimModels {
    async fn failure(&self, timeout: Duration) -> Failure {
        use FailureClass::{Auth, BadReply, Network, Overloaded, RateLimited, Rejected, Server};
        let class = self.sim.dice.pick(&[Overloaded, RateLimited, Network, Server, Server, BadReply, Rejected, Auth]);
        self.sim.count(format!("model {class:?}"));
        if class == Network {
            tokio::time::sleep(timeout).await;
        }
        let retry_after_ms = (class == RateLimited).then(|| self.sim.dice.pick(&[100, 5_000, 60_000]));
        Failure { retry_after_ms, ..Failure::new(class, "the provider fails") }
    }

    fn reply(&self, prompt: &Prompt<'_>) -> Reply {
        let dice = &self.sim.dice;
        let replies = prompt.messages.iter().filter(|message| matches!(message, Message::Assistant { .. })).count();
        let ends = replies >= REPLIES || prompt.tools.is_empty() || dice.chance(if replies == 0 { 100 } else { 350 });
        let mut content = Vec::new();
        if ends || dice.chance(500) {
            let text = if dice.chance(30) { " ".to_owned() } else { format!("thought {}", dice.range(0..=999)) };
            content.push(ReplyBlock::Text { text, raw: None });
        }
        if !ends {
            let calls = dice.weighted(&[(5, 1), (3, 2), (2, 3), (1, 4)]);
            content.extend((0..calls).map(|_| self.tool_call(prompt)));
        }
        let usage = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() };
        let stop = match (ends, dice.range(0..=99)) {
            (_, 0..=2) => StopReason::MaxTokens,
            (true, 3..=4) => StopReason::Pause,
            (_, 5) => StopReason::Refusal,
            (true, _) => StopReason::EndTurn,
            (false, _) => StopReason::ToolUse,
        };
        Reply { content, stop, usage }
    }

    /// Few tools and few arguments, and now and then an earlier call: so that the same call comes again.
    fn tool_call(&self, prompt: &Prompt<'_>) -> ReplyBlock {
        let dice = &self.sim.dice;
        let made = prompt.messages.iter().filter_map(|message| match message {
            Message::Assistant { blocks, .. } => Some(blocks),
            Message::User(_) => None,
        });
        let made: Vec<&ReplyBlock> = made
            .flatten()
            .filter_map(|block| match block {
                AssistantBlock::Call { block, .. } => Some(*block),
                AssistantBlock::Plain(_) => None,
            })
            // A run is known by what it was asked, so no task is given twice.
            .filter(|block| !matches!(block, ReplyBlock::ToolCall { name, .. } if name == "delegate"))
            .collect();
        if !made.is_empty() && dice.chance(250) {
            return dice.pick(&made).clone();
        }
        let tool = &prompt.tools[usize::try_from(dice.range(0..=prompt.tools.len() as u64 - 1)).unwrap_or(0)];
        let name = if dice.chance(20) { "no_such_tool".to_owned() } else { tool.name.clone() };
        let arguments = match (name.as_str(), dice.range(0..=99)) {
            (_, 0..=1) => "{\"n\":".to_owned(),
            (_, 2..=3) => json!({ "n": "text" }).to_string(),
            ("ask_user", 4..=49) => json!({ "question": "Which one?" }).to_string(),
            ("ask_user", _) => json!({
                "question": "Which one?",
                "options": [{ "value": 0 }, { "value": false }, { "value": "" }, { "value": "stop", "cancels": true }],
            })
            .to_string(),
            ("delegate", 4) => json!({ "agent": "nobody", "task": "none" }).to_string(),
            ("delegate", _) => {
                let agent = &tool.input_schema["properties"]["agent"]["enum"][0];
                json!({ "agent": agent, "task": format!("task {:020}", dice.range(0..=u64::MAX - 1)) }).to_string()
            }
            (_, _) => json!({ "n": dice.range(0..=2) }).to_string(),
        };
        let id = if dice.chance(100) { "same".to_owned() } else { format!("c{}", dice.range(0..=999_999)) };
        ReplyBlock::ToolCall { id, name, arguments, raw: None }
    }
}
