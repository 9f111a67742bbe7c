//! What agent files may say, at the edges: each row is a file that is taken, or the fault that it has.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by stopping")]

use std::collections::BTreeSet;

use dormouse_domain::{
    Definition,
    agent::{Replay, ToolKind},
    agent_file,
};
use serde_json::json;

/// What a tool call may take on the deployment of these tests, in milliseconds.
const STEP_MS: u64 = 150_000;
const DAY_MS: u64 = 86_400_000;

fn parse(text: &str) -> Result<Definition, Vec<String>> {
    let text = format!("models = [\"a:b\"]\n{text}");
    let parsed = agent_file::parse(&text, "ops", STEP_MS);
    parsed.map_err(|faults| faults.iter().map(ToString::to_string).collect())
}

/// Whether this file has a fault at `place` and no other.
fn is_fault_at(place: &str, text: &str) -> bool {
    match parse(text) {
        Ok(_) => false,
        Err(faults) => faults.len() == 1 && faults[0].starts_with(&format!("{place}: ")),
    }
}

/// A fault is told with its place, in the words of the file.
#[test]
fn faults_say_where_and_what() {
    let faults = parse("mode = \"yolo\"\nmax_mode = \"normal\"").unwrap_err();
    assert_eq!(faults, ["mode: yolo is wider than max_mode, normal"]);
    let faults = parse("mode = \"auto_edit\"\nmax_mode = \"plan\"").unwrap_err();
    assert_eq!(faults, ["mode: auto_edit is wider than max_mode, plan"]);
    for mode in ["plan", "normal", "auto_edit", "yolo"] {
        assert!(parse(&format!("mode = \"{mode}\"\nmax_mode = \"{mode}\"")).is_ok(), "{mode}");
    }
}

/// What a file does not say of times: a day for a person, and for a reply.
#[test]
fn times_that_are_not_stated() {
    let agent = parse("").unwrap();
    assert_eq!((agent.wait_ms, agent.decide_within_ms, agent.reply_within_ms), (DAY_MS, DAY_MS, DAY_MS));
    let agent = parse("decide_within = \"2h\"").unwrap();
    assert_eq!((agent.wait_ms, agent.decide_within_ms), (7_200_000, 7_200_000), "it waits as long as one can decide");
    let agent = parse("wait = \"2h\"\ndecide_within = \"2h\"").unwrap();
    assert_eq!((agent.wait_ms, agent.decide_within_ms), (7_200_000, 7_200_000));
    assert!(is_fault_at("wait", "wait = \"7201s\"\ndecide_within = \"2h\""));
}

/// A person has a second at least and 30 days at most, and so has a model; both edges included.
#[test]
fn how_long_a_person_and_a_model_may_take() {
    let file = |key: &str, span: &str| format!("wait = \"0s\"\n{key} = \"{span}\"");
    for (span, expected) in [("1s", 1_000), ("1000ms", 1_000), ("30d", 30 * DAY_MS), ("720h", 30 * DAY_MS)] {
        assert_eq!(parse(&file("decide_within", span)).unwrap().decide_within_ms, expected, "{span}");
        assert_eq!(parse(&file("reply_within", span)).unwrap().reply_within_ms, expected, "{span}");
    }
    for span in ["0s", "999ms", "2592000001ms", "31d"] {
        for key in ["decide_within", "reply_within"] {
            assert!(is_fault_at(key, &file(key, span)), "{key} = {span}");
        }
    }
}

/// Ceilings are above 0; a cost is any number above 0, whole or not.
#[test]
fn ceilings_are_numbers_above_0() {
    let agent = parse("[limits]\nturns = 1\ntokens = 2\ncost_usd = 0.5\nwall = \"3ms\"").unwrap();
    let limits = &agent.limits;
    assert_eq!((limits.turns, limits.tokens, limits.wall_ms), (1, 2, 3));
    for (cost, expected) in [("0.01", 0.01), ("1", 1.0), ("20", 20.0), ("20.5", 20.5), ("9000", 9_000.0)] {
        let agent = parse(&format!("[limits]\ncost_usd = {cost}")).unwrap();
        assert!((agent.limits.cost_usd - expected).abs() < f64::EPSILON, "{cost}: {}", agent.limits.cost_usd);
    }
    for cost in ["0", "0.0", "-0.0", "-1", "-0.5", "nan", "inf", "-inf", "9000.1", "\"5\"", "9223372036854775807"] {
        assert!(is_fault_at("limits.cost_usd", &format!("[limits]\ncost_usd = {cost}")), "{cost}");
    }
    for key in ["turns", "tokens"] {
        for number in ["0", "-1", "1.5", "\"1\""] {
            assert!(is_fault_at(&format!("limits.{key}"), &format!("[limits]\n{key} = {number}")), "{key} = {number}");
        }
    }
}

/// A tool's time has to fit a step of this deployment, to the millisecond.
#[test]
fn a_tools_time_fits_a_step() {
    let file =
        |timeout: &str| format!("[[tools]]\nname = \"t\"\ntimeout = \"{timeout}\"\nhttp = {{ url = \"http://x\" }}");
    for (timeout, expected) in [("1ms", 1), ("150s", STEP_MS), ("150000ms", STEP_MS)] {
        assert_eq!(parse(&file(timeout)).unwrap().tools[0].timeout_ms, expected, "{timeout}");
    }
    for timeout in ["0s", "150001ms", "151s"] {
        assert!(is_fault_at("tools[0].timeout", &file(timeout)), "{timeout}");
    }
}

/// A builtin brings what its file leaves out: a name for models, a description, a kind, a schema of its own.
#[test]
fn builtins_are_complete() {
    use ToolKind::{Edit, Read};
    let mut descriptions = BTreeSet::new();
    for (builtin, name, kind, required) in [
        ("ask_user", "ask_user", Read, json!(["question"])),
        ("workspace.read", "read_file", Read, json!(["path"])),
        ("workspace.create", "create_file", Edit, json!(["path", "content"])),
        ("workspace.edit", "edit_file", Edit, json!(["path", "old", "new"])),
        ("workspace.glob", "list_files", Read, json!(["pattern"])),
        ("workspace.search", "search_files", Read, json!(["pattern"])),
    ] {
        let agent = parse(&format!("[[tools]]\nbuiltin = \"{builtin}\"")).unwrap();
        let tool = &agent.tools[0];
        assert_eq!((tool.name.as_str(), tool.kind, tool.replay), (name, kind, Replay::Safe), "{builtin}");
        let schema = &tool.input_schema;
        assert_eq!((&schema["type"], &schema["additionalProperties"]), (&json!("object"), &json!(false)), "{builtin}");
        assert_eq!(schema["required"], required, "{builtin}");
        for property in required.as_array().unwrap() {
            assert!(schema["properties"].get(property.as_str().unwrap()).is_some(), "{builtin}: {property}");
        }
        assert!(tool.description.len() > 20 && descriptions.insert(tool.description.clone()), "{builtin}");
    }
}
