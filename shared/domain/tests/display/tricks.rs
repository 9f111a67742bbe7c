//! Each row is a trick that made a person approve something else somewhere, or could.

use dormouse_domain::display::{self, text};
use serde_json::json;

use crate::{asking, request, seen, whole};

/// Name of the trick, what is sent, how it is shown on one line.
const TRICKS: [(&str, &str, &str); 59] = [
    ("bell", "a\u{7}b", r"a\u{7}b"),
    ("nul", "a\0b", r"a\u{0}b"),
    ("backspaces over what stands before", "rm -rf /\u{8}\u{8}\u{8}ls", r"rm -rf /\u{8}\u{8}\u{8}ls"),
    ("delete", "a\u{7f}b", r"a\u{7f}b"),
    ("carriage return over the line", "rm -rf /\rls", r"rm -rf /\u{d}ls"),
    ("line break into a second line", "ok\nApproved by: ann", r"ok\u{a}Approved by: ann"),
    ("tab pushes aside", "a\tb", r"a\u{9}b"),
    ("vertical tab", "a\u{b}b", r"a\u{b}b"),
    ("form feed", "a\u{c}b", r"a\u{c}b"),
    ("terminal colours", "\u{1b}[8mhidden\u{1b}[0m", r"\u{1b}[8mhidden\u{1b}[0m"),
    ("terminal title", "\u{1b}]0;x\u{7}", r"\u{1b}]0;x\u{7}"),
    ("control sequence in one character", "\u{9b}8m", r"\u{9b}8m"),
    ("next line", "a\u{85}b", r"a\u{85}b"),
    ("line separator", "a\u{2028}b", r"a\u{2028}b"),
    ("paragraph separator", "a\u{2029}b", r"a\u{2029}b"),
    ("right-to-left override: gpj.exe", "photo\u{202e}gpj.exe", r"photo\u{202e}gpj.exe"),
    ("left-to-right override", "a\u{202d}b", r"a\u{202d}b"),
    ("right-to-left embedding", "a\u{202b}b\u{202c}", r"a\u{202b}b\u{202c}"),
    ("isolates: trojan source", "/*\u{2066} if admin \u{2069}*/", r"/*\u{2066} if admin \u{2069}*/"),
    ("right-to-left isolate", "a\u{2067}b", r"a\u{2067}b"),
    ("first strong isolate", "a\u{2068}b", r"a\u{2068}b"),
    ("left-to-right mark", "a\u{200e}b", r"a\u{200e}b"),
    ("right-to-left mark", "a\u{200f}b", r"a\u{200f}b"),
    ("arabic letter mark", "a\u{61c}b", r"a\u{61c}b"),
    ("zero width space", "pro\u{200b}d", r"pro\u{200b}d"),
    ("zero width joiner", "pro\u{200d}d", r"pro\u{200d}d"),
    ("zero width non-joiner", "pro\u{200c}d", r"pro\u{200c}d"),
    ("word joiner", "pro\u{2060}d", r"pro\u{2060}d"),
    ("byte order mark", "\u{feff}prod", r"\u{feff}prod"),
    ("invisible times", "a\u{2062}b", r"a\u{2062}b"),
    ("soft hyphen", "pro\u{ad}d", r"pro\u{ad}d"),
    ("combining grapheme joiner", "pro\u{34f}d", r"pro\u{34f}d"),
    ("mongolian vowel separator", "pro\u{180e}d", r"pro\u{180e}d"),
    ("khmer inherent vowel", "a\u{17b4}b", r"a\u{17b4}b"),
    ("deprecated format character", "a\u{206a}b", r"a\u{206a}b"),
    ("interlinear annotation", "a\u{fff9}b\u{fffa}c\u{fffb}", r"a\u{fff9}b\u{fffa}c\u{fffb}"),
    ("tags spell a hidden text", "ok\u{e0068}\u{e0069}", r"ok\u{e0068}\u{e0069}"),
    ("variation selectors carry bytes", "ok\u{fe00}\u{e0101}", r"ok\u{fe00}\u{e0101}"),
    ("no-break space", "rm\u{a0}-rf", r"rm\u{a0}-rf"),
    ("ideographic space", "a\u{3000}b", r"a\u{3000}b"),
    ("hair space", "a\u{200a}b", r"a\u{200a}b"),
    ("ogham space", "a\u{1680}b", r"a\u{1680}b"),
    ("hangul filler", "a\u{3164}b", r"a\u{3164}b"),
    ("halfwidth hangul filler", "a\u{ffa0}b", r"a\u{ffa0}b"),
    ("braille blank", "a\u{2800}b", r"a\u{2800}b"),
    ("musical blank", "a\u{1d159}b", r"a\u{1d159}b"),
    ("private use", "a\u{e000}b", r"a\u{e000}b"),
    ("unassigned", "a\u{378}b", r"a\u{378}b"),
    ("noncharacter", "a\u{ffff}b", r"a\u{ffff}b"),
    ("mark without a letter", "\u{301}a", r"\u{301}a"),
    ("mark on a sign: unequal", "a =\u{338} b", r"a =\u{338} b"),
    ("enclosing mark: forbidden", "a\u{20e0}", r"a\u{20e0}"),
    ("another spelling: e and an accent", "cafe\u{301}", r"cafe\u{301}"),
    ("another order of accents", "\u{c0}\u{323}", "\u{c0}\\u{323}"),
    ("another character: kelvin", "10 \u{212a}", r"10 \u{212a}"),
    ("jamo for a syllable", "\u{1112}\u{1161}", "\u{1112}\\u{1161}"),
    ("the text of an escape", r"a\u{202e}b", r"a\u{5c}u{202e}b"),
    ("a space at the end", "prod ", r"prod\u{20}"),
    ("a space at the beginning", " prod", r"\u{20}prod"),
];

#[test]
fn c3_every_trick_is_seen() {
    for (name, sent, expected) in TRICKS {
        assert_eq!(text::line(sent, 300), expected, "{name}");
    }
}

/// The same through every way by which a model's words reach a person.
#[test]
fn c3_every_trick_is_seen_wherever_it_stands() {
    for (name, sent, _) in TRICKS {
        let hidden: Vec<char> =
            sent.chars().filter(|c| text::line(&format!("a{c}a"), 99) != format!("a{c}a")).collect();
        let check = |place: &str, shown: &str| {
            // JSON's own escapes are what a person is shown too.
            let hides = shown.chars().find(|c| hidden.contains(c));
            assert_eq!(hides, None, "{name}, in the {place}: {shown:?}");
        };
        check("value", &seen(&request(json!({ "a": [{ "b": sent }] }))));
        check("key", &seen(&request(json!({ sent: 1 }))));
        check("summary", &display::summary("t", &json!({ sent: sent }), &[]));
        let mut named = request(json!({}));
        named.tool = Some(sent.to_owned());
        named.reasons = vec![sent.to_owned()];
        named.agents = vec!["ops".to_owned(), sent.to_owned()];
        named.summary = sent.to_owned();
        check("names and reasons", &seen(&named));
        let asked = whole(&asking(
            json!({ "question": format!("?{sent}"), "options": [{ "value": 1, "label": sent }, { "value": sent }] }),
        ));
        // A question has paragraphs.
        check("question", &asked.question.unwrap().replace(['\n', '\t'], ""));
        for option in &asked.options {
            check("label", option.label.as_deref().unwrap());
        }
        assert_eq!(asked.options[1].value, sent, "{name}: the value is what is sent back");
    }
}

/// What is no trick is shown as it is.
#[test]
fn c3_what_people_write_is_left_alone() {
    for plain in [
        "rm -rf ./build && make",
        "C:\\users\\ann",
        "naïve café, Ærøskøbing, Łódź",
        "привет мир",
        "日本語、한국어、中文",
        "שָׁלוֹם",
        "مرحبا",
        "Tiếng Việt",
        "हिन्दी",
        "ภาษาไทยที่นี่",
        "10 € ± ½ → “x” — …",
        "😀👍",
        "\\u202e \\x00 %00 &#8238;",
    ] {
        assert_eq!(text::line(plain, 300), plain);
    }
    assert_eq!(text::block("a\n\tb\n", 300), "a\n\tb\n");
}

/// Zalgo: a letter carries a few marks and no more.
#[test]
fn c3_floods_of_marks_are_dammed() {
    let flood = format!("b{}", "\u{317}".repeat(200));
    let shown = text::line(&flood, 10_000);
    assert_eq!(shown.matches('\u{317}').count(), 4);
    assert_eq!(shown.matches(r"\u{317}").count(), 196);
}

/// A key cannot pass for a key, a value and another key.
#[test]
fn c3_keys_do_not_forge_a_summary() {
    let forged = display::summary("deploy", &json!({ "env: \"test\", x": "prod" }), &[]);
    assert_eq!(forged, r#"deploy("env: \"test\", x": "prod")"#);
    assert_eq!(display::summary("deploy", &json!({ "env": "prod", "n": 1 }), &[]), r#"deploy(env: "prod", n: 1)"#);
    assert_eq!(display::summary("t", &json!({ "": 1 }), &[]), r#"t("": 1)"#);
}

/// A summary that an earlier release stored is made safe, and a safe one is left as it is.
#[test]
fn c3_a_stored_summary_is_contained() {
    let mut stored = request(json!({ "a": "x\u{202e}y \\u{202e}" }));
    assert_eq!(whole(&stored).summary, stored.summary);
    stored.summary = "deploy(a: \"x\u{202e}y\")".to_owned();
    assert_eq!(whole(&stored).summary, r#"deploy(a: "x\u{202e}y")"#);
}
