//! Limits on what a tool may say, and cuts that can be seen.
//!
//! A result is stored in the journal and sent with every later prompt, so it is bounded here, once.
//! Cuts fall on character boundaries (case 49) and say so in the text itself: a model that is not
//! told takes a part for the whole.

use dormouse_domain::json;

/// Longest text of a result in bytes, before the line that says that it was cut: 256 KiB.
pub const MAX_RESULT_BYTES: usize = 256 * 1024;
/// Largest image of a result in bytes: 2 MiB, which in base64 fits an entry of the journal (3 MiB).
pub const MAX_IMAGE_BYTES: usize = 2 * 1024 * 1024;

/// How long a text is of which perhaps only the beginning was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Total {
    /// This many bytes.
    Exactly(u64),
    /// Longer than this many bytes.
    MoreThan(u64),
}

/// `text`, or its longest beginning of at most `max_bytes` bytes and a line that says so. `total` is
/// the length of what `text` is the beginning of.
pub(crate) fn cut_text(text: &str, max_bytes: usize, total: Total) -> String {
    let shown = json::cut(text, max_bytes);
    let all = match total {
        Total::Exactly(bytes) if bytes <= shown.len() as u64 => return text.to_owned(),
        Total::Exactly(bytes) => format!("{bytes} bytes"),
        Total::MoreThan(bytes) => format!("more than {bytes} bytes"),
    };
    format!("{shown}\n[cut: {all} in all, the first {} are shown]", shown.len())
}

/// A whole text, cut to the longest that a result may have.
pub(crate) fn result_text(text: &str) -> String {
    cut_text(text, MAX_RESULT_BYTES, Total::Exactly(text.len() as u64))
}

/// `text` in at most `max_bytes` bytes, with an ellipsis where it was cut. For single lines.
pub(crate) fn shorten(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    format!("{}…", json::cut(text, max_bytes.saturating_sub('…'.len_utf8())))
}

/// Lines of a list that is bounded in number and in bytes.
#[derive(Debug)]
pub(crate) struct Lines {
    text: String,
    shown: usize,
    max_lines: usize,
}

impl Lines {
    /// No lines yet, `max_lines` of them at most.
    pub(crate) fn at_most(max_lines: usize) -> Self {
        Self { text: String::new(), shown: 0, max_lines }
    }

    /// Adds a line if there is room; false if there is none.
    pub(crate) fn push(&mut self, line: &str) -> bool {
        if self.shown == self.max_lines || self.text.len() + line.len() + 1 > MAX_RESULT_BYTES {
            return false;
        }
        if self.shown > 0 {
            self.text.push('\n');
        }
        self.text.push_str(line);
        self.shown += 1;
        true
    }

    /// How many lines there are.
    pub(crate) fn len(&self) -> usize {
        self.shown
    }

    /// The lines as one text.
    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cut_says_how_much_there_was() {
        let cut = |text: &str, total| cut_text(text, 5, total);
        assert_eq!(cut("abcde", Total::Exactly(5)), "abcde");
        assert_eq!(cut("abcdef", Total::Exactly(6)), "abcde\n[cut: 6 bytes in all, the first 5 are shown]");
        assert_eq!(cut("abcdef", Total::Exactly(900)), "abcde\n[cut: 900 bytes in all, the first 5 are shown]");
        assert_eq!(cut("abcdef", Total::MoreThan(6)), "abcde\n[cut: more than 6 bytes in all, the first 5 are shown]");
    }

    /// Case 49: cuts fall on character boundaries.
    #[test]
    fn case_49_a_cut_never_splits_a_character() {
        assert_eq!(cut_text("ab😀cd", 5, Total::Exactly(8)), "ab\n[cut: 8 bytes in all, the first 2 are shown]");
        assert_eq!(shorten("ééé", 5), "é…");
    }

    #[test]
    fn lines_are_bounded_in_number_and_bytes() {
        let mut lines = Lines::at_most(2);
        assert!(lines.push("a") && lines.push("b") && !lines.push("c"));
        assert_eq!((lines.len(), lines.into_text().as_str()), (2, "a\nb"));
        let mut lines = Lines::at_most(1000);
        while lines.push(&"x".repeat(1000)) {}
        assert!(lines.into_text().len() <= MAX_RESULT_BYTES);
    }

    proptest! {
        #[test]
        fn cut_text_begins_like_the_text(text in "\\PC{0,60}", max in 0_usize..80) {
            let cut = cut_text(&text, max, Total::Exactly(text.len() as u64));
            if text.len() <= max {
                prop_assert_eq!(cut, text);
            } else {
                let shown = cut.rsplit_once("\n[cut: ").unwrap().0;
                prop_assert!(shown.len() <= max && shown.len() + 3 >= max.min(text.len()) && text.starts_with(shown));
            }
        }

        #[test]
        fn shorten_stays_within_its_bound(text in "\\PC{0,40}", max in 3_usize..60) {
            let short = shorten(&text, max);
            prop_assert!(short.len() <= max && (short == text || text.starts_with(short.trim_end_matches('…'))));
        }
    }
}
