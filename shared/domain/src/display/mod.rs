//! What a person sees of a call, made from what is stored (C3).
//!
//! The words in a request come from a model, and whoever can write what a model reads can choose
//! them. So nothing is shown as it came. Characters that have no looks of their own are shown as
//! escapes ([`text`]); arguments that the agent file declares secret are [`MASK`]ed ([`secret`]); what
//! is long is cut, and the cut says how much is missing; an edit of a file is shown as a
//! [`preview`]; letters of scripts that look alike are pointed out ([`lookalike`]).
//!
//! All of this is for eyes. What is hashed, stored and run stays as it is, and so does what a model
//! reads.

pub mod lookalike;
pub mod preview;
pub mod reply;
pub mod secret;
pub mod text;
mod value;

use serde::Serialize;
use serde_json::Value;

use crate::{plan::Choice, request::Request};
pub use preview::Preview;
pub use secret::{MASK, restore};
pub use value::arguments;

/// Longest summary, reason, label or name, in bytes.
pub const LINE_BYTES: usize = 300;
/// Longest question, in bytes.
pub const BLOCK_BYTES: usize = 16 * 1024;
/// Longest preview of a request that is shown whole, in bytes.
pub const PREVIEW_BYTES: usize = 32 * 1024;
/// Arguments, and once more preview, of a request that is one of many, in bytes.
pub const LISTED_BYTES: usize = 8 * 1024;

/// How much of a request is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All its arguments.
    Whole,
    /// What fits an answer that shows many.
    Listed,
}

/// A request as a person sees it. Only the values of options are as they are stored: they are what is
/// sent back.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shown {
    /// The tool, if it is about a call.
    pub tool: Option<String>,
    /// One line that says what would run.
    pub summary: String,
    /// The arguments.
    pub arguments: Value,
    /// Whether some of the arguments are left out.
    pub cut: bool,
    /// The question, if it is one.
    pub question: Option<String>,
    /// Its options, each with a label.
    pub options: Vec<Choice>,
    /// Why it asks.
    pub reasons: Vec<String>,
    /// The agents through which it comes.
    pub agents: Vec<String>,
    /// What would change, for the builtins that change a file.
    pub preview: Option<Preview>,
    /// Words that are not what they look like.
    pub warnings: Vec<String>,
}

/// `request` as a person sees it.
#[must_use]
pub fn request(request: &Request, extent: Extent) -> Shown {
    let (argument_bytes, preview_bytes) = match extent {
        Extent::Whole => (usize::MAX, PREVIEW_BYTES),
        Extent::Listed => (LISTED_BYTES, LISTED_BYTES),
    };
    let masked = secret::mask(&request.arguments, &request.secret);
    let (arguments, cut) = value::shown(&masked, argument_bytes);
    let line = |text: &String| text::line(text, LINE_BYTES);
    let question = request.question.as_ref();
    let options = question.into_iter().flat_map(|question| &question.options).map(option).collect();
    Shown {
        tool: request.tool.as_ref().map(line),
        summary: text::contained(&request.summary),
        warnings: lookalike::warnings(&arguments),
        arguments,
        cut,
        question: question.map(|question| text::block(&question.question, BLOCK_BYTES)),
        options,
        reasons: request.reasons.iter().map(line).collect(),
        agents: request.agents.iter().map(line).collect(),
        preview: request.builtin.and_then(|builtin| preview::of(builtin, &masked, preview_bytes)),
    }
}

fn option(option: &Choice) -> Choice {
    let label = match (&option.label, &option.value) {
        (Some(label), _) => label.clone(),
        (None, Value::String(text)) => text.clone(),
        (None, value) => value.to_string(),
    };
    Choice { label: Some(text::line(&label, LINE_BYTES)), ..option.clone() }
}

/// One line that shows a call: `tool(name: value, …)`, with what is secret masked.
#[must_use]
pub fn summary(tool: &str, arguments: &Value, secret: &[String]) -> String {
    let masked = secret::mask(arguments, secret);
    let inner = match masked.as_object() {
        Some(map) => map.iter().map(|(key, value)| format!("{}: {value}", name(key))).collect::<Vec<_>>().join(", "),
        None => masked.to_string(),
    };
    text::line(&format!("{tool}({inner})"), LINE_BYTES)
}

/// A key as it is, or in quotes where it could be taken for more than a key.
fn name(key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    if plain { key.to_owned() } else { Value::from(key).to_string() }
}
