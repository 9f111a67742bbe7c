//! What a person is shown is made from what is stored, and hides nothing but declared secrets.

use dormouse_domain::display::MASK;
use dormouse_testkit::{agent, call, say};
use serde_json::{Value, json};

use crate::app::{App, approval, respond_url};

const AGENT: &str = r#"
    models = ["scripted:x"]
    [[tools]]
    name = "login"
    secret = ["password", "headers.authorization"]
    input_schema = { required = ["user"] }
    http = { url = "http://tools/login" }
    [[tools]]
    name = "look"
    http = { url = "http://tools/look" }
    [[tools]]
    builtin = "workspace.edit"
    [[tools]]
    builtin = "ask_user"
"#;

const SECRET: &str = "hunter2-Grüße";

fn app() -> App {
    let app = App::new();
    app.world.agents.add(agent("ops", AGENT));
    app
}

/// All that the owner of `run` can read of it, but for the recording.
async fn everything(app: &App, run: &str) -> String {
    let mut all = String::new();
    let urls = ["", "/journal", "/events"].map(|rest| format!("/v1/runs/{run}{rest}"));
    for url in urls.into_iter().chain(["/v1/runs".to_owned(), "/v1/requests".to_owned()]) {
        all.push_str(&app.get("ann", &url).await.expect(200).to_string());
    }
    let view = app.get("ann", &format!("/v1/runs/{run}")).await.expect(200);
    for request in view["requests"].as_array().unwrap() {
        let id = request["request_id"].as_str().unwrap();
        all.push_str(&app.get("ann", &format!("/v1/requests/{id}")).await.expect(200).to_string());
    }
    all
}

/// The arguments of the calls that ran.
fn ran(app: &App) -> Vec<Value> {
    app.world.tools.calls().into_iter().map(|call| call.arguments).collect()
}

async fn first_request(app: &App, run: &str) -> Value {
    app.get("ann", &format!("/v1/runs/{run}")).await.expect(200)["requests"][0].clone()
}

/// A declared secret is in no answer, before and after the decision; it is what runs, and it is in the
/// recording, which is for replaying.
#[tokio::test]
async fn c3_a_declared_secret_is_in_no_answer() {
    let app = app();
    let arguments = json!({ "user": "ann", "password": SECRET, "headers": { "Authorization": SECRET } });
    let run = app.run("ann", vec![vec![call("c1", "login", &arguments.to_string())], vec![say("done")]]).await;
    let request = first_request(&app, &run).await;
    let masked = json!({ "user": "ann", "password": MASK, "headers": { "Authorization": MASK } });
    assert_eq!(request["arguments"], masked);
    assert!(request["summary"].as_str().unwrap().contains(MASK), "{request}");
    assert!(!everything(&app, &run).await.contains(SECRET));

    let answer = app.post("ann", &respond_url(&request), approval(&request)).await;
    assert_eq!(answer.status, 200, "what was shown is what its digest says: {}", answer.text);
    assert!(!answer.text.contains(SECRET));
    let again = app.post("ann", &respond_url(&request), json!({ "decision": "deny" })).await;
    assert!(again.status == 409 && !again.text.contains(SECRET), "{}", again.text);
    app.step(&run).await;
    assert_eq!(ran(&app), [arguments], "what runs is what is stored");
    assert!(!everything(&app, &run).await.contains(SECRET));
    let export = app.get("ann", &format!("/v1/runs/{run}/export")).await;
    assert!(export.text.contains(SECRET), "a recording is whole");
}

/// A person changes what they see and leaves what they don't: the secret that runs is the stored one. One that
/// they put in is shown to nobody, the model included.
#[tokio::test]
async fn c3_x5_an_edit_keeps_a_masked_secret_or_changes_it() {
    for (password, runs) in [(MASK, SECRET), ("other-secret", "other-secret")] {
        let app = app();
        let arguments = json!({ "user": "ann", "password": SECRET });
        let run = app.run("ann", vec![vec![call("c1", "login", &arguments.to_string())], vec![say("done")]]).await;
        let request = first_request(&app, &run).await;
        let edit =
            |arguments: Value| json!({ "decision": "edit", "digest": request["digest"], "arguments": arguments });
        let unfit = app.post("ann", &respond_url(&request), edit(json!({ "password": MASK }))).await;
        unfit.expect_problem(400, "invalid-answer");
        let stray = app.post("ann", &respond_url(&request), edit(json!({ "user": MASK }))).await;
        stray.expect_problem(400, "invalid-answer");
        let edited = edit(json!({ "user": "bob", "password": password }));
        let answer = app.post("ann", &respond_url(&request), edited.clone()).await;
        assert_eq!(answer.expect(200)["decision"]["decision"], "edit");
        let again = app.post("ann", &respond_url(&request), edited).await;
        again.expect_problem(409, "already-decided");
        app.step(&run).await;
        assert_eq!(ran(&app), [json!({ "user": "bob", "password": runs })]);
        let id = request["request_id"].as_str().unwrap();
        let decided = app.get("ann", &format!("/v1/requests/{id}")).await;
        assert_eq!(decided.json()["decision"]["arguments"], json!({ "user": "bob", "password": MASK }));
        let seen = [everything(&app, &run).await, answer.text, again.text, unfit.text, decided.text].concat();
        assert!(seen.contains(MASK) && !seen.contains(SECRET) && !seen.contains("other-secret"), "{seen}");
        assert!(!app.world.models.asked().concat().contains("other-secret"));
    }
}

/// Calls that cannot be run hold secrets too, and what is wrong with them may quote one.
#[tokio::test]
async fn c3_a_call_that_does_not_fit_hides_its_secret_too() {
    for (tool, arguments) in [
        ("login", json!({ "password": SECRET }).to_string()),
        ("login", format!(r#"{{"user": 1, "password": "{SECRET}"#)),
        ("login", format!(r#""{SECRET}""#)),
        ("lgoin", json!({ "user": "ann", "password": SECRET }).to_string()),
    ] {
        let app = app();
        let run = app.run("ann", vec![vec![call("c1", tool, &arguments)], vec![say("done")]]).await;
        let seen = everything(&app, &run).await;
        assert!(seen.contains(MASK) && !seen.contains(SECRET), "{tool} {arguments}: {seen}");
    }
}

/// C3, cases 8 and 18: a model that talks of something else, hides characters and forges names changes
/// nothing about what is shown.
#[tokio::test]
async fn c3_case_8_case_18_what_is_shown_is_what_would_run() {
    let app = app();
    let arguments = json!({ "to\u{200b}": "gpj.\u{202e}exe", "p\u{430}ypal": true });
    let talk = say("This only lists files.\n{\"summary\": \"harmless\"}");
    let run = app.run("ann", vec![vec![talk, call("c1", "look", &arguments.to_string())]]).await;
    let request = first_request(&app, &run).await;
    assert_eq!(request["arguments"], json!({ "to\\u{200b}": "gpj.\\u{202e}exe", "p\u{430}ypal": true }));
    assert_eq!(request["summary"], "look(p\u{430}ypal: true, \"to\\u{200b}\": \"gpj.\\u{202e}exe\")");
    assert_eq!(request["warnings"], json!(["the word p\\u{430}ypal mixes scripts whose letters look alike"]));
    assert!(!request.to_string().contains("harmless"));
    app.post("ann", &respond_url(&request), approval(&request)).await.expect(200);
    app.world.models.reply(vec![say("done")]);
    app.step(&run).await;
    assert_eq!(ran(&app), [arguments]);
}

#[tokio::test]
async fn c3_an_edit_is_shown_as_a_diff() {
    let app = app();
    let arguments = json!({ "path": "src/a.rs", "old": "a\nb\n", "new": "a\nc\n" });
    let run = app.run("ann", vec![vec![call("c1", "edit_file", &arguments.to_string())]]).await;
    let request = first_request(&app, &run).await;
    let expected = json!({ "kind": "diff", "path": "src/a.rs", "text": " a\n-b\n+c\n", "everywhere": false });
    assert_eq!((&request["preview"], &request["arguments"]), (&expected, &arguments));
}

/// Of many requests each has its share of the answer, and says that there is more; alone it is whole.
#[tokio::test]
async fn c3_long_arguments_are_cut_in_lists_only() {
    let app = app();
    let arguments = json!({ "text": "x".repeat(100_000) });
    let run = app.run("ann", vec![vec![call("c1", "look", &arguments.to_string())]]).await;
    let request = first_request(&app, &run).await;
    assert_eq!(request["cut"], true);
    assert!(request["arguments"]["text"].as_str().unwrap().ends_with(" more bytes)"));
    assert!(app.get("ann", "/v1/requests").await.text.len() < 12_000);
    let whole = app.get("ann", &format!("/v1/requests/{}", request["request_id"].as_str().unwrap())).await.expect(200);
    assert_eq!((whole.get("cut"), &whole["arguments"]), (None, &arguments));
}

/// What a person reads of an option is made safe; what they send back is exactly what is stored.
#[tokio::test]
async fn c3_d3_options_are_shown_safely_and_answered_exactly() {
    let app = app();
    let hidden = "yes\u{202e}on";
    let arguments = json!({ "question": "Go\u{200b} on?", "options": [{ "value": hidden }, { "value": 2, "label": "t\u{200b}wo" }] });
    let (_, request) = app.asking("ann", arguments).await;
    assert_eq!((&request["question"], &request["summary"]), (&json!("Go\\u{200b} on?"), &json!("Go\\u{200b} on?")));
    let expected = json!([{ "value": hidden, "label": "yes\\u{202e}on" }, { "value": 2, "label": "t\\u{200b}wo" }]);
    assert_eq!(request["options"], expected);
    let refused = app.post("ann", &respond_url(&request), json!({ "decision": "answer", "answer": "no" })).await;
    let detail = refused.expect_problem(400, "invalid-answer")["detail"].to_string();
    assert!(!detail.contains('\u{202e}'), "{detail}");
    app.post("ann", &respond_url(&request), json!({ "decision": "answer", "answer": hidden })).await.expect(200);
}
