//! Commits: all of it or nothing, and the reason told.

use dormouse_domain::{Digest, EntryId, RequestKey, request::RequestStatus};
use dormouse_engine::ports::{
    Commit, FileVersion, FileWrite, Files as _, ItemWrite, NewReceipt, Receipt, RequestWrite, Store as _, WriteError,
};

use crate::{
    bed::{Bed, NOW},
    samples::{DECIDE_BY, commit, entry, item, opening, own, principal, request, run, settled, with_text},
};

fn file(path: &str, expect: FileVersion) -> FileWrite {
    FileWrite { workspace: "w".into(), path: path.into(), content: "text".into(), expect }
}

fn receipt(key: &str) -> NewReceipt {
    let receipt = Receipt { fingerprint: Digest::of(b"asked"), answer: serde_json::json!({ "status": "queued" }) };
    NewReceipt { owner: principal("ann"), key: key.into(), receipt, expires_at: NOW.plus(86_400_000) }
}

/// A commit that writes one of everything about run 1, at index 1.
fn everything(id: &str) -> Commit {
    let ann = principal("ann");
    let open = request(&run(1), RequestKey::new(1, 0), &ann, NOW);
    Commit {
        entries: vec![entry(1, &format!("{id}-1")), entry(2, &format!("{id}-2"))],
        item: Some(ItemWrite::Replace(item(&run(1), &ann, NOW.plus(1), None))),
        requests: vec![
            RequestWrite::Open(Box::new(open)),
            RequestWrite::Decide {
                id: asked().id,
                inbox: asked().inbox(),
                settled: settled(&ann, NOW),
                digest: None,
                now: NOW,
            },
            RequestWrite::Close { id: closing().id, status: RequestStatus::Cancelled },
        ],
        files: vec![file("new", FileVersion::Absent), file("old", FileVersion::At(1))],
        receipt: Some(receipt("key")),
        ..commit(&run(1), id)
    }
}

fn asked() -> dormouse_domain::request::Request {
    request(&run(1), RequestKey::new(0, 0), &principal("ann"), NOW)
}

fn closing() -> dormouse_domain::request::Request {
    request(&run(1), RequestKey::new(0, 1), &principal("ann"), NOW)
}

/// A table in which [`everything`] can be written.
async fn prepared() -> Bed {
    let bed = Bed::new().await;
    let start = Commit {
        entries: vec![entry(0, "start")],
        item: Some(ItemWrite::Create(item(&run(1), &principal("ann"), NOW, None))),
        requests: [asked(), closing()].map(|request| RequestWrite::Open(Box::new(request))).to_vec(),
        files: vec![file("old", FileVersion::Absent)],
        ..commit(&run(1), "start")
    };
    bed.store.commit(&start).await.unwrap();
    bed.wire.seen();
    bed
}

/// All that can be read of what [`everything`] writes.
async fn seen(bed: &Bed) -> String {
    let store = &bed.store;
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        store.load(&run(1), 0).await.unwrap().iter().map(|entry| entry.entry_id.0.clone()).collect::<Vec<_>>(),
        store.item(&run(1)).await.unwrap().map(|item| item.updated_at),
        store.request(&asked().id).await.unwrap().map(|request| request.status),
        store.request(&closing().id).await.unwrap().map(|request| request.status),
        store.overview(&run(1)).await.unwrap().map(|(_, open)| open.len()),
        store.files("w").await.unwrap(),
        store.receipt(&principal("ann"), "key").await.unwrap().is_some(),
        store.inbox(&own(&principal("ann")), None, 10).await.unwrap().items.len(),
    )
}

#[tokio::test]
async fn a_commit_is_one_transaction_that_writes_all_of_it() {
    let bed = prepared().await;
    let before = seen(&bed).await;
    bed.wire.seen();
    bed.store.commit(&everything("c")).await.unwrap();
    assert_eq!(bed.wire.seen(), ["TransactWriteItems"]);
    let after = seen(&bed).await;
    assert_ne!(before, after);
    for part in
        ["\"start\", \"c-1\", \"c-2\"", "Some(Decided)", "Some(Cancelled)", "path: \"new\"", "version: 2", "true"]
    {
        assert!(after.contains(part), "{part} in {after}");
    }
}

#[tokio::test]
async fn nothing_of_a_failed_commit_is_visible_and_the_reason_is_told() {
    let theirs = || commit(&run(1), "theirs");
    let cases: [(&str, Commit); 8] = [
        ("LostIndex", Commit { entries: vec![entry(1, "t")], ..theirs() }),
        ("LostIndex", Commit { entries: vec![entry(1, "t1"), entry(2, "t2")], ..theirs() }),
        (
            "RequestCondition",
            Commit {
                requests: vec![RequestWrite::Close { id: asked().id, status: RequestStatus::Expired }],
                ..theirs()
            },
        ),
        (
            "RequestCondition",
            Commit {
                requests: vec![RequestWrite::Close { id: closing().id, status: RequestStatus::Expired }],
                ..theirs()
            },
        ),
        ("RequestCondition", opening(&request(&run(1), RequestKey::new(1, 0), &principal("ann"), NOW), "theirs")),
        ("FileChanged { path: \"new\" }", Commit { files: vec![file("new", FileVersion::Absent)], ..theirs() }),
        ("FileChanged { path: \"old\" }", Commit { files: vec![file("old", FileVersion::At(1))], ..theirs() }),
        ("ReceiptExists", Commit { receipt: Some(receipt("key")), ..theirs() }),
    ];
    for (expected, theirs) in cases {
        let bed = prepared().await;
        bed.store.commit(&theirs).await.unwrap();
        let before = seen(&bed).await;
        let failed = bed.store.commit(&everything("c")).await.unwrap_err();
        assert_eq!(format!("{failed:?}"), expected);
        assert_eq!(seen(&bed).await, before, "{expected}");
    }
}

#[tokio::test]
async fn the_item_must_be_there_or_not_as_the_commit_says() {
    let bed = Bed::new().await;
    let ann = principal("ann");
    let write = |id: &str, write| Commit { item: Some(write), ..commit(&run(1), id) };
    let one = |at| item(&run(1), &ann, at, Some(NOW));
    let early = bed.store.commit(&write("a", ItemWrite::Replace(one(NOW)))).await;
    assert!(matches!(early, Err(WriteError::ItemCondition)), "{early:?}");
    bed.store.commit(&write("b", ItemWrite::Create(one(NOW)))).await.unwrap();
    let twice = bed.store.commit(&write("c", ItemWrite::Create(one(NOW.plus(1))))).await;
    assert!(matches!(twice, Err(WriteError::ItemCondition)), "{twice:?}");
    assert_eq!(bed.store.item(&run(1)).await.unwrap(), Some(one(NOW)));
    bed.store.commit(&write("d", ItemWrite::Replace(one(NOW.plus(1))))).await.unwrap();
    assert_eq!(bed.store.item(&run(1)).await.unwrap(), Some(one(NOW.plus(1))));
    assert_eq!(bed.store.item(&run(2)).await.unwrap(), None);
}

#[tokio::test]
async fn a_commit_without_entries_holds_only_while_the_index_is_free() {
    let bed = Bed::new().await;
    bed.store.append(&run(1), &entry(0, "a")).await.unwrap();
    let write = |id: &str, free| Commit {
        free_index: Some(free),
        item: Some(ItemWrite::Create(item(&run(1), &principal("ann"), NOW, None))),
        ..commit(&run(1), id)
    };
    let stale = bed.store.commit(&write("stale", 0)).await;
    assert!(matches!(stale, Err(WriteError::LostIndex)), "{stale:?}");
    assert_eq!(bed.store.item(&run(1)).await.unwrap(), None);
    bed.store.commit(&write("fresh", 1)).await.unwrap();
    assert!(bed.store.item(&run(1)).await.unwrap().is_some());
    bed.store.append(&run(1), &entry(1, "b")).await.unwrap();
}

#[tokio::test]
async fn what_no_transaction_holds_is_refused_before_anything_is_sent() {
    let bed = Bed::new().await;
    let ann = principal("ann");
    let open = |ordinal| RequestWrite::Open(Box::new(request(&run(1), RequestKey::new(0, ordinal), &ann, NOW)));
    let text = crate::samples::noise(2_900_000);
    let mut wide = request(&run(1), RequestKey::new(0, 0), &ann, NOW);
    wide.arguments = serde_json::json!({ "text": crate::samples::noise(450_000) });
    let long = || "x".repeat(3_000);
    for (why, commit) in [
        ("101 items", Commit { requests: (0..101).map(open).collect(), ..commit(&run(1), "a") }),
        (
            "over 4 MB",
            Commit { entries: vec![with_text(0, "a", &text), with_text(1, "b", &text)], ..commit(&run(1), "b") },
        ),
        ("a request's row", opening(&wide, "c")),
        (
            "a file",
            Commit {
                files: vec![FileWrite { content: "x".repeat(300 * 1024 + 1), ..file("f", FileVersion::Absent) }],
                ..commit(&run(1), "d")
            },
        ),
        ("a file's name", Commit { files: vec![file(&long(), FileVersion::Absent)], ..commit(&run(1), "e") }),
        ("a key's name", Commit { receipt: Some(receipt(&long())), ..commit(&run(1), "f") }),
    ] {
        let refused = bed.store.commit(&commit).await;
        assert!(matches!(refused, Err(WriteError::TooLarge(_))), "{why}: {refused:?}");
    }
    assert!(bed.wire.seen().is_empty());
    assert_eq!(bed.count().await, 0);
}

#[tokio::test]
async fn i1_a_commit_cannot_leave_a_hole() {
    let bed = Bed::new().await;
    let gap = Commit { entries: vec![entry(0, "a"), entry(2, "b")], ..commit(&run(1), "a") };
    assert!(bed.store.commit(&gap).await.is_err());
    assert!(bed.wire.seen().is_empty());
}

#[tokio::test]
async fn repeating_a_commit_changes_nothing() {
    let bed = prepared().await;
    bed.store.commit(&everything("c")).await.unwrap();
    let after = seen(&bed).await;
    bed.store.commit(&everything("c")).await.unwrap();
    assert_eq!(seen(&bed).await, after);
    let renamed = Commit { id: EntryId("d".into()), ..everything("c") };
    bed.store.commit(&renamed).await.unwrap();
    assert_eq!(seen(&bed).await, after);
    assert_eq!(bed.store.request(&asked().id).await.unwrap().unwrap().windows.decide_by, DECIDE_BY);
}
