//! Workspace files. Written in the transaction of the result that wrote them, under the condition
//! that nobody else changed them since they were read.

use dormouse_engine::ports::{File, FileInfo, FileVersion, FileWrite, StoreError, WriteError};

use crate::{
    action::{Action, Role},
    attrs::{Item, corrupt, key, n, number, text},
    body,
    keys::{self, FILES, SK},
    table::Table,
};

/// Most bytes of a file's content.
const MAX_CONTENT: usize = 300 * 1024;

const VERSION: &str = "version";
const BYTES: &str = "bytes";

fn file_key(workspace: &str, path: &str) -> Item {
    key(keys::workspace_pk(workspace), keys::file_sk(path))
}

pub(crate) fn write(file: &FileWrite) -> Result<Action, WriteError> {
    let bytes = file.content.len();
    if bytes > MAX_CONTENT {
        return Err(WriteError::TooLarge(format!(
            "{} has {bytes} bytes, at most {MAX_CONTENT} can be stored",
            file.path
        )));
    }
    let mut item = file_key(&file.workspace, &file.path);
    body::put(&mut item, "the file", file.content.clone())?;
    item.insert(BYTES.to_owned(), n(bytes));
    let role = Role::File(file.path.clone());
    let (version, condition, values) = match file.expect {
        FileVersion::Absent => (1, "attribute_not_exists(#PK)", vec![]),
        FileVersion::At(version) => {
            (version.saturating_add(1), "#version = :expected", vec![(":expected", n(version))])
        }
    };
    item.insert(VERSION.to_owned(), n(version));
    Ok(Action::put(role, item, Some(condition)).with(values))
}

pub(crate) async fn get(table: &Table, workspace: &str, path: &str) -> Result<Option<File>, StoreError> {
    if !keys::fits(&keys::workspace_pk(workspace), &keys::file_sk(path)) {
        return Ok(None);
    }
    let Some(item) = table.get(file_key(workspace, path)).await? else { return Ok(None) };
    Ok(Some(File { content: body::get(&item)?, version: number(&item, VERSION)? }))
}

pub(crate) async fn list(table: &Table, workspace: &str) -> Result<Vec<FileInfo>, StoreError> {
    let pk = keys::workspace_pk(workspace);
    if !keys::fits(&pk, "") {
        return Ok(vec![]);
    }
    let items = table.beginning_with(&pk, FILES, &[SK, BYTES, VERSION]).await?;
    let info = |item: &Item| {
        let path = text(item, SK)?.strip_prefix(FILES).ok_or_else(|| corrupt(item, "not a file"))?;
        Ok(FileInfo { path: path.to_owned(), bytes: number(item, BYTES)?, version: number(item, VERSION)? })
    };
    items.iter().map(info).collect()
}
