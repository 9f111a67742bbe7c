//! Text that looks like what it is.
//!
//! A character is shown as itself only if its category says that it is seen. Everything else is shown
//! as `\u{…}` with its code point: controls, bidirectional controls, what has no width, tags,
//! variation selectors, what is unassigned or private, spaces that are not the space, marks without a
//! letter or in floods (UTS 55, section 5; UTR 36, section 2). So is what looks exactly like another
//! spelling of the same text, which is what normalisation to NFC would change (UAX 15).
//!
//! A backslash that would read as the beginning of such an escape is shown as one itself. So what is
//! shown has one reading, and two texts that differ do not look the same, up to where they are cut.

use std::{borrow::Cow, fmt::Write as _, iter};

use unicode_general_category::{GeneralCategory as Category, get_general_category};
use unicode_normalization::UnicodeNormalization as _;

/// Marks that a letter is seen to carry; Hebrew and Vietnamese need up to three.
const MAX_MARKS: usize = 4;

/// The categories of characters that are seen, all but marks. Whatever else
/// there is, also in a later Unicode, is not among them.
const SEEN: [Category; 19] = [
    Category::UppercaseLetter,
    Category::LowercaseLetter,
    Category::TitlecaseLetter,
    Category::ModifierLetter,
    Category::OtherLetter,
    Category::DecimalNumber,
    Category::LetterNumber,
    Category::OtherNumber,
    Category::ConnectorPunctuation,
    Category::DashPunctuation,
    Category::OpenPunctuation,
    Category::ClosePunctuation,
    Category::InitialPunctuation,
    Category::FinalPunctuation,
    Category::OtherPunctuation,
    Category::MathSymbol,
    Category::CurrencySymbol,
    Category::ModifierSymbol,
    Category::OtherSymbol,
];

/// Characters of those categories that are not seen all the same: blanks, and the rest of
/// `Default_Ignorable_Code_Point` (DerivedCoreProperties.txt, Unicode 16).
const BLANK: [(char, char); 13] = [
    ('\u{34f}', '\u{34f}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fffc}', '\u{fffc}'),
    ('\u{13441}', '\u{13442}'),
    ('\u{16fe4}', '\u{16fe4}'),
    ('\u{1d159}', '\u{1d159}'),
    ('\u{e0100}', '\u{e01ef}'),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// No line breaks, and no spaces at its ends, where they can't be seen.
    Line,
    /// Line breaks and tabs are what they are.
    Block,
}

/// `text` on one line, in at most `max_bytes` bytes and, if it is cut, a notice that says so.
#[must_use]
pub fn line(text: &str, max_bytes: usize) -> String {
    escape(text, Layout::Line, true, max_bytes).0
}

/// `text` with its line breaks and tabs, in at most `max_bytes` bytes and, if it is cut, a notice.
#[must_use]
pub fn block(text: &str, max_bytes: usize) -> String {
    escape(text, Layout::Block, true, max_bytes).0
}

/// As [`block`], and whether it was cut.
pub(crate) fn bounded_block(text: &str, max_bytes: usize) -> (String, bool) {
    escape(text, Layout::Block, true, max_bytes)
}

/// A line that was made safe when it was stored, possibly by an earlier release that knew less: what
/// is still hidden in it is shown, and its escapes are left alone.
pub(crate) fn contained(text: &str) -> String {
    escape(text, Layout::Line, false, usize::MAX).0
}

/// What a cut leaves out: `… (+1,234 more bytes)`.
pub(crate) fn notice(count: usize, what: &str) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let plural = if count == 1 { "" } else { "s" };
    format!("… (+{grouped} more {what}{plural})")
}

fn escape(text: &str, layout: Layout, escapes_escapes: bool, max_bytes: usize) -> (String, bool) {
    let mut out = String::with_capacity(text.len().min(max_bytes));
    let mut carrier = Carrier::default();
    for (at, c) in text.char_indices() {
        let after = &text[at + c.len_utf8()..];
        let at_an_end = at == 0 || after.is_empty();
        let seen = match c {
            '\n' | '\t' => layout == Layout::Block,
            ' ' => layout == Layout::Block || !at_an_end,
            '\\' => !(escapes_escapes && after.starts_with("u{")),
            c => carrier.shows(c),
        };
        let shown: Cow<'_, str> = if seen {
            Cow::Borrowed(&text[at..at + c.len_utf8()])
        } else {
            Cow::Owned(format!("\\u{{{:x}}}", u32::from(c)))
        };
        if out.len() + shown.len() > max_bytes {
            let _ = write!(out, "{}", notice(text.len() - at, "byte"));
            return (out, true);
        }
        carrier.take(c, seen);
        out.push_str(&shown);
    }
    (out, false)
}

/// What a mark would stand on.
#[derive(Debug, Default)]
struct Carrier {
    /// What was shown last: a character and its marks.
    cluster: String,
    /// Whether that character is a letter.
    letter: bool,
    /// How many marks it has.
    marks: usize,
}

impl Carrier {
    /// Whether `c`, next in the text, is seen for what it is.
    fn shows(&self, c: char) -> bool {
        if c.is_ascii() {
            return !c.is_ascii_control();
        }
        if is_blank(c) || self.respells(c) {
            return false;
        }
        if is_mark(c) { self.letter && self.marks < MAX_MARKS } else { SEEN.contains(&get_general_category(c)) }
    }

    /// Whether NFC would write `c`, or what it stands on and `c`, in another way that looks the same.
    fn respells(&self, c: char) -> bool {
        let spelling = self.cluster.chars().chain(iter::once(c));
        !spelling.clone().nfc().eq(spelling)
    }

    fn take(&mut self, c: char, seen: bool) {
        if !seen {
            *self = Self::default();
        } else if is_mark(c) {
            self.marks += 1;
            self.cluster.push(c);
        } else {
            self.cluster.clear();
            self.cluster.push(c);
            (self.letter, self.marks) = (c.is_alphabetic(), 0);
        }
    }
}

/// Whether it shows nothing though its category is one of characters that are seen, or of marks.
fn is_blank(c: char) -> bool {
    BLANK.iter().any(|(first, last)| (*first..=*last).contains(&c))
}

/// Whether it shows nothing and is no space: a control, what turns the direction of the text, what has no width,
/// what is not assigned.
pub(crate) fn is_invisible(c: char) -> bool {
    let category = get_general_category(c);
    let nothing = matches!(
        category,
        Category::Control
            | Category::Format
            | Category::LineSeparator
            | Category::ParagraphSeparator
            | Category::Unassigned
    );
    (nothing && !matches!(c, '\t' | '\n' | '\r')) || is_blank(c)
}

fn is_mark(c: char) -> bool {
    matches!(get_general_category(c), Category::NonspacingMark | Category::SpacingMark)
}
