//! The kept corpus, replayed on every target: what a fuzzer once reached, or broke, stays so.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by stopping")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use dormouse_fuzz::TARGETS;

/// What a corpus may hold: enough to reach all that is known to be reachable, and read in a moment.
const MAX_FILES: usize = 220;
const MAX_BYTES: u64 = 320 * 1024;

fn files_of(name: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

/// I11: nothing in the kept corpora breaks what a target says must hold.
#[test]
fn i11_the_kept_corpus_holds() {
    for (name, target) in TARGETS {
        for file in files_of(name) {
            eprintln!("{}", file.display());
            target(&fs::read(&file).unwrap());
        }
    }
}

/// Each target has a corpus, and no corpus grows beyond what is good to keep.
#[test]
fn each_corpus_is_there_and_small() {
    for (name, _) in TARGETS {
        let files = files_of(name);
        let bytes: u64 = files.iter().map(|file| fs::metadata(file).unwrap().len()).sum();
        assert!((10..=MAX_FILES).contains(&files.len()), "{name}: {} files", files.len());
        assert!(bytes <= MAX_BYTES, "{name}: {bytes} bytes");
    }
}
