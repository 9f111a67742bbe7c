//! Standing rules: what they cover (A12, case 9).

use std::collections::BTreeMap;

use dormouse_domain::{
    Principal, RunId, ToolDef,
    agent::ToolKind,
    plan::call_digest,
    policy::{Covered, Matcher, Reading, rule_digest},
};
use serde_json::{Value, json};

use crate::{exactly, standing, tool};

fn pattern(matchers: &[(&str, Value)]) -> Covered {
    let matchers = matchers.iter().map(|(path, matcher)| {
        let matcher: Matcher = serde_json::from_value(matcher.clone()).unwrap();
        ((*path).to_owned(), matcher)
    });
    Covered::Pattern(matchers.collect())
}

#[test]
fn an_exact_rule_covers_one_call() {
    let (given, deploy) = (json!({"env": "dev", "n": 1}), tool("deploy", ToolKind::Execute, None));
    let rule = exactly("deploy", &given);
    assert!(rule.covers(&deploy, &given));
    assert!(rule.covers(&deploy, &json!({"n": 1.0, "env": "dev"})));
    for other in
        [json!({"env": "dev"}), json!({"env": "Dev", "n": 1}), json!({"env": "dev", "n": 1, "x": null}), json!({})]
    {
        assert!(!rule.covers(&deploy, &other), "{other}");
    }
    assert!(!rule.covers(&tool("deploy2", ToolKind::Execute, None), &given));
    assert!(!rule.covers(&tool("Deploy", ToolKind::Execute, None), &given));
}

/// The digest of a standing rule is no other digest, nor another tool's.
#[test]
fn a_rules_digest_is_its_own() {
    let given = json!({"x": 1});
    let owner = Principal { tenant: "t".into(), subject: "s".into() };
    let digest = rule_digest("t", &given).unwrap();
    assert_ne!(digest, call_digest(&owner, &RunId::from_bits(1), "t", &given).unwrap());
    assert_ne!(digest, rule_digest("u", &given).unwrap());
    assert_ne!(rule_digest("t", &json!({"a": "b\n"})).unwrap(), rule_digest("t", &json!({"a\n": "b"})).unwrap());
}

#[test]
fn a_pattern_covers_what_it_says_and_nothing_beside() {
    let deploy = ToolDef {
        arguments: BTreeMap::from([("note".to_owned(), Reading::Text)]),
        ..tool("deploy", ToolKind::Execute, None)
    };
    let rule = standing("deploy", pattern(&[("env", json!("dev-*")), ("n", json!({"equals": 1}))]));
    for (arguments, expected) in [
        (json!({"env": "dev-eu", "n": 1}), true),
        (json!({"env": "dev-eu", "n": 1, "note": "whatever; rm -rf /"}), true),
        (json!({"env": "dev-eu", "n": 2}), false),
        (json!({"env": "dev-eu"}), false),
        (json!({"env": "dev-eu", "n": 1, "force": true}), false),
        (json!({"env": "prod", "n": 1}), false),
        (json!({"env": "DEV-eu", "n": 1}), false),
        (json!({"env": "dev-eu\u{200b}", "n": 1}), false),
        (json!({"env": "dev-\u{435}u", "n": 1}), false),
        (json!({"env": "dev-eu ", "n": 1}), false),
        (json!({"env": "dev-eu\nprod", "n": 1}), false),
        (json!({"env": ["dev-eu", "prod"], "n": 1}), false),
        (json!({"env": {"x": "dev-eu"}, "n": 1}), false),
    ] {
        assert_eq!(rule.covers(&deploy, &arguments), expected, "{arguments}");
    }
    assert!(!standing("deploy", pattern(&[])).covers(&deploy, &json!({})));
    assert!(!standing("deploy", pattern(&[])).covers(&deploy, &json!({"note": "x"})));
}

#[test]
fn a_path_is_covered_only_if_it_is_written_plainly() {
    let write = tool("write", ToolKind::Edit, None);
    let rule = standing("write", pattern(&[("path", json!({"path": "docs/**"}))]));
    for (path, expected) in [
        ("docs/a.md", true),
        ("docs/a/b.md", true),
        ("docs/../src/a.rs", false),
        ("docs/./a.md", false),
        ("docs//a.md", false),
        ("./docs/a.md", false),
        ("/docs/a.md", false),
        ("Docs/a.md", false),
        ("docs\\a.md", false),
        ("docs/%2e%2e/a", false),
        ("docs/$X", false),
        ("docs/*", false),
        ("docs/a.", false),
        ("x/docs/a.md", false),
        ("docs", false),
    ] {
        assert_eq!(rule.covers(&write, &json!({"path": path})), expected, "{path}");
    }
}

/// Case 9: what runs commands is never generalised, by whatever name the command goes.
#[test]
fn case_9_a_command_is_never_generalised() {
    let any = json!("*");
    for (name, argument) in [
        ("run", "command"),
        ("run", "cmd"),
        ("run", "args"),
        ("bash", "input"),
        ("run_command", "what"),
        ("x", "shellScript"),
    ] {
        let tool = tool(name, ToolKind::Execute, None);
        let rule = standing(name, pattern(&[(argument, any.clone())]));
        assert!(!rule.covers(&tool, &json!({argument: "ls"})), "{name} {argument}");
        let given = json!({argument: "ls"});
        assert!(exactly(name, &given).covers(&tool, &given), "exactly: {name} {argument}");
    }
    // Declared as one, or on offer in the schema, though this call has none.
    let declared = ToolDef {
        arguments: BTreeMap::from([("q".to_owned(), Reading::Command)]),
        ..tool("x", ToolKind::Execute, None)
    };
    let offered = ToolDef {
        input_schema: json!({"type": "object", "properties": {"o": {"properties": {"cmd": {}}}}}),
        ..tool("x", ToolKind::Execute, None)
    };
    for tool in [declared, offered] {
        assert!(!standing("x", pattern(&[("n", any.clone())])).covers(&tool, &json!({"n": "1"})));
    }
    // Nor does a rule that speaks of commands or hosts ever allow.
    let plain = tool("x", ToolKind::Execute, None);
    for matcher in [json!({"command": "ls *"}), json!({"host": "example.com"})] {
        assert!(!standing("x", pattern(&[("n", matcher)])).covers(&plain, &json!({"n": "ls"})));
    }
}
