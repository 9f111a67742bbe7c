//! Writes whose reply did not arrive, or says nothing about the write (cases 38 and 39, B13).

use std::sync::Arc;

use dormouse_aws::DynamoStore;
use dormouse_domain::{Digest, EntryId};
use dormouse_engine::ports::{Clock, Commit, ItemWrite, NewReceipt, Receipt, Store as _, WriteError};

use crate::{
    bed::{Bed, NOW, StoppedClock, TABLE, config_for},
    samples::{commit, entry, item, noise, principal, run, with_text},
    wire::{Fault, Wire},
};

const PUT: &str = "PutItem";
const TRANSACT: &str = "TransactWriteItems";
const GET: &str = "GetItem";

#[tokio::test]
async fn case_38_put_that_landed_but_whose_reply_was_lost_is_ours() {
    let bed = Bed::new().await;
    let faults = [500, 502, 503, 200, 404].map(Fault::Replace);
    for (index, fault) in (0..).zip([Fault::LoseReply, Fault::Stumble].into_iter().chain(faults)) {
        bed.wire.plan(PUT, fault.clone());
        bed.store.append(&run(1), &entry(index, &format!("e{index}"))).await.unwrap();
        assert_eq!(bed.wire.seen(), [PUT, GET], "{fault:?}");
    }
    assert_eq!(bed.store.load(&run(1), 0).await.unwrap().len(), 7);
}

#[tokio::test]
async fn case_38_a_put_that_timed_out_after_it_landed_is_ours() {
    let bed = Bed::new().await;
    bed.wire.plan(PUT, Fault::Hang);
    bed.store.append(&run(1), &entry(0, "a")).await.unwrap();
    assert_eq!(bed.wire.seen(), [PUT, GET]);
}

/// The read that should settle it fails too: the same put again finds its own entry.
#[tokio::test]
async fn case_38_a_repeated_put_recognises_its_own_entry() {
    let bed = Bed::new().await;
    bed.wire.plan(PUT, Fault::LoseReply);
    for _ in 0..3 {
        bed.wire.plan(GET, Fault::LoseRequest);
    }
    bed.store.append(&run(1), &entry(0, "a")).await.unwrap();
    assert_eq!(bed.wire.seen().iter().filter(|operation| *operation == PUT).count(), 2);
    assert_eq!(bed.store.load(&run(1), 0).await.unwrap(), [entry(0, "a")]);
}

#[tokio::test]
async fn case_38_anothers_entry_is_a_lost_index_whatever_the_network_does() {
    let bed = Bed::new().await;
    bed.store.append(&run(1), &entry(0, "theirs")).await.unwrap();
    bed.wire.seen();
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::Stumble] {
        bed.wire.plan(PUT, fault.clone());
        let lost = bed.store.append(&run(1), &entry(0, "ours")).await;
        assert!(matches!(lost, Err(WriteError::LostIndex)), "{fault:?}: {lost:?}");
        assert_eq!(bed.wire.seen(), [PUT, GET], "{fault:?}");
        bed.wire.plan(TRANSACT, fault.clone());
        let ours = Commit { entries: vec![entry(0, "ours"), entry(1, "ours too")], ..commit(&run(1), "ours") };
        let lost = bed.store.commit(&ours).await;
        assert!(matches!(lost, Err(WriteError::LostIndex)), "{fault:?}: {lost:?}");
        assert_eq!(bed.wire.seen(), [TRANSACT, GET], "{fault:?}");
    }
    assert_eq!(bed.store.load(&run(1), 0).await.unwrap(), [entry(0, "theirs")]);
}

#[tokio::test]
async fn a_lost_request_is_made_again() {
    let bed = Bed::new().await;
    bed.wire.plan(PUT, Fault::LoseRequest);
    bed.store.append(&run(1), &entry(0, "a")).await.unwrap();
    bed.wire.plan(TRANSACT, Fault::LoseRequest);
    bed.store.commit(&Commit { entries: vec![entry(1, "b")], ..commit(&run(1), "b") }).await.unwrap();
    assert_eq!(bed.store.load(&run(1), 0).await.unwrap(), [entry(0, "a"), entry(1, "b")]);
}

#[tokio::test]
async fn b13_what_stays_unclear_is_ambiguous() {
    let bed = Bed::new().await;
    for operation in [PUT, TRANSACT] {
        for _ in 0..2 {
            bed.wire.plan(operation, Fault::LoseRequest);
        }
    }
    let put = bed.store.append(&run(1), &entry(0, "a")).await;
    assert!(matches!(put, Err(WriteError::Ambiguous(_))), "{put:?}");
    let committed = bed.store.commit(&Commit { entries: vec![entry(0, "b")], ..commit(&run(1), "b") }).await;
    assert!(matches!(committed, Err(WriteError::Ambiguous(_))), "{committed:?}");
    bed.wire.seen();
}

/// The first attempt may still land; that the later ones were certainly not written says nothing.
#[tokio::test]
async fn b13_a_refusal_after_an_unclear_attempt_does_not_make_it_clear() {
    for code in ["ThrottlingException", "AccessDeniedException", "TransactionConflictException"] {
        let bed = Bed::new().await;
        bed.wire.plan(PUT, Fault::LoseRequest);
        for _ in 0..if code == "AccessDeniedException" { 1 } else { 3 } {
            bed.wire.plan(PUT, Fault::Refuse(code));
        }
        let put = bed.store.append(&run(1), &entry(0, "a")).await;
        assert!(matches!(put, Err(WriteError::Ambiguous(_))), "{code}: {put:?}");
        bed.wire.seen();
    }
}

#[tokio::test]
async fn b13_nothing_was_written_is_said_only_when_it_is_known() {
    let bed = Bed::new().await;
    for (code, attempts) in [("ThrottlingException", 4), ("AccessDeniedException", 1), ("ValidationException", 1)] {
        for operation in [PUT, TRANSACT] {
            for _ in 0..attempts {
                bed.wire.plan(operation, Fault::Refuse(code));
            }
        }
        let put = bed.store.append(&run(1), &entry(0, "a")).await;
        assert!(matches!(put, Err(WriteError::Unavailable(_))), "{code}: {put:?}");
        let committed = bed.store.commit(&Commit { entries: vec![entry(0, "b")], ..commit(&run(1), "b") }).await;
        assert!(matches!(committed, Err(WriteError::Unavailable(_))), "{code}: {committed:?}");
        bed.wire.seen();
    }
    assert_eq!(bed.count().await, 0);
}

#[tokio::test]
async fn b13_a_refused_connection_wrote_nothing() {
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let config = config_for(&format!("http://127.0.0.1:{port}"), &Wire::default());
    let clock: Arc<dyn Clock> = Arc::new(StoppedClock::at(NOW));
    let store = DynamoStore::connect(&config, TABLE, clock);
    let put = store.append(&run(1), &entry(0, "a")).await;
    assert!(matches!(put, Err(WriteError::Unavailable(_))), "{put:?}");
}

#[tokio::test]
async fn a_throttled_write_is_made_again() {
    let bed = Bed::new().await;
    bed.wire.plan(PUT, Fault::Refuse("ProvisionedThroughputExceededException"));
    bed.wire.plan(PUT, Fault::Refuse("TransactionConflictException"));
    bed.store.append(&run(1), &entry(0, "a")).await.unwrap();
    assert_eq!(bed.wire.seen(), [PUT, PUT, PUT]);
}

#[tokio::test]
async fn case_38_a_commit_whose_reply_was_lost_is_ours() {
    let bed = Bed::new().await;
    let ours = Commit {
        entries: vec![entry(0, "a"), entry(1, "b")],
        item: Some(ItemWrite::Create(item(&run(1), &principal("ann"), NOW, None))),
        ..commit(&run(1), "a")
    };
    bed.wire.plan(TRANSACT, Fault::LoseReply);
    bed.store.commit(&ours).await.unwrap();
    assert_eq!(bed.wire.seen(), [TRANSACT, GET]);
    let large = with_text(2, "large", &noise(800_000));
    bed.wire.plan(TRANSACT, Fault::LoseReply);
    bed.store.append(&run(1), &large).await.unwrap();
    assert_eq!(bed.store.load(&run(1), 0).await.unwrap().len(), 3);
}

/// Nothing but the token can tell that it was this commit that created the item.
#[tokio::test]
async fn case_38_a_commit_without_entries_is_settled_by_its_token() {
    let bed = Bed::new().await;
    let created = ItemWrite::Create(item(&run(1), &principal("ann"), NOW, None));
    let ours = Commit { free_index: Some(0), item: Some(created), ..commit(&run(1), "ours") };
    bed.wire.plan(TRANSACT, Fault::LoseReply);
    bed.store.commit(&ours).await.unwrap();
    assert_eq!(bed.wire.seen(), [TRANSACT, TRANSACT]);
    bed.store.commit(&ours).await.unwrap();
    let theirs = Commit { id: EntryId("theirs".into()), ..ours };
    assert!(matches!(bed.store.commit(&theirs).await, Err(WriteError::ItemCondition)));
}

#[tokio::test]
async fn case_39_a_token_with_other_content_is_reported_as_the_mismatch_it_is() {
    let bed = Bed::new().await;
    bed.store.commit(&Commit { entries: vec![entry(0, "a")], ..commit(&run(1), "same") }).await.unwrap();
    let other = bed.store.commit(&Commit { entries: vec![entry(1, "b")], ..commit(&run(1), "same") }).await;
    assert!(matches!(&other, Err(WriteError::Unavailable(why)) if why.contains("commit's id")), "{other:?}");
    assert_eq!(bed.store.load(&run(1), 0).await.unwrap().len(), 1);
}

/// After ten minutes a token is new to DynamoDB; then the entries say who wrote them.
#[tokio::test]
async fn case_39_a_commit_whose_token_is_forgotten_still_recognises_its_entries() {
    let bed = Bed::new().await;
    let entries = vec![entry(0, "a"), entry(1, "b")];
    bed.store.commit(&Commit { entries: entries.clone(), ..commit(&run(1), "a") }).await.unwrap();
    let created = Some(ItemWrite::Create(item(&run(1), &principal("ann"), NOW, None)));
    let again = Commit { entries, item: created, ..commit(&run(1), "another token") };
    bed.store.commit(&again).await.unwrap();
    assert_eq!(bed.store.load(&run(1), 0).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_conflict_is_neither_won_nor_lost() {
    let bed = Bed::new().await;
    let ours = Commit { entries: vec![entry(0, "a"), entry(1, "b")], ..commit(&run(1), "a") };
    for _ in 0..4 {
        bed.wire.plan(TRANSACT, Fault::Cancel(vec!["TransactionConflict", "None"]));
    }
    assert!(matches!(bed.store.commit(&ours).await, Err(WriteError::Contention)));
    bed.wire.plan(TRANSACT, Fault::Cancel(vec!["None", "ThrottlingError"]));
    bed.wire.plan(TRANSACT, Fault::Refuse("TransactionInProgressException"));
    bed.store.commit(&ours).await.unwrap();
    bed.wire.seen();
    assert_eq!(bed.store.load(&run(1), 0).await.unwrap().len(), 2);
}

/// A caller that was told "ambiguous" repeats the same commit, later: its receipt's condition holds
/// another time by then, which is no other content.
#[tokio::test]
async fn b13_a_commit_with_a_receipt_can_be_repeated_at_another_time() {
    let bed = Bed::new().await;
    let receipt = Receipt { fingerprint: Digest::of(b"asked"), answer: "queued".into() };
    let receipt = NewReceipt { owner: principal("ann"), key: "k".into(), receipt, expires_at: NOW.plus(86_400_000) };
    let ours = Commit { entries: vec![entry(0, "a")], receipt: Some(receipt), ..commit(&run(1), "a") };
    let bare = Commit { entries: vec![], id: EntryId("b".into()), ..ours.clone() };
    bed.store.commit(&ours).await.unwrap();
    bed.clock.set(NOW.plus(30_000));
    bed.store.commit(&ours).await.unwrap();
    let known = bed.store.commit(&bare).await;
    assert!(matches!(known, Err(WriteError::ReceiptExists)), "{known:?}");
}
