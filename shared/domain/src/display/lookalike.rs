//! Words that are not what they look like.
//!
//! `раypal`, whose first two letters are Cyrillic, is seen for another word, and no character of it is
//! hidden. Words that mix scripts as no language does (UTS 39, section 5.1) are pointed out, with the
//! letters beyond ASCII spelled out. It is a hint: a whole word of look-alikes is not found.

use serde_json::Value;
use unicode_security::MixedScript as _;

use crate::json;

/// Most words that are pointed out.
const MAX_WARNINGS: usize = 5;
/// Longest word that is spelled out, in bytes.
const WORD_BYTES: usize = 80;

/// What to say of the words in `shown`, keys and values.
pub(crate) fn warnings(shown: &Value) -> Vec<String> {
    let mut found = Vec::new();
    search(shown, &mut found);
    found
}

fn search(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => words(text, found),
        Value::Array(items) => items.iter().for_each(|item| search(item, found)),
        Value::Object(members) => {
            for (name, member) in members {
                words(name, found);
                search(member, found);
            }
        }
    }
}

fn words(text: &str, found: &mut Vec<String>) {
    if text.is_ascii() {
        return;
    }
    let words = text.split(|c: char| c.is_ascii() && !c.is_ascii_alphanumeric());
    for word in words.filter(|word| !word.is_ascii() && !word.is_single_script()) {
        let warning = format!("the word {} mixes scripts whose letters look alike", spelled(word));
        if found.len() < MAX_WARNINGS && !found.contains(&warning) {
            found.push(warning);
        }
    }
}

fn spelled(word: &str) -> String {
    let letters = word.chars().map(|c| if c.is_ascii() { c.to_string() } else { format!("\\u{{{:x}}}", u32::from(c)) });
    let spelled: String = letters.collect();
    if spelled.len() <= WORD_BYTES { spelled } else { format!("{}…", json::cut(&spelled, WORD_BYTES)) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn c3_words_of_mixed_scripts_are_pointed_out() {
        let found = |value: Value| warnings(&value).len();
        for plain in [
            "paypal.com",
            "привет мир",
            "日本語のカタカナ",
            "한국어 漢字",
            "naïve café",
            "δοκιμή",
            "10 €",
            "שלום, world",
            "a→b",
            "😀ok",
        ] {
            assert_eq!(found(json!([plain])), 0, "{plain}");
        }
        for mixed in ["p\u{430}ypal.com", "\u{440}\u{430}ypal", "\u{3bf}penai", "m\u{456}crosoft"] {
            assert_eq!(found(json!([mixed, mixed])), 1, "{mixed}");
            assert_eq!(found(json!({ mixed: 1 })), 1, "{mixed}");
        }
        let told = warnings(&json!({ "to": "https://p\u{430}ypal.com/x" }));
        assert_eq!(told, ["the word p\\u{430}ypal mixes scripts whose letters look alike"]);
        let many: Vec<_> = (0..20).map(|i| format!("p\u{430}y{i}")).collect();
        assert_eq!(found(json!(many)), MAX_WARNINGS);
    }
}
