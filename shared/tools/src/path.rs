//! Paths of workspace files: one spelling for each file.
//!
//! What is read, written and matched by rules is the normalised path, so `./x/../.env` and `.env`
//! are the same file to everybody (case 10).

/// Longest path in bytes.
pub const MAX_PATH_BYTES: usize = 512;

/// The one spelling of `path`: relative to the workspace, segments separated by `/`, none of them
/// empty, `.` or `..`. A backslash counts as `/`. Idempotent. Case and Unicode form are kept: two
/// paths that differ in them are two files.
///
/// # Errors
/// Says, for the model, why this is not a path within the workspace.
pub fn normalise(path: &str) -> Result<String, String> {
    if let Some(control) = path.chars().find(|c| c.is_control()) {
        return Err(format!("the path holds the control character U+{:04X}", u32::from(control)));
    }
    let path = path.replace('\\', "/");
    if path.starts_with('/') {
        return Err("the path is absolute; write it relative to the workspace, without the leading slash".to_owned());
    }
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                if segments.pop().is_none() {
                    return Err("the path leads out of the workspace".to_owned());
                }
            }
            name => segments.push(name),
        }
    }
    if segments.is_empty() {
        return Err("the path names no file".to_owned());
    }
    let normal = segments.join("/");
    if normal.len() > MAX_PATH_BYTES {
        return Err(format!("the path has {} bytes; at most {MAX_PATH_BYTES} are taken", normal.len()));
    }
    Ok(normal)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Case 10: other spellings of a path are the same path.
    #[test]
    fn case_10_one_spelling_for_each_file() {
        for (path, expected) in [
            ("a.txt", "a.txt"),
            ("./x/../.env", ".env"),
            ("src//deep/./a.rs", "src/deep/a.rs"),
            ("src\\deep\\..\\a.rs", "src/a.rs"),
            ("src/", "src"),
            ("...", "..."),
            (".. /a", ".. /a"),
            ("é/日本 語.md", "é/日本 語.md"),
        ] {
            assert_eq!(normalise(path).as_deref(), Ok(expected), "{path}");
        }
    }

    #[test]
    fn what_is_not_in_the_workspace_is_refused() {
        for (path, part) in [
            ("", "names no file"),
            (".", "names no file"),
            ("a/..", "names no file"),
            ("..", "out of the workspace"),
            ("a/../../b", "out of the workspace"),
            ("..\\b", "out of the workspace"),
            ("/etc/passwd", "absolute"),
            ("\\etc", "absolute"),
            ("a\nb", "control character U+000A"),
            ("a\0", "control character U+0000"),
            ("a\u{85}b", "control character U+0085"),
        ] {
            let problem = normalise(path).unwrap_err();
            assert!(problem.contains(part), "{path:?}: {problem}");
        }
        assert!(normalise(&"x".repeat(MAX_PATH_BYTES)).is_ok());
        assert!(normalise(&"é".repeat(MAX_PATH_BYTES / 2 + 1)).is_err());
    }

    proptest! {
        #[test]
        fn a_normal_path_is_normal_and_inside(path in r"(\.|\.\.|/|\\|a|é| ){0,14}") {
            if let Ok(normal) = normalise(&path) {
                prop_assert_eq!(normalise(&normal), Ok(normal.clone()));
                prop_assert!(!normal.starts_with('/') && !normal.contains('\\'));
                prop_assert!(normal.split('/').all(|segment| !matches!(segment, "" | "." | "..")));
            }
        }

        /// A path that climbs above the root anywhere is refused, even if it comes back.
        #[test]
        fn no_path_escapes(steps in proptest::collection::vec(prop_oneof![Just(".."), Just("a"), Just(".")], 1..12)) {
            let mut depth = 0_i32;
            let mut escapes = false;
            for step in &steps {
                depth += match *step { ".." => -1, "a" => 1, _ => 0 };
                escapes |= depth < 0;
            }
            let result = normalise(&steps.join("/"));
            prop_assert_eq!(result.is_ok(), !escapes && depth > 0);
        }
    }
}
