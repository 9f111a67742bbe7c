//! What every adapter needs to send a conversation again, whoever's model spoke in it: a history
//! replays everywhere, and what cannot go along is left out visibly (cases 50 and 52).

use std::{borrow::Cow, collections::BTreeMap};

use dormouse_domain::{
    json,
    message::{ModelRef, ReplyBlock},
    retry::{Failure, FailureClass},
};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::failure;

/// The longest tool name that every provider takes, in characters.
const MAX_NAME: usize = 64;

/// A tool call as it can be sent to any provider.
pub(crate) struct WireCall<'a> {
    /// Its id on the wire.
    pub(crate) id: &'a str,
    /// The tool's name, legal.
    pub(crate) name: Cow<'a, str>,
    /// The text of a JSON object.
    pub(crate) arguments: Cow<'a, str>,
    /// The provider's own JSON of the call, where it says the same as the rest and can stand for it.
    pub(crate) raw: Option<&'a RawValue>,
}

/// The call `block`, which stands on the wire as `id`. `own` says whether the provider that is asked
/// made it: only then does its `raw` mean anything there.
///
/// # Errors
/// As [`raw_value`].
pub(crate) fn call<'a>(id: &'a str, block: &'a ReplyBlock, own: bool) -> Result<WireCall<'a>, Failure> {
    let ReplyBlock::ToolCall { id: given, name, arguments, raw } = block else {
        return Err(failure(FailureClass::Rejected, format!("the call {id} of the prompt is no tool call")));
    };
    let (wire_name, wire_arguments) = (legal_name(name), object(arguments));
    let faithful = given == id && *name == wire_name && is_object(arguments);
    let raw = match raw {
        Some(raw) if own && faithful => Some(raw_value(raw)?),
        Some(_) | None => None,
    };
    Ok(WireCall { id, name: wire_name, arguments: wire_arguments, raw })
}

/// Stored JSON, to be sent as it is.
///
/// # Errors
/// `Rejected` for text that is no JSON: no adapter stores such.
pub(crate) fn raw_value(text: &str) -> Result<&RawValue, Failure> {
    serde_json::from_str(text)
        .map_err(|error| failure(FailureClass::Rejected, format!("a stored block is not JSON: {error}")))
}

/// A tool's name as every provider takes it, `[a-zA-Z0-9_-]{1,64}`. Models make up names, too; a
/// name that a provider refuses would make it refuse the conversation from then on.
fn legal_name(name: &str) -> Cow<'_, str> {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() {
        return Cow::Borrowed("unnamed");
    }
    if name.len() <= MAX_NAME && name.chars().all(legal) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(name.chars().take(MAX_NAME).map(|c| if legal(c) { c } else { '_' }).collect())
}

/// Whether `text` is the text of one JSON object and well-formed Unicode.
fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && serde_json::from_str::<&RawValue>(text).is_ok()
        && matches!(json::well_formed(text), Cow::Borrowed(_))
}

/// Arguments that a model sent and that are no JSON object.
#[derive(Serialize)]
struct Unparsed<'a> {
    #[serde(rename = "_unparsed_arguments")]
    text: &'a str,
}

/// Arguments as every provider takes them: an object's text byte for byte, nothing as `{}`, and
/// anything else (cut off, an array, a string) as `{"_unparsed_arguments": "<text>"}` (case 50).
/// Escapes of lone surrogates are replaced (case 49).
fn object(arguments: &str) -> Cow<'_, str> {
    if arguments.trim().is_empty() {
        return Cow::Borrowed("{}");
    }
    let text = json::well_formed(arguments);
    if is_object(&text) {
        return text;
    }
    // A struct of one string always serializes.
    Cow::Owned(serde_json::to_string(&Unparsed { text: &text }).unwrap_or_else(|_| "{}".to_owned()))
}

/// Whether models can read images of this media type: the four that Anthropic and OpenAI document.
pub(crate) fn is_readable_image(media_type: &str) -> bool {
    matches!(media_type, "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

/// The line that stands for an image that models cannot read.
pub(crate) fn unreadable_image(media_type: &str) -> String {
    format!("(An image of type {} was left out: models cannot read it.)", json::cut(media_type, 100))
}

/// Counts the blocks of other models that the model that is asked cannot read.
#[derive(Default)]
pub(crate) struct LeftOut<'a>(BTreeMap<&'a ModelRef, usize>);

impl<'a> LeftOut<'a> {
    /// One block of `from`.
    pub(crate) fn count(&mut self, from: &'a ModelRef) {
        *self.0.entry(from).or_default() += 1;
    }

    /// Says so in the log (B11, case 52).
    pub(crate) fn report(&self, model: &ModelRef) {
        for (from, blocks) in &self.0 {
            tracing::warn!(%model, %from, blocks, "left out: reasoning and opaque blocks that this model cannot read");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_50_arguments_of_any_form_are_sent_as_an_object() {
        for (given, sent) in [
            (r#"{"a": 1.0,  "b":1e5}"#, r#"{"a": 1.0,  "b":1e5}"#),
            ("{\n \"n\": 12345678901234567890 }", "{\n \"n\": 12345678901234567890 }"),
            ("", "{}"),
            (" \n", "{}"),
            (r#"{"a": "cut"#, r#"{"_unparsed_arguments":"{\"a\": \"cut"}"#),
            ("[1]", r#"{"_unparsed_arguments":"[1]"}"#),
            (r#""text""#, r#"{"_unparsed_arguments":"\"text\""}"#),
            ("null", r#"{"_unparsed_arguments":"null"}"#),
            (r#"{} {}"#, r#"{"_unparsed_arguments":"{} {}"}"#),
            (r#"{"a":"\ud92c"}"#, r#"{"a":"\ufffd"}"#),
        ] {
            assert_eq!(object(given), sent, "{given}");
        }
    }

    #[test]
    fn names_are_legal_everywhere() {
        for (given, sent) in [
            ("read_file", "read_file"),
            ("", "unnamed"),
            ("a.b c", "a_b_c"),
            ("é", "_"),
            (&"x".repeat(70), &"x".repeat(64)),
        ] {
            assert_eq!(legal_name(given), sent);
        }
    }

    #[test]
    fn a_raw_call_is_sent_only_where_it_says_the_same() {
        let call_of = |id: &str, name: &str, arguments: &str| ReplyBlock::ToolCall {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            raw: Some(r#"{"x":1}"#.to_owned()),
        };
        for (block, own, sent) in [
            (call_of("a", "t", "{}"), true, true),
            (call_of("a", "t", "{}"), false, false),
            (call_of("b", "t", "{}"), true, false),
            (call_of("a", "t t", "{}"), true, false),
            (call_of("a", "t", "[]"), true, false),
        ] {
            assert_eq!(call("a", &block, own).unwrap().raw.is_some(), sent, "{block:?}");
        }
    }
}
