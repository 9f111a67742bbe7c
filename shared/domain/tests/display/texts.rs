//! What holds for every text.

use std::collections::BTreeMap;

use dormouse_domain::display::{self, Extent, LISTED_BYTES, text};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::{request, whole};

/// Ranges that nothing shown holds; a list of its own, so that the code's is not compared with itself.
const NEVER: [(u32, u32); 24] = [
    (0, 0x1f),
    (0x7f, 0xa0),
    (0xad, 0xad),
    (0x34f, 0x34f),
    (0x600, 0x605),
    (0x61c, 0x61c),
    (0x115f, 0x1160),
    (0x1680, 0x1680),
    (0x17b4, 0x17b5),
    (0x180b, 0x180f),
    (0x2000, 0x200f),
    (0x2028, 0x202f),
    (0x205f, 0x206f),
    (0x20dd, 0x20e0),
    (0x212a, 0x212b),
    (0x2800, 0x2800),
    (0x3000, 0x3000),
    (0x3164, 0x3164),
    (0xe000, 0xf8ff),
    (0xfe00, 0xfe0f),
    (0xfeff, 0xfeff),
    (0xffa0, 0xffa0),
    (0xfff0, 0xfffc),
    (0xe0000, 0x10ffff),
];

fn forbidden(c: char) -> bool {
    NEVER.iter().any(|(first, last)| (*first..=*last).contains(&u32::from(c)))
}

/// Characters of every kind, those that hide often.
fn character() -> impl Strategy<Value = char> {
    let hiding = prop::sample::select(NEVER.to_vec())
        .prop_flat_map(|(first, last)| first..=last)
        .prop_filter_map("no surrogate", char::from_u32);
    let odd = prop::sample::select(
        "\\u{}202e \n\t\u{301}\u{323}aeo\u{1100}\u{1161}\u{11a8}\u{b95}\u{bc6}\u{bbe}".chars().collect::<Vec<_>>(),
    );
    prop_oneof![3 => hiding, 4 => odd, 3 => any::<char>(), 2 => prop::char::range(' ', '~')]
}

fn words() -> impl Strategy<Value = String> {
    prop::collection::vec(character(), 0..24).prop_map(String::from_iter)
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![words().prop_map(Value::from), any::<i32>().prop_map(Value::from), Just(Value::Null)];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array);
        let map = prop::collection::vec((words(), inner), 0..4)
            .prop_map(|members| Value::Object(members.into_iter().collect()));
        prop_oneof![list, map]
    })
}

/// The text that is shown as `shown`: every `\u{…}` is an escape.
fn read(shown: &str) -> String {
    let mut text = String::new();
    let mut rest = shown;
    while let Some((before, escape)) = rest.split_once("\\u{") {
        let (hex, after) = escape.split_once('}').unwrap();
        text.push_str(before);
        text.push(u32::from_str_radix(hex, 16).ok().and_then(char::from_u32).unwrap());
        rest = after;
    }
    text + rest
}

fn read_value(shown: &Value) -> Value {
    match shown {
        Value::String(text) => read(text).into(),
        Value::Array(items) => items.iter().map(read_value).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(name, member)| (read(name), read_value(member))).collect::<Map<_, _>>())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => shown.clone(),
    }
}

/// The part before the notice of a cut, and how many bytes it says are missing.
fn cut(shown: &str) -> (&str, usize) {
    let Some((head, notice)) = shown.rsplit_once("… (+") else { return (shown, 0) };
    let Some((count, _)) = notice.split_once(" more byte") else { return (shown, 0) };
    (head, count.replace(',', "").parse().unwrap())
}

proptest! {
    #[test]
    fn c3_what_is_shown_hides_nothing_and_is_bounded(text in words(), max in 0_usize..200) {
        for (shown, breaks) in [(text::line(&text, max), false), (text::block(&text, max), true)] {
            let hidden = shown.chars().find(|c| forbidden(*c) && !(breaks && matches!(c, '\n' | '\t')));
            prop_assert_eq!(hidden, None, "{:?}", shown);
            prop_assert!(shown.len() <= max + "… (+1,234 more bytes)".len(), "{:?}", shown);
        }
    }

    /// So two texts that are shown alike are alike.
    #[test]
    fn c3_what_is_shown_has_one_reading(text in words()) {
        prop_assert_eq!(&read(&text::line(&text, usize::MAX)), &text);
        prop_assert_eq!(&read(&text::block(&text, usize::MAX)), &text);
    }

    /// A cut shows a beginning, and says how much is missing.
    #[test]
    fn c3_a_cut_says_what_is_missing(text in words().prop_filter("no notice", |text| !text.contains("… (+")), max in 0_usize..60) {
        let shown = text::block(&text, max);
        let (head, missing) = cut(&shown);
        let head = read(head);
        prop_assert!(text.starts_with(&head));
        prop_assert_eq!(head.len() + missing, text.len());
    }

    /// Arguments are shown whole, and two that differ in anything look different: keys too.
    #[test]
    fn c3_arguments_have_one_reading(value in value()) {
        let shown = whole(&request(json!({ "a": value })));
        prop_assert!(!shown.cut);
        prop_assert_eq!(read_value(&shown.arguments), json!({ "a": value }));
        let text = shown.arguments.to_string();
        prop_assert_eq!(text.chars().find(|c| forbidden(*c)), None);
    }

    /// No two texts of a normal form look alike either: what is shown of one is not what is shown of another
    /// spelling of the same.
    #[test]
    fn c3_another_spelling_is_shown_as_another(text in words()) {
        use unicode_normalization::UnicodeNormalization as _;
        let composed: String = text.nfc().collect();
        let shown: String = text::block(&text, usize::MAX).nfc().collect();
        let other: String = text::block(&composed, usize::MAX).nfc().collect();
        prop_assert_eq!(text == composed, shown == other);
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Of a list of requests each has its share, and says so if it is not all.
    #[test]
    fn c3_listed_arguments_are_bounded(value in value(), times in 1_usize..60) {
        let many: BTreeMap<String, Value> = (0..times).map(|i| (format!("k{i}"), value.clone())).collect();
        for arguments in [json!({ "a": vec![value.clone(); times] }), json!(many)] {
            let stored = request(arguments);
            let shown = display::request(&stored, Extent::Listed);
            let text = shown.arguments.to_string();
            // JSON's own escapes can double what is counted.
            prop_assert!(text.len() <= 2 * LISTED_BYTES + 1_000, "{}", text.len());
            prop_assert_eq!(shown.cut, text.contains(" more byte") || text.contains(" more element") || text.contains(" more member"));
            prop_assert!(shown.cut || shown.arguments == whole(&stored).arguments);
        }
    }
}

#[test]
fn c3_cuts_are_told() {
    assert_eq!(text::line(&"é".repeat(1_000), 11), "ééééé… (+1,990 more bytes)");
    assert_eq!(text::line("\u{202e}\u{202e}", 8), r"\u{202e}… (+3 more bytes)");
    assert_eq!(text::line("ab", 1), "a… (+1 more byte)");
    assert_eq!(text::line(&"x".repeat(1_234_568), 1), "x… (+1,234,567 more bytes)");
    let long = display::summary("t", &json!({ "a": "é".repeat(500) }), &[]);
    assert!(long.len() < 330 && long.ends_with(" more bytes)"), "{long}");
    let listed = |value| display::request(&request(value), Extent::Listed).arguments;
    let many = listed(json!({ "a": vec!["x".repeat(3_000); 5], "b": 1 }));
    assert_eq!(many["a"].as_array().unwrap().len(), 4, "{many}");
    assert_eq!(many["a"][3], "… (+2 more elements)");
    assert_eq!(many["…"], "… (+1 more member)");
}
