//! What a link shows and decides.

use dormouse_domain::{
    Caller, Digest, Millis, Principal, RequestId, RequestKey, RunId,
    agent::Approvers,
    decide::{Answer, Decision, Refusal, Resolution},
    plan::Question,
    request::{DecisionKind, Request, RequestKind, RequestStatus, Settled, Via},
    token::{Link, TokenId, Unlinked, shareable},
    windows::Windows,
};
use serde_json::json;

use crate::link;

const NOW: Millis = Millis(50);

fn ann() -> Caller {
    Principal { tenant: "acme".into(), subject: "ann".into() }.into()
}

fn request(kind: RequestKind) -> Request {
    let question = json!({ "question": "Which?", "options": [{ "value": "a" }] });
    Request {
        id: RequestId { run: RunId::from_bits(1), key: RequestKey::new(5, 0) },
        call: Some(dormouse_domain::CallKey::new(2, 0)),
        kind,
        status: RequestStatus::Pending,
        owner: ann().principal,
        approvers: None,
        tool: Some("t".into()),
        budget: None,
        summary: "t()".into(),
        arguments: json!({}),
        digest: Digest::of(b"arguments"),
        secret: vec![],
        builtin: None,
        mutates: true,
        question: (kind == RequestKind::Question).then(|| Question::read(&question).unwrap()),
        always: None,
        decisions: DecisionKind::offered(kind),
        reasons: vec![],
        agents: vec![],
        repeats: dormouse_domain::run::Repeats::default(),
        opened_at: Millis(0),
        windows: Windows { wait_until: Millis(100), decide_by: Millis(200) },
        decision: None,
    }
}

fn make(request: &Request, by: &Caller, wanted: Option<&[DecisionKind]>) -> Result<Link, Unlinked> {
    Link::make(TokenId::from_bits(1), request, by, wanted, 1_000, NOW)
}

fn judge(link: &Link, request: &Request, answer: &Answer, now: Millis) -> Result<Decision, Refusal> {
    link.check(request, answer, now, &|_| Ok(()))
}

fn blank(kind: DecisionKind) -> Answer {
    Answer::new(kind)
}

#[test]
fn x6_a_link_gives_out_what_settles_this_request_and_no_more() {
    let kinds = [RequestKind::Approval, RequestKind::Question, RequestKind::Uncertain, RequestKind::Budget];
    let given = kinds.map(|kind| make(&request(kind), &ann(), None).unwrap().decisions);
    use DecisionKind::{Always, Answer, Approve, Deny, Edit, Raise, Settle, Stop};
    assert_eq!(given, [vec![Approve, Deny], vec![Answer], vec![Settle], vec![Stop]]);
    let approval = request(RequestKind::Approval);
    assert_eq!(make(&approval, &ann(), Some(&[Deny])).unwrap().decisions, [Deny]);
    for wanted in [[Edit], [Answer], [Always], [Raise]] {
        let refused = make(&approval, &ann(), Some(&wanted));
        let offered = vec![Approve, Deny];
        assert_eq!(refused, Err(Unlinked::Refused(Refusal::NotOffered { given: wanted[0], offered })));
    }
    let nothing = Request { decisions: vec![Edit], ..approval };
    assert_eq!(make(&nothing, &ann(), None), Err(Unlinked::NothingToGive));
}

#[test]
fn x6_a_link_is_good_for_its_hour_and_not_longer_than_the_request() {
    let approval = request(RequestKind::Approval);
    assert_eq!(make(&approval, &ann(), None).unwrap().expires_at, Millis(200));
    let short = Link::make(TokenId::from_bits(1), &approval, &ann(), None, 10, NOW).unwrap();
    assert_eq!(short.expires_at, Millis(60));
    let deny = blank(DecisionKind::Deny);
    assert_eq!(judge(&short, &approval, &deny, Millis(60)), Ok(Decision::Deny { reason: None }));
    assert_eq!(judge(&short, &approval, &deny, Millis(61)), Err(Refusal::LinkExpired));
    assert_eq!(short.shows(&approval, Millis(61)), Err(Refusal::LinkExpired));
}

/// A16: who could not decide it gives out no link to it; and nobody does to what is over.
#[test]
fn a16_a_link_is_made_by_who_may_decide() {
    let bob: Caller = Principal { tenant: "acme".into(), subject: "bob".into() }.into();
    let approval = request(RequestKind::Approval);
    assert_eq!(make(&approval, &bob, None), Err(Unlinked::Refused(Refusal::NotFound)));
    let approvers = Approvers { group: "sre".into(), not_requester: true };
    let grouped = Request { approvers: Some(approvers.clone()), ..approval.clone() };
    assert_eq!(make(&grouped, &ann(), None), Err(Unlinked::Refused(Refusal::NotEntitled(approvers))));
    let over = Request { status: RequestStatus::Cancelled, ..approval };
    assert_eq!(make(&over, &ann(), None), Err(Unlinked::Refused(Refusal::Gone(RequestStatus::Cancelled))));
}

/// A16: it decides in its maker's name, who was in the group then; no other tenant's group of that name, and never
/// for whose run it is where the file says "not the requester".
#[test]
fn a16_a_link_decides_with_its_makers_right_only() {
    let sue = |tenant: &str| Caller {
        principal: Principal { tenant: tenant.into(), subject: "sue".into() },
        groups: ["sre".to_owned()].into(),
    };
    let approvers = Some(Approvers { group: "sre".into(), not_requester: true });
    let grouped = Request { approvers, ..request(RequestKind::Approval) };
    let made = make(&grouped, &sue("acme"), None).unwrap();
    let approve = blank(DecisionKind::Approve);
    assert_eq!(judge(&made, &grouped, &approve, NOW), Ok(Decision::Approve));
    for issuer in [sue("globex").principal, ann().principal] {
        let forged = Link { issuer, ..made.clone() };
        assert!(judge(&forged, &grouped, &approve, NOW).is_err());
    }
    // A link to a request of one's own is none to one that a group decides.
    let own = Link { issuer: sue("acme").principal, ..made };
    assert_eq!(judge(&own, &request(RequestKind::Approval), &approve, NOW), Err(Refusal::NotFound));
}

/// E2: the digest is the link's, and of what is stored.
#[test]
fn e2_a_link_is_for_what_its_maker_was_shown() {
    let approval = request(RequestKind::Approval);
    let (approve, deny) = (blank(DecisionKind::Approve), blank(DecisionKind::Deny));
    assert_eq!(judge(&link(), &approval, &approve, NOW), Ok(Decision::Approve));
    let with = |digest: &Digest| Answer { digest: Some(digest.to_string()), ..approve.clone() };
    assert_eq!(judge(&link(), &approval, &with(&approval.digest), NOW), Ok(Decision::Approve));
    assert_eq!(judge(&link(), &approval, &with(&Digest::of(b"x")), NOW), Err(Refusal::DigestMismatch));
    let other = Request { digest: Digest::of(b"other"), ..approval };
    for answer in [&approve, &with(&other.digest), &deny] {
        assert_eq!(judge(&link(), &other, answer, NOW), Err(Refusal::DigestMismatch));
    }
    assert_eq!(link().shows(&other, NOW), Err(Refusal::DigestMismatch));
}

/// What a token says it can decide is not believed beyond what a link can give, nor what the request offers.
#[test]
fn x6_a_link_decides_nothing_but_what_it_was_made_for() {
    let approval = request(RequestKind::Approval);
    let deny_only = Link { decisions: vec![DecisionKind::Deny], ..link() };
    let refused = judge(&deny_only, &approval, &blank(DecisionKind::Approve), NOW);
    let offered = vec![DecisionKind::Deny];
    assert_eq!(refused, Err(Refusal::NotOffered { given: DecisionKind::Approve, offered }));
    let all = Link { decisions: approval.decisions.clone(), ..link() };
    let edit = Answer { arguments: Some(json!({ "x": 1 })), ..blank(DecisionKind::Edit) };
    assert!(matches!(judge(&all, &approval, &edit, NOW), Err(Refusal::NotOffered { .. })));
    assert_eq!(all.shows(&approval, NOW).unwrap().decisions, [DecisionKind::Approve, DecisionKind::Deny]);
    assert!(![DecisionKind::Edit, DecisionKind::Always, DecisionKind::Raise].into_iter().any(shareable));
    let retry = Answer { resolution: Some(Resolution::Retry), ..blank(DecisionKind::Settle) };
    let uncertain = request(RequestKind::Uncertain);
    let settle = Link { decisions: vec![DecisionKind::Settle], ..link() };
    assert_eq!(judge(&settle, &uncertain, &retry, NOW), Ok(Decision::Settle { resolution: Resolution::Retry }));
}

/// C4: used up by the decision, through whatever it came.
#[test]
fn c4_a_link_to_what_is_decided_says_what_stands() {
    let via = Some(Via::Link { id: TokenId::from_bits(9) });
    let settled = Settled { decision: Decision::Approve, by: ann().principal, at: Millis(7), via };
    let (status, decision) = (RequestStatus::Decided, Some(settled.clone()));
    let decided = Request { status, decision, ..request(RequestKind::Approval) };
    let again = judge(&link(), &decided, &blank(DecisionKind::Deny), NOW);
    assert_eq!(again, Err(Refusal::AlreadyDecided(Box::new(settled.clone()))));
    assert_eq!(link().shows(&decided, NOW).unwrap().decision, Some(settled));
}

/// A18: decisions of earlier releases have no `via`, and neither have those of who signed in.
#[test]
fn a18_a_decision_says_by_what_way_it_came() {
    let stored = json!({ "decision": "approve", "by": { "tenant": "acme", "subject": "ann" }, "at": 7 });
    let plain: Settled = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!((plain.via.clone(), serde_json::to_value(&plain).unwrap()), (None, stored));
    let linked = Settled { via: Some(Via::Link { id: TokenId::from_bits(9) }), ..plain };
    let stored = serde_json::to_value(&linked).unwrap();
    assert_eq!(stored["via"], json!({ "link": { "id": "00000000000000000000000000000009" } }));
    assert_eq!(serde_json::from_value::<Settled>(stored).unwrap(), linked);
}
