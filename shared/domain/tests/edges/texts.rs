//! Texts and numbers at the edges of what is kept.

use dormouse_domain::json::{canonical, cut, well_formed};
use serde_json::json;

use super::*;

/// A text is cut to the longest beginning that fits and ends with a whole character.
#[test]
fn cut_keeps_as_much_as_fits() {
    let text = "aé😀b";
    for (max, expected) in
        [(0, ""), (1, "a"), (2, "a"), (3, "aé"), (4, "aé"), (6, "aé"), (7, "aé😀"), (8, text), (9, text)]
    {
        assert_eq!(cut(text, max), expected, "{max} bytes");
    }
}

/// The integers that a double holds, and no others, with either sign.
#[test]
fn numbers_are_kept_exactly_or_refused() {
    for (number, kept) in [
        (json!(9_007_199_254_740_991_i64), true),
        (json!(-9_007_199_254_740_991_i64), true),
        (json!(9_007_199_254_740_992_i64), false),
        (json!(-9_007_199_254_740_992_i64), false),
        (json!(0.5), true),
        (json!(1e15), true),
        (json!(1e16), false),
        (json!(f64::MAX), false),
    ] {
        assert_eq!(canonical(&number).is_ok(), kept, "{number}");
        assert_eq!(canonical(&json!([{"n": number}])).is_ok(), kept, "{number} within");
    }
}

/// Only escapes of lone surrogates are replaced; all around them stays.
#[test]
fn only_lone_surrogates_are_replaced() {
    for (text, expected) in [
        (r#"plain"#, r#"plain"#),
        (r#"a\ud800b"#, r#"a\ufffdb"#),
        (r#"a\udfffb\u0041"#, r#"a\ufffdb\u0041"#),
        (r#"\ud7ff\ue000"#, r#"\ud7ff\ue000"#),
        (r#"\ud800\udc00\ud800x\udbff\udfff"#, r#"\ud800\udc00\ufffdx\udbff\udfff"#),
        (r#"\ud800\udbff"#, r#"\ufffd\ufffd"#),
        (r#"\ud800\ue000"#, r#"\ufffd\ue000"#),
        (r#"\ud800\u"#, r#"\ufffd\u"#),
        (r#"\ud8+0\n"#, r#"\ud8+0\n"#),
    ] {
        assert_eq!(well_formed(text), expected, "{text}");
    }
}

/// What a provider says of a failure is kept up to 2,000 bytes.
#[test]
fn messages_of_failures_are_cut() {
    use dormouse_domain::retry::{self, Failure, FailureClass};
    let story = Story::new();
    let message = |bytes: usize| {
        let failure = Failure::new(FailureClass::Server, "x".repeat(bytes));
        let fact = retry::after(&story.run, &failure, story.now, story.now);
        let Fact::ModelFailed { message, .. } = fact else { panic!("{fact:?}") };
        message.len()
    };
    assert_eq!((message(1_999), message(2_000), message(2_001)), (1_999, 2_000, 2_000));
}
