//! Patterns over characters, and whether two of them have a string in common.
//!
//! A word of a shell can itself be a pattern (`cat .en?`), so the question is never whether a pattern
//! matches a string but whether two patterns *overlap*. The work is bounded by the product of their
//! lengths.

/// One place of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Atom {
    /// This character.
    Char(char),
    /// Any one character but `/`.
    One,
    /// Nothing, or one character that is neither `/` nor `.` and then a [`Run`](Self::Run), which always
    /// follows: a `*` at the start of a file's name, which does not find hidden files.
    Head,
    /// Any characters but `/`, or none.
    Run,
    /// Any characters, or none: what is only known when it runs.
    Any,
    /// The home directory of whoever runs it.
    Home,
}

/// A pattern.
pub(super) type Glob = Vec<Atom>;

/// The characters as they are.
pub(super) fn literal(text: &str) -> Glob {
    text.chars().map(Atom::Char).collect()
}

/// The text, if the pattern is one.
pub(super) fn as_text(glob: &[Atom]) -> Option<String> {
    glob.iter().map(|atom| if let Atom::Char(c) = atom { Some(*c) } else { None }).collect()
}

/// A pattern as rules write it: `*` within a name, `**` across them, `?` for one character.
pub(super) fn pattern(text: &str) -> Glob {
    let mut glob = Glob::new();
    for c in text.chars() {
        match (c, glob.last()) {
            ('*', Some(Atom::Run)) => {
                glob.pop();
                glob.push(Atom::Any);
            }
            ('*', Some(Atom::Any)) => {}
            ('*', _) => glob.push(Atom::Run),
            ('?', _) => glob.push(Atom::One),
            (c, _) => glob.push(Atom::Char(c)),
        }
    }
    glob
}

/// A pattern over text that has no parts: `*` and `**` are any characters at all.
pub(super) fn text_pattern(text: &str) -> Glob {
    let runs = |atom| if atom == Atom::Run { Atom::Any } else { atom };
    pattern(text).into_iter().map(runs).collect()
}

fn accepts(atom: Atom, c: char) -> bool {
    match atom {
        Atom::Char(own) => own == c,
        Atom::One | Atom::Run => c != '/',
        Atom::Head => c != '/' && c != '.',
        Atom::Any => true,
        Atom::Home => false,
    }
}

/// Whether there is a character that both accept.
fn meet(a: Atom, b: Atom) -> bool {
    match (a, b) {
        (Atom::Char(c), other) | (other, Atom::Char(c)) => accepts(other, c),
        (Atom::Home, other) | (other, Atom::Home) => matches!(other, Atom::Home | Atom::Any),
        (Atom::One | Atom::Head | Atom::Run | Atom::Any, Atom::One | Atom::Head | Atom::Run | Atom::Any) => true,
    }
}

/// How far an atom can be skipped without a character, if it can.
fn skip(atom: Atom) -> Option<usize> {
    match atom {
        Atom::Run | Atom::Any => Some(1),
        Atom::Head => Some(2),
        Atom::Char(_) | Atom::One | Atom::Home => None,
    }
}

fn step(atom: Atom) -> usize {
    match atom {
        Atom::Run | Atom::Any => 0,
        Atom::Char(_) | Atom::One | Atom::Head | Atom::Home => 1,
    }
}

/// Whether some string matches both.
pub(super) fn overlap(a: &[Atom], b: &[Atom]) -> bool {
    if let (Some(Atom::Char(x)), Some(Atom::Char(y))) = (a.first(), b.first())
        && x != y
    {
        return false;
    }
    let width = b.len() + 1;
    // Rows `i`, `i + 1` and `i + 2` of the table "these prefixes can be the same string".
    let mut rows = [vec![false; width], vec![false; width], vec![false; width]];
    rows[0][0] = true;
    for i in 0..=a.len() {
        for j in 0..width {
            if !rows[0][j] {
                continue;
            }
            if let Some(n) = a.get(i).and_then(|atom| skip(*atom)) {
                rows[n][j] = true;
            }
            if let Some(n) = b.get(j).and_then(|atom| skip(*atom)) {
                rows[0][(j + n).min(b.len())] = true;
            }
            if let (Some(x), Some(y)) = (a.get(i), b.get(j))
                && meet(*x, *y)
            {
                rows[step(*x)][j + step(*y)] = true;
            }
        }
        if i == a.len() {
            return rows[0][b.len()];
        }
        rows.rotate_left(1);
        rows[2].fill(false);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_overlap_where_a_string_matches_both() {
        let star = |text: &str| -> Glob {
            let atoms = text.chars().flat_map(|c| match c {
                '*' => vec![Atom::Head, Atom::Run],
                '?' => vec![Atom::One],
                '%' => vec![Atom::Any],
                c => vec![Atom::Char(c)],
            });
            atoms.collect()
        };
        for (word, rule, expected) in [
            (".env", ".env*", true),
            (".env.local", ".env*", true),
            ("env", ".env*", false),
            (".en?", ".env*", true),
            ("*", ".env*", false),
            ("*.rs", ".env*", false),
            ("*.rs", "*.rs", true),
            ("*.rs", "deploy*", true),
            ("%", ".env*", true),
            ("a%", ".env*", false),
            ("a%z", "a*z", true),
            ("", "*", true),
            ("", "?", false),
            ("abc", "a?c", true),
            ("a/c", "a?c", false),
            ("a/b", "a**b", true),
            ("a/b", "a*b", false),
        ] {
            assert_eq!(overlap(&star(word), &pattern(rule)), expected, "{word} {rule}");
            assert_eq!(overlap(&pattern(rule), &star(word)), expected, "{rule} {word}");
        }
    }

    /// Hundreds of stars against a long text: bounded work, no exponential search.
    #[test]
    fn overlap_is_bounded() {
        let stars = pattern(&"a*".repeat(500));
        assert!(!overlap(&literal(&"a".repeat(2_000)), &[stars, pattern("b")].concat()));
    }
}
