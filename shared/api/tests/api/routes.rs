//! The route table.

use dormouse_api::{Function, function_for, routes::ROUTES};
use http::Method;

use crate::app::{Answer, App, event};

const RUN: &str = "run_00000000000000000000000000000009";

#[test]
fn each_route_has_its_function() {
    use Function::{Control, Query, Respond, Start};
    let table = [
        ("POST", "/v1/runs", Start),
        ("GET", "/v1/runs", Query),
        ("GET", "/v1/runs/{id}", Query),
        ("GET", "/v1/runs/{id}/journal", Query),
        ("GET", "/v1/runs/{id}/export", Query),
        ("GET", "/v1/runs/{id}/events", Query),
        ("POST", "/v1/runs/{id}/fork", Start),
        ("POST", "/v1/runs/{id}/messages", Control),
        ("POST", "/v1/runs/{id}/pause", Control),
        ("POST", "/v1/runs/{id}/resume", Control),
        ("POST", "/v1/runs/{id}/cancel", Control),
        ("PUT", "/v1/runs/{id}/mode", Control),
        ("POST", "/v1/runs/{id}/respond", Respond),
        ("GET", "/v1/requests", Query),
        ("GET", "/v1/requests/{id}", Query),
        ("POST", "/v1/requests/{id}/respond", Respond),
        ("POST", "/v1/requests/{id}/links", Respond),
        ("GET", "/v1/links/{token}", Respond),
        ("POST", "/v1/links/{token}", Respond),
        ("POST", "/v1/completions/{token}", Respond),
        ("GET", "/v1/rules", Query),
        ("DELETE", "/v1/rules/{id}", Control),
    ];
    let listed: Vec<_> = ROUTES.iter().map(|r| (r.method.as_str(), r.path, r.function())).collect();
    assert_eq!(listed, table);
    for (method, path, function) in table {
        let method: Method = method.parse().unwrap();
        assert_eq!(
            function_for(&method, &path.replace("{id}", RUN).replace("{token}", "link1.a.b.c")),
            Some(function),
            "{method} {path}"
        );
    }
}

#[tokio::test]
async fn a_path_that_is_none_is_not_found() {
    let app = App::new();
    for path in [
        "",
        "/",
        "/v1",
        "/v1/",
        "/v1/runs/",
        "/v2/runs",
        "/v1/runs/a/b",
        "/v1/runs/a/respond/",
        "/v1/runs//respond",
        "/v1/requests/a/b/respond",
        "//v1/runs",
        "/V1/runs",
        "/v1/links",
        "/v1/links/",
        "/v1/links/a/b",
        "/v1/requests/a/links/b",
    ] {
        assert_eq!(function_for(&Method::POST, path), None, "{path}");
        app.send(event("ann", Method::POST, path, "{}")).await.expect_problem(404, "not-found");
    }
}

#[tokio::test]
async fn a_method_that_is_none_of_the_paths_is_told_which_are() {
    let app = App::new();
    for (method, path, allow) in [
        (Method::DELETE, "/v1/runs", "POST, GET"),
        (Method::POST, "/v1/runs/x", "GET"),
        (Method::GET, "/v1/runs/x/respond", "POST"),
        (Method::POST, "/v1/runs/x/mode", "PUT"),
        (Method::PATCH, "/v1/requests", "GET"),
        (Method::GET, "/v1/requests/x/links", "POST"),
        (Method::HEAD, "/v1/links/x", "GET, POST"),
        (Method::GET, "/v1/completions/x", "POST"),
    ] {
        let answer = app.send(event("ann", method, path, "")).await;
        answer.expect_problem(405, "method-not-allowed");
        assert_eq!(answer.header("allow"), Some(allow), "{path}");
    }
}

/// A function does only what is its own, whatever is routed to it.
#[tokio::test]
async fn a_function_does_not_do_anothers_work() {
    let app = App::new();
    let engine = &app.world.engine;
    let start = || event("ann", Method::POST, "/v1/runs", r#"{"agent":"ops","input":"go"}"#);
    for response in [
        dormouse_api::query(engine, start()).await,
        dormouse_api::respond(engine, start()).await,
        dormouse_api::control(engine, start()).await,
        dormouse_api::start(engine, event("ann", Method::GET, "/v1/runs", "")).await,
    ] {
        Answer::of(response).expect_problem(404, "not-found");
    }
    assert!(app.world.queue.take().is_empty());
}
