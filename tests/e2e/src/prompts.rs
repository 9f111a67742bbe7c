//! Prompts as they arrive at a provider, taken apart without changing a byte.

use std::collections::BTreeMap;

use serde_json::{Value, value::RawValue};

/// A prompt's blocks in order, each the JSON that was sent. For Chat Completions a block is a whole
/// message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// System prompt and tools.
    pub head: Vec<String>,
    /// Role and content of each block.
    pub blocks: Vec<(String, String)>,
}

type Fields<'a> = BTreeMap<String, &'a RawValue>;

fn fields(raw: &str) -> Fields<'_> {
    serde_json::from_str(raw).expect("a JSON object")
}

fn list(raw: &RawValue) -> Vec<&RawValue> {
    serde_json::from_str(raw.get()).expect("a JSON array")
}

impl Prompt {
    /// A request of the Messages API, its cache markers taken out.
    pub fn of_anthropic(raw: &str) -> Self {
        let mut prompt = Self::head_of(raw);
        for message in list(fields(raw)["messages"]) {
            let message = fields(message.get());
            let role: String = serde_json::from_str(message["role"].get()).expect("a role");
            for block in list(message["content"]) {
                prompt.blocks.push((role.clone(), unmarked(block.get())));
            }
        }
        prompt
    }

    /// A request of Chat Completions.
    pub fn of_openai(raw: &str) -> Self {
        let mut prompt = Self::head_of(raw);
        for message in list(fields(raw)["messages"]) {
            let role: String = serde_json::from_str(fields(message.get())["role"].get()).expect("a role");
            prompt.blocks.push((role, message.get().to_owned()));
        }
        prompt
    }

    fn head_of(raw: &str) -> Self {
        let request = fields(raw);
        let head = ["system", "tools"].iter().filter_map(|name| request.get(*name));
        let head = head.flat_map(|part| list(part)).map(|part| unmarked(part.get()));
        Self { head: head.collect(), blocks: Vec::new() }
    }

    /// Whether this is `earlier` with more at the end (I10).
    ///
    /// # Panics
    /// If it is not.
    #[track_caller]
    pub fn assert_continues(&self, earlier: &Self) {
        assert_eq!(self.head, earlier.head);
        assert!(self.blocks.len() > earlier.blocks.len());
        assert_eq!(self.blocks[..earlier.blocks.len()], earlier.blocks);
    }
}

/// `block` without its cache marker, all other bytes as they are.
fn unmarked(block: &str) -> String {
    match fields(block).get("cache_control") {
        None => block.to_owned(),
        Some(marker) => block.replacen(&format!(",\"cache_control\":{}", marker.get()), "", 1),
    }
}

/// Checks what the Messages API insists on: each call has exactly one result, all results of a turn
/// stand in the next message and before anything else there, and ids are unique (cases 44 to 46).
///
/// # Panics
/// If it would refuse `body`.
#[track_caller]
pub fn assert_every_call_has_one_result(body: &Value) {
    let messages = body["messages"].as_array().expect("messages");
    let mut seen = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        let blocks = message["content"].as_array().expect("a list of blocks");
        let results: Vec<_> = blocks.iter().take_while(|block| block["type"] == "tool_result").collect();
        let answered: Vec<_> = results.iter().filter_map(|block| block["tool_use_id"].as_str()).collect();
        assert_eq!(answered, open, "{body:#}");
        let rest = &blocks[results.len()..];
        assert!(rest.iter().all(|block| block["type"] != "tool_result"), "a result after something else: {body:#}");
        open =
            rest.iter().filter(|block| block["type"] == "tool_use").filter_map(|block| block["id"].as_str()).collect();
        for id in &open {
            assert!(!id.is_empty() && !seen.contains(id), "{id:?} is no id of its own: {body:#}");
            seen.push(id);
        }
    }
    assert!(open.is_empty(), "calls without results: {open:?}");
}
