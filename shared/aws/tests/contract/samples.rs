//! Entries, items and requests to store.

use std::collections::BTreeMap;

use dormouse_domain::{
    CallKey, Digest, Entry, EntryId, Fact, Inbox, Millis, Principal, RequestId, RequestKey, RunId,
    agent::Mode,
    decide::Decision,
    entry::CallResult,
    item::RunItem,
    kv::KvPatch,
    message::{Content, Usage},
    request::{DecisionKind, Request, RequestKind, RequestStatus, Settled},
    run::{Repeats, Status},
    windows::Windows,
};
use dormouse_engine::ports::{Commit, RequestWrite};

use crate::bed::NOW;

pub(crate) fn run(number: u128) -> RunId {
    RunId::from_bits(number)
}

pub(crate) fn principal(subject: &str) -> Principal {
    Principal { tenant: "acme".into(), subject: subject.into() }
}

pub(crate) fn entry(index: u32, id: &str) -> Entry {
    with_text(index, id, id)
}

/// An entry whose body is about as long as `text`.
pub(crate) fn with_text(index: u32, id: &str, text: &str) -> Entry {
    with_content(index, id, Content::text(text))
}

pub(crate) fn with_content(index: u32, id: &str, content: Content) -> Entry {
    let result = CallResult::Returned { content: vec![content], is_error: false };
    let fact = Fact::CallFinished { call: CallKey::new(0, 0), attempt: 1, result, kv: KvPatch::new(), used: None };
    Entry { index, entry_id: EntryId(id.to_owned()), at: NOW, driver: None, fact }
}

/// Base64 text that compresses no better than an image's.
pub(crate) fn noise(bytes: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(LETTERS[(state >> 58) as usize])
    };
    (0..bytes).map(|_| letter()).collect()
}

pub(crate) fn item(run: &RunId, owner: &Principal, updated_at: Millis, due_at: Option<Millis>) -> RunItem {
    RunItem {
        run_id: run.clone(),
        owner: owner.clone(),
        agent: "ops".into(),
        definition: Digest::of(b"definition"),
        title: "Deploy the shop".into(),
        status: Status::Queued,
        mode: Mode::Normal,
        metadata: BTreeMap::from([("ticket".to_owned(), "T-1".to_owned())]),
        parent: None,
        forks: Vec::new(),
        created_at: NOW,
        updated_at,
        due_at,
        turns: 0,
        usage: Usage {
            input_tokens: 3,
            output_tokens: 4,
            cache_read_tokens: 0,
            cache_write_tokens: 0,
            incomplete: false,
        },
        cost: dormouse_domain::budget::Spent { total: dormouse_domain::price::Cost(7), at_most: true },
        pending: 0,
        repeats: Repeats { while_pending: 1, after_refusal: 2 },
        last_reply: None,
        outcome: None,
        wakes: 0,
    }
}

/// The time up to which [`request`] can be decided.
pub(crate) const DECIDE_BY: Millis = Millis(NOW.0 + 60_000);

pub(crate) fn request(run: &RunId, key: RequestKey, inbox: &Principal, opened_at: Millis) -> Request {
    let arguments = serde_json::json!({ "service": "shop", "replicas": 3 });
    Request {
        id: RequestId { run: run.clone(), key },
        call: Some(CallKey::new(2, 0)),
        kind: RequestKind::Approval,
        status: RequestStatus::Pending,
        owner: inbox.clone(),
        approvers: None,
        tool: Some("deploy".into()),
        budget: None,
        summary: "deploy(service: \"shop\")".into(),
        digest: Digest::of(arguments.to_string().as_bytes()),
        arguments,
        secret: vec![],
        always: None,
        builtin: None,
        mutates: true,
        question: None,
        decisions: DecisionKind::offered(RequestKind::Approval),
        reasons: vec!["it executes".into()],
        agents: vec!["ops".into()],
        repeats: Repeats::default(),
        opened_at,
        windows: Windows { wait_until: Millis(NOW.0 + 30_000), decide_by: DECIDE_BY },
        decision: None,
    }
}

/// The inbox of a person, as a list.
pub(crate) fn own(person: &Principal) -> [Inbox; 1] {
    [Inbox::Person(person.clone())]
}

pub(crate) fn settled(by: &Principal, at: Millis) -> Settled {
    Settled { decision: Decision::Approve, by: by.clone(), at, via: None }
}

/// An empty commit of this id.
pub(crate) fn commit(run: &RunId, id: &str) -> Commit {
    Commit::new(run.clone(), EntryId(id.to_owned()))
}

pub(crate) fn opening(request: &Request, id: &str) -> Commit {
    Commit { requests: vec![RequestWrite::Open(Box::new(request.clone()))], ..commit(&request.id.run, id) }
}
