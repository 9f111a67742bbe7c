//! Edits of files, shown as what goes and what comes.

use dormouse_domain::{
    builtin::Builtin,
    display::{self, Extent, LISTED_BYTES, PREVIEW_BYTES, Preview},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{request, whole};

fn preview(builtin: Builtin, arguments: Value) -> Option<Preview> {
    let mut stored = request(arguments);
    stored.builtin = Some(builtin);
    whole(&stored).preview
}

fn edit(old: &str, new: &str) -> String {
    let Some(Preview::Diff { text, .. }) =
        preview(Builtin::WorkspaceEdit, json!({ "path": "f", "old": old, "new": new }))
    else {
        panic!("no preview")
    };
    text
}

#[test]
fn c3_edits_are_shown_as_what_goes_and_what_comes() {
    for (old, new, expected) in [
        ("a\nb\nc\n", "a\nx\nc\n", " a\n-b\n+x\n c\n"),
        ("a", "b", "-a\n\\ no line break here\n+b\n\\ no line break here\n"),
        ("a\n", "a", "-a\n+a\n\\ no line break here\n"),
        ("a\n", "", "-a\n"),
        ("", "a\n", "+a\n"),
        ("a\r\n", "a\n", "-a\\u{d}\n+a\n"),
        ("if ok\n", "if\u{200b} ok\n", "-if ok\n+if\\u{200b} ok\n"),
        // A line of the file that looks like another line of the preview.
        ("x\n", "+y\n@ 9 lines stay\n-z\n", "-x\n++y\n+@ 9 lines stay\n+-z\n"),
        ("\tx\n", "x\n", "-\tx\n+x\n"),
        ("1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\n5\nx\n", "@ 2 lines stay\n 3\n 4\n 5\n-6\n+x\n"),
        ("x\n2\n3\n4\n5\n", "y\n2\n3\n4\n5\n", "-x\n+y\n 2\n 3\n 4\n@ 1 line stays\n"),
    ] {
        assert_eq!(edit(old, new), expected, "{old:?} {new:?}");
    }
}

#[test]
fn c3_which_calls_have_a_preview() {
    let create = preview(Builtin::WorkspaceCreate, json!({ "path": "a\u{202e}b", "content": "one\ntwo\n" }));
    assert_eq!(
        create,
        Some(Preview::Diff { path: "a\\u{202e}b".into(), text: "+one\n+two\n".into(), everywhere: false })
    );
    let all = preview(Builtin::WorkspaceEdit, json!({ "path": "f", "old": "a\n", "new": "b\n", "all": true }));
    let expected = json!({ "kind": "diff", "path": "f", "text": "-a\n+b\n", "everywhere": true });
    assert_eq!(serde_json::to_value(all).unwrap(), expected);
    for builtin in [Builtin::WorkspaceRead, Builtin::WorkspaceGlob, Builtin::WorkspaceSearch, Builtin::AskUser] {
        assert_eq!(preview(builtin, json!({ "path": "f", "old": "a", "new": "b", "content": "c" })), None);
    }
    assert_eq!(preview(Builtin::WorkspaceEdit, json!({ "path": "f", "old": 1, "new": "b" })), None);
    assert_eq!(whole(&request(json!({ "path": "f", "old": "a", "new": "b" }))).preview, None, "somebody's own tool");
}

/// Large ones are bounded, say so, and take no time: beyond a number of lines nothing is compared.
#[test]
fn c3_a_preview_is_bounded() {
    let large = |letter: &str| (0..60_000).map(|n| format!("{letter}{}\n", n % 7)).collect::<String>();
    for (old, new) in
        [(large("a"), large("b")), (String::new(), "x".repeat(200_000)), ("\u{1}".repeat(90_000), String::new())]
    {
        let mut stored = request(json!({ "path": "f", "old": old, "new": new }));
        stored.builtin = Some(Builtin::WorkspaceEdit);
        for (extent, bytes) in [(Extent::Whole, PREVIEW_BYTES), (Extent::Listed, LISTED_BYTES)] {
            let Some(Preview::Diff { text, .. }) = display::request(&stored, extent).preview else {
                panic!("no preview")
            };
            assert!(text.len() < bytes + 100, "{}", text.len());
            assert!(text.contains(" more byte") || text.contains(" more line"), "{}", &text[text.len() - 100..]);
        }
    }
}

proptest! {
    /// What goes and what stays is the old text, what comes and what stays the new.
    #[test]
    fn c3_a_preview_is_the_change(old in "[ab\n]{0,12}", new in "[ab\n]{0,12}") {
        let text = edit(&old, &new);
        prop_assume!(!text.contains("@ "));
        let side = |signs: [char; 2]| {
            let mut side = String::new();
            let mut lines = text.lines().peekable();
            while let Some(line) = lines.next() {
                let bare = lines.next_if(|next| next.starts_with('\\')).is_some();
                if line.starts_with(signs) {
                    side.push_str(&line[1..]);
                    side.push_str(if bare { "" } else { "\n" });
                }
            }
            side
        };
        prop_assert_eq!(side(['-', ' ']), old.clone());
        if old != new {
            prop_assert_eq!(side(['+', ' ']), new);
        }
    }
}
