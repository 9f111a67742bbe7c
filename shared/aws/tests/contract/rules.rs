//! Standing rules: made with their decision, listed by scope, revoked once (A12).

use dormouse_domain::{
    Digest, Millis, Principal, RequestId, RequestKey,
    policy::{Covered, Revoked, Scope, StandingRule},
};
use dormouse_engine::ports::{Commit, Store as _, StoreError, WriteError};

use crate::{
    bed::{Bed, NOW},
    samples::{commit, entry, principal, run},
    wire::Fault,
};

fn rule(id: &str, scope: Scope, at: Millis) -> StandingRule {
    StandingRule {
        id: id.to_owned(),
        tenant: principal("ann").tenant,
        scope,
        agent: "ops".into(),
        tool: "deploy".into(),
        what: Covered::Exact(Digest::of(b"dev")),
        about: "deploy(env: \"dev\")".into(),
        owner: principal("ann"),
        group: Some("sre".into()),
        from: RequestId { run: run(1), key: RequestKey::new(3, 0) },
        by: principal("sue"),
        at,
        revoked: None,
    }
}

async fn made(bed: &Bed, rule: &StandingRule) {
    let write = Commit { rule: Some(rule.clone()), ..commit(&run(1), &rule.id) };
    bed.store.commit(&write).await.unwrap();
}

fn ann() -> Scope {
    Scope::Owner(principal("ann"))
}

fn revoked(by: &str) -> Revoked {
    Revoked { by: principal(by), at: NOW }
}

#[tokio::test]
async fn a12_the_rules_of_a_scope_are_listed_oldest_first() {
    let bed = Bed::new().await;
    let tenant = principal("ann").tenant;
    let pattern = serde_json::from_value(serde_json::json!({ "env": "qa-*" })).unwrap();
    let newer = StandingRule { what: Covered::Pattern(pattern), group: None, ..rule("owner.a", ann(), NOW.plus(1)) };
    let rules = [newer.clone(), rule("owner.b", ann(), NOW), rule("run.a", Scope::Run(run(1)), NOW)];
    for rule in &rules {
        made(&bed, rule).await;
    }
    let agents = rule("agent.a", Scope::Agent("ops".into()), NOW);
    made(&bed, &agents).await;
    assert_eq!(bed.store.rules(&tenant, &ann()).await.unwrap(), [rules[1].clone(), newer]);
    assert_eq!(bed.store.rules(&tenant, &Scope::Run(run(1))).await.unwrap(), [rules[2].clone()]);
    assert_eq!(bed.store.rules(&tenant, &agents.scope).await.unwrap(), [agents]);
    // A scope is one thing of one tenant: nothing of a name slips into another.
    let none: [StandingRule; 0] = [];
    for (tenant, scope) in [
        ("globex", ann()),
        (tenant.as_str(), Scope::Owner(principal("bob"))),
        (tenant.as_str(), Scope::Run(run(2))),
        (tenant.as_str(), Scope::Agent("op".into())),
        (tenant.as_str(), Scope::Agent("ann".into())),
        (tenant.as_str(), Scope::Agent("ops#owner".into())),
        (tenant.as_str(), Scope::Owner(principal("ops"))),
        ("", Scope::Agent("x".repeat(3000))),
    ] {
        assert_eq!(bed.store.rules(tenant, &scope).await.unwrap(), none, "{tenant} {scope:?}");
    }
}

/// The rule and what it is written with are one transaction: neither is there alone.
#[tokio::test]
async fn a12_a_rule_is_made_with_its_decision_or_not_at_all() {
    let bed = Bed::new().await;
    let tenant = principal("ann").tenant;
    bed.store.append(&run(1), &entry(0, "theirs")).await.unwrap();
    let lost =
        Commit { entries: vec![entry(0, "ours")], rule: Some(rule("owner.a", ann(), NOW)), ..commit(&run(1), "ours") };
    assert!(matches!(bed.store.commit(&lost).await, Err(WriteError::LostIndex)));
    assert_eq!(bed.store.rules(&tenant, &ann()).await.unwrap().len(), 0);
    made(&bed, &rule("owner.a", ann(), NOW)).await;
    let again = Commit {
        entries: vec![entry(1, "again")],
        rule: Some(rule("owner.a", ann(), NOW)),
        ..commit(&run(1), "again")
    };
    assert!(matches!(bed.store.commit(&again).await, Err(WriteError::RequestCondition)));
    assert_eq!(bed.store.load(&run(1), 0).await.unwrap().len(), 1);
}

/// Revoked once, by whoever was first; a lost reply is not a second revocation.
#[tokio::test]
async fn a12_a_rule_is_revoked_once() {
    let bed = Bed::new().await;
    let tenant = principal("ann").tenant;
    made(&bed, &rule("owner.a", ann(), NOW)).await;
    assert!(!bed.store.revoke(&tenant, &ann(), "owner.b", &revoked("ann")).await.unwrap(), "there is none");
    assert!(!bed.store.revoke("globex", &ann(), "owner.a", &revoked("ann")).await.unwrap());
    bed.wire.plan("UpdateItem", Fault::LoseReply);
    assert!(bed.store.revoke(&tenant, &ann(), "owner.a", &revoked("ann")).await.unwrap());
    assert!(!bed.store.revoke(&tenant, &ann(), "owner.a", &revoked("sue")).await.unwrap(), "Ann was first");
    let listed = bed.store.rules(&tenant, &ann()).await.unwrap();
    assert_eq!(listed, [StandingRule { revoked: Some(revoked("ann")), ..rule("owner.a", ann(), NOW) }]);
}

/// What cannot be read is no empty list.
#[tokio::test]
async fn i11_rules_that_cannot_be_read_are_an_error() {
    let bed = Bed::new().await;
    let tenant: Principal = principal("ann");
    for _ in 0..8 {
        bed.wire.plan("Query", Fault::Replace(500));
    }
    let failed = bed.store.rules(&tenant.tenant, &ann()).await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
}
