//! Replaces text in a file.

use dormouse_engine::ports::{FileVersion, FileWrite, Files};
use serde::Deserialize;

use super::{Done, Failure, existing, fits};

/// Most places that a result names.
const MAX_PLACES: usize = 20;

/// Where, and what by what.
#[derive(Debug, Deserialize)]
pub(super) struct Arguments {
    path: String,
    old: String,
    new: String,
    #[serde(default)]
    all: bool,
}

/// Writes the file with `old` replaced, at the version that was read.
pub(super) async fn run(files: &dyn Files, workspace: &str, arguments: Arguments) -> Result<Done, Failure> {
    let Arguments { path, old, new, all } = arguments;
    let (path, file) = existing(files, workspace, &path).await?;
    let edited = replace(&path, &file.content, &old, &new, all)?;
    fits(&path, &edited.content)?;
    let text = edited.report(&path);
    let expect = FileVersion::At(file.version);
    Ok(Done { text, write: Some(FileWrite { workspace: workspace.to_owned(), path, content: edited.content, expect }) })
}

#[derive(Debug)]
struct Edited {
    content: String,
    replacements: usize,
    /// The first and last line of each replacement in the new text, from 1; bounded.
    places: Vec<(usize, usize)>,
}

impl Edited {
    fn report(&self, path: &str) -> String {
        let places = self.places.iter().map(
            |(first, last)| {
                if first == last { first.to_string() } else { format!("{first}-{last}") }
            },
        );
        let more = if self.replacements > self.places.len() { ", …" } else { "" };
        let (count, plural) = (self.replacements, if self.replacements == 1 { "" } else { "s" });
        format!(
            "edited {path}: {count} replacement{plural}, now at line {}{more}",
            places.collect::<Vec<_>>().join(", ")
        )
    }
}

/// `content` with `old` replaced by `new`. Without `all`, `old` must have one place only; places
/// that overlap count as two, because it is not clear which of them is meant.
fn replace(path: &str, content: &str, old: &str, new: &str, all: bool) -> Result<Edited, Failure> {
    let refused = |problem: String| Err(Failure::Refused(problem));
    if old.is_empty() || old == new {
        return refused("nothing would change: `old` is empty or the same as `new`".to_owned());
    }
    let count = content.matches(old).count();
    if count == 0 {
        return refused(format!("`old` does not occur in {path}; read the file and copy the text exactly"));
    }
    if !all && count > 1 {
        return refused(format!("`old` occurs {count} times in {path}; add text around it, or set `all`"));
    }
    if !all && overlaps(content, old) {
        return refused(format!("`old` occurs more than once in {path}, overlapping; add text around it"));
    }
    let mut edited = Edited { content: String::with_capacity(content.len()), replacements: count, places: Vec::new() };
    let (mut copied, mut line) = (0, 1);
    for (at, _) in content.match_indices(old) {
        let between = &content[copied..at];
        edited.content.push_str(between);
        edited.content.push_str(new);
        copied = at + old.len();
        line += newlines(between);
        // A newline at the very end of `new` belongs to the last line that it changed.
        let last = line + newlines(new.strip_suffix('\n').unwrap_or(new));
        if edited.places.len() < MAX_PLACES {
            edited.places.push((line, last));
        }
        line += newlines(new);
    }
    edited.content.push_str(&content[copied..]);
    Ok(edited)
}

fn newlines(text: &str) -> usize {
    text.matches('\n').count()
}

/// Whether `old` occurs a second time, beginning within its first occurrence.
fn overlaps(content: &str, old: &str) -> bool {
    let first_char = old.chars().next().map_or(0, char::len_utf8);
    content.find(old).is_some_and(|at| content[at + first_char..].contains(old))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn problem(content: &str, old: &str, new: &str, all: bool) -> String {
        match replace("f", content, old, new, all).unwrap_err() {
            Failure::Refused(problem) => problem,
            Failure::Unread(error) => panic!("{error}"),
        }
    }

    #[test]
    fn edits_and_what_they_say() {
        for (content, old, new, all, expected, report) in [
            ("a b c", "b", "x", false, "a x c", "edited f: 1 replacement, now at line 1"),
            ("a\nb\nc\n", "b\n", "x\ny\n", false, "a\nx\ny\nc\n", "edited f: 1 replacement, now at line 2-3"),
            ("a\nb\na\n", "a", "é\né", true, "é\né\nb\né\né\n", "edited f: 2 replacements, now at line 1-2, 4-5"),
            ("aaa", "aa", "b", true, "ba", "edited f: 1 replacement, now at line 1"),
            ("a\nb\n", "b\n", "", false, "a\n", "edited f: 1 replacement, now at line 2"),
        ] {
            let edited = replace("f", content, old, new, all).unwrap();
            assert_eq!((edited.content.as_str(), edited.report("f").as_str()), (expected, report));
        }
        assert!(replace("f", &"a\n".repeat(30), "a", "b", true).unwrap().report("f").ends_with("19, 20, …"));
    }

    #[test]
    fn an_edit_without_one_place_is_refused() {
        assert!(problem("abc", "x", "y", false).contains("does not occur in f"));
        assert!(problem("abc", "x", "y", true).contains("does not occur in f"));
        assert!(problem("abab ab", "ab", "y", false).contains("occurs 3 times in f"));
        assert!(problem("aaa", "aa", "y", false).contains("overlapping"));
        assert!(problem("abc", "a", "a", false).contains("nothing would change"));
        assert!(problem("abc", "", "a", true).contains("nothing would change"));
    }

    proptest! {
        #[test]
        fn all_replaces_what_is_counted(content in "[ab\\n]{0,30}", old in "[ab]{1,2}", new in "[xy\\n]{0,3}") {
            let count = content.matches(&old).count();
            match replace("f", &content, &old, &new, true) {
                Ok(edited) => {
                    prop_assert_eq!(edited.replacements, count);
                    prop_assert_eq!(&edited.content, &content.replace(&old, &new));
                    let lines = edited.content.split('\n').count();
                    prop_assert!(edited.places.iter().all(|(first, last)| first <= last && *last <= lines));
                }
                Err(_) => prop_assert_eq!(count, 0),
            }
        }

        /// Without `all` an edit happens exactly if one place is meant, counted at every position.
        #[test]
        fn one_place_only(content in "[ab]{0,12}", old in "[ab]{1,3}") {
            let places = (0..content.len()).filter(|at| content[*at..].starts_with(&old)).count();
            prop_assert_eq!(replace("f", &content, &old, "x", false).is_ok(), places == 1);
        }
    }
}
