//! Policy: who has a say in what order, what the rules see, and what they do not.

#![allow(clippy::unwrap_used, reason = "helpers of a test")]

mod laws;
mod order;
mod rules;
mod spelled;
mod standing;

use dormouse_domain::{
    Millis, Mode, Principal, RequestId, RequestKey, RunId, ToolDef,
    agent::{Permission, Replay, Target, ToolKind},
    policy::{Asked, Covered, Policy, Rule, Ruling, Scope, StandingRule, authorize, rule_digest},
};
use serde_json::{Value, json};

/// A web service's tool of this name.
fn tool(name: &str, kind: ToolKind, permission: Option<Permission>) -> ToolDef {
    ToolDef {
        name: name.into(),
        description: String::new(),
        kind,
        permission,
        replay: Replay::Manual,
        reuse_result: false,
        timeout_ms: 1,
        input_schema: json!({"type": "object"}),
        arguments: std::collections::BTreeMap::new(),
        secret: vec![],
        always: std::collections::BTreeMap::new(),
        target: Target::Http { url: "http://x".into() },
        later: false,
        approvers: None,
    }
}

fn ask(tool: &ToolDef, arguments: &Value, mode: Mode, policy: &Policy, standing: &[StandingRule]) -> Ruling {
    authorize(&Asked { tool, arguments, mode, policies: &[policy], standing })
}

type Given<'a> = (&'a str, &'a [(&'a str, Value)]);

/// A rule about a tool, with what it says of its arguments.
fn rule((tool, args): Given<'_>) -> Rule {
    let args: serde_json::Map<_, _> =
        args.iter().map(|(path, matcher)| ((*path).to_owned(), matcher.clone())).collect();
    serde_json::from_value(json!({"tool": tool, "args": args, "because": "a test says so"})).unwrap()
}

fn policy(deny: &[Given<'_>], floor: &[Given<'_>]) -> Policy {
    Policy {
        deny: deny.iter().map(|given| rule(*given)).collect(),
        floor: floor.iter().map(|given| rule(*given)).collect(),
    }
}

fn standing(tool: &str, what: Covered) -> StandingRule {
    let run = RunId::from_bits(1);
    StandingRule {
        id: "rule_1".into(),
        tenant: "acme".into(),
        scope: Scope::Run(run.clone()),
        agent: "ops".into(),
        tool: tool.into(),
        what,
        about: "deploy".into(),
        owner: Principal { tenant: "acme".into(), subject: "ann".into() },
        group: None,
        from: RequestId { run, key: RequestKey::new(3, 0) },
        by: Principal { tenant: "acme".into(), subject: "ann".into() },
        at: Millis(7),
        revoked: None,
    }
}

/// A standing rule for exactly this call.
fn exactly(tool: &str, arguments: &Value) -> StandingRule {
    standing(tool, Covered::Exact(rule_digest(tool, arguments).unwrap()))
}

/// C3: a person reads why a call is refused or asked about; a secret is not quoted in it.
#[test]
fn c3_reasons_do_not_quote_secrets() {
    let mut login = tool("login", ToolKind::Execute, None);
    for (arguments, secret) in [
        (json!({ "password": "~/.ssh/hunter2" }), "password"),
        (json!({ "headers": { "~/.ssh/hunter2": "x", "auth": "cat ~/.ssh/hunter2" } }), "headers"),
        (json!({ "users": [{ "token": ".env.hunter2" }] }), "users.*.token"),
    ] {
        let quoting = ask(&login, &arguments, Mode::Yolo, &policy(&[], &[]), &[]);
        assert!(quoting.reason.contains("hunter2"), "the floor would quote it: {}", quoting.reason);
        login.secret = vec![secret.to_owned()];
        let ruling = ask(&login, &arguments, Mode::Yolo, &policy(&[], &[]), &[]);
        assert_eq!(ruling.verdict, quoting.verdict);
        assert!(!ruling.reason.contains("hunter2"), "{}", ruling.reason);
        login.secret.clear();
    }
}
