//! Searches files for a regular expression.

use std::fmt::Write as _;

use dormouse_domain::json;
use dormouse_engine::ports::{FileInfo, Files};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use regex::{Regex, RegexBuilder};
use serde::Deserialize;

use super::{Done, Failure, MAX_FILE_BYTES, glob};
use crate::bounds::{Lines, shorten};

/// Most matching lines that are shown.
const MAX_MATCHES: usize = 200;
/// Longest part of a line that is shown, in bytes.
const MAX_LINE_BYTES: usize = 300;
/// Longest pattern in bytes.
const MAX_PATTERN_BYTES: usize = 1000;
/// Largest compiled pattern in bytes. It bounds the time for a byte of text, too.
const MAX_REGEX_BYTES: usize = 1 << 20;
/// Text that is searched in one go, in bytes: the beginning of a line, or several lines. With the
/// worst pattern this takes a good part of a second; then others, and the timeout, get their turn.
const MAX_STRETCH_BYTES: usize = 16 * 1024;
/// Files that are read at once.
const CONCURRENT_READS: usize = 8;

/// For what, and in which files.
#[derive(Debug, Deserialize)]
pub(super) struct Arguments {
    pattern: String,
    glob: Option<String>,
}

/// The lines that match, as `path:line: text`, by path and line.
pub(super) async fn run(files: &dyn Files, workspace: &str, arguments: Arguments) -> Result<Done, Failure> {
    let regex = compile(&arguments.pattern)?;
    let matcher = arguments.glob.as_deref().map(glob::matcher).transpose()?;
    let mut chosen = files.files(workspace).await?;
    chosen.retain(|file| matcher.as_ref().is_none_or(|matcher| matcher.is_match(&file.path)));
    let (readable, too_large): (Vec<FileInfo>, Vec<FileInfo>) =
        chosen.into_iter().partition(|file| file.bytes <= MAX_FILE_BYTES as u64);
    let mut found =
        Found { lines: Lines::at_most(MAX_MATCHES), searched: readable.len(), cut: false, too_long: 0, stretch: 0 };
    let mut contents = stream::iter(readable)
        .map(|info| async move {
            let file = files.file(workspace, &info.path).await?;
            Ok::<_, Failure>((info.path, file))
        })
        .buffered(CONCURRENT_READS);
    while let Some((path, file)) = contents.try_next().await? {
        // A file that is gone since it was listed has no lines.
        found.search(&regex, &path, &file.map(|file| file.content).unwrap_or_default()).await;
        if found.cut {
            break;
        }
    }
    Ok(Done::text(found.report(&too_large)))
}

fn compile(pattern: &str) -> Result<Regex, Failure> {
    let bad = |problem: &str| Failure::Refused(format!("the pattern is no regular expression: {problem}"));
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(bad(&format!("it has {} bytes; at most {MAX_PATTERN_BYTES} are taken", pattern.len())));
    }
    let mut builder = RegexBuilder::new(pattern);
    let regex = builder.size_limit(MAX_REGEX_BYTES).dfa_size_limit(MAX_REGEX_BYTES).build();
    regex.map_err(|error| bad(&shorten(&error.to_string(), 600)))
}

/// What was found so far.
struct Found {
    lines: Lines,
    /// Files that are searched.
    searched: usize,
    /// Whether there was no room for all lines that match.
    cut: bool,
    /// Lines of which only the beginning was searched.
    too_long: usize,
    /// Bytes that were searched since others had their turn.
    stretch: usize,
}

impl Found {
    /// Adds the lines of `content` that match, as long as there is room.
    async fn search(&mut self, regex: &Regex, path: &str, content: &str) {
        for (i, line) in content.lines().enumerate() {
            let searched = json::cut(line, MAX_STRETCH_BYTES);
            self.too_long += usize::from(searched.len() < line.len());
            self.stretch += searched.len();
            if self.stretch > MAX_STRETCH_BYTES {
                tokio::task::yield_now().await;
                self.stretch = searched.len();
            }
            let Some(hit) = regex.find(searched) else { continue };
            if !self.lines.push(&format!("{path}:{}: {}", i + 1, around(line, hit.start()))) {
                self.cut = true;
                return;
            }
        }
    }

    fn report(self, too_large: &[FileInfo]) -> String {
        let shown = self.lines.len();
        let mut text = self.lines.into_text();
        if shown == 0 {
            let _ = write!(text, "[no line matches; files searched: {}]", self.searched);
        }
        if self.cut {
            let _ = write!(text, "\n[cut: more lines match than the {shown} shown; search for something narrower]");
        }
        if self.too_long > 0 {
            let n = self.too_long;
            let _ = write!(text, "\n[lines of which only the first {MAX_STRETCH_BYTES} bytes were searched: {n}]");
        }
        if let Some(first) = too_large.first() {
            let _ = write!(
                text,
                "\n[files of more than {MAX_FILE_BYTES} bytes, not searched: {}, the first is {}]",
                too_large.len(),
                first.path
            );
        }
        text
    }
}

/// `line`, or the part of it that begins a little before byte `at`.
fn around(line: &str, at: usize) -> String {
    const BEFORE: usize = 60;
    if line.len() <= MAX_LINE_BYTES || at + BEFORE < MAX_LINE_BYTES {
        return shorten(line, MAX_LINE_BYTES);
    }
    let mut start = at - BEFORE;
    while !line.is_char_boundary(start) {
        start -= 1;
    }
    format!("…{}", shorten(&line[start..], MAX_LINE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_shown_around_its_match() {
        let line = format!("{}needle{}", "é".repeat(400), "x".repeat(400));
        let shown = around(&line, 800);
        assert!(shown.starts_with("…é") && shown.contains("needle") && shown.ends_with('…'), "{shown}");
        assert!(shown.len() <= MAX_LINE_BYTES + '…'.len_utf8());
        assert_eq!(around("short", 0), "short");
    }

    #[test]
    fn patterns_are_bounded() {
        for bad in ["(", "a{2", "(?P<", &"a".repeat(MAX_PATTERN_BYTES + 1), r"(\w{100}){100}"] {
            assert!(matches!(compile(bad), Err(Failure::Refused(_))), "{}", shorten(bad, 40));
        }
        assert!(compile(r"fn\s+\w+").is_ok());
    }
}
