//! The database file of a data folder.
//!
//! A new one is made under another name and gets its own when its table is whole. `dynoxide` makes a
//! table in several transactions; a process killed between them would leave half of one behind for
//! good. Under its own name it is there whole or not at all.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use dormouse_aws::schema::create_table;

use crate::{emulators::EmbeddedDynamo, stack::StackError};

const NAME: &str = "dormouse.db";
const UNFINISHED: &str = "dormouse.db.new";
/// What SQLite puts beside a database while it is open.
const BESIDE: [&str; 3] = ["", "-wal", "-shm"];

/// Opens the database in `folder`, which is locked by the caller; it has the table `table`.
pub(crate) async fn open(folder: &Path, table: &str) -> Result<EmbeddedDynamo, StackError> {
    let path = folder.join(NAME);
    if !path.exists() {
        make(folder, table).await?;
    }
    Ok(EmbeddedDynamo::open(&path)?)
}

async fn make(folder: &Path, table: &str) -> Result<(), StackError> {
    let unusable = |source| StackError::Database { folder: folder.to_owned(), source };
    for suffix in BESIDE {
        remove(&folder.join(format!("{UNFINISHED}{suffix}"))).map_err(unusable)?;
    }
    let unfinished = folder.join(UNFINISHED);
    let database = EmbeddedDynamo::open(&unfinished)?;
    create_table(&database.client(), table).await?;
    // The last connection moves what is in the write-ahead log into the file, and removes the log.
    drop(database);
    fs::rename(&unfinished, folder.join(NAME)).map_err(unusable)?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(unusable)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_database_is_whole_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        // What a killed process left.
        fs::write(folder.path().join(UNFINISHED), "half").unwrap();
        fs::write(folder.path().join(format!("{UNFINISHED}-wal")), "half").unwrap();
        make(folder.path(), "runs").await.unwrap();
        let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(files, [NAME], "nothing is left beside it, so that nothing is left behind");
        let database = open(folder.path(), "runs").await.unwrap();
        let tables = database.client().list_tables().send().await.unwrap();
        assert_eq!(tables.table_names(), ["runs"]);
    }
}
