//! A prompt as a request. Deterministic: the same block is the same bytes in every request.

use std::borrow::Cow;

use dormouse_domain::{
    agent::ToolDef,
    message::{Content, ModelRef, ReplyBlock},
    retry::{Failure, FailureClass},
    transcript::{AssistantBlock, Message, Prompt, UserBlock},
};
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use super::PROVIDER;
use crate::{
    failure,
    replay::{self, LeftOut},
};

/// The most that a model may write in one reply, in tokens, thinking included. Every current Claude
/// model takes at least twice as much, but a reply that is not streamed has to be finished within
/// one call's timeout.
pub(super) const MAX_OUTPUT_TOKENS: u32 = 16_384;

/// The request of `prompt` to `model`, as JSON.
///
/// # Errors
/// `Rejected` for stored blocks that are not JSON.
pub(super) fn body(model: &ModelRef, prompt: &Prompt<'_>) -> Result<String, Failure> {
    let mut left_out = LeftOut::default();
    let mut messages: Vec<WireMessage<'_>> = Vec::with_capacity(prompt.messages.len());
    for message in &prompt.messages {
        let (role, content) = match message {
            Message::User(blocks) => ("user", blocks.iter().map(user_block).collect()),
            Message::Assistant { model: from, blocks } => {
                ("assistant", assistant_blocks(model, from, blocks, &mut left_out)?)
            }
        };
        push(&mut messages, role, content);
    }
    left_out.report(model);
    let mut request = Request {
        model: &model.name,
        max_tokens: MAX_OUTPUT_TOKENS,
        system: if prompt.system.trim().is_empty() { Vec::new() } else { vec![text(prompt.system)] },
        tools: prompt.tools.iter().map(tool).collect(),
        messages,
    };
    mark(&mut request);
    serde_json::to_string(&request)
        .map_err(|error| failure(FailureClass::Rejected, format!("the prompt cannot be sent as JSON: {error}")))
}

/// Appends a message. One of which nothing is left goes; then its neighbours, both the user's,
/// become one.
fn push<'a>(messages: &mut Vec<WireMessage<'a>>, role: &'static str, mut content: Vec<Block<'a>>) {
    if content.is_empty() {
        return;
    }
    match messages.last_mut() {
        Some(last) if last.role == role => last.content.append(&mut content),
        Some(_) | None => messages.push(WireMessage { role, content }),
    }
}

/// Marks where caching may end: after the system prompt or, without one, the tools, and after each
/// of the last two user messages, the earlier of which the previous request marked as well. Three of
/// the four markers that a request may have, made anew for every request (case 53).
fn mark(request: &mut Request<'_>) {
    let marker = Some(CacheControl { kind: "ephemeral" });
    if let Some(system) = request.system.last_mut() {
        system.cache_control = marker;
    } else if let Some(tool) = request.tools.last_mut() {
        tool.cache_control = marker;
    }
    let users = request.messages.iter_mut().rev().filter(|message| message.role == "user").take(2);
    for block in users.filter_map(|message| message.content.last_mut()) {
        match block {
            Block::Text(text) => text.cache_control = marker,
            Block::Image(image) => image.cache_control = marker,
            Block::Result(result) => result.cache_control = marker,
            Block::Call(_) | Block::Raw(_) => {} // blocks of replies: no user message has them
        }
    }
}

fn assistant_blocks<'a>(
    model: &ModelRef,
    from: &'a ModelRef,
    blocks: &'a [AssistantBlock<'a>],
    left_out: &mut LeftOut<'a>,
) -> Result<Vec<Block<'a>>, Failure> {
    let mut out = Vec::with_capacity(blocks.len());
    for block in blocks {
        let built = match block {
            AssistantBlock::Call { id, block } => Some(call(id, block, from)?),
            AssistantBlock::Plain(block) => plain(model, from, block)?,
        };
        match built {
            Some(block) => out.push(block),
            None => left_out.count(from),
        }
    }
    Ok(out)
}

/// A block of a reply of `from`, unless it says nothing to `model`.
fn plain<'a>(model: &ModelRef, from: &ModelRef, block: &'a ReplyBlock) -> Result<Option<Block<'a>>, Failure> {
    let own = from.provider == PROVIDER;
    match block {
        ReplyBlock::ToolCall { id, .. } => call(id, block, from).map(Some),
        ReplyBlock::Text { raw: Some(raw), .. } if own => verbatim(raw),
        ReplyBlock::Text { text: said, .. } => Ok(Some(Block::Text(text(said)))),
        ReplyBlock::Reasoning { raw } if from == model => verbatim(raw),
        ReplyBlock::Opaque { raw } if own => verbatim(raw),
        ReplyBlock::Reasoning { .. } | ReplyBlock::Opaque { .. } => Ok(None),
    }
}

fn verbatim(raw: &str) -> Result<Option<Block<'_>>, Failure> {
    Ok(Some(Block::Raw(replay::raw_value(raw)?)))
}

fn call<'a>(id: &'a str, block: &'a ReplyBlock, from: &ModelRef) -> Result<Block<'a>, Failure> {
    let call = replay::call(id, block, from.provider == PROVIDER)?;
    if let Some(raw) = call.raw {
        return Ok(Block::Raw(raw));
    }
    let input = match call.arguments {
        Cow::Borrowed(text) => Cow::Borrowed(replay::raw_value(text)?),
        Cow::Owned(text) => Cow::Owned(replay::raw_value(&text)?.to_owned()),
    };
    Ok(Block::Call(Call { kind: "tool_use", id: call.id, name: call.name, input }))
}

fn user_block<'a>(block: &'a UserBlock<'a>) -> Block<'a> {
    match block {
        UserBlock::Said(content) => part(content),
        UserBlock::Result { id, content, is_error } => {
            let all_text = content.iter().all(|part| matches!(part.as_ref(), Content::Text { .. }));
            let mut parts: Vec<_> = content.iter().map(|content| part(content.as_ref())).collect();
            if *is_error && !all_text {
                parts.insert(0, Block::Text(text("[error]"))); // `is_error` goes with text only
            }
            let is_error = *is_error && all_text;
            Block::Result(CallResult {
                kind: "tool_result",
                tool_use_id: id,
                content: parts,
                is_error,
                cache_control: None,
            })
        }
    }
}

fn part(content: &Content) -> Block<'_> {
    match content {
        Content::Text { text: said } => Block::Text(text(said)),
        Content::Image { media_type, data } if replay::is_readable_image(media_type) => Block::Image(Image {
            kind: "image",
            source: Source { kind: "base64", media_type, data },
            cache_control: None,
        }),
        Content::Image { media_type, .. } => Block::Text(text(replay::unreadable_image(media_type))),
    }
}

fn text<'a>(text: impl Into<Cow<'a, str>>) -> Text<'a> {
    Text { kind: "text", text: text.into(), cache_control: None }
}

fn tool(tool: &ToolDef) -> Tool<'_> {
    Tool { name: &tool.name, description: &tool.description, input_schema: &tool.input_schema, cache_control: None }
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Text<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    messages: Vec<WireMessage<'a>>,
}

#[derive(Clone, Copy, Serialize)]
struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Block<'a> {
    Text(Text<'a>),
    Image(Image<'a>),
    Call(Call<'a>),
    Result(CallResult<'a>),
    Raw(&'a RawValue),
}

#[derive(Serialize)]
struct Text<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
struct Image<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    source: Source<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
struct Source<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    media_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
struct Call<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: &'a str,
    name: Cow<'a, str>,
    input: Cow<'a, RawValue>,
}

#[derive(Serialize)]
struct CallResult<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    tool_use_id: &'a str,
    content: Vec<Block<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}
