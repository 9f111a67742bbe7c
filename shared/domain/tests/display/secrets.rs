//! Secrets: no value at a declared path is in anything that a person sees.

use dormouse_domain::{
    Definition, Entry, EntryId, Fact, Millis, Principal, RequestKey, agent_file,
    builtin::Builtin,
    decide::Decision,
    display::{self, MASK, restore, secret::mask},
    message::{ModelRef, ReplyBlock, StopReason, Usage},
    plan::Plan,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{request, seen, whole};

const PATHS: [&str; 4] = ["password", "headers.authorization", "users.*.token", "deep.*.*.key"];

fn paths() -> Vec<String> {
    PATHS.map(str::to_owned).into()
}

/// An agent whose tool `login` has these secrets, and `look` none.
fn agent() -> Definition {
    let file = format!(
        "models = [\"a:b\"]\n[[tools]]\nname = \"login\"\nsecret = {PATHS:?}\nhttp = {{ url = \"http://x\" }}\n\
         [[tools]]\nname = \"look\"\nhttp = {{ url = \"http://x\" }}"
    );
    agent_file::parse(&file, "ops", 600_000).unwrap()
}

/// The journal's view of a reply with one call.
fn replied(tool: &str, arguments: &str, plan: Plan) -> String {
    let call = ReplyBlock::ToolCall {
        id: "c1".into(),
        name: tool.into(),
        arguments: arguments.into(),
        raw: Some(json!({ "input": arguments }).to_string()),
    };
    let fact = Fact::ModelReplied {
        model: ModelRef { provider: "a".into(), name: "b".into() },
        content: vec![call],
        stop: StopReason::ToolUse,
        usage: Usage::default(),
        seen: 2,
        calls: vec![plan],
    };
    let entry = Entry { index: 2, entry_id: EntryId("e".into()), at: Millis(0), driver: None, fact };
    entry.view(&agent()).to_string()
}

#[test]
fn c3_declared_secrets_are_masked() {
    for (arguments, expected) in [
        (json!({ "password": "s", "user": "ann" }), json!({ "password": MASK, "user": "ann" })),
        (json!({ "Password": "s" }), json!({ "Password": MASK })),
        (json!({ "password": { "old": "s" } }), json!({ "password": MASK })),
        (json!({ "password": null }), json!({ "password": MASK })),
        (
            json!({ "headers": { "Authorization": "s", "Accept": "x" } }),
            json!({ "headers": { "Authorization": MASK, "Accept": "x" } }),
        ),
        // Another form than was declared is masked whole.
        (json!({ "headers": "Authorization: s" }), json!({ "headers": MASK })),
        (json!({ "headers": [["authorization", "s"]] }), json!({ "headers": MASK })),
        (json!({ "headers": null }), json!({ "headers": null })),
        (
            json!({ "users": [{ "token": "s", "id": 1 }, { "id": 2 }, "s"] }),
            json!({ "users": [{ "token": MASK, "id": 1 }, { "id": 2 }, MASK] }),
        ),
        (json!({ "users": { "ann": { "token": "s" } } }), json!({ "users": { "ann": { "token": MASK } } })),
        (json!({ "deep": [[{ "key": "s" }]] }), json!({ "deep": [[{ "key": MASK }]] })),
        (json!({ "other": { "password": "shown" } }), json!({ "other": { "password": "shown" } })),
    ] {
        assert_eq!(*mask(&arguments, &paths()), expected, "{arguments}");
    }
    assert_eq!(display::summary("login", &json!({ "password": "s" }), &paths()), format!("login(password: {MASK:?})"));
}

/// What the journal's reader sees of a reply: the rest of the call, and whether it was asked about.
#[test]
fn c3_the_journal_shows_calls_without_their_secrets() {
    let ask = || Plan::Ask { reason: "why".into(), floor: false };
    let shown = replied("login", r#"{"password":"hunter2","user":"ann"}"#, ask());
    assert!(
        !shown.contains("hunter2") && shown.contains("ann") && shown.contains(MASK) && shown.contains("why"),
        "{shown}"
    );
    // A call that cannot be read, that does not fit, or whose tool is misspelt.
    for (tool, arguments) in
        [("login", r#"{"password":"hunter2""#), ("login", "hunter2"), ("lgoin", r#"{"password":"hunter2"}"#)]
    {
        let invalid = Plan::Invalid { problem: "\"hunter2\" is not of type integer".into() };
        let shown = replied(tool, arguments, invalid);
        assert!(!shown.contains("hunter2"), "{tool} {arguments}: {shown}");
    }
    // Where nothing is declared, nothing is touched.
    let open = Plan::Invalid { problem: "\"x\" is wrong".into() };
    let shown = replied("look", r#"{"password":"open"}"#, open);
    assert!(shown.contains("open") && shown.contains("is wrong") && !shown.contains(MASK), "{shown}");
}

/// A preview of a file shows no secret either.
#[test]
fn c3_a_secret_file_has_no_preview() {
    for (builtin, field) in
        [(Builtin::WorkspaceCreate, "content"), (Builtin::WorkspaceEdit, "old"), (Builtin::WorkspaceEdit, "new")]
    {
        let mut stored = request(json!({ "path": "f", "content": "hunter2", "old": "hunter2", "new": "hunter2" }));
        stored.builtin = Some(builtin);
        assert!(whole(&stored).preview.is_some());
        stored.secret = vec![field.to_owned()];
        assert_eq!(whole(&stored).preview, None, "{field}");
    }
}

#[test]
fn paths_are_checked_when_the_file_is_loaded() {
    let file = |secret: &str, schema: &str| {
        format!(
            "models = [\"a:b\"]\n[[tools]]\nname = \"t\"\nsecret = {secret}\ninput_schema = {schema}\nhttp = {{ url = \"http://x\" }}"
        )
    };
    let closed = r#"{ additionalProperties = false, properties = { password = { type = "string" }, headers = { type = "object" }, users = { type = "array", items = { type = "object", additionalProperties = false, properties = { token = {} } } } } }"#;
    let open = r#"{ properties = { password = { type = "string" } } }"#;
    for (secret, schema) in [
        (r#"["password", "headers.authorization", "users.*.token", "Password"]"#, closed),
        (r#"["other", "other.name", "*"]"#, open),
        ("[]", closed),
    ] {
        let agent = agent_file::parse(&file(secret, schema), "ops", 600_000);
        assert!(agent.is_ok(), "{secret}: {agent:?}");
    }
    for (secret, schema, place) in [
        (r#"["passwort"]"#, closed, "tools[0].secret[0]"),
        (r#"["password", "users.*.tokn"]"#, closed, "tools[0].secret[1]"),
        (r#"["users.token"]"#, closed, "tools[0].secret[0]"),
        (r#"["password.old"]"#, open, "tools[0].secret[0]"),
        (r#"[""]"#, open, "tools[0].secret[0]"),
        (r#"["a..b"]"#, open, "tools[0].secret[0]"),
        (r#""password""#, open, "tools[0].secret"),
        ("[1]", open, "tools[0].secret"),
    ] {
        let faults = agent_file::parse(&file(secret, schema), "ops", 600_000).unwrap_err();
        assert_eq!(faults.iter().map(|fault| fault.place.as_str()).collect::<Vec<_>>(), [place], "{secret}");
    }
    let asks = "models = [\"a:b\"]\n[[tools]]\nbuiltin = \"ask_user\"\nsecret = [\"question\"]";
    assert_eq!(agent_file::parse(asks, "ops", 600_000).unwrap_err()[0].place, "tools[0].secret");
}

/// An agent without secrets is stored as before, and one with them keeps them.
#[test]
fn a18_secrets_are_stored_only_where_there_are_some() {
    let stored = serde_json::to_value(agent()).unwrap();
    assert_eq!(stored["tools"][0]["secret"], json!(PATHS));
    assert_eq!(stored["tools"][1].get("secret"), None);
    assert_eq!(serde_json::from_value::<Definition>(stored).unwrap(), agent());
    let row = serde_json::to_value(request(json!({}))).unwrap();
    assert_eq!((row.get("secret"), row.get("builtin")), (None, None));
}

/// What a person left as it was shown is what is stored; what they changed is theirs.
#[test]
fn x5_an_edit_keeps_what_was_not_shown() {
    let stored =
        json!({ "password": "s", "user": "an\u{200b}n", "k\u{200b}": 1, "users": [{ "token": "t", "id": 1 }] });
    let shown = display::arguments(&stored, &paths());
    assert_eq!(restore(&stored, &shown, &paths()).unwrap(), stored);
    let mut edited = shown.clone();
    edited["user"] = "bob".into();
    edited["users"][0]["id"] = 2.into();
    let meant = restore(&stored, &edited, &paths()).unwrap();
    assert_eq!(meant, json!({ "password": "s", "user": "bob", "k\u{200b}": 1, "users": [{ "token": "t", "id": 2 }] }));
    let mut given = shown.clone();
    given["password"] = "new".into();
    assert_eq!(restore(&stored, &given, &paths()).unwrap()["password"], "new");
    // A mask that stands for nothing, or for nobody knows which.
    let mut moved = shown.clone();
    moved["user"] = MASK.into();
    assert!(restore(&stored, &moved, &paths()).is_err());
    let mut longer = shown;
    longer["users"].as_array_mut().unwrap().push(json!({ "token": "u" }));
    assert!(restore(&stored, &longer, &paths()).is_err());
}

/// A changed secret is in no view of the decision, and the model is not told it.
#[test]
fn c3_a_changed_secret_is_not_shown_in_the_journal() {
    let arguments = json!({ "password": "hunter2", "user": "ann" });
    let by = Principal { tenant: "acme".into(), subject: "ann".into() };
    let fact = Fact::RequestDecided {
        request: RequestKey::new(3, 0),
        decision: Decision::Edit { arguments },
        by,
        digest: None,
        via: None,
    };
    let entry = Entry { index: 4, entry_id: EntryId("e".into()), at: Millis(0), driver: None, fact };
    let shown = entry.view(&agent()).to_string();
    assert!(shown.contains(MASK) && shown.contains("ann") && !shown.contains("hunter2"), "{shown}");
}

/// Arguments with `secret` at one of the declared paths, or where a careless model puts it, and `noise` beside it.
fn hiding(secret: &str, noise: &str, place: usize) -> Value {
    match place {
        0 => json!({ "password": secret, "note": noise }),
        1 => json!({ "headers": { "Authorization": secret, "accept": noise } }),
        2 => json!({ "users": [{ "token": noise }, { "token": secret, "id": noise }] }),
        3 => json!({ "deep": { "a": [{ "key": { noise: [secret] } }] } }),
        4 => json!({ "headers": [noise, secret] }),
        _ => json!({ "PASSWORD": [secret], "z": [noise] }),
    }
}

proptest! {
    #[test]
    fn c3_no_view_shows_a_secret(secret in "[a-z]{4}[a-zA-Z0-9\u{200b}\"\\\\é]{8,40}", noise in "\\PC{0,12}", place in 0_usize..6, builtin in prop::sample::select(Builtin::ALL.to_vec())) {
        prop_assume!(!noise.contains(&secret[..4]));
        let arguments = hiding(&secret, &noise, place);
        let mut stored = request(arguments.clone());
        stored.secret = paths();
        stored.builtin = Some(builtin);
        stored.summary = display::summary("login", &arguments, &stored.secret);
        // A secret is long beside its first letters, which no other part of these views holds.
        let views = [
            seen(&stored),
            stored.summary.clone(),
            replied("login", &arguments.to_string(), Plan::Start { rule: None }),
            replied("lgoin", &arguments.to_string(), Plan::Invalid { problem: secret.clone() }),
            replied("login", &secret, Plan::Invalid { problem: secret.clone() }),
        ];
        for view in views {
            let json = Value::from(secret.as_str()).to_string();
            let spelled = display::text::line(&secret, usize::MAX);
            for form in [secret.as_str(), json.trim_matches('"'), spelled.as_str()] {
                prop_assert!(!view.contains(form), "{} in {}", form, view);
            }
        }
        // Nothing else changes: not what runs, and not what is hashed.
        prop_assert_eq!(stored.arguments, arguments);
    }

    #[test]
    fn x5_an_edit_that_changes_nothing_changes_nothing(secret in "\\PC{0,12}", noise in "\\PC{0,12}", place in 0_usize..6) {
        let stored = hiding(&secret, &noise, place);
        let shown = display::arguments(&stored, &paths());
        prop_assert_eq!(restore(&stored, &shown, &paths()).unwrap(), stored);
    }
}
