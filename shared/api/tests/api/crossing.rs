//! Nothing crosses: two tenants, and of one tenant whose run it is, who decides, and everybody else, on every
//! route that there is (A16, case 5).

use dormouse_api::{Access, identity::Identity, routes::ROUTES};
use dormouse_domain::{Millis, Principal};
use dormouse_testkit::{agent, call};
use http::Method;
use serde_json::{Value, json};

use crate::app::{Answer, App, approval, event, respond_url};

const GUARDED: &str = r#"
    models = ["scripted:x"]
    approvers = { group = "sre", not_requester = true }
    [[tools]]
    name = "deploy"
    http = { url = "http://tools/deploy" }
    [[tools]]
    name = "drop"
    approvers = { group = "dba" }
    http = { url = "http://tools/drop" }
    [[tools]]
    builtin = "ask_user"
"#;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct User {
    tenant: &'static str,
    name: &'static str,
    groups: &'static [&'static str],
}

/// Whose run it is. In the group that decides, which does not help her.
const ANN: User = User { tenant: "acme", name: "ann", groups: &["sre"] };
/// Decides.
const SUE: User = User { tenant: "acme", name: "sue", groups: &["sre", "oncall"] };
/// Of the same tenant, and nothing else.
const BOB: User = User { tenant: "acme", name: "bob", groups: &["dev", "SRE", "sre "] };
/// The same names in another tenant.
const OTHER_ANN: User = User { tenant: "globex", name: "ann", groups: &["sre"] };
const OTHER_SUE: User = User { tenant: "globex", name: "sue", groups: &["sre"] };

async fn send(app: &App, user: User, method: Method, url: &str, body: &Value) -> Answer {
    let mut event = event(user.name, method, url, &body.to_string());
    event.request_context.authorizer.fields = Identity {
        principal: Principal { tenant: user.tenant.to_owned(), subject: user.name.to_owned() },
        groups: user.groups.iter().map(|group| (*group).to_owned()).collect(),
        expires_at: Millis(4_000_000_000_000),
    }
    .fields();
    app.send(event).await
}

async fn get(app: &App, user: User, url: &str) -> Answer {
    send(app, user, Method::GET, url, &json!({})).await
}

async fn respond(app: &App, user: User, request: &Value, body: &Value) -> Answer {
    send(app, user, Method::POST, &respond_url(request), body).await
}

/// A run of Ann's that waits for the approval of this call.
async fn waiting(app: &App, tool: &str) -> (String, Value) {
    app.world.agents.add(agent("guarded", GUARDED));
    app.world.models.reply(vec![call("c", tool, r#"{"env":"prod"}"#)]);
    let start = json!({ "agent": "guarded", "input": "go" });
    let run = send(app, ANN, Method::POST, "/v1/runs", &start).await.expect(202)["run_id"].as_str().unwrap().to_owned();
    app.step(&run).await;
    let view = get(app, ANN, &format!("/v1/runs/{run}")).await.expect(200);
    (run, view["requests"][0].clone())
}

/// Sue lets calls like this run for good, for Ann; the rule's name.
async fn allowed_for_good(app: &App, request: &Value) -> String {
    let always = json!({ "decision": "always", "scope": "owner", "digest": request["digest"] });
    respond(app, SUE, request, &always).await.expect(200);
    format!("owner.{}", request["request_id"].as_str().unwrap())
}

/// The body that a route takes.
fn body_for(path: &str, request: &Value) -> Value {
    if path.starts_with("/v1/completions") {
        return json!({ "content": "done" });
    }
    match path.rsplit('/').next() {
        Some("respond" | "{token}") => approval(request),
        Some("messages") => json!({ "text": "hi" }),
        Some("fork") => json!({ "at": 0 }),
        Some("mode") => json!({ "mode": "plan" }),
        Some("runs") => json!({ "agent": "guarded", "input": "go" }),
        _ => json!({}),
    }
}

/// What a user may do on a route.
#[derive(Debug, PartialEq, Eq)]
enum Gets {
    /// It does not exist for them.
    Nothing,
    /// A list without anything of Ann's in it.
    EmptyList,
    /// It is theirs to see.
    It,
    /// Something of their own.
    TheirOwn,
}

fn expected(user: User, method: &Method, path: &str) -> Gets {
    match (method.as_str(), path) {
        ("POST", "/v1/runs") => Gets::TheirOwn,
        ("GET", "/v1/requests") if user == SUE => Gets::It,
        ("GET", "/v1/runs" | "/v1/requests" | "/v1/rules") => Gets::EmptyList,
        ("GET", "/v1/requests/{id}") if user == SUE => Gets::It,
        ("POST", "/v1/requests/{id}/respond" | "/v1/requests/{id}/links") if user == SUE => Gets::It,
        ("DELETE", "/v1/rules/{id}") if user == SUE => Gets::It,
        // Whoever it is, a name is no token.
        (_, path) if path.contains("{id}") || path.contains("{token}") => Gets::Nothing,
        (method, path) => panic!("{method} {path} is new: say here who gets what of it"),
    }
}

/// Every user but Ann on every route: what is not theirs gives the very answer that a name gives which never
/// was one's.
#[tokio::test]
async fn a16_case_5_every_route_for_every_user() {
    for route in &ROUTES {
        for user in [SUE, BOB, OTHER_ANN, OTHER_SUE] {
            let app = App::new();
            let (run, request) = waiting(&app, "deploy").await;
            let rule = match route.path.starts_with("/v1/rules") {
                true => Some(allowed_for_good(&app, &request).await),
                false => None,
            };
            let before = app.world.memory.kinds(&run.parse().unwrap());
            let id = match &rule {
                Some(rule) => rule,
                None if route.path.starts_with("/v1/runs") => &run,
                None => request["request_id"].as_str().unwrap(),
            };
            let body = body_for(route.path, &request);
            let url = |id: &str| route.path.replace("{id}", id).replace("{token}", id);
            let answer = send(&app, user, route.method.clone(), &url(id), &body).await;
            let what = format!("{user:?} {} {}: {}", route.method, route.path, answer.text);
            match expected(user, &route.method, route.path) {
                Gets::Nothing => {
                    answer.expect_problem(404, "not-found");
                    let never = id.replace("run_0", "run_f");
                    let unknown = send(&app, user, route.method.clone(), &url(&never), &body).await;
                    assert_eq!(answer, unknown, "{what}");
                    assert_eq!(app.world.memory.kinds(&run.parse().unwrap()), before, "{what}");
                }
                Gets::EmptyList => assert_eq!(answer.expect(200), json!({ "items": [] }), "{what}"),
                Gets::It if route.path.ends_with("/links") => drop(answer.expect(201)),
                Gets::It => assert!(answer.expect(200).to_string().contains(id), "{what}"),
                Gets::TheirOwn => assert!(!answer.expect(202).to_string().contains(&run), "{what}"),
            }
        }
    }
}

/// Nobody, on every route: without an identity there is none but a token, which opens the routes that are for
/// tokens, and as what it is for. Whoever else the event names there is not looked at.
#[tokio::test]
async fn a16_x6_case_5_every_route_without_an_identity() {
    for route in &ROUTES {
        for nobody in [None, Some(OTHER_ANN)] {
            let app = App::new();
            let (run, request) = waiting(&app, "deploy").await;
            let id = request["request_id"].as_str().unwrap();
            let links = format!("/v1/requests/{id}/links");
            let token = send(&app, SUE, Method::POST, &links, &json!({})).await.expect(201)["token"].clone();
            let token = token.as_str().unwrap();
            let before = app.world.memory.kinds(&run.parse().unwrap());
            let body = body_for(route.path, &request);
            let at = |id: &str, token: &str| {
                let url = route.path.replace("{id}", id).replace("{token}", token);
                let mut event = event("nobody", route.method.clone(), &url, &body.to_string());
                event.request_context.authorizer.fields.clear();
                if let (Some(user), Access::Token) = (nobody, route.access()) {
                    event.request_context.authorizer.fields.insert("tenant".into(), user.tenant.into());
                }
                event
            };
            let id = if route.path.starts_with("/v1/runs") { &run } else { id };
            match route.access() {
                Access::Caller => {
                    app.send(at(id, token)).await.expect_problem(401, "unauthenticated");
                    app.send(at(token, token)).await.expect_problem(401, "unauthenticated");
                }
                Access::Token => {
                    let refused = app.send(at(id, id)).await;
                    refused.expect_problem(404, "not-found");
                    assert_eq!(refused, app.send(at(id, &token.replacen("link1.test", "link1.other", 1))).await);
                }
            }
            assert_eq!(app.world.memory.kinds(&run.parse().unwrap()), before, "{} {}", route.method, route.path);
            if route.path.starts_with("/v1/completions") {
                // A link is no token for this: what is one, and what it opens, is in `completing`.
                app.send(at(id, token)).await.expect_problem(404, "not-found");
            } else if route.access() == Access::Token {
                let seen = app.send(at(id, token)).await.expect(200);
                assert_eq!(seen["request_id"], request["request_id"]);
                let decided = app.world.memory.kinds(&run.parse().unwrap()).len() - before.len();
                assert_eq!(decided, usize::from(route.method == Method::POST));
                if route.method == Method::POST {
                    assert_eq!(seen["decision"]["by"], json!({ "tenant": "acme", "subject": "sue" }));
                }
            }
        }
    }
}

/// Whose run it is sees what waits, by whom it is decided, and that nothing is on offer to her: also as a
/// member of the group, where the agent file says "not the requester".
#[tokio::test]
async fn a16_the_owner_sees_what_others_decide() {
    let app = App::new();
    let (run, request) = waiting(&app, "deploy").await;
    assert_eq!(request["approvers"], json!({ "group": "sre", "not_requester": true }));
    assert_eq!(request["decisions"], json!([]));
    assert_eq!(
        get(&app, ANN, "/v1/requests").await.expect(200)["items"],
        json!([]),
        "the list offers what she can decide"
    );
    for url in [respond_url(&request), format!("/v1/runs/{run}/respond")] {
        let refused = send(&app, ANN, Method::POST, &url, &approval(&request)).await;
        let refused = refused.expect_problem(403, "not-entitled");
        assert_eq!(refused["approvers"], json!({ "group": "sre" }));
    }
    let shown = get(&app, SUE, &format!("/v1/requests/{}", request["request_id"].as_str().unwrap())).await.expect(200);
    assert!(shown["decisions"].as_array().unwrap().contains(&json!("approve")), "{shown}");
    assert_eq!(shown["owner"], json!({ "tenant": "acme", "subject": "ann" }));
    let decided = respond(&app, SUE, &request, &approval(&request)).await.expect(200);
    assert_eq!(decided["decision"]["by"], json!({ "tenant": "acme", "subject": "sue" }));
    app.step(&run).await;
    assert_eq!(app.world.tools.count("deploy"), 1);
}

/// A tool can have approvers of its own, and the requester among them; a question is asked of whose run it is.
#[tokio::test]
async fn a16_tools_have_approvers_and_questions_have_none() {
    let dba = |name| User { tenant: "acme", name, groups: &["dba"] };
    let app = App::new();
    let (_, request) = waiting(&app, "drop").await;
    respond(&app, SUE, &request, &approval(&request)).await.expect_problem(404, "not-found");
    respond(&app, dba("ann"), &request, &approval(&request)).await.expect(200);

    let question = json!({ "question": "Which one?" }).to_string();
    app.world.models.reply(vec![call("q", "ask_user", &question)]);
    let start = json!({ "agent": "guarded", "input": "go" });
    let run =
        send(&app, ANN, Method::POST, "/v1/runs", &start).await.expect(202)["run_id"].as_str().unwrap().to_owned();
    app.step(&run).await;
    let asked = get(&app, ANN, "/v1/requests").await.expect(200)["items"][0].clone();
    let answer = json!({ "decision": "answer", "answer": "this" });
    respond(&app, SUE, &asked, &answer).await.expect_problem(404, "not-found");
    respond(&app, ANN, &asked, &answer).await.expect(200);
}

/// The inbox of someone in several groups is one list, oldest first, in pages; `group` shows one alone.
#[tokio::test]
async fn a15_the_inboxes_of_several_groups_are_one_list() {
    let app = App::new();
    let both = User { tenant: "acme", name: "max", groups: &["sre", "dba"] };
    let mut opened = Vec::new();
    for tool in ["deploy", "drop", "drop", "deploy", "deploy"] {
        app.world.clock.advance(1000);
        opened.push(waiting(&app, tool).await.1["request_id"].clone());
    }
    let (mut listed, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = get(&app, both, &format!("/v1/requests?limit=2{cursor}")).await.expect(200);
        listed.extend(page["items"].as_array().unwrap().iter().map(|item| item["request_id"].clone()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(listed, opened);
    let dba = get(&app, both, "/v1/requests?group=dba").await.expect(200);
    let names: Vec<_> = dba["items"].as_array().unwrap().iter().map(|item| item["request_id"].clone()).collect();
    assert_eq!(names, opened[1..3]);
    get(&app, both, "/v1/requests?group=ops").await.expect_problem(400, "invalid-request");
}
