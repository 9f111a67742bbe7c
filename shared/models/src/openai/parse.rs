//! An answer as a reply. Blocks come in the order: reasoning, text, refusal, calls, the rest; the
//! form has no order of its own.

use std::collections::BTreeMap;

use dormouse_domain::{
    json,
    message::{ReplyBlock, StopReason, Usage},
    retry::{Failure, FailureClass},
};
use dormouse_engine::ports::Reply;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{
    failure,
    http::{Said, bad_reply, class_of},
};

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    message: Fields<'a>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct WireUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<u64>,
}

type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// Fields in which servers show reasoning. What becomes of them: see the module above.
const REASONING: [&str; 3] = ["reasoning_content", "reasoning_details", "reasoning"];
/// Fields that have a form of ours.
const KNOWN: [&str; 5] = ["role", "content", "refusal", "tool_calls", "function_call"];

/// The reply that `answer` holds, lone surrogates replaced (case 49).
///
/// # Errors
/// `BadReply` for anything but a completion; what a server reports as an error within a success
/// (OpenRouter does) is classed by its `code`.
pub(super) fn reply(answer: &str) -> Result<Reply, Failure> {
    let text = json::well_formed(answer);
    let answer: Answer<'_> = serde_json::from_str(&text).map_err(bad_reply)?;
    let Some(choice) = answer.choices.into_iter().next() else { return Err(no_choice(&text)) };
    let message = choice.message;
    let mut content = Vec::new();
    content.extend(reasoning(&message).map(|raw| ReplyBlock::Reasoning { raw }));
    texts(&message, &mut content)?;
    let refusal = present(&message, "refusal").map(string).transpose()?.filter(|text| !text.is_empty());
    let refused = refusal.is_some();
    content.extend(refusal.map(|text| ReplyBlock::Text { text, raw: None }));
    let spoken = content.len();
    calls(&message, &mut content)?;
    let called = content.len() > spoken;
    for (name, value) in &message {
        if !KNOWN.contains(&name.as_str()) && !REASONING.contains(&name.as_str()) && !is_empty(value) {
            content.push(ReplyBlock::Opaque { raw: object([(name.as_str(), *value)]) });
        }
    }
    Ok(Reply { content, stop: stop(choice.finish_reason, refused, called), usage: usage(answer.usage) })
}

fn no_choice(answer: &str) -> Failure {
    let code = serde_json::from_str::<Value>(answer).ok().and_then(|value| value.get("error")?.get("code").cloned());
    let said = Said::read(answer);
    match code.as_ref().and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok()) {
        Some(code) if code >= 400 => failure(class_of(code), format!("error {code} in the reply{said}")),
        Some(_) | None => failure(FailureClass::BadReply, format!("a reply without choices{said}")),
    }
}

/// The end of a reply. Some servers say `stop` beside calls.
fn stop(reason: Option<String>, refused: bool, called: bool) -> StopReason {
    match reason.as_deref() {
        Some("stop") if refused => StopReason::Refusal,
        Some("stop") if called => StopReason::ToolUse,
        Some("stop") => StopReason::EndTurn,
        Some("tool_calls" | "function_call") => StopReason::ToolUse,
        Some("length") => StopReason::MaxTokens,
        Some("content_filter") => StopReason::Refusal,
        Some(other) => StopReason::Other(other.to_owned()),
        None => StopReason::Other("unstated".to_owned()),
    }
}

/// Usage that is missing or unreadable spoils no reply; it is known to be incomplete (case 54).
fn usage(raw: Option<&RawValue>) -> Usage {
    let Some(usage) = raw.and_then(|raw| serde_json::from_str::<WireUsage>(raw.get()).ok()) else {
        return Usage { incomplete: true, ..Usage::default() };
    };
    let cached = usage.prompt_tokens_details.and_then(|details| details.cached_tokens).unwrap_or(0);
    Usage {
        input_tokens: usage.prompt_tokens.unwrap_or(0).saturating_sub(cached),
        output_tokens: usage.completion_tokens.unwrap_or(0),
        cache_read_tokens: cached,
        cache_write_tokens: 0,
        incomplete: usage.prompt_tokens.is_none() || usage.completion_tokens.is_none(),
    }
}

/// The fields of reasoning as one object, values as received. An empty text counts: the server may
/// want it back all the same.
fn reasoning(message: &Fields<'_>) -> Option<String> {
    let fields: Vec<_> = REASONING.iter().filter_map(|name| Some((*name, present(message, name)?))).collect();
    (!fields.is_empty()).then(|| object(fields))
}

/// `content` is null, a string, or an array of parts.
fn texts(message: &Fields<'_>, content: &mut Vec<ReplyBlock>) -> Result<(), Failure> {
    let Some(value) = present(message, "content") else { return Ok(()) };
    if !value.get().starts_with('[') {
        let text = string(value)?;
        if !text.is_empty() {
            content.push(ReplyBlock::Text { text, raw: None });
        }
        return Ok(());
    }
    let parts: Vec<&RawValue> = serde_json::from_str(value.get()).map_err(bad_reply)?;
    for part in parts {
        let fields: Fields<'_> = serde_json::from_str(part.get()).map_err(bad_reply)?;
        let text = match present(&fields, "type").map(RawValue::get) {
            Some(r#""text""#) => present(&fields, "text"),
            Some(r#""refusal""#) => present(&fields, "refusal"),
            Some(_) | None => None,
        };
        content.push(match text {
            Some(text) => ReplyBlock::Text { text: string(text)?, raw: None },
            None => ReplyBlock::Opaque { raw: part.get().to_owned() },
        });
    }
    Ok(())
}

fn calls(message: &Fields<'_>, content: &mut Vec<ReplyBlock>) -> Result<(), Failure> {
    if let Some(calls) = present(message, "tool_calls") {
        let calls: Vec<&RawValue> = serde_json::from_str(calls.get()).map_err(bad_reply)?;
        for call in calls {
            content.push(tool_call(call)?);
        }
    } else if let Some(function) = present(message, "function_call") {
        let function: Fields<'_> = serde_json::from_str(function.get()).map_err(bad_reply)?;
        let (name, arguments) = name_and_arguments(&function)?;
        content.push(ReplyBlock::ToolCall { id: String::new(), name, arguments, raw: None });
    }
    Ok(())
}

/// A call of a function; any other kind is opaque. Its JSON is kept where it holds more than the
/// call (Gemini signs calls in `extra_content` and wants them back so).
fn tool_call(raw: &RawValue) -> Result<ReplyBlock, Failure> {
    let fields: Fields<'_> = serde_json::from_str(raw.get()).map_err(bad_reply)?;
    let Some(function) = present(&fields, "function") else {
        return Ok(ReplyBlock::Opaque { raw: raw.get().to_owned() });
    };
    let function: Fields<'_> = serde_json::from_str(function.get()).map_err(bad_reply)?;
    let (name, arguments) = name_and_arguments(&function)?;
    let id = present(&fields, "id").map(string).transpose()?.unwrap_or_default();
    let known = fields.keys().all(|key| matches!(key.as_str(), "id" | "type" | "index" | "function"))
        && function.keys().all(|key| matches!(key.as_str(), "name" | "arguments"));
    Ok(ReplyBlock::ToolCall { id, name, arguments, raw: (!known).then(|| raw.get().to_owned()) })
}

/// Arguments are a string that should hold JSON; from some servers they are the JSON itself.
fn name_and_arguments(function: &Fields<'_>) -> Result<(String, String), Failure> {
    let Some(name) = present(function, "name") else { return Err(bad_reply("a call without a name")) };
    let arguments = match present(function, "arguments") {
        None => String::new(),
        Some(value) if value.get().starts_with('"') => string(value)?,
        Some(value) => value.get().to_owned(),
    };
    Ok((string(name)?, arguments))
}

fn present<'a>(fields: &Fields<'a>, name: &str) -> Option<&'a RawValue> {
    fields.get(name).copied().filter(|value| value.get() != "null")
}

fn is_empty(value: &RawValue) -> bool {
    matches!(value.get(), "null" | "[]" | "{}" | "\"\"")
}

fn string(value: &RawValue) -> Result<String, Failure> {
    serde_json::from_str(value.get()).map_err(bad_reply)
}

/// These fields as an object, values as they are.
fn object<'a>(fields: impl IntoIterator<Item = (&'a str, &'a RawValue)>) -> String {
    let fields: Vec<_> =
        fields.into_iter().map(|(name, value)| format!("{}:{}", Value::from(name), value.get())).collect();
    format!("{{{}}}", fields.join(","))
}
