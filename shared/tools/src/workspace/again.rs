//! A workspace made once more from the calls that wrote it: a fork has the files of the entry it was forked at, and
//! no write of its own changes those of the other run.
//!
//! Every write of a workspace is a successful call of its run, stored with the file in one transaction and bound to the
//! version that it read. So these calls, made in the order of the journal on an empty workspace, leave the same files.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use dormouse_domain::{agent::Target, builtin::Builtin};
use dormouse_engine::ports::{File, FileInfo, FileWrite, Files, StoreError, ToolCall};

use super::{Failure, Workspace};

/// The files, path and text, that `made` leaves: calls that all succeeded, in this order, on an empty workspace.
///
/// # Errors
/// Which of them does not succeed now, and why.
pub(crate) async fn files_after(made: &[ToolCall]) -> Result<Vec<(String, String)>, String> {
    let files = Arc::new(Memory::default());
    let workspace = Workspace::new(Arc::clone(&files) as Arc<dyn Files>);
    for call in made {
        let builtin = match &call.tool.target {
            Target::Builtin(builtin @ (Builtin::WorkspaceCreate | Builtin::WorkspaceEdit)) => *builtin,
            Target::Builtin(
                Builtin::AskUser | Builtin::WorkspaceRead | Builtin::WorkspaceGlob | Builtin::WorkspaceSearch,
            )
            | Target::Http { .. }
            | Target::Agents { .. } => continue,
        };
        match workspace.run(builtin, call).await {
            Ok(done) => done.write.into_iter().for_each(|write| files.put(write)),
            Err(Failure::Refused(problem)) => return Err(format!("call {}: {problem}", call.call)),
            Err(Failure::Unread(error)) => return Err(format!("call {}: {error}", call.call)),
        }
    }
    let files = std::mem::take(&mut *files.locked());
    Ok(files.into_iter().map(|(path, file)| (path, file.content)).collect())
}

#[derive(Default)]
struct Memory(Mutex<BTreeMap<String, File>>);

impl Memory {
    fn locked(&self) -> MutexGuard<'_, BTreeMap<String, File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, write: FileWrite) {
        let mut files = self.locked();
        let version = files.get(&write.path).map_or(1, |file| file.version + 1);
        files.insert(write.path, File { content: write.content, version });
    }
}

#[async_trait]
impl Files for Memory {
    async fn file(&self, _: &str, path: &str) -> Result<Option<File>, StoreError> {
        Ok(self.locked().get(path).cloned())
    }

    async fn files(&self, _: &str) -> Result<Vec<FileInfo>, StoreError> {
        let files = self.locked();
        let info = |(path, file): (&String, &File)| FileInfo {
            path: path.clone(),
            bytes: file.content.len() as u64,
            version: file.version,
        };
        Ok(files.iter().map(info).collect())
    }
}
