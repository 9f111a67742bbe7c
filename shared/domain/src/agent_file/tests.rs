use super::*;
use crate::agent::{Replay, Target, ToolKind};

const TIMEOUT: u64 = 150_000;

#[test]
fn only_models_is_required() {
    let agent = parse("models = [\"anthropic:claude-sonnet-4-5\"]", "ops", TIMEOUT).unwrap();
    assert_eq!((agent.name.as_str(), agent.mode, agent.max_mode), ("ops", Mode::Normal, Mode::Yolo));
    assert_eq!((agent.wait_ms, agent.decide_within_ms), (DAY_MS, DAY_MS));
    assert_eq!((agent.limits.turns, agent.limits.tokens, agent.limits.wall_ms), (40, 400_000, 21_600_000));
    assert!(agent.digest().is_ok());
}

#[test]
fn a_full_tool() {
    let text = r#"
        models = ["openai:gpt-5"]
        [[tools]]
        name = "deploy"
        description = "Deploy a service."
        kind = "execute"
        permission = "ask"
        timeout = "30s"
        input_schema = { type = "object", properties = { env = { type = "string" } }, required = ["env"] }
        http = { url = "https://tools.example.com/deploy" }
        [[tools]]
        builtin = "workspace.edit"
    "#;
    let agent = parse(text, "ops", TIMEOUT).unwrap();
    assert_eq!(agent.tools[0].replay, Replay::Manual);
    assert_eq!(agent.tools[0].input_schema["required"][0], "env");
    assert_eq!((agent.tools[1].name.as_str(), agent.tools[1].replay), ("edit_file", Replay::Safe));
}

/// B1: every tool has a replay policy, `manual` unless its file says another; there are no further ones.
#[test]
fn b1_every_tool_has_a_replay_policy() {
    let file =
        |more: &str| format!("models = [\"a:b\"]\n[[tools]]\nname = \"t\"\n{more}\nhttp = {{ url = \"http://x\" }}");
    for (more, expected) in [
        ("", Replay::Manual),
        ("replay = \"manual\"", Replay::Manual),
        ("replay = \"safe\"", Replay::Safe),
        ("replay = \"idempotent\"", Replay::Idempotent),
        // What a tool does says nothing of whether it may be repeated.
        ("kind = \"read\"\npermission = \"allow\"", Replay::Manual),
    ] {
        assert_eq!(parse(&file(more), "ops", TIMEOUT).unwrap().tools[0].replay, expected, "{more}");
    }
    for more in ["replay = \"always\"", "replay = \"\"", "replay = true"] {
        let faults = parse(&file(more), "ops", TIMEOUT).unwrap_err();
        assert_eq!(faults.iter().map(|fault| fault.place.as_str()).collect::<Vec<_>>(), ["tools[0].replay"], "{more}");
    }
}

#[test]
fn all_faults_at_once_with_their_place() {
    let text = r#"
        models = ["gpt"]
        mode = "yolo"
        max_mode = "normal"
        wiat = "24h"
        decide_within = "5 minutes"
        wait = "2d"
        reply_within = "0s"
        [limits]
        turns = 0
        [policy]
        alow = []
        [[policy.deny]]
        tool = "x"
        [[policy.deny]]
        tool = "toString"
        because = "it is not there"
        [[policy.floor]]
        tool = "*"
        because = "no"
        args = { x = { path = "a", host = "b" }, y = 5, z = { command = "" }, u = { equals = [1] }, v = { equals = { a = 1 } } }
        matches = ["x"]
        [[tools]]
        name = "a b"
        kind = "destroy"
        timeout = "10h"
        reuse_result = true
        http = { url = "ftp://x" }
        input_schema = { type = "array" }
        arguments = { x = "pth" }
        [[tools]]
        builtin = "workspace.reed"
    "#;
    let faults = parse(text, "ops", TIMEOUT).unwrap_err();
    let places: Vec<_> = faults.iter().map(|fault| fault.place.as_str()).collect();
    for place in [
        "wiat",
        "policy.alow",
        "policy.deny[0].because",
        "policy.deny[1].tool",
        "policy.floor[0].args.x",
        "policy.floor[0].args.y",
        "policy.floor[0].args.z",
        "policy.floor[0].args.u",
        "policy.floor[0].args.v",
        "policy.floor[0].matches[0]",
        "models[0]",
        "mode",
        "decide_within",
        "wait",
        "reply_within",
        "limits.turns",
        "tools[0].name",
        "tools[0].kind",
        "tools[0].timeout",
        "tools[0].reuse_result",
        "tools[0].http.url",
        "tools[0].input_schema",
        "tools[0].arguments.x",
        "tools[1].builtin",
    ] {
        assert!(places.contains(&place), "{place} missing in {faults:#?}");
    }
}

#[test]
fn a_syntax_error_has_its_line() {
    let faults = parse("models = [\"a:b\"]\nmode = \n", "ops", TIMEOUT).unwrap_err();
    assert_eq!(faults[0].place, "line 2");
}

/// What completes a call has the token of one attempt, so none may be made without a person's word; and no builtin waits.
#[test]
fn x7_only_a_manual_web_service_answers_later() {
    let tool = |more: &str| format!("models = [\"a:b\"]\n[[tools]]\nname = \"t\"\n{more}");
    let http = "http = { url = \"http://x\" }";
    let taken = parse(&tool(&format!("later = true\n{http}")), "ops", TIMEOUT).unwrap();
    assert!(taken.tools[0].later);
    assert!(!parse(&tool(http), "ops", TIMEOUT).unwrap().tools[0].later);
    for refused in [
        format!("later = true\nreplay = \"idempotent\"\n{http}"),
        format!("later = true\nreplay = \"safe\"\n{http}"),
        "later = true\nbuiltin = \"workspace.read\"".to_owned(),
        format!("later = \"yes\"\n{http}"),
    ] {
        let faults = parse(&tool(&refused), "ops", TIMEOUT).unwrap_err();
        assert!(faults.iter().any(|fault| fault.place == "tools[0].later"), "{refused}: {faults:?}");
    }
}

/// D6: a tool that delegates says to whom, and nothing that is not its to say.
#[test]
fn d6_a_tool_that_delegates() {
    let tool = |more: &str| parse(&format!("models = [\"a:b\"]\n[[tools]]\n{more}"), "ops", TIMEOUT);
    let taken = tool("builtin = \"delegate\"\nagents = [\"b\", \"c\"]\nquestions = true").unwrap();
    let delegate = &taken.tools[0];
    assert_eq!(
        (delegate.name.as_str(), delegate.kind, delegate.replay),
        ("delegate", ToolKind::Read, Replay::Idempotent)
    );
    assert_eq!(delegate.target, Target::Agents { agents: vec!["b".into(), "c".into()], questions: true });
    assert_eq!(delegate.input_schema["properties"]["agent"]["enum"], serde_json::json!(["b", "c"]));
    assert!(delegate.later && delegate.description.contains("another agent"));
    for (refused, place) in [
        ("builtin = \"delegate\"", "agents"),
        ("builtin = \"delegate\"\nagents = []", "agents"),
        ("builtin = \"delegate\"\nagents = \"b\"", "agents"),
        ("builtin = \"delegate\"\nagents = [\"b\", \"b\"]", "agents[1]"),
        ("builtin = \"delegate\"\nagents = [\"no name\"]", "agents[0]"),
        ("builtin = \"delegate\"\nagents = [\"b\"]\nquestions = 1", "questions"),
        ("builtin = \"delegate\"\nagents = [\"b\"]\nreplay = \"manual\"", "replay"),
        ("builtin = \"delegate\"\nagents = [\"b\"]\nlater = true", "later"),
        ("builtin = \"delegate\"\nagents = [\"b\"]\nkind = \"edit\"", "kind"),
        ("builtin = \"delegate\"\nagents = [\"b\"]\ninput_schema = {}", "input_schema"),
        ("builtin = \"workspace.read\"\nagents = [\"b\"]", "agents"),
        ("name = \"t\"\nhttp = { url = \"http://x\" }\nquestions = true", "questions"),
    ] {
        let faults = tool(refused).unwrap_err();
        assert!(faults.iter().any(|fault| fault.place == format!("tools[0].{place}")), "{refused}: {faults:?}");
    }
}

#[test]
fn durations() {
    for (text, expected) in [
        ("30s", Some(30_000)),
        ("500ms", Some(500)),
        ("15m", Some(900_000)),
        ("2d", Some(2 * DAY_MS)),
        ("", None),
        ("5", None),
        ("s", None),
        ("-1s", None),
        ("1.5h", None),
        ("1h30m", None),
        ("99999999999999999999d", None),
    ] {
        assert_eq!(duration_ms(text), expected, "{text}");
    }
}
