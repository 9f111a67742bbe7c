//! An answer that says more than its result: what the tool keeps for the run (A13).
//!
//! A 2xx of type `application/vnd.dormouse.result+json` is `{content, is_error?, state?}`. `content` is a text, or
//! any other JSON, which is then shown as its text; `state` sets names, and removes those that are null. One that
//! cannot be taken is taken in no part, and the result says so: the service did run, and has to be mended.

use dormouse_domain::{entry::CallResult, json, kv::KvPatch, message::Content};
use dormouse_engine::ports::ToolReply;
use serde::Deserialize;
use serde_json::Value;

use crate::bounds::{MAX_RESULT_BYTES, result_text, shorten};

/// The media type of such an answer.
pub(super) const MEDIA_TYPE: &str = "application/vnd.dormouse.result+json";
/// Largest such answer in bytes: room for the longest result, with escapes, and a whole state.
pub(super) const MAX_BYTES: usize = 2 * MAX_RESULT_BYTES + 128 * 1024;
/// Longest part of an answer that is repeated where it cannot be taken.
const MAX_ECHO_BYTES: usize = 2_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    content: Value,
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    state: KvPatch,
}

/// The reply that `body` is; `complete` says whether it is all there.
pub(super) fn read(body: &[u8], complete: bool) -> ToolReply {
    if !complete {
        return refused(&format!("it is longer than {MAX_BYTES} bytes"), body);
    }
    let text = String::from_utf8_lossy(body);
    // serde would read the fields from an array too.
    if !text.trim_start().starts_with('{') {
        return refused("it is not a JSON object", body);
    }
    match serde_json::from_str::<Answer>(&json::well_formed(&text)) {
        Ok(Answer { content, is_error, state }) => {
            let text = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
            let content = vec![Content::text(result_text(&text))];
            ToolReply { kv: state, ..CallResult::Returned { content, is_error }.into() }
        }
        Err(error) => refused(&error.to_string(), body),
    }
}

fn refused(problem: &str, body: &[u8]) -> ToolReply {
    let said = String::from_utf8_lossy(body.get(..MAX_ECHO_BYTES).unwrap_or(body));
    let text = format!(
        "The tool ran, but its answer of type {MEDIA_TYPE} cannot be taken: {}. Nothing of the run's state has changed. \
         The answer was:\n{}",
        shorten(problem, MAX_ECHO_BYTES),
        shorten(&said, MAX_ECHO_BYTES)
    );
    CallResult::Returned { content: vec![Content::text(text)], is_error: true }.into()
}
