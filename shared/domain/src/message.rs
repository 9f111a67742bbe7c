//! Content as it is stored: what people and tools say, and what models reply.
//!
//! A reply is kept in a form of our own plus, where rebuilding that form would not give the very
//! bytes that were received, the provider's text (`raw`), to be sent back verbatim to the same
//! provider (D9, case 51).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::ids::BadId;

/// A piece of what a person or a tool says.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Text.
    Text {
        /// The text, well-formed Unicode.
        text: String,
    },
    /// An image.
    Image {
        /// Its media type, for example `image/png`.
        media_type: String,
        /// Its bytes in base64 (RFC 4648, section 4).
        data: String,
    },
}

impl Content {
    /// A piece of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// How large it is, in bytes of text.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text { text } => text.len(),
            Self::Image { data, .. } => data.len(),
        }
    }

    /// Whether this is text that holds nothing but white space. Models refuse such blocks.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        match self {
            Self::Text { text } => text.trim().is_empty(),
            Self::Image { .. } => false,
        }
    }
}

/// A block of a model's reply.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ReplyBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// The provider's JSON of this block, where it holds more than the text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raw: Option<String>,
    },
    /// A tool call.
    ToolCall {
        /// The id that the model gave it: possibly empty, repeated or illegal elsewhere.
        id: String,
        /// The tool's name as the model wrote it.
        name: String,
        /// The arguments as received: usually the text of a JSON object, possibly anything.
        arguments: String,
        /// The provider's JSON of this block, where it holds more than these.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raw: Option<String>,
    },
    /// The model's reasoning, opaque and signed: only ever sent back as it is.
    Reasoning {
        /// The provider's JSON of this block.
        raw: String,
    },
    /// A block of a kind that we don't know, kept for its provider.
    Opaque {
        /// The provider's JSON of this block.
        raw: String,
    },
}

impl ReplyBlock {
    /// How large it is, in bytes of text: as it was received, where that is more.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text { text, raw } => raw.as_ref().map_or(0, String::len).max(text.len()),
            Self::ToolCall { id, name, arguments, raw } => {
                raw.as_ref().map_or(0, String::len).max(id.len() + name.len() + arguments.len())
            }
            Self::Reasoning { raw } | Self::Opaque { raw } => raw.len(),
        }
    }
}

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It said all it wanted.
    EndTurn,
    /// It wants tools called.
    ToolUse,
    /// It ran into its output limit; the last block may be cut off.
    MaxTokens,
    /// It declined to answer.
    Refusal,
    /// The provider paused a long turn; sending the reply back continues it.
    Pause,
    /// Anything else, in the provider's word.
    Other(String),
}

impl StopReason {
    /// The reason as one word for people and programs.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::Refusal => "refusal",
            Self::Pause => "pause",
            Self::Other(word) => word,
        }
    }
}

/// Tokens that model calls used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that were neither read from nor written to a cache.
    pub input_tokens: u64,
    /// Output tokens, reasoning included.
    pub output_tokens: u64,
    /// Input tokens read from the provider's cache.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cache_read_tokens: u64,
    /// Input tokens written to the provider's cache.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cache_write_tokens: u64,
    /// Whether some call's usage is not known, so that the numbers are a lower bound (B9).
    #[serde(default, skip_serializing_if = "is_false")]
    pub incomplete: bool,
}

/// For `skip_serializing_if`: what a reader takes for granted is not stored.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// For `skip_serializing_if`: the default of a flag is not stored.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
pub(crate) fn is_false(flag: &bool) -> bool {
    !*flag
}

impl Usage {
    /// All tokens, read, written and cached.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let input = self.input_tokens.saturating_add(self.cache_read_tokens).saturating_add(self.cache_write_tokens);
        input.saturating_add(self.output_tokens)
    }

    /// Adds the usage of one more call.
    pub fn add(&mut self, other: &Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
        self.incomplete |= other.incomplete;
    }
}

/// A model: `<provider>:<model name>`, for example `anthropic:claude-sonnet-4-5`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ModelRef {
    /// The adapter that speaks to it, for example `anthropic`.
    pub provider: String,
    /// The model's name as the provider knows it.
    pub name: String,
}

impl FromStr for ModelRef {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        match text.split_once(':') {
            Some((provider, name)) if !provider.is_empty() && !name.is_empty() => {
                Ok(Self { provider: provider.to_owned(), name: name.to_owned() })
            }
            Some(_) | None => Err(BadId { what: "model (provider:name)", text: text.chars().take(80).collect() }),
        }
    }
}

impl TryFrom<String> for ModelRef {
    type Error = BadId;
    fn try_from(text: String) -> Result<Self, BadId> {
        text.parse()
    }
}

impl From<ModelRef> for String {
    fn from(model: ModelRef) -> Self {
        model.to_string()
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.provider, self.name)
    }
}

/// Text of a reply: its text blocks joined by blank lines.
#[must_use]
pub fn reply_text(content: &[ReplyBlock]) -> String {
    let texts = content.iter().filter_map(|block| match block {
        ReplyBlock::Text { text, .. } if !text.trim().is_empty() => Some(text.as_str()),
        ReplyBlock::Text { .. }
        | ReplyBlock::ToolCall { .. }
        | ReplyBlock::Reasoning { .. }
        | ReplyBlock::Opaque { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}
