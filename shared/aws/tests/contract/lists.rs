//! Lists by index, and the sweep's view.

use std::collections::BTreeSet;

use dormouse_domain::{
    Inbox, Millis, Principal, RequestKey, RunId,
    agent::Approvers,
    item::RunItem,
    request::{Request, RequestStatus},
    run::Status,
};
use dormouse_engine::ports::{Commit, Due, ItemWrite, RequestWrite, Store as _, StoreError};

use crate::{
    bed::{Bed, NOW, TABLE},
    samples::{DECIDE_BY, commit, item, opening, own, principal, request, run, settled},
    wire::Fault,
};

async fn create(bed: &Bed, item: &RunItem) {
    let id = format!("create {}", item.run_id);
    let commit = Commit { item: Some(ItemWrite::Create(item.clone())), ..commit(&item.run_id, &id) };
    bed.store.commit(&commit).await.unwrap();
}

async fn all_runs(bed: &Bed, owner: &Principal, limit: u32) -> Vec<RunId> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = bed.store.runs(owner, cursor.as_deref(), limit).await.unwrap();
        assert!(page.items.len() <= limit as usize);
        found.extend(page.items.into_iter().map(|item| item.run_id));
        cursor = page.next;
        if cursor.is_none() {
            return found;
        }
    }
}

#[tokio::test]
async fn runs_are_listed_by_owner_last_changed_first() {
    let bed = Bed::new().await;
    let (ann, bob) = (principal("ann"), principal("bob"));
    for number in 0..7 {
        create(&bed, &item(&run(number), &ann, NOW.plus(u64::try_from(number).unwrap() * 1_000), None)).await;
    }
    create(&bed, &item(&run(100), &bob, NOW, None)).await;
    let changed = item(&run(0), &ann, NOW.plus(60_000), None);
    let write = Commit { item: Some(ItemWrite::Replace(changed.clone())), ..commit(&run(0), "change") };
    bed.store.commit(&write).await.unwrap();

    let expected: Vec<RunId> = [0, 6, 5, 4, 3, 2, 1].map(run).to_vec();
    for limit in [1, 2, 3, 7, 50] {
        assert_eq!(all_runs(&bed, &ann, limit).await, expected, "{limit}");
    }
    assert_eq!(bed.store.runs(&ann, None, 1).await.unwrap().items, [changed]);
    assert_eq!(all_runs(&bed, &bob, 5).await, [run(100)]);
    assert_eq!(all_runs(&bed, &principal("nobody"), 5).await, []);
    assert_eq!(bed.store.runs(&principal(&"x".repeat(3_000)), None, 5).await.unwrap().items, []);
}

#[tokio::test]
async fn case_5_a_cursor_works_in_its_own_list_only() {
    let bed = Bed::new().await;
    let (ann, bob) = (principal("ann"), principal("bob"));
    for number in 0..3 {
        create(&bed, &item(&run(number), &ann, NOW, None)).await;
        create(&bed, &item(&run(100 + number), &bob, NOW, None)).await;
    }
    let anns = bed.store.runs(&ann, None, 1).await.unwrap().next.unwrap();
    assert!(bed.store.runs(&ann, Some(&anns), 1).await.is_ok());
    let refused =
        |outcome: Result<usize, StoreError>| assert!(matches!(outcome, Err(StoreError::BadCursor)), "{outcome:?}");
    refused(bed.store.runs(&bob, Some(&anns), 1).await.map(|page| page.items.len()));
    refused(bed.store.inbox(&own(&ann), Some(&anns), 1).await.map(|page| page.items.len()));
    for made_up in ["", "e30", "AAAA", &anns[1..], "null", "../.."] {
        refused(bed.store.runs(&ann, Some(made_up), 1).await.map(|page| page.items.len()));
    }
}

#[tokio::test]
async fn an_inbox_is_listed_oldest_first_in_pages() {
    let bed = Bed::new().await;
    let (ann, bob) = (principal("ann"), principal("bob"));
    let asked = |number: u32, inbox: &Principal| {
        request(&run(u128::from(number)), RequestKey::new(number, 0), inbox, NOW.plus(u64::from(number)))
    };
    for number in 0..5 {
        bed.store.commit(&opening(&asked(number, &ann), &format!("a{number}"))).await.unwrap();
    }
    bed.store.commit(&opening(&asked(9, &bob), "b")).await.unwrap();
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = bed.store.inbox(&own(&ann), cursor.as_deref(), 2).await.unwrap();
        found.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(found, (0..5).map(|number| asked(number, &ann)).collect::<Vec<Request>>());
    assert_eq!(bed.store.inbox(&own(&bob), None, 10).await.unwrap().items, [asked(9, &bob)]);
}

/// Several inboxes are one list: what comes first in all of them comes first, however the pages fall.
#[tokio::test]
async fn a15_several_inboxes_are_listed_as_one() {
    let bed = Bed::new().await;
    let ann = principal("ann");
    let group = |name: &str| Inbox::Group { tenant: "acme".into(), group: name.into() };
    let mut opened = Vec::new();
    for number in 0..12_u32 {
        let key = RequestKey::new(number, 0);
        let mut asked = request(&run(u128::from(number)), key, &ann, NOW.plus(u64::from(number)));
        let name = ["sre", "dba", "sre", "none of hers"][number as usize % 4];
        asked.approvers = (number % 5 != 0).then(|| Approvers { group: name.into(), not_requester: false });
        bed.store.commit(&opening(&asked, &format!("o{number}"))).await.unwrap();
        if number % 5 == 0 || name != "none of hers" {
            opened.push(asked);
        }
    }
    let inboxes = [Inbox::Person(ann.clone()), group("dba"), group("sre"), group("empty")];
    for limit in [1, 2, 3, 7, 100] {
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let page = bed.store.inbox(&inboxes, cursor.as_deref(), limit).await.unwrap();
            assert!(page.items.len() <= limit as usize);
            found.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(found, opened, "{limit} a page");
    }
    let cursor = bed.store.inbox(&inboxes, None, 1).await.unwrap().next.unwrap();
    let fewer = bed.store.inbox(&inboxes[..2], Some(&cursor), 1).await;
    assert!(matches!(fewer, Err(StoreError::BadCursor)), "{fewer:?}");
}

#[tokio::test]
async fn e11_an_inbox_offers_only_what_can_be_decided() {
    let bed = Bed::new().await;
    let ann = principal("ann");
    let asked = |ordinal| request(&run(1), RequestKey::new(0, ordinal), &ann, NOW);
    for ordinal in 0..3 {
        bed.store.commit(&opening(&asked(ordinal), &format!("open {ordinal}"))).await.unwrap();
    }
    create(&bed, &item(&run(1), &ann, NOW, None)).await;
    let decide = RequestWrite::Decide {
        id: asked(0).id,
        inbox: asked(0).inbox(),
        settled: settled(&ann, NOW),
        digest: None,
        now: NOW,
    };
    let close = RequestWrite::Close { id: asked(1).id, status: RequestStatus::Cancelled };
    bed.store.commit(&Commit { requests: vec![decide, close], ..commit(&run(1), "c") }).await.unwrap();

    let left = [asked(2)];
    assert_eq!(in_the_index(&bed, "INBOX#acme/ann").await, 1, "the index is sparse");
    assert_eq!(bed.store.inbox(&own(&ann), None, 10).await.unwrap().items, left);
    let (_, pending) = bed.store.overview(&run(1)).await.unwrap().unwrap();
    assert_eq!(pending, left);
    bed.clock.set(DECIDE_BY);
    assert_eq!(bed.store.inbox(&own(&ann), None, 10).await.unwrap().items, left);
    bed.clock.set(DECIDE_BY.plus(1));
    assert_eq!(bed.store.inbox(&own(&ann), None, 10).await.unwrap().items, []);
}

/// How many items the listing index has under this key.
async fn in_the_index(bed: &Bed, lp: &str) -> i32 {
    let lp = aws_sdk_dynamodb::types::AttributeValue::S(lp.into());
    let query = bed.table.query().table_name(TABLE).index_name("listing").key_condition_expression("LP = :lp");
    query.expression_attribute_values(":lp", lp).send().await.unwrap().count
}

/// An index lags: what it still shows is looked up in the table before it is offered.
#[tokio::test]
async fn an_inbox_is_checked_against_the_table() {
    let bed = Bed::new().await;
    let ann = principal("ann");
    let asked = request(&run(1), RequestKey::new(0, 0), &ann, NOW);
    bed.store.commit(&opening(&asked, "open")).await.unwrap();
    // As an index that has not yet heard of the decision would still have it.
    let decided = aws_sdk_dynamodb::types::AttributeValue::S("decided".into());
    bed.tamper(&run(1), "Q#0000000000.00000", "status", decided).await;
    assert_eq!(bed.store.inbox(&own(&ann), None, 10).await.unwrap().items, []);
    bed.wire.seen();
    bed.store.inbox(&own(&ann), None, 10).await.unwrap();
    assert_eq!(bed.wire.seen(), ["Query", "BatchGetItem"]);
}

#[tokio::test]
async fn an_overview_is_one_query_of_the_item_and_what_is_pending() {
    let bed = Bed::new().await;
    let ann = principal("ann");
    assert_eq!(bed.store.overview(&run(1)).await.unwrap(), None);
    let one = item(&run(1), &ann, NOW, Some(NOW));
    create(&bed, &one).await;
    let asked = |entry| request(&run(1), RequestKey::new(entry, 0), &ann, NOW);
    for entry in [10, 9] {
        bed.store.commit(&opening(&asked(entry), &format!("open {entry}"))).await.unwrap();
    }
    bed.wire.seen();
    assert_eq!(bed.store.overview(&run(1)).await.unwrap(), Some((one, vec![asked(9), asked(10)])));
    assert_eq!(bed.wire.seen(), ["Query"]);
}

async fn due_anywhere(bed: &Bed, now: Millis) -> Vec<Due> {
    let mut all = Vec::new();
    for shard in 0..bed.store.due_shards() {
        all.extend(bed.store.due(shard, now, 100).await.unwrap());
    }
    all.sort_by_key(|due| due.due_at);
    all
}

#[tokio::test]
async fn i9_a_due_run_is_found_in_one_shard_and_one_with_nothing_to_come_in_none() {
    let bed = Bed::new().await;
    let ann = principal("ann");
    for number in 0..40 {
        let due_at = (number % 2 == 0).then(|| NOW.plus(u64::try_from(number).unwrap()));
        create(&bed, &item(&run(number), &ann, NOW, due_at)).await;
    }
    let all = due_anywhere(&bed, NOW.plus(1_000)).await;
    let found: Vec<RunId> = all.iter().map(|due| due.run.clone()).collect();
    assert_eq!(found, (0..40).step_by(2).map(run).collect::<Vec<_>>());
    assert_eq!(all[1], Due { run: run(2), due_at: NOW.plus(2), status: Status::Queued, wakes: 0 });
    // The edge is inclusive, and a page has the longest overdue first.
    assert_eq!(due_anywhere(&bed, NOW.plus(10)).await.len(), 6);
    let mut shards = BTreeSet::new();
    for shard in 0..bed.store.due_shards() {
        let some = bed.store.due(shard, NOW.plus(1_000), 1).await.unwrap();
        assert!(some.len() <= 1);
        shards.extend(some.first().map(|_| shard));
    }
    assert!(shards.len() > 5, "{shards:?}");
    assert_eq!(bed.store.due(bed.store.due_shards(), NOW.plus(1_000), 10).await.unwrap(), []);
}

#[tokio::test]
async fn a_run_that_has_nothing_to_come_any_more_leaves_the_due_index() {
    let bed = Bed::new().await;
    let ann = principal("ann");
    create(&bed, &item(&run(1), &ann, NOW, Some(NOW))).await;
    assert_eq!(due_anywhere(&bed, NOW).await.len(), 1);
    let done = ItemWrite::Replace(item(&run(1), &ann, NOW, None));
    bed.store.commit(&Commit { item: Some(done), ..commit(&run(1), "done") }).await.unwrap();
    assert_eq!(due_anywhere(&bed, NOW).await, []);
    assert_eq!(bed.store.item(&run(1)).await.unwrap().unwrap().due_at, None);
}

#[tokio::test]
async fn postponing_moves_a_run_once_and_counts() {
    let bed = Bed::new().await;
    create(&bed, &item(&run(1), &principal("ann"), NOW, Some(NOW))).await;
    let due = due_anywhere(&bed, NOW).await.remove(0);
    assert!(bed.store.postpone(&due, NOW.plus(60_000)).await.unwrap());
    assert!(due_anywhere(&bed, NOW).await.is_empty());
    let later = due_anywhere(&bed, NOW.plus(60_000)).await.remove(0);
    assert_eq!((later.due_at, later.wakes), (NOW.plus(60_000), 1));
    let stored = bed.store.item(&run(1)).await.unwrap().unwrap();
    assert_eq!((stored.due_at, stored.wakes), (Some(NOW.plus(60_000)), 1));
    assert!(!bed.store.postpone(&due, NOW.plus(90_000)).await.unwrap(), "it is not where it was any more");
    assert_eq!(bed.store.item(&run(1)).await.unwrap().unwrap(), stored);
    let unknown = Due { run: run(2), ..due };
    assert!(!bed.store.postpone(&unknown, NOW).await.unwrap());
    assert_eq!(bed.store.item(&run(2)).await.unwrap(), None);
}

/// Otherwise nobody would send the wake: the one that moved it thinks that another did.
#[tokio::test]
async fn a_postponement_whose_reply_was_lost_is_ours() {
    let bed = Bed::new().await;
    create(&bed, &item(&run(1), &principal("ann"), NOW, Some(NOW))).await;
    let due = due_anywhere(&bed, NOW).await.remove(0);
    bed.wire.plan("UpdateItem", Fault::LoseReply);
    assert!(bed.store.postpone(&due, NOW.plus(60_000)).await.unwrap());
    assert_eq!(bed.store.item(&run(1)).await.unwrap().unwrap().wakes, 1);
    bed.wire.seen();
}
