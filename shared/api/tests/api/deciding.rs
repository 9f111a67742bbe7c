//! Deciding requests.

use dormouse_testkit::call;
use http::Method;
use serde_json::{Value, json};

use crate::app::{App, approval, event, respond_url};

#[tokio::test]
async fn c4_case_1_case_2_an_approval_runs_the_call_and_is_told_to_whoever_comes_second() {
    let app = App::new();
    let (run, request) = app.waiting("ann").await;
    let url = respond_url(&request);
    let first = app.post("ann", &url, approval(&request)).await.expect(200);
    assert_eq!(first["run"], json!({ "run_id": run, "status": "queued" }));
    // Cases 1 and 2: whichever endpoint it comes through.
    let late = app.post("ann", &url, json!({ "decision": "deny" })).await.expect_problem(409, "already-decided");
    assert_eq!(late["decision"], first["decision"]);
    let through_run = app.post("ann", &format!("/v1/runs/{run}/respond"), json!({ "decision": "deny" })).await;
    assert_eq!(through_run.expect_problem(409, "already-decided")["decision"], first["decision"]);
    app.step(&run).await;
    assert_eq!(app.world.tools.count("deploy"), 1);
    assert_eq!(app.get("ann", &format!("/v1/runs/{run}")).await.expect(200)["output"], "done");
}

#[tokio::test]
async fn e2_case_2_two_clients_at_once_one_stands() {
    let app = App::new();
    let (run, request) = app.waiting("ann").await;
    let (direct, through_run) = (respond_url(&request), format!("/v1/runs/{run}/respond"));
    let (one, two) = futures::join!(
        app.post("ann", &direct, approval(&request)),
        app.post("ann", &through_run, json!({ "decision": "deny" }))
    );
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
}

/// F4: an answer is checked against the stored request; only one that is taken sends the message that
/// resumes the run.
#[tokio::test]
async fn f4_what_was_seen_must_be_what_is_stored() {
    let app = App::new();
    let (_, request) = app.waiting("ann").await;
    let url = respond_url(&request);
    app.world.queue.take();
    let missing = app.post("ann", &url, json!({ "decision": "approve" })).await;
    assert!(missing.expect_problem(400, "invalid-answer")["detail"].as_str().unwrap().contains("digest"));
    let other = json!({ "decision": "approve", "digest": format!("sha256:{}", "0".repeat(64)) });
    app.post("ann", &url, other).await.expect_problem(409, "digest-mismatch");
    app.post("ann", &url, json!({ "decision": "approve", "digest": "x" })).await.expect_problem(409, "digest-mismatch");
    assert_eq!(app.world.queue.take().len(), 0);
    app.post("ann", &url, approval(&request)).await.expect(200);
    assert_eq!(app.world.queue.take().len(), 1);
}

#[tokio::test]
async fn answers_that_do_not_fit_are_told_why() {
    let app = App::new();
    let (_, request) = app.waiting("ann").await;
    let url = respond_url(&request);
    let digest = &request["digest"];
    for (body, kind, words) in [
        (json!({}), "invalid-body", "`decision` is missing"),
        (json!({ "answer": "yes" }), "invalid-body", "`decision` is missing"),
        (json!({ "decision": "aprove" }), "invalid-body", "unknown variant `aprove`"),
        (json!({ "decision": "deny", "digset": digest }), "invalid-body", "unknown field `digset`"),
        (json!({ "decision": "settle", "resolution": "maybe" }), "invalid-body", "unknown variant `maybe`"),
        (json!({ "decision": "answer", "answer": "yes" }), "invalid-answer", "not on offer"),
        (json!({ "decision": "settle", "resolution": "retry", "digest": digest }), "invalid-answer", "not on offer"),
        (json!({ "decision": "edit", "arguments": ["env"], "digest": digest }), "invalid-answer", "not a JSON object"),
        (json!({ "decision": "always", "scope": "all", "digest": digest }), "invalid-body", "unknown variant `all`"),
        (json!({ "decision": "always", "digest": digest }), "invalid-answer", "send a `scope`"),
        (json!({ "decision": "always", "scope": "agent", "digest": digest }), "invalid-answer", "on offer: run, owner"),
        (
            json!({ "decision": "always", "scope": "run", "pattern": "x", "digest": digest }),
            "invalid-answer",
            "the pattern \"x\" is not on offer",
        ),
        (json!({ "decision": "approve", "pattern": "x", "digest": digest }), "invalid-answer", "`pattern` does not go"),
        (json!({ "decision": "raise", "by": { "turns": 3 } }), "invalid-answer", "not on offer"),
        (
            json!({ "decision": "approve", "arguments": {}, "digest": digest }),
            "invalid-answer",
            "`arguments` does not go",
        ),
        (json!({ "decision": "approve", "scope": "run", "digest": digest }), "invalid-answer", "`scope` does not go"),
        (
            json!({ "decision": "approve", "by": { "turns": 1 }, "digest": digest }),
            "invalid-answer",
            "`by` does not go",
        ),
        (json!({ "decision": "raise", "by": "bob" }), "invalid-body", "{turns?, tokens?, cost_usd?, wall_s?}"),
        (json!({ "decision": "raise", "by": { "money": 1 } }), "invalid-body", "unknown field `money`"),
        (json!({ "decision": "raise", "by": { "turns": -1 } }), "invalid-body", "by.turns"),
        (json!({ "decision": "raise", "by": { "cost_usd": -0.5 } }), "invalid-answer", "`by.cost_usd`"),
        (
            json!({ "decision": "raise", "by": { "tokens": 9_007_199_254_740_000_u64 } }),
            "invalid-answer",
            "`by.tokens`",
        ),
        (json!({ "decision": "raise", "by": { "wall_s": 1e300 } }), "invalid-answer", "`by.wall_s`"),
        (json!({ "decision": "approve", "reason": "ok", "digest": digest }), "invalid-answer", "`reason` does not go"),
        (json!({ "decision": "deny", "reason": "x".repeat(16_385) }), "invalid-answer", "16385 bytes"),
    ] {
        let document = app.post("ann", &url, body.clone()).await.expect_problem(400, kind);
        let detail = document["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{body}: {detail}");
    }
    let offered = app.post("ann", &url, json!({ "decision": "stop" })).await.expect_problem(400, "invalid-answer");
    assert_eq!(offered["offered"], json!(["approve", "always", "edit", "deny"]));
    let denied = json!({ "decision": "deny", "reason": "not today" });
    assert_eq!(app.post("ann", &url, denied).await.expect(200)["decision"]["reason"], "not today");
}

/// Case 23: these are answers, not the absence of one.
#[tokio::test]
async fn d3_case_23_false_zero_and_the_empty_text_are_answers() {
    for value in [json!(false), json!(0), json!("")] {
        let app = App::new();
        let question = json!({ "question": "?", "options": [{ "value": value }, { "value": "other" }] });
        let (run, request) = app.asking("ann", question).await;
        let answer = app.post("ann", &format!("/v1/runs/{run}/respond"), json!({ "answer": value })).await.expect(200);
        assert_eq!(answer["decision"]["answer"], value);
        assert_eq!(answer["request_id"], request["request_id"]);
        app.step(&run).await;
        assert_eq!(app.get("ann", &format!("/v1/runs/{run}")).await.expect(200)["status"], "completed");
    }
}

#[tokio::test]
async fn d3_an_answer_is_one_of_the_options_exactly() {
    let app = App::new();
    let question = json!({ "question": "?", "options": [{ "value": "1" }, { "value": 2 }, { "value": true }] });
    let (run, request) = app.asking("ann", question).await;
    let url = format!("/v1/runs/{run}/respond");
    for other in [json!(1), json!("2"), json!("true"), json!("1 "), json!([]), json!({}), Value::Null] {
        let body = json!({ "decision": "answer", "answer": other });
        app.post("ann", &url, body).await.expect_problem(400, "invalid-answer");
    }
    app.post("ann", &respond_url(&request), json!({ "decision": "answer", "answer": 2 })).await.expect(200);
}

#[tokio::test]
async fn an_answer_alone_is_for_the_one_waiting_question() {
    let app = App::new();
    let (run, _) = app.waiting("ann").await;
    let url = format!("/v1/runs/{run}/respond");
    // One request waits, but it is no question.
    app.post("ann", &url, json!({ "answer": "yes" })).await.expect_problem(400, "invalid-answer");
    app.post("ann", &url, json!({})).await.expect_problem(400, "invalid-body");
    let both = json!({ "decision": "deny", "answer": "yes" });
    app.post("ann", &url, both).await.expect_problem(400, "invalid-answer");

    let two = vec![call("a", "deploy", r#"{"n":1}"#), call("b", "deploy", r#"{"n":2}"#)];
    let run = app.run("ann", vec![two]).await;
    let url = format!("/v1/runs/{run}/respond");
    let several = app.post("ann", &url, json!({ "decision": "deny" })).await.expect_problem(409, "wrong-state");
    assert!(several["detail"].as_str().unwrap().contains("2 requests wait"));
}

/// C4, E1, E11, case 20: at the exact edge list, view and sweep agree that it is open; after it nothing is
/// offered and nothing taken, and the journal tells of an expiry and of no approval.
#[tokio::test]
async fn c4_e1_e11_case_20_after_its_time_a_request_is_gone_and_says_so() {
    let app = App::new();
    let (run, request) = app.waiting("ann").await;
    let url = format!("/v1/requests/{}", request["request_id"].as_str().unwrap());
    app.world.clock.advance(24 * 3_600_000);
    assert_eq!(app.get("ann", &url).await.expect(200)["status"], "pending");
    assert_eq!(app.get("ann", "/v1/requests").await.expect(200)["items"].as_array().unwrap().len(), 1);
    assert_eq!(dormouse_api::sweep(&app.world.engine).await.unwrap().due, 0);
    app.world.clock.advance(1);
    assert_eq!(dormouse_api::sweep(&app.world.engine).await.unwrap().woken, 1);
    let shown = app.get("ann", &url).await.expect(200);
    assert_eq!((&shown["status"], &shown["decisions"]), (&json!("expired"), &json!([])));
    assert_eq!(app.get("ann", "/v1/requests").await.expect(200)["items"], json!([]));
    assert_eq!(app.get("ann", &format!("/v1/runs/{run}")).await.expect(200)["requests"], json!([]));
    let gone = app.post("ann", &respond_url(&request), approval(&request)).await.expect_problem(410, "expired");
    assert_eq!(gone["request_status"], "expired");
    app.step(&run).await;
    let gone = app.post("ann", &respond_url(&request), approval(&request)).await.expect_problem(410, "expired");
    assert_eq!(gone["request_status"], "expired");
    assert_eq!(app.world.tools.count("deploy"), 0);
    let journal = app.get("ann", &format!("/v1/runs/{run}/journal")).await.text;
    assert!(journal.contains("RequestExpired") && !journal.contains("RequestDecided"), "{journal}");
}

/// Case 17: whoever only looks, be it at the address that takes the answer, decides nothing.
#[tokio::test]
async fn case_17_looking_decides_nothing() {
    let app = App::new();
    let (run, request) = app.waiting("ann").await;
    let digest = request["digest"].as_str().unwrap();
    for url in [respond_url(&request), format!("/v1/runs/{run}/respond")] {
        for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
            let url = format!("{url}?decision=approve&digest={digest}");
            let answer = app.send(event("ann", method.clone(), &url, &approval(&request).to_string())).await;
            assert_eq!(answer.status, 405, "{method} {url}");
        }
    }
    assert_eq!(app.get("ann", &format!("/v1/runs/{run}")).await.expect(200)["requests"], json!([request]));
}

/// Case 19: a decision for a run that no longer listens is never a 200.
#[tokio::test]
async fn c4_case_19_a_cancelled_runs_request_is_gone() {
    let app = App::new();
    let (run, request) = app.waiting("ann").await;
    app.post("ann", &format!("/v1/runs/{run}/cancel"), json!({ "reason": "no" })).await.expect(200);
    for url in [respond_url(&request), format!("/v1/runs/{run}/respond")] {
        let gone = app.post("ann", &url, approval(&request)).await.expect_problem(410, "expired");
        assert_eq!(gone["request_status"], "cancelled", "{url}");
    }
}

/// Case 5 and A16: to anybody else it does not exist, in the very same words as what never did.
#[tokio::test]
async fn a16_case_5_somebody_elses_is_what_never_was() {
    let app = App::new();
    let (run, request) = app.waiting("ann").await;
    let id = request["request_id"].as_str().unwrap();
    let other = "run_ffffffffffffffffffffffffffffffff";
    let kinds = [
        (
            vec![id.to_owned(), format!("{other}.3.0"), format!("{run}.3.7"), "nonsense".into(), "%2e".into()],
            "requests",
            "",
        ),
        (vec![id.to_owned(), format!("{other}.3.0"), format!("{run}.3.7"), "nonsense".into()], "requests", "/respond"),
        (vec![run.clone(), other.into(), "nonsense".into(), "run_x".into()], "runs", ""),
        (vec![run.clone(), other.into(), "nonsense".into()], "runs", "/journal"),
        (vec![run.clone(), other.into(), "nonsense".into()], "runs", "/events"),
        (vec![run.clone(), other.into(), "nonsense".into()], "runs", "/respond"),
        (vec![run.clone(), other.into(), "nonsense".into()], "runs", "/messages"),
        (vec![run.clone(), other.into(), "nonsense".into()], "runs", "/pause"),
        (vec![run.clone(), other.into(), "nonsense".into()], "runs", "/mode"),
    ];
    for (ids, list, action) in kinds {
        let (method, body) = match action {
            "/respond" => (Method::POST, approval(&request)),
            "/messages" => (Method::POST, json!({ "text": "hi" })),
            "/pause" => (Method::POST, json!({})),
            "/mode" => (Method::PUT, json!({ "mode": "plan" })),
            _ => (Method::GET, json!({})),
        };
        let mut answers = Vec::new();
        for id in ids {
            let url = format!("/v1/{list}/{id}{action}");
            answers.push(app.send(event("bob", method.clone(), &url, &body.to_string())).await);
        }
        answers[0].expect_problem(404, "not-found");
        assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{list}{action}: {answers:#?}");
    }
    for list in ["/v1/runs", "/v1/requests"] {
        assert_eq!(app.get("bob", list).await.expect(200), json!({ "items": [] }));
    }
    // Another tenant's user of the same name is somebody else.
    let mut foreign = event("ann", Method::POST, &respond_url(&request), &approval(&request).to_string());
    foreign.request_context.authorizer.fields.insert("tenant".into(), "other".into());
    app.send(foreign).await.expect_problem(404, "not-found");
    app.post("ann", &respond_url(&request), approval(&request)).await.expect(200);
}
