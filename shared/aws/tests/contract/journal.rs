//! Appending and loading.

use std::{sync::Arc, time::Duration};

use aws_sdk_dynamodb::types::AttributeValue;
use dormouse_domain::{Entry, message::Content};
use dormouse_engine::ports::{Commit, Store as _, StoreError, WriteError};
use futures::future::join_all;

use crate::{
    bed::{Bed, TABLE},
    samples::{commit, entry, noise, run, with_content, with_text},
};

#[tokio::test(flavor = "multi_thread")]
async fn i1_of_32_writers_at_one_index_one_wins_200_times() {
    let bed = Bed::new().await;
    let run = run(1);
    for index in 0..200 {
        let writer = |writer: u32| {
            let (store, run) = (Arc::clone(&bed.store), run.clone());
            tokio::spawn(async move { store.append(&run, &entry(index, &format!("{index}-{writer}"))).await })
        };
        let outcomes = join_all((0..32).map(writer)).await;
        let outcomes: Vec<_> = outcomes.into_iter().map(Result::unwrap).collect();
        let won: Vec<usize> = (0..32).filter(|&writer| outcomes[writer].is_ok()).collect();
        assert_eq!(won.len(), 1, "{outcomes:?}");
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(()) | Err(WriteError::LostIndex))), "{outcomes:?}");
        let stored = bed.store.load(&run, index).await.unwrap();
        assert_eq!(stored, [entry(index, &format!("{index}-{}", won[0]))]);
    }
    assert_eq!(bed.store.load(&run, 0).await.unwrap().len(), 200);
}

#[tokio::test]
async fn an_append_is_one_put() {
    let bed = Bed::new().await;
    bed.store.append(&run(1), &entry(0, "a")).await.unwrap();
    assert_eq!(bed.wire.seen(), ["PutItem"]);
}

#[tokio::test]
async fn a_journal_is_read_from_any_index_and_by_page() {
    let bed = Bed::new().await;
    let (run, other) = (run(1), run(2));
    let entries: Vec<Entry> = (0..12).map(|index| entry(index, &format!("e{index}"))).collect();
    for entry in &entries {
        bed.store.append(&run, entry).await.unwrap();
    }
    bed.store.append(&other, &entry(0, "other")).await.unwrap();
    assert_eq!(bed.store.load(&run, 0).await.unwrap(), entries);
    assert_eq!(bed.store.load(&run, 9).await.unwrap(), entries[9..]);
    assert_eq!(bed.store.load(&run, 12).await.unwrap(), []);
    assert_eq!(bed.store.load(&crate::samples::run(3), 0).await.unwrap(), []);
    assert_eq!(bed.store.page(&run, 2, 3).await.unwrap(), entries[2..5]);
    assert_eq!(bed.store.page(&run, 10, 50).await.unwrap(), entries[10..]);
    assert_eq!(bed.store.page(&run, 2, 0).await.unwrap(), []);
    assert_eq!(bed.store.page(&run, u32::MAX, 5).await.unwrap(), []);
}

#[tokio::test]
async fn a_journal_over_one_megabyte_is_read_whole() {
    let bed = Bed::new().await;
    let run = run(1);
    let text = noise(300_000);
    let entries: Vec<Entry> = (0..10).map(|index| with_text(index, &format!("e{index}"), &text)).collect();
    for entry in &entries {
        bed.store.append(&run, entry).await.unwrap();
    }
    bed.wire.seen();
    assert!(bed.store.load(&run, 0).await.unwrap() == entries);
    assert!(bed.wire.seen().len() > 1, "one page of a query has 1 MB at most");
}

#[tokio::test]
async fn case_41_an_image_over_400_kb_is_stored_in_parts() {
    let bed = Bed::new().await;
    let run = run(1);
    let image = || Content::Image { media_type: "image/png".into(), data: noise(1_000_000) };
    let first = with_content(0, "first", image());
    bed.store.append(&run, &first).await.unwrap();
    assert_eq!(bed.wire.seen(), ["TransactWriteItems"]);
    let (second, third) = (with_content(1, "second", image()), entry(2, "third"));
    let both = Commit { entries: vec![second.clone(), third.clone()], ..commit(&run, "second") };
    bed.store.commit(&both).await.unwrap();

    let keys = bed.sort_keys(&run).await;
    assert_eq!(keys.iter().filter(|key| key.starts_with("J#0000000000")).count(), 3, "{keys:?}");
    let all = [first, second, third];
    assert!(bed.store.load(&run, 0).await.unwrap() == all);
    assert!(bed.store.page(&run, 1, 1).await.unwrap() == all[1..2]);
    assert!(matches!(bed.store.append(&run, &with_content(1, "late", image())).await, Err(WriteError::LostIndex)));
    assert!(bed.store.load(&run, 0).await.unwrap() == all);
}

#[tokio::test]
async fn the_largest_body_is_stored_and_a_larger_one_refused_before_anything_is_sent() {
    let bed = Bed::new().await;
    let run = run(1);
    let most = with_text(0, "most", &noise(3 * 1024 * 1024 - 200));
    bed.store.append(&run, &most).await.unwrap();
    assert!(bed.store.load(&run, 0).await.unwrap() == [most]);
    bed.wire.seen();
    // It would compress to nothing; the limit is on what a reader has to hold.
    let more = with_text(1, "more", &"a".repeat(3 * 1024 * 1024));
    assert!(matches!(bed.store.append(&run, &more).await, Err(WriteError::TooLarge(_))));
    let commit =
        Commit { entries: vec![entry(1, "e"), with_text(2, "more", &"a".repeat(4_000_000))], ..commit(&run, "c") };
    assert!(matches!(bed.store.commit(&commit).await, Err(WriteError::TooLarge(_))));
    assert!(bed.wire.seen().is_empty());
}

#[tokio::test]
async fn i1_what_is_not_understood_is_corrupt() {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let number = |number: &str| AttributeValue::N(number.to_owned());
    for (name, value) in [
        ("kind", text("RunTeleported")),
        ("kind", text("DriverStarted")),
        ("v", number("2")),
        ("v", number("0")),
        ("body", text("{")),
        ("body", AttributeValue::B(aws_sdk_dynamodb::primitives::Blob::new(*b"no frame"))),
        ("entry_id", number("1")),
        ("at", text("yesterday")),
        ("parts", number("1")),
    ] {
        let bed = Bed::new().await;
        for index in 0..3 {
            bed.store.append(&run(1), &entry(index, &format!("e{index}"))).await.unwrap();
        }
        bed.tamper(&run(1), "J#0000000001", name, value.clone()).await;
        let loaded = bed.store.load(&run(1), 0).await;
        assert!(matches!(loaded, Err(StoreError::Corrupt(_))), "{name} {value:?}: {loaded:?}");
        assert!(bed.store.load(&run(1), 2).await.is_ok());
    }
}

#[tokio::test]
async fn i1_a_hole_is_corrupt() {
    for (missing, from) in [(0, 0), (1, 0), (1, 1)] {
        let bed = Bed::new().await;
        for index in 0..3 {
            bed.store.append(&run(1), &entry(index, &format!("e{index}"))).await.unwrap();
        }
        bed.remove(&run(1), &format!("J#{missing:010}")).await;
        let loaded = bed.store.load(&run(1), from).await;
        assert!(matches!(loaded, Err(StoreError::Corrupt(_))), "{missing} {from}: {loaded:?}");
    }
}

/// A query is only read-committed against a transaction: it can see an entry before its parts, or
/// the second entry of a commit before the first.
#[tokio::test(flavor = "multi_thread")]
async fn case_28_what_is_not_visible_yet_is_read_again() {
    let bed = Bed::new().await;
    let run = run(1);
    let entries = [with_text(0, "big", &noise(800_000)), entry(1, "small")];
    bed.store.commit(&Commit { entries: entries.to_vec(), ..commit(&run, "c") }).await.unwrap();
    for missing in ["J#0000000000", "J#0000000000#01"] {
        let item = bed.remove(&run, missing).await;
        let table = bed.table.clone();
        let later = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(60)).await;
            table.put_item().table_name(TABLE).set_item(Some(item)).send().await.unwrap();
        });
        assert!(bed.store.load(&run, 0).await.unwrap() == entries, "{missing}");
        later.await.unwrap();
    }
}
