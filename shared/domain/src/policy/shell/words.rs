//! Words: brace expansion, the pieces that a word can be taken apart to, and the words of prose.

use std::collections::BTreeSet;

use super::{MAX_BYTES, lexer};
use crate::policy::{
    glob::{Atom, Glob, as_text, literal},
    normal,
};

/// Words that one word is expanded to.
const MAX_EXPANSIONS: usize = 64;
/// Pieces of a word that are looked at.
const MAX_PIECES: usize = 256;

/// A part of a word before braces are expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Atom(Atom),
    Open,
    Comma,
    Close,
}

impl Part {
    fn plain(self) -> Atom {
        match self {
            Self::Atom(atom) => atom,
            Self::Open => Atom::Char('{'),
            Self::Comma => Atom::Char(','),
            Self::Close => Atom::Char('}'),
        }
    }
}

/// The words that a word with braces stands for; none if they are too many.
pub(super) fn expand(parts: &[Part]) -> Option<Vec<Glob>> {
    let mut done: Vec<Glob> = Vec::new();
    let mut todo: Vec<Vec<Part>> = vec![parts.to_vec()];
    let mut steps = 0;
    while let Some(word) = todo.pop() {
        steps += 1;
        if steps > 4 * MAX_EXPANSIONS {
            return None;
        }
        match group(&word) {
            None => done.push(word.into_iter().map(Part::plain).collect()),
            Some((open, close, alternatives)) => todo.extend(
                alternatives.iter().map(|inner| [&word[..open], inner.as_slice(), &word[close + 1..]].concat()),
            ),
        }
        if done.len() + todo.len() > MAX_EXPANSIONS {
            return None;
        }
    }
    Some(done)
}

type Group = (usize, usize, Vec<Vec<Part>>);

/// The first group of braces that means alternatives.
fn group(word: &[Part]) -> Option<Group> {
    (0..word.len()).filter(|open| word[*open] == Part::Open).find_map(|open| {
        let (mut depth, mut commas) = (0, vec![open]);
        for (at, part) in word.iter().enumerate().skip(open) {
            match part {
                Part::Open => depth += 1,
                Part::Comma if depth == 1 => commas.push(at),
                Part::Close if depth == 1 => {
                    let inner = &word[open + 1..at];
                    let range = inner.windows(2).any(|pair| pair == [Part::Atom(Atom::Char('.')); 2]);
                    if commas.len() == 1 && !range {
                        return None;
                    }
                    if commas.len() == 1 {
                        return Some((open, at, vec![vec![Part::Atom(Atom::Any)]]));
                    }
                    commas.push(at);
                    let alternatives = commas.windows(2).map(|pair| word[pair[0] + 1..pair[1]].to_vec()).collect();
                    return Some((open, at, alternatives));
                }
                Part::Close => depth -= 1,
                Part::Comma | Part::Atom(_) => {}
            }
        }
        None
    })
}

/// The words that a path with wildcards and braces stands for, as tools take them; none if too many.
pub(in crate::policy) fn braces(text: &str) -> Option<Vec<Glob>> {
    let chars: Vec<char> = text.chars().collect();
    let mut parts = Vec::with_capacity(chars.len());
    let mut at = 0;
    while let Some(c) = chars.get(at) {
        match c {
            '{' => parts.push(Part::Open),
            ',' => parts.push(Part::Comma),
            '}' => parts.push(Part::Close),
            '[' if bracket(&chars[at..]).is_some() => {
                parts.push(Part::Atom(Atom::One));
                at += bracket(&chars[at..]).unwrap_or(1);
                continue;
            }
            c => parts.extend(wildcard(*c, parts.last()).into_iter().map(Part::Atom)),
        }
        at += 1;
    }
    expand(&parts)
}

/// Length of the bracket expression that begins here, if one does.
pub(super) fn bracket(chars: &[char]) -> Option<usize> {
    let body = if matches!(chars.get(1), Some('!' | '^')) { 2 } else { 1 };
    let inner = chars.get(body + 1..)?;
    let len = inner.iter().position(|c| matches!(c, ']' | '/') || c.is_whitespace())?;
    (inner[len] == ']').then_some(body + len + 2)
}

/// An unquoted character, after what came before it in its word.
pub(super) fn wildcard(c: char, before: Option<&Part>) -> Vec<Atom> {
    match (c, before) {
        ('*', Some(Part::Atom(Atom::Run))) => vec![],
        ('*', None | Some(Part::Atom(Atom::Char('/')) | Part::Open | Part::Comma)) => vec![Atom::Head, Atom::Run],
        ('*', _) => vec![Atom::Run],
        ('?', _) => vec![Atom::One],
        (c, _) => vec![Atom::Char(c)],
    }
}

/// The last name of a program's path, in its one spelling; none if that is only known when it runs.
pub(super) fn base_name(word: &Glob) -> Option<String> {
    let text = normal::fold(&as_text(word)?).replace('\\', "/");
    let name = text.rsplit('/').find(|name| !name.is_empty())?;
    let name = name.trim_end_matches([' ', '.']);
    let name = if name.is_empty() { "." } else { name };
    Some(name.strip_suffix(".exe").unwrap_or(name).to_owned())
}

/// What a word can be taken apart to that can be a path or a host: `--file=x`, `-fx`, `a:b`, `user@host`.
/// None if there is too much of it.
pub(in crate::policy) fn pieces(word: &Glob) -> Option<Vec<Glob>> {
    let mut found = vec![word.clone()];
    let cuts = word.iter().enumerate().filter(|(_, atom)| matches!(atom, Atom::Char('=' | ':' | '@' | ',')));
    let cuts: Vec<_> = cuts.map(|(at, _)| at).collect();
    if cuts.len() > MAX_PIECES {
        return None;
    }
    for (i, cut) in cuts.iter().enumerate() {
        let end = cuts.get(i + 1).copied().unwrap_or(word.len());
        found.push(word[cut + 1..].to_vec());
        found.push(word[cut + 1..end].to_vec());
        found.push(word[..*cut].to_vec());
    }
    if let [Atom::Char('-'), Atom::Char(letter), rest @ ..] = word.as_slice()
        && *letter != '-'
    {
        found.push(rest.to_vec());
    }
    found.retain(|piece| !piece.is_empty());
    Some(found)
}

/// The words of a text that need not be a command: taken apart as a shell would, and at every character
/// that cannot be in the middle of a name. What is only known when it runs is left out. None if there are
/// too many.
pub(in crate::policy) fn tokens(text: &str) -> Option<BTreeSet<String>> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let mut found: BTreeSet<String> = BTreeSet::new();
    let splits = |c: char| c.is_whitespace() || "\"'`;|&<>()[]{},=".contains(c);
    found.extend(text.split(char::is_whitespace).map(str::to_owned));
    found.extend(text.split(splits).map(|word| word.trim_end_matches([':', '!', '?']).to_owned()));
    found.extend(lexer::loose_words(text));
    found.retain(|word| word.chars().filter(|c| !"*?/".contains(*c)).count() >= 2 || word.contains('~'));
    (found.len() <= super::MAX_WORDS).then_some(found)
}

/// Characters as they are, as parts of a word.
pub(super) fn quoted(text: &str) -> impl Iterator<Item = Part> {
    literal(text).into_iter().map(Part::Atom)
}
