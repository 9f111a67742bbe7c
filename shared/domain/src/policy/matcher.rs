//! What a rule says of one argument, and whether a value is that.
//!
//! The answer has three values. Rules that refuse take [`Match::Unclear`] for a match, rules that allow
//! take it for none: unknown is never yes (I11).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    glob::{Atom, Glob, as_text, literal, overlap, text_pattern},
    normal,
    path::Pattern,
    shell,
    subject::Subject,
};
use crate::json;

/// Whether a rule matches, and what did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Match {
    /// It does not.
    No,
    /// It cannot be told, for this reason.
    Unclear(String),
    /// It does: this.
    Yes(String),
}

impl Match {
    /// Of two things that must both match.
    pub(super) fn and(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::No => Self::No,
            Self::Unclear(why) => match other() {
                Self::No => Self::No,
                Self::Unclear(_) | Self::Yes(_) => Self::Unclear(why),
            },
            Self::Yes(what) => match other() {
                Self::Yes(more) => Self::Yes(format!("{what}, {more}")),
                other @ (Self::No | Self::Unclear(_)) => other,
            },
        }
    }

    /// Of two things of which one must match.
    pub(super) fn or(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Yes(what) => Self::Yes(what),
            Self::No => other(),
            Self::Unclear(why) => match other() {
                Self::Yes(what) => Self::Yes(what),
                Self::No | Self::Unclear(_) => Self::Unclear(why),
            },
        }
    }

    pub(super) fn any<T>(items: impl IntoIterator<Item = T>, each: impl Fn(T) -> Self) -> Self {
        let mut found = Self::No;
        for item in items {
            found = found.or(|| each(item));
            if let Self::Yes(_) = found {
                break;
            }
        }
        found
    }
}

/// What a rule says of an argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Matcher {
    /// It is a path like this: `.env*` anywhere, `/etc/shadow` there, `~/.ssh` in a home; or is beneath one.
    Path(String),
    /// It is, or names, a host like this.
    Host(String),
    /// It is, or holds, a command like this: the program, then words in this order, `*` for any.
    Command(String),
    /// It is exactly this JSON value.
    Equals(Value),
    /// It is a text like this, where `*` is any characters.
    #[serde(untagged)]
    Text(String),
}

impl Matcher {
    /// The matcher as a person reads it.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Path(pattern) => format!("path {pattern}"),
            Self::Host(pattern) => format!("host {pattern}"),
            Self::Command(pattern) => format!("command {pattern}"),
            Self::Equals(value) => format!("equal to {value}"),
            Self::Text(pattern) => pattern.clone(),
        }
    }

    /// Whether an argument matches, for a rule that refuses.
    pub(super) fn refuses(&self, subject: &Subject<'_>) -> Match {
        let found = match self {
            Self::Path(pattern) => subject.touches(&Pattern::new(pattern)),
            Self::Host(pattern) => subject.reaches(&host_pattern(pattern)),
            Self::Command(pattern) => runs(&command_pattern(pattern), subject),
            Self::Equals(value) => same(value, &subject.leaf.value),
            Self::Text(pattern) => reads(pattern, &subject.leaf.value),
        };
        subject.tell(found, || self.shown())
    }

    /// Whether a value matches beyond doubt, for a rule that allows. Nothing is normalised: what is written
    /// in an unusual way is not covered.
    pub(super) fn allows(&self, value: &Value) -> bool {
        match self {
            Self::Text(pattern) => plain(value).is_some_and(|text| overlap(&literal(&text), &text_pattern(pattern))),
            Self::Path(pattern) => plain(value).is_some_and(|text| {
                let usual = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+@ ".contains(c));
                let strays = text.split('/').any(|part| matches!(part, "" | "." | "..") || part.ends_with(['.', ' ']));
                usual && !strays && overlap(&literal(&text), &super::glob::pattern(pattern))
            }),
            Self::Equals(expected) => {
                json::canonical(expected).is_ok_and(|own| json::canonical(value).is_ok_and(|v| v == own))
            }
            // Which host a URL reaches and what a command runs is never beyond doubt.
            Self::Host(_) | Self::Command(_) => false,
        }
    }
}

/// The text of a scalar, if it is written in the usual way.
fn plain(value: &Value) -> Option<String> {
    let text = scalar(value)?;
    (text.len() <= 4_096 && text.chars().all(|c| !c.is_control() && c != '\u{fffd}') && unchanged(&text))
        .then_some(text)
}

fn unchanged(text: &str) -> bool {
    normal::fold(text) == text.to_lowercase() && text.trim() == text
}

pub(super) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Null | Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

pub(super) fn short(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if line.len() > 80 { format!("{}…", json::cut(&line, 80)) } else { line }
}

fn same(expected: &Value, value: &Value) -> Match {
    let equal = json::canonical(expected).ok() == json::canonical(value).ok();
    let alike = match (expected, value) {
        (Value::String(own), Value::String(given)) => {
            normal::spellings(given.trim()).0.contains(&normal::fold(own.trim()))
        }
        _ => false,
    };
    if equal || alike { Match::Yes(short(&value.to_string())) } else { Match::No }
}

fn reads(pattern: &str, value: &Value) -> Match {
    let Some(text) = scalar(value) else { return Match::No };
    if text.len() > shell::MAX_BYTES {
        return Match::Unclear(format!("it has more than {} bytes", shell::MAX_BYTES));
    }
    let own = text_pattern(&normal::fold(pattern.trim()));
    let (spellings, complete) = normal::spellings(&text);
    if spellings.iter().any(|spelling| overlap(&literal(spelling.trim()), &own)) {
        return Match::Yes(short(&text));
    }
    if complete { Match::No } else { Match::Unclear("it is encoded too often".to_owned()) }
}

pub(super) fn host_pattern(pattern: &str) -> Glob {
    text_pattern(normal::fold(pattern.trim()).trim_end_matches('.'))
}

/// Whether a value runs a command of the pattern's.
pub(super) fn runs(own: &[Glob], subject: &Subject<'_>) -> Match {
    subject.runs(|command| is_command(own, command))
}

pub(super) fn command_pattern(pattern: &str) -> Vec<Glob> {
    normal::fold(pattern).split_whitespace().map(text_pattern).collect()
}

fn is_command(own: &[Glob], command: &shell::Command) -> Match {
    let Some((program, args)) = own.split_first() else { return Match::No };
    if command.words.is_empty() {
        return Match::No;
    }
    let Some(name) = command.name() else {
        return Match::Unclear("which program runs is only known when it does".to_owned());
    };
    if !overlap(&literal(&name), program) {
        return Match::No;
    }
    let words: Vec<Glob> =
        command.words[1..].iter().map(|word| normal::word_spellings(word).0.swap_remove(0)).collect();
    let mut from = 0;
    for arg in args {
        if as_text(arg).is_none() && arg.iter().all(|atom| *atom == Atom::Any) {
            continue;
        }
        if flags(arg, &words) {
            continue;
        }
        match words[from..].iter().position(|word| overlap(word, arg)) {
            Some(at) => from += at + 1,
            None => return Match::No,
        }
    }
    Match::Yes(short(&command.words.iter().map(|word| shown(word)).collect::<Vec<_>>().join(" ")))
}

/// Whether the short options of a rule (`-rf`) are all given, in whatever order, alone or together, or by
/// names that begin with the same letters.
fn flags(own: &Glob, words: &[Glob]) -> bool {
    let Some(text) = as_text(own) else { return false };
    let Some(letters) = text.strip_prefix('-').filter(|rest| !rest.is_empty() && !rest.starts_with('-')) else {
        return false;
    };
    letters.chars().all(|letter| {
        words.iter().any(|word| match as_text(word) {
            Some(word) => match word.strip_prefix("--") {
                Some(name) => name.starts_with(letter),
                None => word.strip_prefix('-').is_some_and(|rest| rest.contains(letter)),
            },
            None => word.contains(&Atom::Any),
        })
    })
}

/// A word as a person reads it.
pub(super) fn shown(word: &[Atom]) -> String {
    let text = word.iter().map(|atom| match atom {
        Atom::Char(c) => c.to_string(),
        Atom::One => "?".to_owned(),
        Atom::Run => "*".to_owned(),
        Atom::Any => "$(…)".to_owned(),
        Atom::Home => "~".to_owned(),
        Atom::Head => String::new(),
    });
    text.collect()
}
