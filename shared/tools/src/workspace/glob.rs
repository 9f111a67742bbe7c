//! Lists files by a glob pattern.

use dormouse_engine::ports::Files;
use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;

use super::{Done, Failure};
use crate::{
    bounds::{Lines, shorten},
    path::MAX_PATH_BYTES,
};

/// Most files that are listed.
const MAX_LISTED: usize = 1000;

/// Which files.
#[derive(Debug, Deserialize)]
pub(super) struct Arguments {
    pattern: String,
}

/// The paths that match, sorted, one a line.
pub(super) async fn run(files: &dyn Files, workspace: &str, arguments: Arguments) -> Result<Done, Failure> {
    let matcher = matcher(&arguments.pattern)?;
    let all = files.files(workspace).await?;
    let mut lines = Lines::at_most(MAX_LISTED);
    let mut matching = 0;
    for file in all.iter().filter(|file| matcher.is_match(&file.path)) {
        matching += 1;
        lines.push(&file.path);
    }
    if matching == 0 {
        return Ok(Done::text(format!("[no file matches; the workspace has {} in all]", all.len())));
    }
    let shown = lines.len();
    let mut text = lines.into_text();
    if shown < matching {
        text.push_str(&format!("\n[cut: {matching} files match, {shown} are shown; use a narrower pattern]"));
    }
    Ok(Done::text(text))
}

/// What a pattern matches: `*` and `?` stay within a segment, `**` does not.
pub(super) fn matcher(pattern: &str) -> Result<GlobMatcher, Failure> {
    let bad = |problem: String| Failure::Refused(format!("this is no glob pattern: {problem}"));
    if pattern.len() > MAX_PATH_BYTES {
        return Err(bad(format!("it has {} bytes; at most {MAX_PATH_BYTES} are taken", pattern.len())));
    }
    let relative = pattern.trim_start_matches("./");
    let glob = GlobBuilder::new(relative).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| bad(shorten(&error.to_string(), 300)))
}
