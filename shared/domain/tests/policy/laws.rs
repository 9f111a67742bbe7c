//! Laws of policy, over random calls and rules.

use std::collections::BTreeMap;

use dormouse_domain::{
    Definition, Mode, ToolDef,
    agent::{Permission, ToolKind},
    agent_file,
    delegate::held_to,
    policy::{Policy, Reading, Rule, Verdict},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{ask, exactly, rule, tool};

const MODES: [Mode; 4] = [Mode::Plan, Mode::Normal, Mode::AutoEdit, Mode::Yolo];
const READINGS: [Reading; 5] = [Reading::Any, Reading::Text, Reading::Path, Reading::Command, Reading::Url];

/// An agent without rules of its own.
fn agent() -> Definition {
    agent_file::parse("models = [\"a:b\"]", "ops", 600_000).unwrap()
}

fn some_tool() -> impl Strategy<Value = ToolDef> {
    let kind = prop::sample::select(vec![ToolKind::Read, ToolKind::Edit, ToolKind::Execute]);
    let permission = prop::option::of(prop::sample::select(vec![Permission::Allow, Permission::Ask, Permission::Deny]));
    let reading = prop::sample::select(READINGS.to_vec());
    (kind, permission, reading).prop_map(|(kind, permission, reading)| ToolDef {
        arguments: BTreeMap::from([("x".to_owned(), reading)]),
        ..tool("t", kind, permission)
    })
}

fn some_text() -> impl Strategy<Value = String> {
    let parts = prop::sample::select(vec![
        "cat", " ", ".env", "/", "..", "~", "$HOME", "$(", ")", "'", "\"", "\\", ";", "|", "<<", "\n", "sudo ",
        "rm -rf ", "*", "?", "[", "]", "{", ",", "}", "prod", "%2e", "http://", "x", "`", "&&", ">", "-c ", "bash ",
        "=", ":", "\u{435}",
    ]);
    prop_oneof![prop::collection::vec(parts, 0..12).prop_map(|parts| parts.concat()), "\\PC{0,20}"]
}

fn some_rule() -> impl Strategy<Value = Rule> {
    let matcher = prop::sample::select(vec![
        json!("prod*"),
        json!("*"),
        json!({"path": ".env*"}),
        json!({"path": "~/x"}),
        json!({"command": "rm -rf *"}),
        json!({"command": "cat *"}),
        json!({"host": "x"}),
        json!({"equals": "prod"}),
    ]);
    let path = prop::sample::select(vec!["x", "*", "y"]);
    let tool = prop::sample::select(vec!["t", "*", "u"]);
    (tool, path, matcher).prop_map(|(tool, path, matcher)| rule((tool, &[(path, matcher)])))
}

fn some_policy() -> impl Strategy<Value = Policy> {
    (prop::collection::vec(some_rule(), 0..2), prop::collection::vec(some_rule(), 0..2))
        .prop_map(|(deny, floor)| Policy { deny, floor })
}

proptest! {
    /// Adding a rule that refuses never allows more.
    #[test]
    fn a7_another_rule_never_allows_more(
        tool in some_tool(), text in some_text(), policy in some_policy(), added in some_rule(),
        mode in prop::sample::select(MODES.to_vec()), to_floor: bool, stands: bool,
    ) {
        let arguments = json!({"x": text});
        let standing = if stands { vec![exactly("t", &arguments)] } else { vec![] };
        let before = ask(&tool, &arguments, mode, &policy, &standing).verdict;
        let mut more = policy;
        if to_floor { more.floor.push(added) } else { more.deny.push(added) }
        prop_assert!(ask(&tool, &arguments, mode, &more, &standing).verdict >= before);
    }

    /// A narrower mode never allows more; a standing rule never refuses.
    #[test]
    fn c1_a_narrower_mode_never_allows_more(tool in some_tool(), text in some_text(), policy in some_policy(), stands: bool) {
        let arguments = json!({"x": text});
        let standing = if stands { vec![exactly("t", &arguments)] } else { vec![] };
        let verdicts = MODES.map(|mode| ask(&tool, &arguments, mode, &policy, &standing).verdict);
        prop_assert!(verdicts.is_sorted_by(|narrow, wide| narrow >= wide), "{verdicts:?}");
        let without = MODES.map(|mode| ask(&tool, &arguments, mode, &policy, &[]).verdict);
        prop_assert!(verdicts.iter().zip(&without).all(|(with, without)| with <= without));
    }

    /// A child never does what its parent may not: held to the parent's rules, and in no wider mode, it gets no milder
    /// verdict on any call, whatever its own agent's rules and modes are.
    #[test]
    fn d5_a_child_never_does_what_its_parent_may_not(
        tool in some_tool(), text in some_text(), of_parent in some_policy(), of_child in some_policy(),
        parent_mode in prop::sample::select(MODES.to_vec()), child_mode in prop::sample::select(MODES.to_vec()),
        stands: bool,
    ) {
        let arguments = json!({"x": text});
        let standing = if stands { vec![exactly("t", &arguments)] } else { vec![] };
        let parent = Definition { policy: of_parent, ..agent() };
        let child = held_to(Definition { policy: of_child.clone(), ..agent() }, &parent);
        let verdict = |mode: Mode, policy| ask(&tool, &arguments, mode, policy, &standing).verdict;
        let held = verdict(child_mode.min(parent_mode), &child.policy);
        prop_assert!(held >= verdict(parent_mode, &parent.policy), "wider than its parent");
        prop_assert!(held >= verdict(child_mode, &of_child), "wider than its own agent");
        let grandchild = held_to(agent(), &child);
        prop_assert!(verdict(child_mode.min(parent_mode), &grandchild.policy) >= verdict(parent_mode, &parent.policy));
    }

    /// Nothing that allows passes the floor: no mode, no permission, no standing rule, no rule of the agent's,
    /// and nothing that stands around the protected path.
    #[test]
    fn c2_nothing_passes_the_floor(
        tool in some_tool(), policy in some_policy(), mode in prop::sample::select(MODES.to_vec()),
        before in "([a-z]{1,8}/|\\.\\./|\\./|/){0,3}", after in "(/[a-z]{1,8}){0,2}",
        protected in prop::sample::select(vec![".env", ".ssh", "id_rsa", ".AWS", ".git/hooks", ".npmrc", "server.pem"]),
    ) {
        let path = format!("{before}{protected}{after}");
        let reading = tool.arguments["x"];
        prop_assume!(reading != Reading::Text);
        let text = if reading == Reading::Command { format!("cat {path}") } else { path };
        let arguments = json!({"x": text});
        let standing = [exactly("t", &arguments)];
        prop_assert!(ask(&tool, &arguments, mode, &policy, &standing).verdict > Verdict::Allow, "{text}");
    }

    /// A command stays found, whatever stands before and after it.
    #[test]
    fn case_10_what_is_wrapped_stays_found(
        wrappers in prop::collection::vec(prop::sample::select(vec![
            "sudo ", "env A=b ", "nohup ", "timeout 5 ", "time ", "true; ", "true && ", "x | ", "( ", "! ", "if ", "\n",
        ]), 0..6),
    ) {
        let closes = ")".repeat(wrappers.iter().filter(|wrapper| **wrapper == "( ").count());
        let command = format!("{}rm -rf x {closes}", wrappers.concat());
        let denies = rule(("t", &[("x", json!({"command": "rm -rf *"}))]));
        let tool = ToolDef { arguments: BTreeMap::from([("x".into(), Reading::Command)]), ..tool("t", ToolKind::Read, None) };
        prop_assert!(denies.refuses(&tool, &json!({"x": command})), "{command}");
    }

    /// Whatever is read, the reading comes to an end, and the same end each time.
    #[test]
    fn i12_any_text_is_ruled_on(tool in some_tool(), text in "\\PC{0,60}", tail in some_text(), policy in some_policy()) {
        let arguments: Value = json!({"x": [format!("{text}{tail}"), tail], "command": text});
        let ruling = ask(&tool, &arguments, Mode::Yolo, &policy, &[]);
        prop_assert_eq!(ask(&tool, &arguments, Mode::Yolo, &policy, &[]), ruling);
    }
}
