//! What the documents promise against the names of the tests: each promise that counts as kept, and each
//! case, has a test whose name begins with its id; what is marked as of a later release has none.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

const PROMISES: &str = "docs/promises.md";
const CASES: &str = "docs/cases.md";
/// How a line begins that is not kept yet.
const LATER: &str = "*Later.*";

/// The ids that are not as they should be.
pub(crate) fn faults(root: &Path, files: &[PathBuf]) -> Result<Vec<String>> {
    let mut named = BTreeMap::new();
    for path in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        for test in tests(&text) {
            named.extend(ids(test).into_iter().map(|id| (id, test.to_owned())));
        }
    }
    let read = |name: &str| fs::read_to_string(root.join(name)).with_context(|| name.to_owned());
    Ok(compare(&promises(&read(PROMISES)?), &cases(&read(CASES)?), &named))
}

/// A line of one of the documents.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    id: String,
    later: bool,
}

/// The rows of the tables: `| A1 | … |`.
fn promises(text: &str) -> Vec<Line> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let rows = rows.filter(|(id, _)| is_promise(&id.to_ascii_lowercase()));
    rows.map(|(id, promise)| Line { id: id.to_owned(), later: promise.starts_with(LATER) }).collect()
}

/// The numbered lines: `1. …`.
fn cases(text: &str) -> Vec<Line> {
    let lines = text.lines().filter_map(|line| line.split_once(". "));
    let lines = lines.filter(|(number, _)| is_number(number));
    lines.map(|(number, case)| Line { id: format!("case {number}"), later: case.starts_with(LATER) }).collect()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether `token` is the id of a promise, in lower case.
fn is_promise(token: &str) -> bool {
    token.split_at_checked(1).is_some_and(|(section, number)| "abcdefx".contains(section) && is_number(number))
}

/// The names of the tests in a file, without those that are switched off.
fn tests(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let (mut is_test, mut is_off) = (false, false);
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if line.starts_with("#[ignore") {
            is_off = true;
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            let name = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
            let name = name.and_then(|rest| rest.split_once('(')).map(|(name, _)| name);
            names.extend(name.filter(|_| is_test && !is_off));
            (is_test, is_off) = (false, false);
        }
    }
    names
}

/// The ids with which the name of a test begins: of `e1_case_20_at_the_edge` E1 and case 20. Those of
/// invariants can stand between them.
fn ids(test: &str) -> Vec<String> {
    let mut ids = Vec::new();
    let mut tokens = test.split('_');
    while let Some(token) = tokens.next() {
        if is_promise(token) {
            ids.push(token.to_ascii_uppercase());
        } else if token == "case" {
            ids.extend(tokens.next().filter(|number| is_number(number)).map(|number| format!("case {number}")));
        } else if !token.strip_prefix('i').is_some_and(is_number) {
            break;
        }
    }
    ids
}

fn compare(promises: &[Line], cases: &[Line], named: &BTreeMap<String, String>) -> Vec<String> {
    let mut faults = Vec::new();
    let lines = || promises.iter().map(|line| (PROMISES, line)).chain(cases.iter().map(|line| (CASES, line)));
    for (document, line) in lines() {
        match named.get(&line.id) {
            None if !line.later => {
                faults.push(format!("{document}: no test is named after {}, and it is not marked {LATER}", line.id));
            }
            Some(test) if line.later => {
                faults.push(format!("{document}: {} is marked {LATER}, and {test} is named after it", line.id));
            }
            None | Some(_) => {}
        }
    }
    for (id, test) in named.iter().filter(|(id, _)| !lines().any(|(_, line)| line.id == **id)) {
        faults.push(format!("{test} is named after {id}, which neither {PROMISES} nor {CASES} has"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_their_marks_are_read() {
        let line = |id: &str, later| Line { id: id.to_owned(), later };
        let table = "| id | promise |\n|---|---|\n| A1 | One. |\n| X12 | *Later.* Two. |\n| I1 | Three. |\n";
        assert_eq!(promises(table), [line("A1", false), line("X12", true)]);
        let list = "# Cases\n1. One. [x]\n12. *Later.* Two. It has 3. parts.\nSee 2.\n";
        assert_eq!(cases(list), [line("case 1", false), line("case 12", true)]);
    }

    #[test]
    fn names_of_tests_hold_ids_in_front() {
        let code = [
            "#[test]",
            "fn a1_one() {}",
            "    #[tokio::test(start_paused = true)]",
            "    // why",
            "    #[allow(dead_code)]",
            "    async fn b2_i5_case_20_x3_two() {}",
            "fn a3_no_test() {}",
            "#[test]",
            "#[ignore = \"takes hours\"]",
            "fn a4_is_off() {}",
            "#[test]",
            "fn a_4xx_case_5_is_an_error() {}",
        ];
        let code = code.join("\n");
        assert_eq!(tests(&code), ["a1_one", "b2_i5_case_20_x3_two", "a_4xx_case_5_is_an_error"]);
        assert_eq!(ids("a1_one"), ["A1"]);
        assert_eq!(ids("b2_i5_case_20_x3_two"), ["B2", "case 20", "X3"]);
        assert!(ids("a_4xx_case_5_is_an_error").is_empty());
        assert!(ids("case_insensitive").is_empty());
    }

    #[test]
    fn what_is_kept_has_a_test_and_what_is_later_has_none() {
        let line = |id: &str, later| Line { id: id.to_owned(), later };
        let promises = [line("A1", false), line("A2", false), line("A3", true), line("A4", true)];
        let named = ["A1", "A4", "B9"].map(|id| (id.to_owned(), "the_test".to_owned()));
        assert_eq!(
            compare(&promises, &[line("case 1", false)], &BTreeMap::from(named)),
            [
                "docs/promises.md: no test is named after A2, and it is not marked *Later.*",
                "docs/promises.md: A4 is marked *Later.*, and the_test is named after it",
                "docs/cases.md: no test is named after case 1, and it is not marked *Later.*",
                "the_test is named after B9, which neither docs/promises.md nor docs/cases.md has",
            ]
        );
    }
}
