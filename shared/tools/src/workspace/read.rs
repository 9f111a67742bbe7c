//! Reads a file, or some lines of it.

use dormouse_engine::ports::Files;
use serde::Deserialize;

use super::{Done, Failure, existing};

/// Which file, and which of its lines.
#[derive(Debug, Deserialize)]
pub(super) struct Arguments {
    path: String,
    /// The first line, from 1.
    from_line: Option<u64>,
    /// How many lines at most.
    lines: Option<u64>,
}

/// The file's text; if lines are left out, a first line says which ones follow.
pub(super) async fn run(files: &dyn Files, workspace: &str, arguments: Arguments) -> Result<Done, Failure> {
    let (path, file) = existing(files, workspace, &arguments.path).await?;
    let text = part(&path, &file.content, arguments.from_line.unwrap_or(1), arguments.lines)?;
    Ok(Done::text(text))
}

fn part(path: &str, content: &str, from_line: u64, lines: Option<u64>) -> Result<String, Failure> {
    let all: Vec<&str> = content.split_inclusive('\n').collect();
    if all.is_empty() {
        return Ok(format!("[{path} is empty]"));
    }
    let start = usize::try_from(from_line.max(1) - 1).unwrap_or(usize::MAX);
    let count = lines.map_or(usize::MAX, |lines| usize::try_from(lines).unwrap_or(usize::MAX));
    if start >= all.len() {
        return Err(Failure::Refused(format!("{path} has only {} lines", all.len())));
    }
    let end = start.saturating_add(count).min(all.len());
    if (start, end) == (0, all.len()) {
        return Ok(content.to_owned());
    }
    Ok(format!("[lines {} to {end} of {}]\n{}", start + 1, all.len(), all[start..end].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_says_that_it_is_one() {
        for (content, from, lines, expected) in [
            ("a\nb\nc\n", 1, None, "a\nb\nc\n"),
            ("a\nb\nc\n", 1, Some(3), "a\nb\nc\n"),
            ("a\nb\nc", 2, None, "[lines 2 to 3 of 3]\nb\nc"),
            ("a\nb\nc\n", 1, Some(2), "[lines 1 to 2 of 3]\na\nb\n"),
            ("a\nb\nc\n", 2, Some(u64::MAX), "[lines 2 to 3 of 3]\nb\nc\n"),
            ("", 1, None, "[f is empty]"),
            ("\n", 1, None, "\n"),
        ] {
            assert_eq!(part("f", content, from, lines).unwrap(), expected);
        }
        assert!(matches!(part("f", "a\nb\n", 3, None), Err(Failure::Refused(why)) if why == "f has only 2 lines"));
    }
}
