//! An answer as a reply. Every block is kept as received, or in a form from which the very same
//! block can be built.

use std::collections::BTreeMap;

use dormouse_domain::{
    json,
    message::{ReplyBlock, StopReason, Usage},
    retry::Failure,
};
use dormouse_engine::ports::Reply;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::http::bad_reply;

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
    stop_reason: Option<String>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
}

type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// The reply that `answer` holds, lone surrogates replaced (case 49).
///
/// # Errors
/// `BadReply` for anything but a message.
pub(super) fn reply(answer: &str) -> Result<Reply, Failure> {
    let answer = json::well_formed(answer);
    let answer: Answer<'_> = serde_json::from_str(&answer).map_err(bad_reply)?;
    let content = answer.content.into_iter().map(block).collect::<Result<_, _>>()?;
    Ok(Reply { content, stop: stop(answer.stop_reason), usage: usage(answer.usage) })
}

fn stop(reason: Option<String>) -> StopReason {
    match reason.as_deref() {
        Some("end_turn") => StopReason::EndTurn,
        Some("tool_use") => StopReason::ToolUse,
        Some("max_tokens") => StopReason::MaxTokens,
        Some("refusal") => StopReason::Refusal,
        Some("pause_turn") => StopReason::Pause,
        Some(other) => StopReason::Other(other.to_owned()),
        None => StopReason::Other("unstated".to_owned()),
    }
}

/// Usage that is missing or unreadable spoils no reply; it is known to be incomplete (case 54).
fn usage(raw: Option<&RawValue>) -> Usage {
    let Some(usage) = raw.and_then(|raw| serde_json::from_str::<WireUsage>(raw.get()).ok()) else {
        return Usage { incomplete: true, ..Usage::default() };
    };
    Usage {
        input_tokens: usage.input_tokens.unwrap_or(0),
        output_tokens: usage.output_tokens.unwrap_or(0),
        cache_read_tokens: usage.cache_read_input_tokens.unwrap_or(0),
        cache_write_tokens: usage.cache_creation_input_tokens.unwrap_or(0),
        incomplete: usage.input_tokens.is_none() || usage.output_tokens.is_none(),
    }
}

fn block(raw: &RawValue) -> Result<ReplyBlock, Failure> {
    let fields: Fields<'_> = serde_json::from_str(raw.get()).map_err(bad_reply)?;
    let whole = || raw.get().to_owned();
    match string(&fields, "type")?.as_str() {
        "text" => {
            let known = only(&fields, &["type", "text", "citations"]) && is_null(&fields, "citations");
            Ok(ReplyBlock::Text { text: string(&fields, "text")?, raw: (!known).then(whole) })
        }
        "tool_use" => {
            let known = only(&fields, &["type", "id", "name", "input"]);
            Ok(ReplyBlock::ToolCall {
                // Compatible servers leave the id out; the transcript gives such a call one of ours.
                id: if is_null(&fields, "id") { String::new() } else { string(&fields, "id")? },
                name: string(&fields, "name")?,
                arguments: fields.get("input").map_or_else(String::new, |input| input.get().to_owned()),
                raw: (!known).then(whole),
            })
        }
        "thinking" | "redacted_thinking" => Ok(ReplyBlock::Reasoning { raw: whole() }),
        _ => Ok(ReplyBlock::Opaque { raw: whole() }),
    }
}

fn only(fields: &Fields<'_>, known: &[&str]) -> bool {
    fields.keys().all(|key| known.contains(&key.as_str()))
}

fn is_null(fields: &Fields<'_>, name: &str) -> bool {
    fields.get(name).is_none_or(|value| value.get() == "null")
}

fn string(fields: &Fields<'_>, name: &str) -> Result<String, Failure> {
    let Some(value) = fields.get(name) else { return Err(bad_reply(format!("a block without `{name}`"))) };
    serde_json::from_str(value.get()).map_err(|error| bad_reply(format!("a block's `{name}`: {error}")))
}
