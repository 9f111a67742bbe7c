//! The data folder's lock: one process at a time. Holding it is how a process knows that the
//! drivers of every earlier one are gone.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

/// A data folder that can't be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error("the data folder {0} is in use by another process; stop that one, or choose another folder with --data")]
    Taken(PathBuf),
    /// It can't be created or written.
    #[error("the data folder {path} cannot be used")]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The lock on a data folder. Released when it is dropped, and by the system when the process dies.
#[derive(Debug)]
pub struct DataLock {
    _file: File,
}

impl DataLock {
    /// Takes the lock on `folder`, which is created if it is not there.
    ///
    /// # Errors
    /// [`LockError`]. It never waits.
    pub fn take(folder: &Path) -> Result<Self, LockError> {
        let unusable = |source| LockError::Unusable { path: folder.to_owned(), source };
        fs::create_dir_all(folder).map_err(unusable)?;
        let file = File::options().create(true).truncate(false).write(true).open(folder.join("lock"));
        let file = file.map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(LockError::Taken(folder.to_owned())),
            Err(TryLockError::Error(source)) => Err(unusable(source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let held = DataLock::take(folder.path()).unwrap();
        assert!(matches!(DataLock::take(folder.path()), Err(LockError::Taken(_))));
        drop(held);
        DataLock::take(folder.path()).unwrap();
    }
}
