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
pub(super) struct Pending {
    ends_with: String,
    quoted: bool,
    tabs: bool,
}

pub(super) struct Lexer<'a> {
    pub(super) chars: Vec<char>,
    pub(super) at: usize,
    pub(super) depth: usize,
    pub(super) pending: Vec<Pending>,
    pub(super) script: &'a mut Script,
}

/// A command that is being read.
#[derive(Default)]
struct Draft {
    words: Vec<Glob>,
    others: Vec<Glob>,
    fed: bool,
}

impl Lexer<'_> {
    pub(super) fn peek(&self, ahead: usize) -> Option<char> {
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
    pub(super) fn list(&mut self, until: Option<char>) {
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
                    // A number before `<` or `>` is no word.
                    if !(word.is_empty() && matches!(self.peek(0), Some('<' | '>'))) {
                        self.push(&mut draft, word);
                    }
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

    pub(super) fn one(&mut self, word: &mut Vec<Part>, part: Part) {
        word.push(part);
        self.at += 1;
    }
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
