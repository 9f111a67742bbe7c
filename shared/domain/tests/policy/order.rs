//! The order of authority (A7): every mode, kind, permission, deny rule, floor and standing rule, against a
//! table that was written down and not computed.

use dormouse_domain::{
    Mode, ToolDef,
    agent::{Permission as P, ToolKind},
    policy::{Asked, Policy, RuledBy, Verdict, authorize, forbidden},
};
use serde_json::json;

use crate::{ask, exactly, policy, tool};

const MODES: [Mode; 4] = [Mode::Plan, Mode::Normal, Mode::AutoEdit, Mode::Yolo];

/// A tool, and what becomes of its calls in the four modes: allowed, asked about, denied. First with nothing
/// more to say, then with a standing rule, on the floor, and both.
const TABLE: [(ToolKind, Option<P>, [&str; 4]); 12] = [
    (ToolKind::Read, None, ["aaaa", "aaaa", "????", "????"]),
    (ToolKind::Edit, None, ["d?aa", "daaa", "d???", "d???"]),
    (ToolKind::Execute, None, ["d??a", "daaa", "d???", "d???"]),
    (ToolKind::Read, Some(P::Allow), ["aaaa", "aaaa", "????", "????"]),
    (ToolKind::Edit, Some(P::Allow), ["daaa", "daaa", "d???", "d???"]),
    (ToolKind::Execute, Some(P::Allow), ["daaa", "daaa", "d???", "d???"]),
    (ToolKind::Read, Some(P::Ask), ["???a", "aaaa", "????", "????"]),
    (ToolKind::Edit, Some(P::Ask), ["d??a", "daaa", "d???", "d???"]),
    (ToolKind::Execute, Some(P::Ask), ["d??a", "daaa", "d???", "d???"]),
    (ToolKind::Read, Some(P::Deny), ["dddd", "dddd", "dddd", "dddd"]),
    (ToolKind::Edit, Some(P::Deny), ["dddd", "dddd", "dddd", "dddd"]),
    (ToolKind::Execute, Some(P::Deny), ["dddd", "dddd", "dddd", "dddd"]),
];

fn shown(verdict: Verdict) -> char {
    match verdict {
        Verdict::Allow => 'a',
        Verdict::Ask => '?',
        Verdict::Deny => 'd',
    }
}

/// A7, C1, C2, A12, case 18: 384 rows.
#[test]
fn a7_c1_c2_the_order_of_authority() {
    let mut rows = 0;
    let denies = policy(&[("t", &[("env", json!("prod*"))])], &[]);
    let floor = policy(&[], &[("t", &[("env", json!("staging"))])]);
    for (kind, permission, expected) in TABLE {
        let tool = tool("t", kind, permission);
        for (column, expected) in expected.into_iter().enumerate() {
            let (stands, floored) = (column % 2 == 1, column >= 2);
            for (mode, expected) in MODES.into_iter().zip(expected.chars()) {
                for denied in [false, true] {
                    let arguments = json!({"env": if denied { "production" } else { "staging" }});
                    let mut rules = denies.clone();
                    rules.extend(if floored { &floor } else { &denies });
                    let standing = [exactly("t", &arguments)];
                    let standing = if stands { &standing[..] } else { &[] };
                    let ruling = ask(&tool, &arguments, mode, &rules, standing);
                    let expected = if denied { 'd' } else { expected };
                    let row =
                        format!("{kind:?} {permission:?} {mode} denied={denied} floor={floored} standing={stands}");
                    assert_eq!(shown(ruling.verdict), expected, "{row}: {}", ruling.reason);
                    rows += 1;
                }
            }
        }
    }
    assert_eq!(rows, 384);
}

/// The step that ruled is named, and why, in words for a person.
#[test]
fn a7_a_ruling_says_which_step_ruled_and_why() {
    let execute = tool("deploy", ToolKind::Execute, None);
    let rules = policy(&[("deploy", &[("env", json!("prod*"))])], &[("deploy", &[("env", json!("qa"))])]);
    let exact = [exactly("deploy", &json!({"env": "dev"}))];
    for (tool, env, mode, by, words) in [
        (execute.clone(), "Production", Mode::Yolo, RuledBy::Deny, ["a test says so", "argument env", "prod*"]),
        (execute.clone(), "dev", Mode::Plan, RuledBy::Plan, ["mode plan", "deploy", "changes"]),
        (execute.clone(), "qa", Mode::Yolo, RuledBy::Floor, ["safety floor", "a test says so", "argument env"]),
        (execute.clone(), "~/.ssh/id_rsa", Mode::Yolo, RuledBy::Floor, ["safety floor", "argument env", "ssh keys"]),
        (execute.clone(), "dev", Mode::Yolo, RuledBy::Yolo, ["yolo", "yolo", "yolo"]),
        (execute.clone(), "dev", Mode::Normal, RuledBy::Standing("rule_1".into()), ["rule_1", "ann", "standing"]),
        (
            ToolDef { permission: Some(P::Ask), ..execute.clone() },
            "x",
            Mode::Normal,
            RuledBy::Permission,
            ["agent file", "asks", "deploy"],
        ),
        (execute, "x", Mode::Normal, RuledBy::Default, ["mode normal", "asks", "deploy"]),
    ] {
        let ruling = ask(&tool, &json!({"env": env}), mode, &rules, &exact);
        assert_eq!(ruling.by, by, "{}", ruling.reason);
        assert!(words.iter().all(|word| ruling.reason.contains(word)), "{}", ruling.reason);
    }
}

/// E5 and case 12: what a person made of the arguments is held to the deny rules, frozen and current.
#[test]
fn e5_case_12_edited_arguments_are_held_to_the_deny_rules() {
    let deploy = tool("deploy", ToolKind::Execute, Some(P::Allow));
    let denied = tool("deploy", ToolKind::Execute, Some(P::Deny));
    let none = Policy::default();
    let prod = policy(&[("deploy", &[("env", json!("prod*"))])], &[]);
    let shop = policy(&[("*", &[("service", json!({"equals": "shop"}))])], &[]);
    let floor = policy(&[], &[("deploy", &[])]);
    for (tool, policies, edited, expected) in [
        (&deploy, [&none, &none], json!({"env": "prod"}), false),
        (&deploy, [&prod, &none], json!({"env": "staging"}), false),
        (&deploy, [&prod, &none], json!({"env": "prod"}), true),
        (&deploy, [&none, &prod], json!({"env": "prod"}), true),
        (&deploy, [&none, &prod], json!({"env": "PROD-eu"}), true),
        (&deploy, [&none, &prod], json!({"env": "\u{ff50}rod"}), true),
        (&deploy, [&none, &prod], json!({"env": ["a", "prod"]}), true),
        (&deploy, [&none, &prod], json!({"other": "prod"}), false),
        (&deploy, [&prod, &shop], json!({"env": "dev", "service": "shop"}), true),
        (&deploy, [&prod, &shop], json!({"env": "dev", "service": "shop2"}), false),
        (&deploy, [&floor, &none], json!({"env": "prod"}), false),
        (&denied, [&none, &none], json!({"env": "dev"}), true),
    ] {
        let found = forbidden(tool, &edited, &policies);
        assert_eq!(found.is_some(), expected, "{edited}: {found:?}");
        // No mode and no permission has a say in it.
        for mode in MODES {
            let asked =
                Asked { tool, arguments: &edited, mode, policies: &policies, standing: &[exactly("deploy", &edited)] };
            let ruling = authorize(&asked);
            assert!(!expected || (ruling.verdict, ruling.by) == (Verdict::Deny, RuledBy::Deny), "{edited} {mode}");
        }
    }
}
