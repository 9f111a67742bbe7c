//! The file database runs in WAL mode with `synchronous=FULL`: what was answered is on the disk.
//!
//! `journal_mode` is a property of the file, `synchronous` one of the connection, which `dynoxide`
//! keeps to itself. So it is asked twice: by pragma of a connection opened by the same code, and of
//! the emulator's own connection by what it writes (see [`padded_commits`]).

#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for something else than the test")]

use std::path::Path;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use dormouse_localstack::emulators::EmbeddedDynamo;
use dynoxide::storage::Storage;

async fn create_table(client: &Client) {
    let key = KeySchemaElement::builder().attribute_name("PK").key_type(KeyType::Hash);
    let attribute = AttributeDefinition::builder().attribute_name("PK").attribute_type(ScalarAttributeType::S);
    let call = client.create_table().table_name("runs").billing_mode(BillingMode::PayPerRequest);
    let call = call.key_schema(key.build().unwrap()).attribute_definitions(attribute.build().unwrap());
    call.send().await.unwrap();
}

async fn put(client: &Client, key: &str) {
    let call = client.put_item().table_name("runs").item("PK", AttributeValue::S(key.to_owned()));
    call.send().await.unwrap();
}

#[tokio::test]
async fn the_file_is_in_wal_mode_and_synchronous_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dormouse.db");
    let emulator = EmbeddedDynamo::open(&path).unwrap();
    create_table(&emulator.client()).await;
    drop(emulator);
    // Bytes 18 and 19 of a database file: its write and read version, 2 for WAL.
    assert_eq!(std::fs::read(&path).unwrap()[18..20], [2, 2]);

    let storage = Storage::new(path.to_str().unwrap()).unwrap();
    let pragma = |name| storage.conn().pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    const FULL: i64 = 2;
    assert_eq!(pragma("synchronous").unwrap(), FULL);
}

#[tokio::test]
async fn each_write_of_the_emulator_is_synced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dormouse.db");
    let emulator = EmbeddedDynamo::open(Path::new(&without_safe_overwrite(&path))).unwrap();
    let client = emulator.client();
    create_table(&client).await;
    for n in 0..5 {
        let before = padded_commits(&path);
        put(&client, &format!("RUN#{n}")).await;
        assert!(padded_commits(&path) > before, "write {n} was not synced");
    }
}

/// Shows that the check above can fail.
#[test]
fn a_write_under_synchronous_normal_would_be_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dormouse.db");
    let storage = Storage::new(&without_safe_overwrite(&path)).unwrap();
    let write = |level| {
        let before = padded_commits(&path);
        let sql = format!("PRAGMA synchronous={level}; CREATE TABLE {level}_t (v); INSERT INTO {level}_t VALUES (1);");
        storage.conn().execute_batch(&sql).unwrap();
        padded_commits(&path) - before
    };
    assert_eq!(write("FULL"), 2);
    assert_eq!(write("NORMAL"), 0);
}

/// A name for the file that tells SQLite not to rely on the disk to leave a sector's other bytes
/// alone when it loses power (`psow=0`, <https://sqlite.org/psow.html>).
fn without_safe_overwrite(path: &Path) -> String {
    format!("file:{}?psow=0", path.display())
}

/// Counts the commits in the write-ahead log of `path` that SQLite padded to a whole sector by
/// repeating their last frame. It does so, on a disk without safe overwrites, exactly if it then
/// syncs the log at commit, that is under `synchronous=FULL` (`walWriteFrames` in SQLite's
/// `wal.c`), so the padding tells of an `fsync` without tracing system calls.
/// Format: <https://sqlite.org/fileformat2.html#the_write_ahead_log>.
fn padded_commits(path: &Path) -> usize {
    let wal = std::fs::read(path.with_extension("db-wal")).unwrap();
    let big_endian = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    let page_size = big_endian(&wal[8..12]) as usize;
    let frames: Vec<_> = wal[32..].chunks_exact(24 + page_size).collect();
    let is_commit = |frame: &[u8]| big_endian(&frame[4..8]) != 0;
    let same_page = |a: &[u8], b: &[u8]| a[..8] == b[..8] && a[24..] == b[24..];
    let padded = |pair: &&[&[u8]]| is_commit(pair[0]) && same_page(pair[0], pair[1]);
    frames.windows(2).filter(padded).count()
}
