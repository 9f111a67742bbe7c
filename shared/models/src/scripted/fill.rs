//! Placeholders, and what stands for them in a conversation.

use std::collections::BTreeMap;

use dormouse_domain::{
    message::{Content, ReplyBlock},
    transcript::{AssistantBlock, Message, Prompt, UserBlock},
};
use serde_json::{Map, Value};
use toml::Table;

/// What stands for a placeholder that has no value.
const NONE: &str = "(none)";

/// What the placeholders of one prompt mean.
#[derive(Debug, Default)]
pub(super) struct Values {
    input: Option<String>,
    last_result: Option<String>,
    /// The last result of each tool.
    results: BTreeMap<String, String>,
    /// The characters of the prompt, for the estimate of its tokens.
    pub(super) characters: usize,
}

impl Values {
    pub(super) fn of(prompt: &Prompt<'_>) -> Self {
        let mut values = Self { characters: prompt.system.chars().count(), ..Self::default() };
        let mut names: BTreeMap<&str, &str> = BTreeMap::new();
        for message in &prompt.messages {
            match message {
                Message::User(blocks) => blocks.iter().for_each(|block| values.hear(block, &names)),
                Message::Assistant { blocks, .. } => {
                    for block in blocks {
                        let (id, block) = match block {
                            AssistantBlock::Call { id, block } => (*id, *block),
                            AssistantBlock::Plain(block) => ("", *block),
                        };
                        if let ReplyBlock::ToolCall { name, .. } = block {
                            names.insert(id, name);
                        }
                        values.characters += super::written(std::slice::from_ref(block));
                    }
                }
            }
        }
        values
    }

    fn hear(&mut self, block: &UserBlock<'_>, names: &BTreeMap<&str, &str>) {
        match block {
            UserBlock::Said(Content::Text { text }) => {
                self.characters += text.chars().count();
                self.input.get_or_insert_with(|| text.clone());
            }
            UserBlock::Said(Content::Image { data, .. }) => self.characters += data.len(),
            UserBlock::Result { id, content, .. } => {
                let texts: Vec<&str> = content
                    .iter()
                    .filter_map(|content| match content.as_ref() {
                        Content::Text { text } => Some(text.as_str()),
                        Content::Image { .. } => None,
                    })
                    .collect();
                let text = texts.join("\n");
                self.characters += text.chars().count();
                if let Some(name) = names.get(id) {
                    self.results.insert((*name).to_owned(), text.clone());
                }
                self.last_result = Some(text);
            }
        }
    }

    fn value(&self, placeholder: &str) -> Option<&str> {
        let value = match placeholder {
            "input" => self.input.as_deref(),
            "result" => self.last_result.as_deref(),
            other => self.results.get(other.strip_prefix("result:")?).map(String::as_str),
        };
        Some(value.filter(|text| !text.trim().is_empty()).unwrap_or(NONE))
    }

    /// `text` with its placeholders replaced, once: what stands for one is not looked at again.
    pub(super) fn fill(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            out.push_str(before);
            match after.split_once("}}").and_then(|(name, tail)| Some((self.value(name.trim())?, tail))) {
                Some((value, tail)) => {
                    out.push_str(value);
                    rest = tail;
                }
                None => {
                    out.push_str("{{");
                    rest = after;
                }
            }
        }
        out.push_str(rest);
        out
    }

    /// Arguments as JSON, the strings in them filled.
    pub(super) fn fill_table(&self, table: &Table) -> Value {
        let fields = table.iter().map(|(name, value)| (name.clone(), self.fill_value(value)));
        Value::Object(fields.collect::<Map<_, _>>())
    }

    fn fill_value(&self, value: &toml::Value) -> Value {
        match value {
            toml::Value::String(text) => Value::String(self.fill(text)),
            toml::Value::Integer(number) => Value::from(*number),
            toml::Value::Float(number) => Value::from(*number),
            toml::Value::Boolean(flag) => Value::Bool(*flag),
            toml::Value::Datetime(datetime) => Value::String(datetime.to_string()),
            toml::Value::Array(items) => Value::Array(items.iter().map(|item| self.fill_value(item)).collect()),
            toml::Value::Table(table) => self.fill_table(table),
        }
    }
}
