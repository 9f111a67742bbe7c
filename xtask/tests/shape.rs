//! Promises about the shape of the code, which the code itself shows.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by stopping")]

use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The code that ships, without its tests: each file, as it is called below the root, and its lines.
fn code() -> Vec<(String, Vec<String>)> {
    fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && !["tests", "testkit", "target"].contains(&name) {
                collect(&path, files);
            } else if name.ends_with(".rs") && name != "tests.rs" && name != "testing.rs" {
                files.push(path);
            }
        }
    }
    let mut files = Vec::new();
    ["functions", "shared", "localstack"].iter().for_each(|folder| collect(&root().join(folder), &mut files));
    let lines = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let code = shipped.lines().filter(|line| !line.trim_start().starts_with("//"));
        (path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned(), code.map(str::to_owned).collect())
    };
    let code: Vec<_> = files.iter().map(lines).collect();
    assert!(code.len() > 80, "{} files", code.len());
    code
}

/// The files in which one of `words` stands, once for each time.
fn places(words: &[&str]) -> Vec<String> {
    let lines = code().into_iter().flat_map(|(file, lines)| lines.into_iter().map(move |line| (file.clone(), line)));
    let found = lines.filter(|(_, line)| words.iter().any(|word| line.contains(word)));
    let mut found: Vec<_> = found.map(|(file, _)| file).collect();
    found.sort();
    found
}

/// A6: the policy is asked in one place, and a request is opened in one place.
#[test]
fn a6_one_place_decides_and_one_opens() {
    // The auditor asks it too, to judge what was decided.
    assert_eq!(places(&["policy::authorize("]), ["shared/domain/src/audit.rs", "shared/domain/src/plan.rs"]);
    assert_eq!(places(&["RequestWrite::Open(Box"]), ["shared/engine/src/step/stop.rs"]);
    assert_eq!(places(&["use crate::policy::authorize", "policy::{authorize"]), Vec::<String>::new());
}

/// B14: nothing that runs has a way to wait for standard input.
#[test]
fn b14_nobody_reads_standard_input() {
    assert_eq!(places(&["stdin", "/dev/tty", "rpassword", "dialoguer"]), Vec::<String>::new());
}

/// F1: what it is made with.
#[test]
fn f1_the_libraries_are_those_that_were_asked_for() {
    let manifest: toml::Table = fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    let listed = manifest["workspace"]["dependencies"].as_table().unwrap();
    for name in [
        "lambda_runtime",
        "aws_lambda_events",
        "aws-sdk-dynamodb",
        "aws-sdk-sqs",
        "tokio",
        "serde",
        "serde_json",
        "uuid",
        "tracing",
    ] {
        assert!(listed.contains_key(name), "{name}");
    }
}

/// F2: what stands at the top.
#[test]
fn f2_the_top_level_is_as_promised() {
    for name in ["Cargo.toml", "functions", "shared", "infra", "tests", "localstack", "README.md"] {
        assert!(root().join(name).exists(), "{name}");
    }
}
