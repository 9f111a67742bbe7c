//! A prompt as a request. Deterministic: the same block is the same text in every request.

use std::borrow::Cow;

use dormouse_domain::{
    agent::ToolDef,
    message::{Content, ModelRef, ReplyBlock},
    retry::{Failure, FailureClass},
    transcript::{AssistantBlock, Message, Prompt, UserBlock},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::PROVIDER;
use crate::{
    failure,
    replay::{self, LeftOut},
};

/// What stands between two texts that become one string.
const BETWEEN_TEXTS: &str = "\n\n";

/// The request of `prompt` to `model`, as JSON.
///
/// # Errors
/// `Rejected` for stored blocks that are not JSON.
pub(super) fn body(model: &ModelRef, prompt: &Prompt<'_>) -> Result<String, Failure> {
    let mut left_out = LeftOut::default();
    let mut messages = Vec::with_capacity(prompt.messages.len() + 1);
    if !prompt.system.trim().is_empty() {
        messages.push(WireMessage::System { role: "system", content: prompt.system });
    }
    // Parts of the user message that is being put together; it ends where an assistant's begins.
    let mut said = Vec::new();
    for message in &prompt.messages {
        match message {
            Message::User(blocks) => user(blocks, &mut messages, &mut said),
            Message::Assistant { model: from, blocks } => {
                if let Some(assistant) = assistant(model, from, blocks, &mut left_out)? {
                    flush(&mut said, &mut messages);
                    messages.push(WireMessage::Assistant(assistant));
                }
            }
        }
    }
    flush(&mut said, &mut messages);
    left_out.report(model);
    let request = Request { model: &model.name, messages, tools: prompt.tools.iter().map(tool).collect() };
    serde_json::to_string(&request)
        .map_err(|error| failure(FailureClass::Rejected, format!("the prompt cannot be sent as JSON: {error}")))
}

/// Results become messages of their own, at once; the rest is for the user message after them.
fn user<'a>(blocks: &'a [UserBlock<'a>], messages: &mut Vec<WireMessage<'a>>, said: &mut Vec<Part<'a>>) {
    for block in blocks {
        match block {
            UserBlock::Said(content) => said.push(part(content)),
            UserBlock::Result { id, content, is_error } => {
                let (text, images) = result(content, *is_error);
                messages.push(WireMessage::Tool { role: "tool", tool_call_id: id, content: text });
                if !images.is_empty() {
                    said.push(text_part(format!("Images in the result of the call {id}:")));
                    said.extend(images);
                }
            }
        }
    }
}

/// A result's text, and its images: a tool message takes text only.
fn result<'a>(content: &'a [Cow<'a, Content>], is_error: bool) -> (String, Vec<Part<'a>>) {
    let (mut lines, mut images) = (Vec::new(), Vec::new());
    for content in content {
        match part(content.as_ref()) {
            Part::Text { text, .. } => lines.push(text),
            image @ Part::Image { .. } => images.push(image),
        }
    }
    if lines.is_empty() {
        lines.push(Cow::Borrowed("(The result is the images that follow.)"));
    }
    let text = lines.join("\n");
    (if is_error { format!("[error] {text}") } else { text }, images)
}

/// Ends the user message. One of text alone is a string, which every server takes.
fn flush<'a>(said: &mut Vec<Part<'a>>, messages: &mut Vec<WireMessage<'a>>) {
    if said.is_empty() {
        return;
    }
    let parts = std::mem::take(said);
    let texts: Option<Vec<_>> = parts
        .iter()
        .map(|part| match part {
            Part::Text { text, .. } => Some(text.as_ref()),
            Part::Image { .. } => None,
        })
        .collect();
    let content = match texts {
        Some(texts) => UserContent::Text(texts.join(BETWEEN_TEXTS)),
        None => UserContent::Parts(parts),
    };
    messages.push(WireMessage::User { role: "user", content });
}

/// What the parse of this module stores of a server's reasoning and may be sent back.
#[derive(Deserialize)]
struct SentBack<'a> {
    #[serde(borrow, default)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_details: Option<&'a RawValue>,
}

/// A reply as one message; `None` where nothing of it can be sent.
fn assistant<'a>(
    model: &ModelRef,
    from: &'a ModelRef,
    blocks: &'a [AssistantBlock<'a>],
    left_out: &mut LeftOut<'a>,
) -> Result<Option<Assistant<'a>>, Failure> {
    let mut texts: Vec<&str> = Vec::new();
    let mut message = Assistant {
        role: "assistant",
        content: None,
        reasoning_content: None,
        reasoning_details: None,
        tool_calls: Vec::new(),
    };
    for block in blocks {
        match block {
            AssistantBlock::Call { id, block } => message.tool_calls.push(call(id, block, from)?),
            AssistantBlock::Plain(block) => match block {
                ReplyBlock::ToolCall { id, .. } => message.tool_calls.push(call(id, block, from)?),
                ReplyBlock::Text { text, .. } => texts.push(text),
                ReplyBlock::Reasoning { raw } if from == model => {
                    let fields: SentBack<'a> = serde_json::from_str(raw).map_err(|error| {
                        failure(FailureClass::Rejected, format!("stored reasoning is not in its form: {error}"))
                    })?;
                    message.reasoning_content = fields.reasoning_content.or(message.reasoning_content);
                    message.reasoning_details = fields.reasoning_details.or(message.reasoning_details);
                }
                // Kept for the record: a request has no place for it.
                ReplyBlock::Opaque { .. } if from.provider == PROVIDER => {}
                ReplyBlock::Reasoning { .. } | ReplyBlock::Opaque { .. } => left_out.count(from),
            },
        }
    }
    if !texts.is_empty() {
        message.content = Some(texts.join(BETWEEN_TEXTS));
    }
    let says_something = message.content.is_some() || !message.tool_calls.is_empty();
    Ok(says_something.then_some(message))
}

fn call<'a>(id: &'a str, block: &'a ReplyBlock, from: &ModelRef) -> Result<WireCall<'a>, Failure> {
    let call = replay::call(id, block, from.provider == PROVIDER)?;
    Ok(match call.raw {
        Some(raw) => WireCall::Raw(raw),
        None => WireCall::Built {
            id: call.id,
            kind: "function",
            function: Function { name: call.name, arguments: call.arguments },
        },
    })
}

fn part(content: &Content) -> Part<'_> {
    match content {
        Content::Text { text } => text_part(text),
        Content::Image { media_type, data } if replay::is_readable_image(media_type) => {
            Part::Image { kind: "image_url", image_url: ImageUrl { url: format!("data:{media_type};base64,{data}") } }
        }
        Content::Image { media_type, .. } => text_part(replay::unreadable_image(media_type)),
    }
}

fn text_part<'a>(text: impl Into<Cow<'a, str>>) -> Part<'a> {
    Part::Text { kind: "text", text: text.into() }
}

fn tool(tool: &ToolDef) -> Tool<'_> {
    let function = Declared { name: &tool.name, description: &tool.description, parameters: &tool.input_schema };
    Tool { kind: "function", function }
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Declared<'a>,
}

#[derive(Serialize)]
struct Declared<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireMessage<'a> {
    System { role: &'static str, content: &'a str },
    User { role: &'static str, content: UserContent<'a> },
    Assistant(Assistant<'a>),
    Tool { role: &'static str, tool_call_id: &'a str, content: String },
}

#[derive(Serialize)]
#[serde(untagged)]
enum UserContent<'a> {
    Text(String),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Part<'a> {
    Text {
        #[serde(rename = "type")]
        kind: &'static str,
        text: Cow<'a, str>,
    },
    Image {
        #[serde(rename = "type")]
        kind: &'static str,
        image_url: ImageUrl,
    },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct Assistant<'a> {
    role: &'static str,
    /// `null` beside calls alone, as OpenAI writes it itself.
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_details: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireCall<'a> {
    Raw(&'a RawValue),
    Built {
        id: &'a str,
        #[serde(rename = "type")]
        kind: &'static str,
        function: Function<'a>,
    },
}

#[derive(Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    /// The text of a JSON object, as a string.
    arguments: Cow<'a, str>,
}
