//! Text to words and commands: quotes, expansions, redirections, operators.

use super::{
    Command, Script,
    words::{self, Part},
};
use crate::policy::glob::{Atom, Glob, as_text};

/// Reads `text`, which stands `depth` deep in commands, into `script`.
pub(super) fn read(script: &mut Script, text: &str, depth: usize) {
    let mut lexer = Lexer { chars: text.chars().collect(), at: 0, depth, pending: Vec::new(), script };
    while lexer.at < lexer.chars.len() {
        let before = lexer.at;
        lexer.list(None);
        if lexer.at == before {
            lexer.script.doubt("it is not a command line that can be read");
            return;
        }
    }
}

/// The literal words of a text that need not be a command.
pub(super) fn loose_words(text: &str) -> Vec<String> {
    let mut script = Script::default();
    read(&mut script, text, 0);
    let words = script.commands.iter().flat_map(|command| command.words.iter().chain(&command.others));
    let known = |atom: &&Atom| matches!(atom, Atom::Char(_) | Atom::One | Atom::Run | Atom::Head | Atom::Home);
    let text = |word: &Glob| -> String {
        let shown = word.iter().filter(known).map(|atom| match atom {
            Atom::Char(c) => c.to_string(),
            Atom::One => "?".to_owned(),
            Atom::Run => "*".to_owned(),
            Atom::Home => "$HOME".to_owned(),
            Atom::Head | Atom::Any => String::new(),
        });
        shown.collect()
    };
    words.map(text).collect()
}

/// A here-document whose text is still to come.
struct Pending {
    ends_with: String,
    quoted: bool,
    tabs: bool,
}

struct Lexer<'a> {
    chars: Vec<char>,
    at: usize,
    depth: usize,
    pending: Vec<Pending>,
    script: &'a mut Script,
}

/// A command that is being read.
#[derive(Default)]
struct Draft {
    words: Vec<Glob>,
    others: Vec<Glob>,
    fed: bool,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn take(&mut self, text: &str) -> bool {
        let starts = text.chars().enumerate().all(|(i, c)| self.peek(i) == Some(c));
        if starts {
            self.at += text.chars().count();
        }
        starts
    }

    /// Commands up to `until`, or to the end.
    fn list(&mut self, until: Option<char>) {
        let mut draft = Draft::default();
        while let Some(c) = self.peek(0) {
            if self.script.unclear.is_some() && self.depth > 0 {
                self.at = self.chars.len();
                return;
            }
            match c {
                c if Some(c) == until => {
                    self.finish(&mut draft, false);
                    self.at += 1;
                    return;
                }
                ' ' | '\t' | '\r' => self.at += 1,
                '\\' if self.peek(1) == Some('\n') => self.at += 2,
                '\n' => {
                    self.finish(&mut draft, false);
                    self.at += 1;
                    self.bodies();
                }
                '#' => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                '&' if self.peek(1) == Some('>') => {
                    self.at += 2;
                    self.redirect(&mut draft);
                }
                ';' | '&' | '|' => {
                    let pipes = c == '|' && self.peek(1) != Some('|');
                    self.at += 1;
                    while matches!(self.peek(0), Some(';' | '&' | '|')) && self.peek(1) != Some('>') {
                        self.at += 1;
                    }
                    self.finish(&mut draft, pipes);
                }
                '<' | '>' if self.peek(1) == Some('(') => {
                    let word = self.word();
                    self.push(&mut draft, word);
                }
                '<' if self.take("<<<") => {
                    draft.fed = true;
                    self.redirect(&mut draft);
                }
                '<' if self.take("<<") => {
                    draft.fed = true;
                    self.here_document();
                }
                '<' | '>' => {
                    self.at += 1;
                    self.redirect(&mut draft);
                }
                '(' => self.group(&mut draft),
                ')' => {
                    // One that closes nothing: of a `case`, for example.
                    self.script.doubt("a parenthesis closes nothing");
                    self.at += 1;
                }
                _ => {
                    let word = self.word();
                    self.push(&mut draft, word);
                }
            }
        }
        self.finish(&mut draft, false);
        if until.is_some() {
            self.script.doubt("a parenthesis is not closed");
        }
    }

    fn group(&mut self, draft: &mut Draft) {
        if !draft.words.is_empty() && self.peek(1) == Some(')') {
            // A function's name: what it does is read when its body comes.
            self.at += 2;
            draft.words.clear();
            return;
        }
        if draft.words.iter().any(|word| !is_reserved(word)) {
            self.script.doubt("a parenthesis stands where none can be read");
        }
        self.at += 1;
        if self.depth > super::MAX_DEPTH {
            self.script.doubt("commands stand in commands too deep");
            self.at = self.chars.len();
            return;
        }
        self.depth += 1;
        self.list(Some(')'));
        self.depth -= 1;
    }

    fn push(&mut self, draft: &mut Draft, word: Vec<Part>) {
        match words::expand(&word) {
            Some(words) => draft.words.extend(words),
            None => {
                self.script.doubt("braces stand for too many words");
                draft.words.push(vec![Atom::Any]);
            }
        }
    }

    /// What an operator such as `>` sends to or takes from.
    fn redirect(&mut self, draft: &mut Draft) {
        while matches!(self.peek(0), Some('>' | '<' | '|' | '&')) {
            self.at += 1;
        }
        while matches!(self.peek(0), Some(' ' | '\t')) {
            self.at += 1;
        }
        let word = self.word();
        match words::expand(&word) {
            Some(words) => draft.others.extend(words.into_iter().filter(|word| !word.is_empty())),
            None => self.script.doubt("braces stand for too many words"),
        }
    }

    fn finish(&mut self, draft: &mut Draft, pipes: bool) {
        let mut draft = std::mem::replace(draft, Draft { fed: pipes, ..Draft::default() });
        loop {
            match draft.words.first() {
                Some(word) if is_reserved(word) => {
                    draft.words.remove(0);
                }
                Some(word) if assigned(word).is_some() => {
                    let word = draft.words.remove(0);
                    draft.others.extend(assigned(&word));
                }
                Some(_) | None => break,
            }
        }
        if draft.words.first().and_then(|word| as_text(word)).as_deref() == Some("case") {
            self.script.doubt("a `case` is not read");
        }
        if !draft.words.is_empty() || !draft.others.is_empty() {
            let Draft { words, others, fed } = draft;
            self.script.add_written(Command { words, others, fed, is_wrapper: false }, self.depth);
        }
    }

    fn here_document(&mut self) {
        let tabs = self.take("-");
        while matches!(self.peek(0), Some(' ' | '\t')) {
            self.at += 1;
        }
        let from = self.at;
        let word = self.word();
        let quoted = self.chars[from..self.at].iter().any(|c| matches!(c, '\'' | '"' | '\\'));
        let ends_with: String =
            word.iter().filter_map(|part| if let Part::Atom(Atom::Char(c)) = part { Some(*c) } else { None }).collect();
        self.pending.push(Pending { ends_with, quoted, tabs });
    }

    /// The texts of here-documents, which begin on the next line. Their commands in `$(…)` run.
    fn bodies(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            loop {
                if self.at >= self.chars.len() {
                    break;
                }
                let end =
                    self.chars[self.at..].iter().position(|c| *c == '\n').map_or(self.chars.len(), |n| self.at + n);
                let line: String = self.chars[self.at..end].iter().collect();
                let line = if pending.tabs { line.trim_start_matches('\t') } else { &line };
                if line == pending.ends_with {
                    self.at = (end + 1).min(self.chars.len());
                    break;
                }
                if pending.quoted {
                    self.at = (end + 1).min(self.chars.len());
                    continue;
                }
                let mut ignored = Vec::new();
                while self.peek(0).is_some_and(|c| c != '\n') {
                    match self.peek(0) {
                        Some('\\') => self.at += 2,
                        Some('$') => self.dollar(&mut ignored),
                        Some('`') => self.backticks(&mut ignored),
                        Some(_) | None => self.at += 1,
                    }
                }
                self.at = (self.at + 1).min(self.chars.len());
            }
        }
    }

    /// A word, unexpanded. Takes at least one character, if there is one.
    fn word(&mut self) -> Vec<Part> {
        let mut word: Vec<Part> = Vec::new();
        while let Some(c) = self.peek(0) {
            match c {
                ' ' | '\t' | '\r' | '\n' | ';' | '|' | '&' | ')' => break,
                '<' | '>' if self.peek(1) == Some('(') => {
                    self.at += 2;
                    self.nested(&mut word);
                }
                '<' | '>' => {
                    // The number before it is that of a file, not a word.
                    if word.iter().all(|part| matches!(part, Part::Atom(Atom::Char('0'..='9')))) {
                        word.clear();
                    }
                    break;
                }
                '?' | '*' | '+' | '@' | '!' if self.peek(1) == Some('(') && !(c == '!' && word.is_empty()) => {
                    self.at += 2;
                    self.nested(&mut word);
                }
                '(' => break,
                '\\' => {
                    match self.peek(1) {
                        Some('\n') => {}
                        Some(c) => word.push(Part::Atom(Atom::Char(c))),
                        None => word.push(Part::Atom(Atom::Char('\\'))),
                    }
                    self.at += 2;
                }
                '\'' => self.single_quoted(&mut word),
                '"' => self.double_quoted(&mut word),
                '`' => self.backticks(&mut word),
                '$' => self.dollar(&mut word),
                '{' => self.one(&mut word, Part::Open),
                ',' => self.one(&mut word, Part::Comma),
                '}' => self.one(&mut word, Part::Close),
                '[' => match words::bracket(&self.chars[self.at..]) {
                    Some(len) => {
                        word.push(Part::Atom(Atom::One));
                        self.at += len;
                    }
                    None => self.one(&mut word, Part::Atom(Atom::Char('['))),
                },
                c => {
                    word.extend(words::wildcard(c, word.last()).into_iter().map(Part::Atom));
                    self.at += 1;
                }
            }
        }
        self.at = self.at.min(self.chars.len());
        word
    }

    fn one(&mut self, word: &mut Vec<Part>, part: Part) {
        word.push(part);
        self.at += 1;
    }

    fn single_quoted(&mut self, word: &mut Vec<Part>) {
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

    fn double_quoted(&mut self, word: &mut Vec<Part>) {
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
    fn nested(&mut self, word: &mut Vec<Part>) {
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

    fn backticks(&mut self, word: &mut Vec<Part>) {
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

    fn dollar(&mut self, word: &mut Vec<Part>) {
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

fn is_reserved(word: &Glob) -> bool {
    const RESERVED: [&str; 14] =
        ["if", "then", "else", "elif", "fi", "while", "until", "do", "done", "esac", "{", "}", "!", "[["];
    as_text(word).is_some_and(|word| RESERVED.contains(&word.as_str()))
}

/// What a word gives to a variable, if that is what it does.
fn assigned(word: &Glob) -> Option<Glob> {
    let at = word.iter().position(|atom| *atom == Atom::Char('='))?;
    let name = as_text(&word[..at])?;
    let name = name.strip_suffix('+').unwrap_or(&name);
    let legal = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name.chars().next().is_some_and(|c| !c.is_ascii_digit());
    legal.then(|| word[at + 1..].to_vec())
}
