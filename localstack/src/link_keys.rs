//! The keys of tokens on one machine: a file in the data folder, made at the first start.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use dormouse_domain::token::{BadKeys, KeyRing, MIN_SECRET_BYTES};

/// The file's name.
const FILE: &str = "link-keys.json";

/// Keys that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LinkKeysError {
    /// The file can't be read or made.
    #[error("the keys of approval links cannot be read or made in {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is there and broken. It is not replaced: links that are out were signed with what was in it.
    #[error(
        "the keys of approval links in {path} cannot be used: {source}; mend the file, or remove it: then links that are out die"
    )]
    Bad {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: BadKeys,
    },
    /// The system gives no random numbers.
    #[error("the system gave no random numbers for the keys of approval links: {0}")]
    Random(getrandom::Error),
}

/// The keys in `folder`, which this process has for itself; made if there are none.
pub(crate) fn in_folder(folder: &Path) -> Result<KeyRing, LinkKeysError> {
    let path = folder.join(FILE);
    let failed = |source| LinkKeysError::File { path: path.clone(), source };
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let text = fresh()?;
            write(&path, &text).map_err(failed)?;
            text
        }
        Err(error) => return Err(failed(error)),
    };
    KeyRing::parse(&text).map_err(|source| LinkKeysError::Bad { path, source })
}

/// Keys that are nowhere but in this process, for a stack that keeps nothing.
pub(crate) fn in_memory() -> Result<KeyRing, LinkKeysError> {
    KeyRing::parse(&fresh()?).map_err(|source| LinkKeysError::Bad { path: PathBuf::new(), source })
}

fn fresh() -> Result<String, LinkKeysError> {
    let mut secret = [0; MIN_SECRET_BYTES];
    getrandom::fill(&mut secret).map_err(LinkKeysError::Random)?;
    Ok(KeyRing::text_of_one("a", &secret))
}

/// Writes the file whole or not at all: half of one would stop every later start.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let part = path.with_extension("part");
    match fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&part, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn x6_keys_are_made_once_for_this_user_alone_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("link-keys.part"), "half").unwrap();
        let made = in_folder(folder.path()).unwrap();
        let mode = fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(in_folder(folder.path()).unwrap(), made);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(in_folder(other.path()).unwrap(), made);
        assert_ne!(in_memory().unwrap(), in_memory().unwrap());
    }

    #[test]
    fn x6_a_broken_file_of_keys_is_an_error_and_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        for broken in ["", "{", r#"{"keys":[{"id":"a","secret":"c2hvcnQ="}]}"#] {
            fs::write(&path, broken).unwrap();
            let error = in_folder(folder.path()).unwrap_err();
            assert!(matches!(error, LinkKeysError::Bad { .. }), "{error}");
            assert!(error.to_string().contains(FILE) && !error.to_string().contains("c2hvcnQ"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), broken);
        }
    }
}
