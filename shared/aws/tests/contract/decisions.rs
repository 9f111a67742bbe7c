//! A request has at most one decision, and the condition is in the write (I6).

use std::sync::Arc;

use dormouse_domain::{
    Digest, Inbox, Millis, Principal, RequestId, RequestKey,
    agent::Approvers,
    decide::Decision,
    request::{Request, RequestStatus, Settled},
};
use dormouse_engine::ports::{Commit, RequestWrite, Store as _, WriteError};
use futures::future::join_all;

use crate::{
    bed::{Bed, NOW},
    samples::{DECIDE_BY, commit, opening, principal, request, run, settled},
};

fn asked() -> Request {
    request(&run(1), RequestKey::new(3, 0), &principal("ann"), NOW)
}

fn decide(token: &str, request: &RequestId, by: &Principal, digest: Option<Digest>, now: Millis) -> Commit {
    let (id, inbox) = (request.clone(), Inbox::Person(by.clone()));
    let write = RequestWrite::Decide { id, inbox, settled: settled(by, now), digest, now };
    Commit { requests: vec![write], ..commit(&request.run, token) }
}

async fn with_request() -> Bed {
    let bed = Bed::new().await;
    bed.store.commit(&opening(&asked(), "open")).await.unwrap();
    bed
}

#[tokio::test]
async fn a_request_is_read_back_as_it_was_opened() {
    let bed = with_request().await;
    assert_eq!(bed.store.request(&asked().id).await.unwrap(), Some(asked()));
    let unknown = RequestId { run: run(1), key: RequestKey::new(3, 1) };
    assert_eq!(bed.store.request(&unknown).await.unwrap(), None);
    let again = bed.store.commit(&opening(&asked(), "again")).await;
    assert!(matches!(again, Err(WriteError::RequestCondition)), "{again:?}");
}

#[tokio::test]
async fn i6_a_decision_is_taken_under_its_conditions_only() {
    let (ann, bob) = (principal("ann"), principal("bob"));
    let other_tenant = Principal { tenant: "other".into(), ..ann.clone() };
    let (right, wrong) = (Some(asked().digest), Some(Digest::of(b"something else")));
    for (why, by, digest, now, is_taken) in [
        ("no digest where none is needed", &ann, None, NOW, true),
        ("the digest that was shown", &ann, right.clone(), NOW, true),
        ("another digest", &ann, wrong, NOW, false),
        ("another person", &bob, right.clone(), NOW, false),
        ("another tenant", &other_tenant, right.clone(), NOW, false),
        ("case 20: the last moment", &ann, right.clone(), DECIDE_BY, true),
        ("case 20: a moment too late", &ann, right, DECIDE_BY.plus(1), false),
    ] {
        let bed = with_request().await;
        let outcome = bed.store.commit(&decide("d", &asked().id, by, digest, now)).await;
        let stored = bed.store.request(&asked().id).await.unwrap().unwrap();
        if is_taken {
            assert!(outcome.is_ok(), "{why}: {outcome:?}");
            let decided = Request { status: RequestStatus::Decided, decision: Some(settled(by, now)), ..asked() };
            assert_eq!(stored, decided, "{why}");
        } else {
            assert!(matches!(outcome, Err(WriteError::RequestCondition)), "{why}: {outcome:?}");
            assert_eq!(stored, asked(), "{why}");
        }
    }
}

/// What a group decides is decided in that group's inbox alone, and not by whoever is barred.
#[tokio::test]
async fn i6_a16_a_group_decides_and_the_requester_does_not() {
    let (ann, sue) = (principal("ann"), principal("sue"));
    let group = |tenant: &str, name: &str| Inbox::Group { tenant: tenant.into(), group: name.into() };
    let sre = group("acme", "sre");
    for (why, not_requester, by, inbox, is_taken) in [
        ("a member", true, &sue, sre.clone(), true),
        ("the requester, who is a member", false, &ann, sre.clone(), true),
        ("the requester, who is barred", true, &ann, sre.clone(), false),
        ("the requester, as such", false, &ann, Inbox::Person(ann.clone()), false),
        ("another group", true, &sue, group("acme", "dev"), false),
        ("the same group of another tenant", true, &sue, group("other", "sre"), false),
        ("a person of the group's name", true, &sue, Inbox::Person(principal("sre")), false),
    ] {
        let approvers = Some(Approvers { group: "sre".into(), not_requester });
        let asked = Request { approvers, ..asked() };
        let bed = Bed::new().await;
        bed.store.commit(&opening(&asked, "open")).await.unwrap();
        assert_eq!(bed.store.request(&asked.id).await.unwrap(), Some(asked.clone()));
        let digest = Some(asked.digest.clone());
        let write = RequestWrite::Decide { id: asked.id.clone(), inbox, settled: settled(by, NOW), digest, now: NOW };
        let outcome = bed.store.commit(&Commit { requests: vec![write], ..commit(&run(1), "d") }).await;
        assert_eq!(outcome.is_ok(), is_taken, "{why}: {outcome:?}");
        let waits = bed.store.inbox(std::slice::from_ref(&sre), None, 10).await.unwrap().items;
        assert_eq!(waits.is_empty(), is_taken, "{why}");
    }
}

#[tokio::test]
async fn a_request_that_is_not_there_cannot_be_decided_or_closed() {
    let bed = Bed::new().await;
    let decided = bed.store.commit(&decide("d", &asked().id, &principal("ann"), None, NOW)).await;
    assert!(matches!(decided, Err(WriteError::RequestCondition)), "{decided:?}");
    let close = RequestWrite::Close { id: asked().id, status: RequestStatus::Expired };
    let closed = bed.store.commit(&Commit { requests: vec![close], ..commit(&run(1), "c") }).await;
    assert!(matches!(closed, Err(WriteError::RequestCondition)), "{closed:?}");
    assert_eq!(bed.count().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn case_1_of_16_decisions_at_once_one_stands() {
    for round in 0..10 {
        let bed = with_request().await;
        let one = |number: usize| {
            let store = Arc::clone(&bed.store);
            let decision = Decision::Deny { reason: Some(number.to_string()) };
            let write = RequestWrite::Decide {
                id: asked().id,
                inbox: asked().inbox(),
                settled: Settled { decision, by: principal("ann"), at: NOW, via: None },
                digest: Some(asked().digest),
                now: NOW,
            };
            let commit = Commit { requests: vec![write], ..commit(&run(1), &format!("{round}-{number}")) };
            tokio::spawn(async move { store.commit(&commit).await })
        };
        let outcomes: Vec<_> = join_all((0..16).map(one)).await.into_iter().map(Result::unwrap).collect();
        let won: Vec<usize> = (0..16).filter(|&number| outcomes[number].is_ok()).collect();
        assert_eq!(won.len(), 1, "{outcomes:?}");
        let stands = bed.store.request(&asked().id).await.unwrap().unwrap().decision.unwrap().decision;
        assert_eq!(stands, Decision::Deny { reason: Some(won[0].to_string()) });
    }
}

#[tokio::test]
async fn what_is_decided_or_closed_stays_so() {
    let ann = principal("ann");
    let close = |id: &str, status| {
        let write = RequestWrite::Close { id: asked().id, status };
        Commit { requests: vec![write], ..commit(&run(1), id) }
    };
    let bed = with_request().await;
    bed.store.commit(&decide("a", &asked().id, &ann, None, NOW)).await.unwrap();
    for late in [decide("b", &asked().id, &ann, None, NOW), close("c", RequestStatus::Expired)] {
        assert!(matches!(bed.store.commit(&late).await, Err(WriteError::RequestCondition)));
    }
    let bed = with_request().await;
    bed.store.commit(&close("a", RequestStatus::Expired)).await.unwrap();
    for late in [decide("b", &asked().id, &ann, None, NOW), close("c", RequestStatus::Cancelled)] {
        assert!(matches!(bed.store.commit(&late).await, Err(WriteError::RequestCondition)));
    }
    let stored = bed.store.request(&asked().id).await.unwrap().unwrap();
    assert_eq!(stored, Request { status: RequestStatus::Expired, ..asked() });
}

#[tokio::test]
async fn a_decision_can_be_as_long_as_a_person_may_write() {
    let bed = with_request().await;
    // Escaped, each of these takes six bytes.
    let reason = Some("\u{1}".repeat(dormouse_domain::decide::MAX_TEXT_BYTES));
    let settled = Settled { decision: Decision::Deny { reason }, by: principal("ann"), at: NOW, via: None };
    let write = RequestWrite::Decide {
        id: asked().id,
        inbox: asked().inbox(),
        settled: settled.clone(),
        digest: None,
        now: NOW,
    };
    bed.store.commit(&Commit { requests: vec![write], ..commit(&run(1), "d") }).await.unwrap();
    assert_eq!(bed.store.request(&asked().id).await.unwrap().unwrap().decision, Some(settled));
}
