//! What a person sees: texts that hide something, secrets, previews.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by stopping")]

mod previews;
mod secrets;
mod texts;
mod tricks;

use dormouse_domain::{
    CallKey, Digest, Millis, Principal, RequestId, RequestKey, RunId,
    display::{self, Extent, Shown},
    plan::Question,
    request::{DecisionKind, Request, RequestKind, RequestStatus},
    run::Repeats,
    windows::Windows,
};
use serde_json::Value;

/// A stored request for a call of `deploy` with these arguments.
fn request(arguments: Value) -> Request {
    Request {
        id: RequestId { run: RunId::from_bits(1), key: RequestKey::new(3, 0) },
        call: Some(CallKey::new(2, 0)),
        kind: RequestKind::Approval,
        status: RequestStatus::Pending,
        owner: Principal { tenant: "acme".into(), subject: "ann".into() },
        approvers: None,
        tool: Some("deploy".into()),
        budget: None,
        summary: display::summary("deploy", &arguments, &[]),
        arguments,
        digest: Digest::of(b"arguments"),
        secret: vec![],
        builtin: None,
        mutates: true,
        question: None,
        always: None,
        decisions: DecisionKind::offered(RequestKind::Approval),
        reasons: vec!["it changes things".into()],
        agents: vec!["ops".into()],
        repeats: Repeats::default(),
        opened_at: Millis(0),
        windows: Windows { wait_until: Millis(100), decide_by: Millis(100) },
        decision: None,
    }
}

/// A stored request for an answer to the question that these arguments ask.
fn asking(arguments: Value) -> Request {
    let question = Question::read(&arguments).unwrap();
    Request { kind: RequestKind::Question, question: Some(question), ..request(arguments) }
}

/// All that a person is shown of `request`, as one text, in both extents.
fn seen(request: &Request) -> String {
    let shown = |extent| serde_json::to_string(&display::request(request, extent)).unwrap();
    shown(Extent::Whole) + &shown(Extent::Listed)
}

fn whole(request: &Request) -> Shown {
    display::request(request, Extent::Whole)
}
