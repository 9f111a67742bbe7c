//! What an argument names: the paths, hosts and commands in it, read once for all rules.

use serde_json::Value;

use super::{
    glob::{Atom, Glob, as_text, literal, overlap},
    matcher::{Match, scalar, short, shown},
    path::{self, Pattern, Place, Places},
    reading::{Leaf, Reading},
    shell::{self, Command, Script},
    url,
};
use crate::display::MASK;

/// An argument, and what it names.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    pub(super) leaf: Leaf<'a>,
    /// Where it points, each with the word that does.
    places: Vec<(Vec<Place>, String)>,
    /// Folders that a command may go into.
    entered: Vec<(Vec<Place>, String)>,
    hosts: Vec<(Vec<String>, String)>,
    script: Option<Script>,
    /// Whether it is a command line for certain.
    strict: bool,
    /// Why this is not all, if it is not.
    unclear: Option<String>,
}

impl<'a> Subject<'a> {
    /// Reads an argument.
    pub(super) fn new(leaf: Leaf<'a>) -> Self {
        let mut subject = Self {
            leaf,
            places: Vec::new(),
            entered: Vec::new(),
            hosts: Vec::new(),
            script: None,
            strict: false,
            unclear: None,
        };
        let value = subject.leaf.value.clone();
        match (subject.leaf.reading, value.as_ref()) {
            (Reading::Command, Value::String(text)) => subject.script(Script::read(text)),
            (Reading::Command, Value::Array(items)) => {
                subject.script(Script::of_words(items.iter().filter_map(scalar).map(|word| literal(&word)).collect()));
            }
            (Reading::Path, Value::String(text)) => subject.path(text),
            (Reading::Url, Value::String(text)) => {
                subject.hosts(text);
                if !url::is_remote(text) {
                    subject.path(text);
                }
            }
            (Reading::Any | Reading::Text, Value::String(text)) => {
                subject.prose(text);
                subject.script = (text.len() <= shell::MAX_BYTES).then(|| Script::read(text));
            }
            (_, Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {}
        }
        subject
    }

    fn doubt(&mut self, why: impl Into<String>) {
        self.unclear.get_or_insert(why.into());
    }

    fn place(&mut self, places: Places, shown: &str) {
        match places {
            Places::Some(places) => self.places.push((places, short(shown))),
            Places::Anything => self.doubt(format!("{} can be anything", short(shown))),
        }
    }

    fn path(&mut self, text: &str) {
        self.place(path::text_places(text), text);
    }

    fn hosts(&mut self, text: &str) {
        self.hosts.push((url::hosts(text), short(text)));
    }

    /// Text that may hold paths and hosts, and much that is neither.
    fn prose(&mut self, text: &str) {
        let Some(words) = shell::tokens(text) else {
            return self.doubt(format!("it has more than {} bytes, or too many words", shell::MAX_BYTES));
        };
        let whole = (!text.contains('\n')).then(|| text.to_owned());
        for word in words.into_iter().chain(whole) {
            self.hosts(&word);
            if !url::is_remote(&word)
                && let Places::Some(places) = path::text_places(&word)
            {
                self.places.push((places, short(&word)));
            }
        }
    }

    fn script(&mut self, script: Script) {
        self.strict = true;
        let folders = (!script.folders.is_empty()).then_some(script.folders.as_slice());
        for command in &script.commands {
            for word in command.words.iter().chain(&command.others) {
                self.word(word, folders);
            }
            self.enters(command, folders);
            // Quoted words may be taken apart by what they are given to, unless they are printed or noted.
            if !matches!(command.name().as_deref(), Some("echo" | "printf" | "git")) {
                for text in command.words.iter().chain(&command.others).filter_map(|word| as_text(word)) {
                    if text.contains(|c: char| c.is_whitespace() || "'\"(;".contains(c)) {
                        self.prose(&text);
                    }
                }
            }
        }
        if let Some(why) = &script.unclear {
            self.doubt(why.clone());
        }
        self.script = Some(script);
    }

    fn word(&mut self, word: &Glob, folders: Option<&[Place]>) {
        let Some(pieces) = shell::pieces(word) else { return self.doubt("a word has too many pieces") };
        let remote = as_text(word).is_some_and(|text| url::is_remote(&text));
        for piece in pieces {
            if let Some(text) = as_text(&piece) {
                self.hosts(&text);
            }
            if !remote {
                self.place(path::places(&piece, folders), &shown(&piece));
            } else if word.contains(&Atom::Any) {
                self.doubt("a URL is only known when it runs");
            }
        }
    }

    /// What a command may go into, if it is one that does.
    fn enters(&mut self, command: &Command, folders: Option<&[Place]>) {
        let name = command.name().unwrap_or_default();
        let recurses = |word: &Glob| {
            as_text(word).is_some_and(|word| word == "--recursive" || (word.starts_with('-') && word.contains('R')))
        };
        let looks = match name.as_str() {
            "cd" | "pushd" | "pwd" | "stat" | "mkdir" | "du" | "df" | "echo" | "printf" | "test" | "[" | "basename"
            | "dirname" | "realpath" | "readlink" => true,
            "ls" | "dir" => !command.words.iter().any(recurses),
            _ => false,
        };
        if looks || command.is_wrapper {
            return;
        }
        for word in command.words.iter().skip(1).chain(&command.others) {
            for piece in shell::pieces(word).unwrap_or_default() {
                if let Places::Some(places) = path::places(&piece, folders) {
                    self.entered.push((places, short(&shown(&piece))));
                }
            }
        }
    }

    fn or_unclear(&self, found: Match) -> Match {
        found.or(|| self.unclear.clone().map_or(Match::No, Match::Unclear))
    }

    /// Whether it names a path of the pattern's.
    pub(super) fn touches(&self, pattern: &Pattern) -> Match {
        let covered = Match::any(&self.places, |(places, shown)| {
            if places.iter().any(|place| pattern.covers(place)) { Match::Yes(shown.clone()) } else { Match::No }
        });
        let found = covered.or(|| {
            Match::any(&self.entered, |(places, shown)| {
                let above = places.iter().any(|place| pattern.is_beneath(place));
                if above { Match::Yes(format!("{shown}, above it")) } else { Match::No }
            })
        });
        self.or_unclear(found)
    }

    /// Whether it names a host of the pattern's.
    pub(super) fn reaches(&self, pattern: &Glob) -> Match {
        let found = Match::any(&self.hosts, |(hosts, shown)| {
            let named = hosts.iter().any(|host| overlap(&literal(host), pattern));
            if named { Match::Yes(shown.clone()) } else { Match::No }
        });
        self.or_unclear(found)
    }

    /// Whether it runs a command that `is` one of those meant. Where it need not be a command line, what
    /// cannot be read as one is none.
    pub(super) fn runs(&self, is: impl Fn(&Command) -> Match) -> Match {
        let Some(script) = &self.script else { return Match::No };
        let found = Match::any(&script.commands, is);
        match found.or(|| script.unclear.clone().map_or(Match::No, Match::Unclear)) {
            Match::Unclear(_) if !self.strict => Match::No,
            found @ (Match::No | Match::Unclear(_) | Match::Yes(_)) => found,
        }
    }

    /// What was found, in words that a person can read.
    pub(super) fn tell(&self, found: Match, wanted: impl FnOnce() -> String) -> Match {
        let path = &self.leaf.path;
        if self.leaf.secret {
            // A key can be a part of the secret as well.
            let first = path.split('.').next().unwrap_or_default();
            let told = format!("argument {first} {MASK} is, or cannot be told from, {}", wanted());
            return match found {
                Match::Yes(_) => Match::Yes(told),
                Match::Unclear(_) => Match::Unclear(told),
                Match::No => Match::No,
            };
        }
        match found {
            Match::Yes(what) => Match::Yes(format!("argument {path} ({what}) is {}", wanted())),
            Match::Unclear(why) => Match::Unclear(format!("argument {path} cannot be told from {}: {why}", wanted())),
            Match::No => Match::No,
        }
    }
}
