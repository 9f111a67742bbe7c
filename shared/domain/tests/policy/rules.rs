//! Deny rules: what they match.

use std::collections::BTreeMap;

use dormouse_domain::{
    Mode, ToolDef,
    agent::ToolKind,
    policy::{Policy, Reading, Rule, Verdict},
};
use serde_json::{Value, json};

use crate::{ask, policy, rule, tool};

fn denies(args: &[(&str, Value)], arguments: &Value) -> bool {
    rule(("t", args)).refuses(&tool("t", ToolKind::Execute, None), arguments)
}

#[test]
fn a_rule_matches_its_arguments_however_they_are_written() {
    for (path, matcher, arguments, expected) in [
        ("env", json!("prod*"), json!({"env": "production"}), true),
        ("env", json!("prod*"), json!({"env": " PROD"}), true),
        ("env", json!("prod*"), json!({"env": "pr\u{200b}od"}), true),
        ("env", json!("prod*"), json!({"env": "pr\u{43e}d"}), true),
        ("env", json!("prod*"), json!({"env": "%70rod"}), true),
        ("env", json!("prod*"), json!({"env": "preprod"}), false),
        ("env", json!("*prod*"), json!({"env": "a/prod/b"}), true),
        ("env", json!("prod*"), json!({}), false),
        ("env", json!("prod*"), json!({"env": {"name": "prod"}}), true),
        ("env.name", json!("prod*"), json!({"env": {"name": "prod"}}), true),
        ("env.name", json!("prod*"), json!({"env": {"other": "prod"}}), false),
        ("en", json!("prod*"), json!({"env": "prod"}), false),
        ("*", json!("prod*"), json!({"a": {"b": ["x", "prod"]}}), true),
        ("n", json!("5*"), json!({"n": 50}), true),
        ("n", json!({"equals": 5}), json!({"n": 5.0}), true),
        ("n", json!({"equals": "Prod"}), json!({"n": "prod"}), true),
        ("n", json!({"equals": true}), json!({"n": false}), false),
        ("file", json!({"path": "/srv/prod/**"}), json!({"file": "/srv/x/../prod/a"}), true),
        ("file", json!({"path": "/srv/prod/**"}), json!({"file": "/srv/dev/a"}), false),
        ("file", json!({"path": "billing/**/*.sql"}), json!({"file": "db/Billing/a/b.SQL"}), true),
        ("file", json!({"path": "**"}), json!({"file": "a/b"}), true),
        ("file", json!({"path": "**/b/**/d"}), json!({"file": "a/b/x/y/d/e"}), true),
        ("file", json!({"path": "**/b/**/d"}), json!({"file": "b/d"}), true),
        ("file", json!({"path": "**/b/**/d"}), json!({"file": "d/b"}), false),
        ("file", json!({"path": "a/b"}), json!({"file": "a/a/b"}), true),
        ("file", json!({"path": "a/b"}), json!({"file": "a/x/b"}), false),
        ("file", json!({"path": "data*"}), json!({"file": "*.csv"}), true),
        ("file", json!({"path": "data*"}), json!({"file": "*"}), false),
        ("url", json!({"host": "*.corp.example"}), json!({"url": "https://x@Wiki.Corp.example.:8443/a"}), true),
        ("url", json!({"host": "*.corp.example"}), json!({"url": "https://example.com/wiki.corp.example"}), false),
    ] {
        assert_eq!(denies(&[(path, matcher.clone())], &arguments), expected, "{path} {matcher} {arguments}");
    }
}

/// Case 10: a command is found behind whatever starts it.
#[test]
fn case_10_a_command_is_found_wherever_it_stands() {
    for (pattern, command, expected) in [
        ("rm -rf *", "rm -rf x", true),
        ("rm -rf *", "rm -r -f x", true),
        ("rm -rf *", "rm -fr x", true),
        ("rm -rf *", "rm --recursive --force x", true),
        ("rm -rf *", "rm x", false),
        ("rm -rf *", "/bin/RM -rf x", true),
        ("rm -rf *", "sudo -u root rm -rf x", true),
        ("rm -rf *", "ls; env A=b nohup rm -rf x &", true),
        ("rm -rf *", "bash -c 'rm -rf x'", true),
        ("rm -rf *", "find . -exec rm -rf {} +", true),
        ("rm -rf *", "echo x | xargs rm", true),
        ("rm -rf *", "f() { rm -rf x; }; f", true),
        ("rm -rf *", "r\"\"m -rf x", true),
        ("rm -rf *", "r$X -rf x", true),
        ("rm -rf *", "echo 'rm -rf x'", false),
        ("rm -rf *", "grep rm -rf x", false),
        ("rm -rf *", "echo $X", false),
        ("git push *", "git push origin main", true),
        ("git push --force *", "git push origin --force", true),
        ("git push *", "git pull", false),
        ("kubectl delete *", "kubectl -n x delete pod y", true),
        ("sudo *", "/usr/bin/sudo ls", true),
        ("sudo *", "ls sudo", false),
        ("*", "ls", true),
    ] {
        let rule = rule(("t", &[("command", json!({"command": pattern}))]));
        let found = rule.refuses(&tool("t", ToolKind::Execute, None), &json!({"command": command}));
        assert_eq!(found, expected, "{pattern}: {command}");
    }
}

/// All that a rule says must hold; without arguments it is about every call.
#[test]
fn a_rule_holds_as_a_whole() {
    let both = [("env", json!("prod")), ("force", json!({"equals": true}))];
    assert!(denies(&both, &json!({"env": "prod", "force": true})));
    assert!(!denies(&both, &json!({"env": "prod"})));
    assert!(!denies(&both, &json!({"env": "dev", "force": true})));
    assert!(denies(&[], &json!({})));
    // Prose is looked into by a rule that names it, not by one about any argument.
    let prose = ToolDef { arguments: BTreeMap::from([("m".into(), Reading::Text)]), ..tool("t", ToolKind::Read, None) };
    assert!(rule(("t", &[("m", json!("*secret*"))])).refuses(&prose, &json!({"m": "a secret"})));
    assert!(!rule(("t", &[("*", json!("*secret*"))])).refuses(&prose, &json!({"m": "a secret"})));
}

#[test]
fn a_rule_names_tools_by_pattern() {
    let about = |pattern: &str, tool: &str| Rule { tool: pattern.into(), ..rule(("t", &[])) }.is_about(tool);
    assert!(about("deploy", "deploy") && about("*", "deploy") && about("dep*", "deploy") && about("DEPLOY", "deploy"));
    assert!(!about("deploy", "deploy2") && !about("", "deploy"));
}

/// Case 12 and A7: the rules of today count beside those that were frozen, and nothing that allows counts more.
#[test]
fn case_12_deny_wins_over_every_kind_of_allow() {
    let none = Policy::default();
    let prod = policy(&[("*", &[("*", json!("prod"))])], &[]);
    let tool = tool("t", ToolKind::Read, Some(dormouse_domain::agent::Permission::Allow));
    let arguments = json!({"x": "prod"});
    assert_eq!(ask(&tool, &arguments, Mode::Yolo, &none, &[]).verdict, Verdict::Allow);
    assert_eq!(ask(&tool, &arguments, Mode::Yolo, &prod, &[crate::exactly("t", &arguments)]).verdict, Verdict::Deny);
}

/// A18 and case 14: rules survive their stored form, and a policy of an earlier release has none.
#[test]
fn case_14_rules_survive_their_stored_form() {
    let policy = policy(
        &[(
            "deploy",
            &[("env", json!("prod*")), ("a.b", json!({"path": "~/.x"})), ("c", json!({"equals": {"d": [1]}}))],
        )],
        &[("*", &[("*", json!({"host": "h"})), ("e", json!({"command": "rm *"}))])],
    );
    let stored = serde_json::to_string(&policy).unwrap();
    assert_eq!(serde_json::from_str::<Policy>(&stored).unwrap(), policy);
    assert_eq!(serde_json::from_str::<Policy>("{}").unwrap(), Policy::default());
    for matcher in [json!({"path": "a", "host": "b"}), json!({"glob": "a"}), json!(5)] {
        let stored = json!({"deny": [{"tool": "t", "args": {"x": matcher}, "because": "b"}]});
        assert!(serde_json::from_value::<Policy>(stored).is_err());
    }
}

/// The work that a rule makes is bounded, whatever it and the argument look like.
#[test]
fn a_rule_is_never_slow() {
    let pattern = "**/a/".repeat(100);
    let path = "a/".repeat(2_000);
    assert!(!denies(&[("file", json!({"path": format!("{pattern}b")}))], &json!({"file": path})));
    let stars = "a*".repeat(200);
    assert!(!denies(&[("x", json!(format!("{stars}b")))], &json!({"x": "a".repeat(20_000)})));
}

/// The floor is written down for people as it is.
#[test]
fn c2_the_floor_stands_in_the_documentation() {
    let doc = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/policy.md")).unwrap();
    for (what, names) in dormouse_domain::policy::floor_list() {
        let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        let row = format!("| {what} | {} |", names.join(", "));
        assert!(doc.contains(&row), "docs/policy.md lacks: {row}");
    }
}
