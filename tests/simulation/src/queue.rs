//! SQS, as far as the adapter and Lambda's event source mapping use a standard queue of wakes: delay,
//! visibility, at-least-once delivery, and no order. Loss is added: production survives it by the sweep.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{
    sim::{Sim, locked},
    wire::Service,
};

/// Receives after which a message goes to the dead-letter queue.
const MAX_RECEIVES: u32 = 5;
/// Latest that a late message comes, in milliseconds.
const LATEST_MS: u64 = 60_000;

/// A message that waits or is being worked on.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// Its name.
    pub(crate) id: u64,
    /// Its body.
    pub(crate) body: String,
    visible_at_ms: u64,
    receives: u32,
}

/// The queue.
pub(crate) struct WakeQueue {
    sim: Arc<Sim>,
    messages: Mutex<BTreeMap<u64, Message>>,
    sent: Mutex<u64>,
    /// Something was sent.
    pub(crate) changed: Notify,
}

impl WakeQueue {
    /// An empty queue.
    pub(crate) fn new(sim: Arc<Sim>) -> Self {
        Self { sim, messages: Mutex::default(), sent: Mutex::new(0), changed: Notify::new() }
    }

    fn send(&self, body: &str, delay_ms: u64) -> u64 {
        let first = self.put(body, delay_ms);
        if self.sim.fault(self.sim.swarm.message_doubled) {
            self.sim.count("message doubled");
            self.put(body, delay_ms + self.sim.dice.range(0..=LATEST_MS));
        }
        self.changed.notify_one();
        first
    }

    fn put(&self, body: &str, mut delay_ms: u64) -> u64 {
        let id = {
            let mut sent = locked(&self.sent);
            *sent += 1;
            *sent
        };
        if self.sim.fault(self.sim.swarm.message_lost) {
            self.sim.count("message lost");
            self.sim.say(format_args!("message {id} is lost"));
            return id;
        }
        if self.sim.fault(self.sim.swarm.message_late) {
            self.sim.count("message late");
            delay_ms += self.sim.dice.range(1..=LATEST_MS);
        }
        let visible_at_ms = self.sim.time.elapsed_ms() + delay_ms;
        let message = Message { id, body: body.to_owned(), visible_at_ms, receives: 0 };
        locked(&self.messages).insert(id, message);
        id
    }

    /// Takes a message that can be seen now, any one, and hides it for `hidden_ms`. After its last
    /// receive a message is in the dead-letter queue, and does not come again.
    pub(crate) fn take(&self, hidden_ms: u64) -> Option<Message> {
        let now = self.sim.time.elapsed_ms();
        let mut messages = locked(&self.messages);
        let visible: Vec<u64> =
            messages.values().filter(|message| message.visible_at_ms <= now).map(|message| message.id).collect();
        if visible.is_empty() {
            return None;
        }
        let id = self.sim.dice.pick(&visible);
        let message = messages.get_mut(&id)?;
        message.receives += 1;
        message.visible_at_ms = now + hidden_ms;
        let taken = message.clone();
        if taken.receives >= MAX_RECEIVES {
            self.sim.count("message dead");
            messages.remove(&id);
        }
        Some(taken)
    }

    /// Deletes a message that is done.
    pub(crate) fn delete(&self, id: u64) {
        locked(&self.messages).remove(&id);
    }

    /// When the next message can be seen.
    pub(crate) fn next_visible_ms(&self) -> Option<u64> {
        locked(&self.messages).values().map(|message| message.visible_at_ms).min()
    }
}

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn delay_ms(of: &Value) -> u64 {
    of.get("DelaySeconds").and_then(Value::as_u64).unwrap_or(0) * 1000
}

impl Service for WakeQueue {
    fn answer(&self, operation: &str, body: &[u8], _: u64) -> (u16, Vec<u8>) {
        let request: Value = serde_json::from_slice(body).unwrap_or_default();
        let answer = match operation {
            "SendMessage" => {
                let id = self.send(text(&request, "MessageBody"), delay_ms(&request));
                json!({ "MessageId": id.to_string(), "MD5OfMessageBody": "" })
            }
            "SendMessageBatch" => {
                let (mut successful, mut failed) = (Vec::new(), Vec::new());
                for entry in request.get("Entries").and_then(Value::as_array).into_iter().flatten() {
                    let name = text(entry, "Id");
                    if self.sim.fault(self.sim.swarm.message_lost) {
                        self.sim.count("message refused");
                        failed.push(json!({ "Id": name, "Code": "InternalError", "SenderFault": false }));
                        continue;
                    }
                    let id = self.send(text(entry, "MessageBody"), delay_ms(entry));
                    successful.push(json!({ "Id": name, "MessageId": id.to_string(), "MD5OfMessageBody": "" }));
                }
                json!({ "Successful": successful, "Failed": failed })
            }
            other => {
                self.sim.accuse(format!("an operation that the queue does not have: {other}"));
                return (400, json!({ "__type": "UnsupportedOperation" }).to_string().into_bytes());
            }
        };
        (200, answer.to_string().into_bytes())
    }

    fn conflict(&self, _: &str, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn throttled(&self) -> &'static str {
        "RequestThrottled"
    }
}
