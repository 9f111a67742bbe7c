//! JSON as it is hashed, repaired and cut.
//!
//! Digests are taken over RFC 8785 (JCS) text, which is injective on what it accepts: keys sorted,
//! one spelling for each string and number. Numbers outside the range that I-JSON (RFC 7493,
//! section 2.2) calls interoperable are refused, because two of them can share one double and so
//! one digest (case 7); nothing is ever approved under a digest that also means something else.

use std::borrow::Cow;

use serde_json::Value;

use crate::ids::Digest;

/// The largest whole number that JSON carries exactly, and so the largest of which there is a digest: 2^53 - 1.
pub(crate) const MAX_WHOLE: u64 = 9_007_199_254_740_991;
/// The same as a double.
const MAX_SAFE: f64 = 9_007_199_254_740_991.0;

/// Why a value has no canonical form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CanonicalError {
    /// A number whose exact value would be lost.
    #[error("the number {number} is outside ±(2^53 - 1) and cannot be kept exactly; send it as a string")]
    Number {
        /// The number as it was written.
        number: String,
    },
    /// The serializer refused the value.
    #[error("not serializable: {0}")]
    Other(String),
}

fn check_numbers(value: &Value) -> Result<(), CanonicalError> {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
        Value::Number(number) => match number.as_f64() {
            Some(double) if double.abs() <= MAX_SAFE => Ok(()),
            Some(_) | None => Err(CanonicalError::Number { number: number.to_string() }),
        },
        Value::Array(items) => items.iter().try_for_each(check_numbers),
        Value::Object(map) => map.values().try_for_each(check_numbers),
    }
}

/// `value` as RFC 8785 text.
///
/// # Errors
/// [`CanonicalError::Number`] for a number that a double does not hold exactly.
pub fn canonical(value: &Value) -> Result<String, CanonicalError> {
    check_numbers(value)?;
    serde_json_canonicalizer::to_string(value).map_err(|error| CanonicalError::Other(error.to_string()))
}

/// The digest of `value` under `purpose`: SHA-256 over the canonical text of `[purpose, value]`, so
/// digests made for different purposes never meet.
///
/// # Errors
/// As [`canonical`].
pub fn digest(purpose: &str, value: &Value) -> Result<Digest, CanonicalError> {
    let text = canonical(&Value::Array(vec![Value::String(purpose.to_owned()), value.clone()]))?;
    Ok(Digest::of(text.as_bytes()))
}

/// Replaces each escape of a lone surrogate (`"\ud92c"`) in JSON text by `\ufffd`, so that the text
/// is Unicode and parses (case 49). Text without one is returned as it is.
#[must_use]
pub fn well_formed(text: &str) -> Cow<'_, str> {
    if !text.contains("\\u") {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut fixed: Option<String> = None;
    let (mut copied, mut i) = (0, 0);
    while i < bytes.len() {
        if bytes[i] != b'\\' {
            i += 1;
            continue;
        }
        let Some(unit) = unicode_escape(text, i) else {
            i += 2; // any other escape is two bytes long, and its second byte is not an escape
            continue;
        };
        let paired = (0xD800..0xDC00).contains(&unit)
            && unicode_escape(text, i + 6).is_some_and(|low| (0xDC00..0xE000).contains(&low));
        if paired {
            i += 12;
            continue;
        }
        if (0xD800..0xE000).contains(&unit) {
            let out = fixed.get_or_insert_with(|| String::with_capacity(text.len()));
            out.push_str(&text[copied..i]);
            out.push_str("\\ufffd");
            copied = i + 6;
        }
        i += 6;
    }
    match fixed {
        Some(mut out) => {
            out.push_str(&text[copied..]);
            Cow::Owned(out)
        }
        None => Cow::Borrowed(text),
    }
}

/// The code unit of the `\uXXXX` escape that starts at byte `at`, if one does.
fn unicode_escape(text: &str, at: usize) -> Option<u32> {
    let hex = text.get(at..at + 6)?.strip_prefix("\\u")?;
    if hex.bytes().all(|b| b.is_ascii_hexdigit()) { u32::from_str_radix(hex, 16).ok() } else { None }
}

/// The longest prefix of `text` of at most `max_bytes` bytes that ends on a character boundary.
#[must_use]
pub fn cut(text: &str, max_bytes: usize) -> &str {
    if text.len() <= max_bytes {
        return text;
    }
    let mut end = max_bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn canonical_follows_rfc_8785() {
        // RFC 8785, section 3.2.2 and appendix B: key order by UTF-16 code units, number spelling.
        let value = json!({"\u{20ac}": 1, "\r": 2, "1": 3, "\u{1f600}": 4, "\u{fb33}": 5, "numbers": [333_333_333.333_333_3, 1e-27, 4.50, 2e-3, 0.000_001, -0.0]});
        assert_eq!(
            canonical(&value).unwrap(),
            "{\"\\r\":2,\"1\":3,\"numbers\":[333333333.3333333,1e-27,4.5,0.002,0.000001,0],\"€\":1,\"😀\":4,\"\u{fb33}\":5}"
        );
    }

    #[test]
    fn numbers_that_share_a_double_are_refused() {
        for bad in
            ["9007199254740993", "-9007199254740992", "1e300", "18446744073709551615", "123456789012345678901234"]
        {
            let value: Value = serde_json::from_str(bad).unwrap();
            assert!(matches!(canonical(&json!({ "n": value })), Err(CanonicalError::Number { .. })), "{bad}");
        }
        assert_eq!(canonical(&json!(9_007_199_254_740_991_u64)).unwrap(), "9007199254740991");
    }

    /// Case 7: a newline moved from one field to the next is another digest.
    #[test]
    fn digest_separates_fields() {
        let one = digest("t", &json!(["a\n", "b"])).unwrap();
        let two = digest("t", &json!(["a", "\nb"])).unwrap();
        assert_ne!(one, two);
        assert_ne!(digest("t", &json!(1)).unwrap(), digest("u", &json!(1)).unwrap());
    }

    #[test]
    fn lone_surrogates_become_replacement_characters() {
        for (input, expected) in [
            (r#""\ud92c""#, r#""\ufffd""#),
            (r#""\udc00 \ud83d\ude00""#, r#""\ufffd \ud83d\ude00""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\\ud92c""#, r#""\\ud92c""#),
            (r#""\\\ud92c""#, r#""\\\ufffd""#),
            (r#""\ud83dé""#, r#""\ufffdé""#),
            (r#""\u00e9""#, r#""\u00e9""#),
            (r#""\ud8"#, r#""\ud8"#),
        ] {
            assert_eq!(well_formed(input), expected);
        }
    }

    proptest! {
        #[test]
        fn well_formed_is_total_and_idempotent(text in r#"(\\u[dD][0-9a-fA-F]{3}|\\\\|\\"|[a-zé😀"\\]){0,12}"#) {
            let once = well_formed(&text).into_owned();
            prop_assert_eq!(well_formed(&once).into_owned(), once.clone());
        }

        #[test]
        fn cut_is_a_prefix_on_a_boundary(text in "\\PC{0,40}", max in 0_usize..60) {
            let part = cut(&text, max);
            prop_assert!(part.len() <= max && text.starts_with(part));
        }
    }
}
