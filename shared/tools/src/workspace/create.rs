//! Creates a file.

use dormouse_engine::ports::{FileVersion, FileWrite, Files};
use serde::Deserialize;

use super::{Done, Failure, fits};
use crate::path::normalise;

/// Where, and what.
#[derive(Debug, Deserialize)]
pub(super) struct Arguments {
    path: String,
    content: String,
}

/// Writes a new file; one that exists is refused, never replaced.
pub(super) async fn run(files: &dyn Files, workspace: &str, arguments: Arguments) -> Result<Done, Failure> {
    let path = normalise(&arguments.path)?;
    fits(&path, &arguments.content)?;
    if files.file(workspace, &path).await?.is_some() {
        return Err(Failure::Refused(format!("{path} exists already; read it and change it by an edit")));
    }
    let text = format!("created {path}: {} bytes", arguments.content.len());
    let write =
        FileWrite { workspace: workspace.to_owned(), path, content: arguments.content, expect: FileVersion::Absent };
    Ok(Done { text, write: Some(write) })
}
