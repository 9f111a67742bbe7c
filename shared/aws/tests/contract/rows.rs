//! Definitions, receipts, files, and the table itself.

use dormouse_aws::schema;
use dormouse_domain::{
    Definition, Digest, Millis,
    agent::{LateDecision, Limits, Mode, OnMessage, OnWaitExpired},
    message::ModelRef,
};
use dormouse_engine::ports::{
    Commit, File, FileInfo, FileVersion, FileWrite, Files as _, NewReceipt, Receipt, Store as _, WriteError,
};

use crate::{
    bed::{Bed, NOW, TABLE},
    samples::{commit, noise, principal, run},
    wire::Fault,
};

fn definition(system: &str) -> Definition {
    Definition {
        name: "ops".into(),
        models: vec![ModelRef { provider: "scripted".into(), name: "m".into() }],
        system: system.into(),
        mode: Mode::Normal,
        max_mode: Mode::Yolo,
        wait_ms: 1_000,
        decide_within_ms: 2_000,
        on_wait_expired: OnWaitExpired::MoveOn,
        late_decision: LateDecision::Wake,
        on_message: OnMessage::Queue,
        reply_within_ms: 3_000,
        limits: Limits { turns: 1, tokens: 1, cost_usd: 1.0, wall_ms: 1 },
        prices: vec![],
        tools: vec![],
        approvers: None,
        policy: dormouse_domain::policy::Policy::default(),
    }
}

#[tokio::test]
async fn a_definition_is_stored_once_and_read_by_any_process() {
    let bed = Bed::new().await;
    for system in ["small".to_owned(), noise(1_000_000)] {
        let one = definition(&system);
        let digest = one.digest().unwrap();
        assert_eq!(bed.another_store().definition(&digest).await.unwrap(), None);
        bed.store.put_definition(&digest, &one).await.unwrap();
        bed.another_store().put_definition(&digest, &one).await.unwrap();
        assert!(bed.another_store().definition(&digest).await.unwrap().as_deref() == Some(&one));
    }
    assert_eq!(bed.count().await, 1 + 3);
}

#[tokio::test]
async fn a_definition_is_read_from_the_table_once() {
    let bed = Bed::new().await;
    let (one, digest) = (definition("x"), Digest::of(b"x"));
    bed.store.put_definition(&digest, &one).await.unwrap();
    let reader = bed.another_store();
    bed.wire.seen();
    for _ in 0..3 {
        assert!(reader.definition(&digest).await.unwrap().as_deref() == Some(&one));
    }
    assert_eq!(bed.wire.seen(), ["Query"]);
}

#[tokio::test]
async fn putting_a_definition_survives_lost_replies() {
    let bed = Bed::new().await;
    let one = definition("x");
    bed.wire.plan("PutItem", Fault::LoseReply);
    bed.store.put_definition(&Digest::of(b"x"), &one).await.unwrap();
    assert_eq!(bed.wire.seen(), ["PutItem", "PutItem"]);
}

fn receipt(answer: &str, expires_at: Millis) -> NewReceipt {
    let receipt = Receipt { fingerprint: Digest::of(answer.as_bytes()), answer: answer.into() };
    NewReceipt { owner: principal("ann"), key: "the key".into(), receipt, expires_at }
}

fn answering(id: &str, receipt: NewReceipt) -> Commit {
    Commit { receipt: Some(receipt), ..commit(&run(1), id) }
}

#[tokio::test]
async fn a_key_is_answered_once_and_is_its_owners() {
    let bed = Bed::new().await;
    let ann = principal("ann");
    assert_eq!(bed.store.receipt(&ann, "the key").await.unwrap(), None);
    let first = receipt("first", NOW.plus(86_400_000));
    bed.store.commit(&answering("a", first.clone())).await.unwrap();
    let second = bed.store.commit(&answering("b", receipt("second", NOW.plus(86_400_000)))).await;
    assert!(matches!(second, Err(WriteError::ReceiptExists)), "{second:?}");
    assert_eq!(bed.store.receipt(&ann, "the key").await.unwrap(), Some(first.receipt));
    for (owner, key) in [("bob", "the key"), ("ann", "the ke"), ("ann", ""), ("ann", &"x".repeat(3_000))] {
        assert_eq!(bed.store.receipt(&principal(owner), key).await.unwrap(), None);
    }
}

/// DynamoDB deletes expired items days late; whether one counts is a matter of its time.
#[tokio::test]
async fn case_42_a_receipt_past_its_time_counts_as_gone_though_it_is_there() {
    let bed = Bed::new().await;
    let ann = principal("ann");
    let first = receipt("first", NOW.plus(10_000));
    bed.store.commit(&answering("a", first.clone())).await.unwrap();
    bed.clock.set(NOW.plus(10_999));
    assert_eq!(bed.store.receipt(&ann, "the key").await.unwrap(), Some(first.receipt));
    let early = bed.store.commit(&answering("b", receipt("early", NOW.plus(90_000)))).await;
    assert!(matches!(early, Err(WriteError::ReceiptExists)), "{early:?}");
    bed.clock.set(NOW.plus(11_000));
    assert_eq!(bed.store.receipt(&ann, "the key").await.unwrap(), None);
    let second = receipt("second", NOW.plus(90_000));
    bed.store.commit(&answering("c", second.clone())).await.unwrap();
    assert_eq!(bed.store.receipt(&ann, "the key").await.unwrap(), Some(second.receipt));
}

#[tokio::test]
async fn a_file_is_written_only_over_the_version_that_was_read() {
    let bed = Bed::new().await;
    let write = |id: &str, content: &str, expect| {
        let file = FileWrite { workspace: "w".into(), path: "notes/a.md".into(), content: content.into(), expect };
        Commit { files: vec![file], ..commit(&run(1), id) }
    };
    let changed = |outcome: Result<(), WriteError>| {
        assert!(matches!(&outcome, Err(WriteError::FileChanged { path }) if path == "notes/a.md"), "{outcome:?}");
    };
    let long = noise(300 * 1024);
    changed(bed.store.commit(&write("a", "x", FileVersion::At(1))).await);
    bed.store.commit(&write("b", "", FileVersion::Absent)).await.unwrap();
    changed(bed.store.commit(&write("c", "x", FileVersion::Absent)).await);
    let read = bed.store.file("w", "notes/a.md").await.unwrap();
    assert_eq!(read, Some(File { content: String::new(), version: 1 }));
    bed.store.commit(&write("d", &long, FileVersion::At(1))).await.unwrap();
    changed(bed.store.commit(&write("e", "x", FileVersion::At(1))).await);
    assert!(bed.store.file("w", "notes/a.md").await.unwrap() == Some(File { content: long, version: 2 }));
    for (workspace, path) in [("w", "notes/b.md"), ("v", "notes/a.md"), ("w", &"x".repeat(2_000))] {
        assert_eq!(bed.store.file(workspace, path).await.unwrap(), None);
    }
}

#[tokio::test]
async fn files_are_listed_by_workspace_sorted_by_path() {
    let bed = Bed::new().await;
    for (number, (workspace, path)) in [("w", "b"), ("w", "a/é"), ("w", "a"), ("v", "c")].into_iter().enumerate() {
        let file = FileWrite {
            workspace: workspace.into(),
            path: path.into(),
            content: path.into(),
            expect: FileVersion::Absent,
        };
        let commit = Commit { files: vec![file], ..commit(&run(1), &number.to_string()) };
        bed.store.commit(&commit).await.unwrap();
    }
    let info = |path: &str| FileInfo { path: path.into(), bytes: path.len() as u64, version: 1 };
    assert_eq!(bed.store.files("w").await.unwrap(), [info("a"), info("a/é"), info("b")]);
    assert_eq!(bed.store.files("nothing").await.unwrap(), []);
}

#[tokio::test]
async fn creating_the_table_twice_is_harmless() {
    let bed = Bed::new().await;
    schema::create_table(&bed.table, TABLE).await.unwrap();
    let ttl = bed.table.describe_time_to_live().table_name(TABLE).send().await.unwrap();
    let ttl = ttl.time_to_live_description.unwrap();
    assert_eq!(ttl.attribute_name.as_deref(), Some("expires_at"));
    let table = bed.table.describe_table().table_name(TABLE).send().await.unwrap().table.unwrap();
    let mut indexes: Vec<_> = table.global_secondary_indexes().iter().filter_map(|index| index.index_name()).collect();
    indexes.sort_unstable();
    assert_eq!(indexes, ["due", "listing"]);
}
