//! What a command line runs and names, read so that nothing is missed.
//!
//! This is no shell: it never says what a command *does*. It collects every command that could run and
//! every word that could be a file, and where it cannot know, because a value is only there when the
//! command runs, because code stands in another language, or because a limit is reached, it says so, and
//! rules that refuse take that for a match.

mod lexer;
mod programs;
mod quotes;
mod words;

use super::{
    glob::{Glob, as_text},
    path::Place,
};
pub(super) use words::{braces, pieces, tokens};

/// Longest text that is read, in bytes.
pub(super) const MAX_BYTES: usize = 64 * 1024;
/// Commands that are looked at.
pub(super) const MAX_COMMANDS: usize = 50;
/// How deep commands can stand in commands.
const MAX_DEPTH: usize = 8;
/// Words and folders that are looked at.
const MAX_WORDS: usize = 4_096;
const MAX_FOLDERS: usize = 16;

/// Every command that a text can run.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// The commands, those within others too: after `sudo`, in `$(…)`, in `sh -c '…'`.
    pub(super) commands: Vec<Command>,
    /// Folders that some of them go to.
    pub(super) folders: Vec<Place>,
    /// Why this is not all, if it is not.
    pub(super) unclear: Option<String>,
    /// Commands as they stand in the text, without those that are read out of others.
    written: usize,
    words: usize,
}

/// A command.
#[derive(Debug)]
pub(super) struct Command {
    /// Its words; the first is the program.
    pub(super) words: Vec<Glob>,
    /// What else it names: files it is redirected to, values that it is given.
    pub(super) others: Vec<Glob>,
    /// Whether its input comes from another command or stands in the text.
    fed: bool,
    /// Whether it only starts another command, which is in the list too.
    pub(super) is_wrapper: bool,
}

impl Command {
    /// The program's name without its folder; none if that is only known when it runs.
    pub(super) fn name(&self) -> Option<String> {
        self.words.first().and_then(words::base_name)
    }
}

impl Script {
    /// Reads a command line.
    pub(super) fn read(text: &str) -> Self {
        let mut script = Self::default();
        script.add_text(text, 0);
        script
    }

    /// Reads the words of a command that is started without a shell.
    pub(super) fn of_words(words: Vec<Glob>) -> Self {
        let mut script = Self::default();
        script.add(Command { words, others: Vec::new(), fed: false, is_wrapper: false }, 0);
        script
    }

    fn doubt(&mut self, why: impl Into<String>) {
        self.unclear.get_or_insert(why.into());
    }

    fn add_text(&mut self, text: &str, depth: usize) {
        if text.len() > MAX_BYTES {
            return self.doubt(format!("it has more than {MAX_BYTES} bytes"));
        }
        if depth > MAX_DEPTH {
            return self.doubt("commands stand in commands too deep");
        }
        lexer::read(self, text, depth);
    }

    /// Reads a word as a command line of its own.
    fn add_word(&mut self, word: &Glob, depth: usize) {
        match as_text(word) {
            Some(text) => self.add_text(&text, depth + 1),
            None => self.doubt("a command is only known when it runs"),
        }
    }

    /// Adds a command that stands in the text.
    fn add_written(&mut self, command: Command, depth: usize) {
        self.written += 1;
        self.words += command.words.len() + command.others.len();
        if self.written > MAX_COMMANDS {
            return self.doubt(format!("it has more than {MAX_COMMANDS} commands"));
        }
        if self.words > MAX_WORDS {
            return self.doubt(format!("it has more than {MAX_WORDS} words"));
        }
        self.add(command, depth);
    }

    fn add(&mut self, command: Command, depth: usize) {
        if depth > 4 * MAX_DEPTH {
            return self.doubt("commands stand in commands too deep");
        }
        programs::look(self, command, depth);
    }
}

#[cfg(test)]
mod tests;
