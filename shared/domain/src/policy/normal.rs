//! One spelling for what looks or means the same: compatibility forms, case, look-alikes, characters that
//! nobody sees, percent-encoding.

use unicode_normalization::UnicodeNormalization;

use super::glob::{Atom, Glob};
use crate::display::text::is_invisible;

/// How often percent-encoding is taken off. What is still encoded then is taken for anything.
const DECODINGS: usize = 5;

fn look_alike(c: char, into: &mut String) {
    match c {
        c if c.is_ascii() => into.push(c),
        // Full stops of other scripts, which the table has no prototype for.
        '\u{3002}' | '\u{ff61}' | '\u{fe52}' => into.push('.'),
        c => into.extend(unicode_security::skeleton(c.encode_utf8(&mut [0; 4]))),
    }
}

/// `text` in its one spelling. Letters of other scripts that look like Latin ones become these.
pub(super) fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.chars().filter(|c| !is_invisible(*c)).map(|c| c.to_ascii_lowercase()).collect();
    }
    let visible = text.nfkc().filter(|c| !is_invisible(*c));
    let mut looks = String::with_capacity(text.len());
    visible.flat_map(char::to_lowercase).for_each(|c| look_alike(c, &mut looks));
    looks.nfkc().flat_map(char::to_lowercase).collect()
}

/// `text` as it was given and with its percent-encoding taken off, each in its one spelling; and whether
/// that was all of it.
pub(super) fn spellings(text: &str) -> (Vec<String>, bool) {
    let mut spellings = vec![fold(text)];
    let mut current = text.to_owned();
    for _ in 0..DECODINGS {
        let Some(decoded) = percent_decoded(&current) else { return (spellings, true) };
        let folded = fold(&decoded);
        if !spellings.contains(&folded) {
            spellings.push(folded);
        }
        current = decoded;
    }
    (spellings, percent_decoded(&current).is_none())
}

/// One round of decoding, if there is anything to decode. Overlong forms of `.` and `/` are these.
fn percent_decoded(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let hex = |at: usize, len: usize| {
        let digits = text.get(at..at + len)?;
        digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
    };
    let mut out = Vec::with_capacity(bytes.len());
    let (mut i, mut changed) = (0, false);
    while i < bytes.len() {
        let wide = (bytes[i] == b'%' && matches!(bytes.get(i + 1), Some(b'u' | b'U'))).then(|| hex(i + 2, 4)).flatten();
        let byte = (bytes[i] == b'%').then(|| hex(i + 1, 2)).flatten();
        match (wide.and_then(char::from_u32), byte.and_then(|byte| u8::try_from(byte).ok())) {
            (Some(c), _) => {
                out.extend(c.encode_utf8(&mut [0; 4]).bytes());
                i += 6;
            }
            (None, Some(byte)) => {
                out.push(byte);
                i += 3;
            }
            (None, None) => {
                out.push(bytes[i]);
                i += 1;
                continue;
            }
        }
        changed = true;
    }
    if !changed {
        return None;
    }
    for (overlong, c) in [(&[0xc0, 0xae][..], b'.'), (&[0xc0, 0xaf], b'/'), (&[0xe0, 0x80, 0xae], b'.')] {
        while let Some(at) = out.windows(overlong.len()).position(|window| window == overlong) {
            out.splice(at..at + overlong.len(), [c]);
        }
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

/// A word's spellings: what is literal in it is folded and decoded, the rest stays.
pub(super) fn word_spellings(word: &[Atom]) -> (Vec<Glob>, bool) {
    let mut spelled = vec![Glob::new(), Glob::new()];
    let mut complete = true;
    let mut rest = word;
    while let Some(first) = rest.first() {
        let len = rest.iter().take_while(|atom| matches!(atom, Atom::Char(_))).count();
        if len == 0 {
            spelled.iter_mut().for_each(|glob| glob.push(*first));
            rest = &rest[1..];
            continue;
        }
        let text: String =
            rest[..len].iter().filter_map(|a| if let Atom::Char(c) = a { Some(*c) } else { None }).collect();
        let (texts, all) = spellings(&text);
        complete &= all;
        spelled[0].extend(texts[0].chars().map(Atom::Char));
        spelled[1].extend(texts[texts.len() - 1].chars().map(Atom::Char));
        rest = &rest[len..];
    }
    spelled.dedup();
    (spelled, complete)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling() {
        for (text, expected) in [
            (".ENV", ".env"),
            (".\u{200b}env", ".env"),
            // A blank that counts as a symbol, and one that is a part of no script.
            (".\u{2800}env", ".env"),
            (".e\u{e0061}nv\u{2065}", ".env"),
            ("\u{ff0e}\u{ff45}nv", ".env"),
            // Cyrillic е and Greek ν.
            (".\u{435}n\u{3bd}", ".env"),
            ("\u{2024}env", ".env"),
            ("id\u{ff3f}rsa", "id_rsa"),
            ("e\u{301}", "\u{e9}"),
            ("\u{e9}", "\u{e9}"),
            ("pro\u{202e}d", "prod"),
            ("169\u{3002}254", "169.254"),
            ("\u{130}", "i\u{307}"),
        ] {
            assert_eq!(fold(text), expected, "{text}");
        }
    }

    #[test]
    fn percent_encoding_is_taken_off_repeatedly() {
        let last = |text: &str| spellings(text).0.pop().unwrap_or_default();
        assert_eq!(last("%2eenv"), ".env");
        assert_eq!(last("%252eenv"), ".env");
        assert_eq!(last("..%c0%afetc"), "../etc");
        assert_eq!(last("%u002eenv"), ".env");
        assert_eq!(last("100%"), "100%");
        assert!(!spellings("%2525252525252541").1);
    }
}
