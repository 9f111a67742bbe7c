//! Quotes and expansions within a word.

use super::{
    lexer::Lexer,
    words::{self, Part},
};
use crate::policy::glob::Atom;

impl Lexer<'_> {
    pub(super) fn single_quoted(&mut self, word: &mut Vec<Part>) {
        self.at += 1;
        while let Some(c) = self.peek(0) {
            self.at += 1;
            if c == '\'' {
                return;
            }
            word.push(Part::Atom(Atom::Char(c)));
        }
        self.script.doubt("a quote is not closed");
    }

    pub(super) fn double_quoted(&mut self, word: &mut Vec<Part>) {
        self.at += 1;
        while let Some(c) = self.peek(0) {
            match c {
                '"' => {
                    self.at += 1;
                    return;
                }
                '\\' => {
                    match self.peek(1) {
                        Some('\n') => {}
                        Some(c @ ('"' | '\\' | '$' | '`')) => word.push(Part::Atom(Atom::Char(c))),
                        Some(c) => word.extend(['\\', c].map(|c| Part::Atom(Atom::Char(c)))),
                        None => {}
                    }
                    self.at += 2;
                }
                '$' => self.dollar(word),
                '`' => self.backticks(word),
                c => self.one(word, Part::Atom(Atom::Char(c))),
            }
        }
        self.script.doubt("a quote is not closed");
    }

    /// Commands up to a `)`; what they make is only known when they run.
    pub(super) fn nested(&mut self, word: &mut Vec<Part>) {
        word.push(Part::Atom(Atom::Any));
        if self.depth > super::MAX_DEPTH {
            self.script.doubt("commands stand in commands too deep");
            self.at = self.chars.len();
            return;
        }
        let pending = std::mem::take(&mut self.pending);
        self.depth += 1;
        self.list(Some(')'));
        self.depth -= 1;
        self.pending = pending;
    }

    pub(super) fn backticks(&mut self, word: &mut Vec<Part>) {
        word.push(Part::Atom(Atom::Any));
        self.at += 1;
        let mut inner = String::new();
        loop {
            match self.peek(0) {
                Some('`') => {
                    self.at += 1;
                    return self.script.add_text(&inner, self.depth + 1);
                }
                Some('\\') => {
                    if !matches!(self.peek(1), Some('`' | '\\' | '$')) {
                        inner.push('\\');
                    }
                    inner.extend(self.peek(1));
                    self.at += 2;
                }
                Some(c) => {
                    inner.push(c);
                    self.at += 1;
                }
                None => return self.script.doubt("a backtick is not closed"),
            }
        }
    }

    pub(super) fn dollar(&mut self, word: &mut Vec<Part>) {
        self.at += 1;
        match self.peek(0) {
            Some('\'') => self.ansi_quoted(word),
            Some('"') => self.double_quoted(word),
            Some('(') => {
                self.at += 1;
                self.nested(word);
            }
            Some('{') => self.parameter(word),
            Some(c) if c.is_alphabetic() || c == '_' => {
                let from = self.at;
                while self.peek(0).is_some_and(|c| c.is_alphanumeric() || c == '_') {
                    self.at += 1;
                }
                let name: String = self.chars[from..self.at].iter().collect();
                word.push(variable(&name, word.is_empty()));
            }
            // Numbers that the shell makes.
            Some('?' | '#' | '$' | '!') => self.one(word, Part::Atom(Atom::Char('0'))),
            Some('@' | '*' | '-' | '0'..='9') => self.one(word, Part::Atom(Atom::Any)),
            Some('[') => {
                word.push(Part::Atom(Atom::Any));
                self.script.doubt("old arithmetic is not read");
                self.at += 1;
            }
            Some(_) | None => word.extend(words::quoted("$")),
        }
    }

    /// `${…}`: nothing but a plain name is looked up. Commands in it run.
    fn parameter(&mut self, word: &mut Vec<Part>) {
        self.at += 1;
        let from = self.at;
        while self.peek(0).is_some_and(|c| c.is_alphanumeric() || c == '_') {
            self.at += 1;
        }
        if self.peek(0) == Some('}') && self.at > from {
            let name: String = self.chars[from..self.at].iter().collect();
            self.at += 1;
            word.push(variable(&name, word.is_empty()));
            return;
        }
        let mut ignored = Vec::new();
        loop {
            match self.peek(0) {
                Some('}') => {
                    self.at += 1;
                    break;
                }
                Some('\\') => self.at += 2,
                Some('$') => self.dollar(&mut ignored),
                Some('`') => self.backticks(&mut ignored),
                Some(_) => self.at += 1,
                None => {
                    self.script.doubt("a brace is not closed");
                    break;
                }
            }
        }
        word.push(Part::Atom(Atom::Any));
    }

    /// `$'…'`, with the escapes of C.
    fn ansi_quoted(&mut self, word: &mut Vec<Part>) {
        self.at += 1;
        while let Some(c) = self.peek(0) {
            self.at += 1;
            match c {
                '\'' => return,
                '\\' => {
                    let c = self.peek(0);
                    self.at += 1;
                    let char = match c {
                        Some('x') => self.number(16, 2),
                        Some('u') => self.number(16, 4),
                        Some('U') => self.number(16, 8),
                        Some('0'..='7') => {
                            self.at -= 1;
                            self.number(8, 3)
                        }
                        Some('c') => {
                            self.at += 1;
                            None
                        }
                        Some('n') => Some('\n'),
                        Some('t') => Some('\t'),
                        Some('a' | 'b' | 'e' | 'E' | 'f' | 'r' | 'v') => None,
                        other => other,
                    };
                    word.extend(char.map(|c| Part::Atom(Atom::Char(c))));
                }
                c => word.push(Part::Atom(Atom::Char(c))),
            }
        }
        self.script.doubt("a quote is not closed");
    }

    fn number(&mut self, radix: u32, digits: usize) -> Option<char> {
        let from = self.at;
        while self.at < from + digits && self.peek(0).is_some_and(|c| c.is_digit(radix)) {
            self.at += 1;
        }
        let text: String = self.chars[from..self.at].iter().collect();
        u32::from_str_radix(&text, radix).ok().and_then(char::from_u32)
    }
}

/// What a variable is known to hold.
fn variable(name: &str, begins: bool) -> Part {
    Part::Atom(match name {
        "HOME" => Atom::Home,
        // The folder in which it runs: `$PWD/x` is `./x`.
        "PWD" if begins => Atom::Char('.'),
        _ => Atom::Any,
    })
}
