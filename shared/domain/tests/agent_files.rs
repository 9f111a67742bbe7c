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

/// What was read can be stored: a run is started under its agent's digest, which no number beyond 2^53 - 1 has (case 7).
#[test]
fn case_7_what_has_no_digest_is_a_fault_with_its_place() {
    let tool =
        |schema: &str| format!("[[tools]]\nname = \"t\"\nhttp = {{ url = \"http://x\" }}\ninput_schema = {schema}");
    let agent = parse("[limits]\ntokens = 9007199254740991\nwall = \"365d\"").unwrap();
    assert!(agent.digest().is_ok());
    for (place, text) in [
        ("limits.tokens", "[limits]\ntokens = 9007199254740992"),
        ("limits.turns", "[limits]\nturns = 9223372036854775807"),
        ("limits.wall", "[limits]\nwall = \"366d\""),
        ("tools[0].input_schema", &tool("{ maximum = 9007199254740992 }")),
        ("tools[0].input_schema", &tool("{ properties = { a = { maximum = inf } } }")),
        ("tools[0].always.p.a", &format!("{}\nalways = {{ p = {{ a = {{ equals = nan }} }} }}", tool("{}"))),
    ] {
        assert!(is_fault_at(place, text), "{text}: {:?}", parse(text));
    }
}

/// TOML has dates, and arguments have not: what is written as one would never match.
#[test]
fn dates_are_text() {
    let rule = |rest: &str| {
        format!(
            "[[tools]]\nname = \"t\"\nhttp = {{ url = \"http://x\" }}\n[[policy.deny]]\ntool = \"t\"\nbecause = \"b\"\n{rest}"
        )
    };
    for (place, text) in [
        ("policy.deny[0].args.on", rule("args = { on = { equals = 2026-01-31 } }")),
        ("policy.deny[0].matches[0]", rule("matches = [{ on = [{ day = 2026-01-31 }] }]")),
        (
            "tools[0].input_schema",
            "[[tools]]\nname = \"t\"\nhttp = { url = \"http://x\" }\ninput_schema = { default = { on = 08:00:00 } }"
                .to_owned(),
        ),
    ] {
        assert!(is_fault_at(place, &text), "{text}: {:?}", parse(&text));
    }
    assert!(parse(&rule("args = { on = { equals = \"2026-01-31\" } }")).is_ok());
}

/// A place is one line that can be seen, whatever the key that a file has there.
#[test]
fn the_place_of_an_odd_key_is_quoted() {
    let fault = "unknown key; known here: ";
    for (key, place) in
        [("\"\"", "\"\""), ("\"a\\nb\"", "\"a\\nb\""), ("\" \"", "\" \""), ("a-b", "a-b"), ("\"a.b\"", "a.b")]
    {
        let faults = parse(&format!("{key} = 1")).unwrap_err();
        assert!(faults[0].starts_with(&format!("{place}: {fault}")), "{faults:?}");
    }
    let tool = "[[tools]]\nname = \"t\"\nhttp = { url = \"http://x\" }\n";
    assert!(is_fault_at("tools[0].arguments.\"\\n\"", &format!("{tool}arguments = {{ \"\\n\" = \"x\" }}")));
    assert!(is_fault_at("tools[0].always.\"\"", &format!("{tool}always = {{ \"\" = {{ a = \"x\" }} }}")));
    assert!(is_fault_at("tools[0].always.p.\"\\t\"", &format!("{tool}always.p = {{ \"\\t\" = 1 }}")));
}
