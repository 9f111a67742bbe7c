//! The shapes that clients rely on, whole.

use dormouse_domain::price::Cost;
use dormouse_testkit::{agent, call, say};
use serde_json::{Value, json};

use crate::app::{AGENT, App, approval, event, respond_url};

const AT: &str = "2023-11-14T22:13:20.000Z";
const NEXT_DAY: &str = "2023-11-15T22:13:20.000Z";

fn ann() -> Value {
    json!({ "tenant": "acme", "subject": "ann" })
}

fn deploy_request(run: &str, digest: &Value) -> Value {
    json!({
        "request_id": format!("{run}.3.0"),
        "run_id": run,
        "call": "2.0",
        "kind": "approval",
        "status": "pending",
        "tool": "deploy",
        "summary": r#"deploy(env: "test")"#,
        "arguments": { "env": "test" },
        "digest": digest,
        "mutates": true,
        "decisions": ["approve", "always", "edit", "deny"],
        "always": { "scopes": ["run", "owner"] },
        "reasons": ["mode normal: tools that change anything ask"],
        "agents": ["ops"],
        "owner": ann(),
        "repeats": { "while_pending": 0, "after_refusal": 0 },
        "opened_at": AT,
        "wait_until": NEXT_DAY,
        "decide_by": NEXT_DAY,
    })
}

#[tokio::test]
async fn a4_c3_a_run_and_its_request() {
    let app = App::new();
    let (run, request) = app.waiting("ann").await;
    assert!(request["digest"].as_str().unwrap().starts_with("sha256:"));
    let mut expected = deploy_request(&run, &request["digest"]);
    // The policy's words are its own.
    expected["reasons"] = request["reasons"].clone();
    assert_eq!(request["reasons"].as_array().unwrap().len(), 1);
    let id = request["request_id"].as_str().unwrap();
    assert_eq!(app.get("ann", &format!("/v1/requests/{id}")).await.expect(200), expected);
    assert_eq!(app.get("ann", "/v1/requests").await.expect(200), json!({ "items": [expected] }));

    let mut view = json!({
        "run_id": run,
        "owner": ann(),
        "agent": "ops",
        "title": "go",
        "status": "waiting",
        "mode": "normal",
        "metadata": {},
        "turns": 1,
        "usage": { "input_tokens": 10, "output_tokens": 5, "cost_usd": 0.0 },
        "pending": 1,
        "repeats": { "while_pending": 0, "after_refusal": 0 },
        "created_at": AT,
        "updated_at": AT,
    });
    assert_eq!(app.get("ann", "/v1/runs").await.expect(200), json!({ "items": [view] }));
    view["requests"] = json!([expected]);
    assert_eq!(app.get("ann", &format!("/v1/runs/{run}")).await.expect(200), view);
}

#[tokio::test]
async fn e4_a_start_a_decision_and_an_end() {
    let app = App::new();
    let (run, request) = app.waiting("ann").await;
    let decided = app.post("ann", &respond_url(&request), approval(&request)).await.expect(200);
    let decision = json!({ "decision": "approve", "by": ann(), "at": AT });
    assert_eq!(
        decided,
        json!({
            "request_id": request["request_id"],
            "status": "decided",
            "decision": decision,
            "run": { "run_id": run, "status": "queued" },
            "note": decided["note"],
        })
    );
    // E4: one decision is not one execution, and the answer says so.
    let note = decided["note"].as_str().unwrap();
    assert!(note.contains("once and for all") && note.contains("repeated only if"), "{note}");
    let mut shown = request.clone();
    shown["status"] = json!("decided");
    shown["decisions"] = json!([]);
    shown.as_object_mut().unwrap().remove("always");
    shown["decision"] = decision;
    let url = format!("/v1/requests/{}", request["request_id"].as_str().unwrap());
    assert_eq!(app.get("ann", &url).await.expect(200), shown);

    app.step(&run).await;
    let view = app.get("ann", &format!("/v1/runs/{run}")).await.expect(200);
    assert_eq!(
        (&view["status"], &view["output"], &view["requests"]),
        (&json!("completed"), &json!("done"), &json!([]))
    );
    assert_eq!(view["outcome"]["status"], "completed");
    assert!(view["outcome"]["why"].is_string());
}

#[tokio::test]
async fn a_question() {
    let app = App::new();
    let options = json!([{ "value": "a", "label": "A" }, { "value": false, "cancels": true }]);
    let (_, request) = app.asking("ann", json!({ "question": "Which?", "options": options })).await;
    let options = json!([{ "value": "a", "label": "A" }, { "value": false, "label": "false", "cancels": true }]);
    for (field, value) in [
        ("kind", json!("question")),
        ("tool", json!("ask_user")),
        ("mutates", json!(false)),
        ("question", json!("Which?")),
        ("options", options),
        ("allow_free_text", json!(false)),
        ("decisions", json!(["answer"])),
    ] {
        assert_eq!(request[field], value, "{field}");
    }
}

#[tokio::test]
async fn c5_a_ceiling_and_its_raise() {
    let app = App::new();
    let mut definition = agent("ops", &format!("limits = {{ turns = 1, cost_usd = 2.5 }}\n{AGENT}"));
    definition.prices[0].price.input = Cost::of_dollars(0.125);
    app.world.agents.add(definition);
    let run = app.run("ann", vec![vec![call("l", "no_such_tool", "{}")], vec![say("done")]]).await;
    let view = app.get("ann", &format!("/v1/runs/{run}")).await.expect(200);
    assert_eq!((&view["status"], &view["usage"]["cost_usd"]), (&json!("waiting"), &json!(1.25)));
    let request = &view["requests"][0];
    let digest = &request["digest"];
    assert_eq!(
        *request,
        json!({
            "request_id": request["request_id"],
            "run_id": run,
            "kind": "budget",
            "status": "pending",
            "summary": "the limit of 1 turns is reached",
            "budget": {
                "ceilings": { "turns": 1, "tokens": 400_000, "cost_usd": 2.5, "wall_s": 21_600.0 },
                "used": { "turns": 1, "tokens": 15, "cost_usd": 1.25, "wall_s": 0.0 },
            },
            "digest": digest,
            "mutates": false,
            "decisions": ["raise", "stop"],
            "reasons": ["the limit of 1 turns is reached"],
            "agents": ["ops"],
            "owner": ann(),
            "repeats": { "while_pending": 0, "after_refusal": 0 },
            "opened_at": AT,
            "wait_until": NEXT_DAY,
            "decide_by": NEXT_DAY,
        })
    );
    let raise = json!({ "decision": "raise", "by": { "turns": 1, "cost_usd": 0.5, "wall_s": 1.5 } });
    let decided = app.post("ann", &respond_url(request), raise).await.expect(200);
    let raised = json!({ "turns": 1, "tokens": 0, "cost_usd": 0.5, "wall_s": 1.5 });
    assert_eq!(decided["decision"], json!({ "decision": "raise", "raised": raised, "by": ann(), "at": AT }));
    app.step(&run).await;
    let journal = app.get("ann", &format!("/v1/runs/{run}/journal")).await.expect(200);
    let items = journal["items"].as_array().unwrap();
    let entry = items.iter().find(|item| item["kind"] == "RequestDecided").unwrap();
    assert_eq!(entry["decision"], json!({ "decision": "raise", "raised": raised }));
    assert_eq!(app.get("ann", &format!("/v1/runs/{run}")).await.expect(200)["status"], "completed");
}

#[tokio::test]
async fn d5_d6_a_run_that_was_delegated() {
    let app = App::new();
    let delegates = "[[tools]]\nbuiltin = \"delegate\"\nagents = [\"ops\"]";
    app.world.agents.add(agent("ops", &format!("{AGENT}\n{delegates}")));
    let task = r#"{"agent":"ops","task":"look into it"}"#;
    let run = app.run("ann", vec![vec![call("d", "delegate", task)]]).await;
    let runs = app.get("ann", "/v1/runs").await.expect(200);
    let child = runs["items"].as_array().unwrap().iter().find(|item| item["run_id"] != run.as_str()).unwrap();
    assert_eq!(child["delegated_by"], json!({ "run_id": run, "call": "2.0" }));
    assert_eq!((&child["title"], &child["owner"]), (&json!("look into it"), &ann()));
    let id = child["run_id"].as_str().unwrap();
    app.world.models.reply(vec![call("c1", "deploy", r#"{"env":"test"}"#)]);
    app.step(id).await;
    let inbox = app.get("ann", "/v1/requests").await.expect(200);
    assert_eq!(inbox["items"][0]["agents"], json!(["ops", "ops"]));
    app.post("ann", &respond_url(&inbox["items"][0]), json!({ "decision": "deny" })).await.expect(200);
    app.step(id).await;
    let first = app.get("ann", &format!("/v1/runs/{id}/journal")).await.expect(200)["items"][0].clone();
    assert_eq!(
        first["parent"]["share"],
        json!({ "turns": 39, "tokens": 399_985, "cost_usd": 5.0, "wall_s": 21_600.0 })
    );
    assert_eq!((&first["parent"]["run"], &first["parent"]["mode"]), (&json!(run), &json!("normal")));
    let journal = app.get("ann", &format!("/v1/runs/{run}/journal")).await.expect(200);
    let told = journal["items"].as_array().unwrap().iter().find(|item| item["used"].is_object()).unwrap().clone();
    assert_eq!(told["used"], json!({ "turns": 2, "tokens": 15, "cost_usd": 0.0, "wall_s": 0.0 }));
    assert_eq!(told["result"]["content"][0]["text"], "done");
}

#[tokio::test]
async fn a_journal() {
    let app = App::new();
    let (run, request) = app.waiting("ann").await;
    app.post("ann", &respond_url(&request), json!({ "decision": "deny", "reason": "no" })).await.expect(200);
    app.world.models.reply(vec![say("ok")]);
    app.step(&run).await;
    let journal = app.get("ann", &format!("/v1/runs/{run}/journal")).await.expect(200);
    let items = journal["items"].as_array().unwrap();
    let kinds: Vec<_> = items.iter().map(|item| item["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "RunStarted",
            "DriverStarted",
            "ModelReplied",
            "Suspended",
            "RequestDecided",
            "DriverStarted",
            "ModelReplied",
            "RunFinished"
        ]
    );
    assert!(items.iter().all(|item| item["at"] == AT), "{journal}");
    assert_eq!((&items[0]["owner"], &items[0]["index"]), (&ann(), &json!(0)));
    assert_eq!(items[1]["until"], "2023-11-14T22:16:20.000Z");
    assert!(items[1]["driver"].is_string());
    let opened = &items[3]["requests"][0];
    assert_eq!(opened["request_id"], request["request_id"]);
    assert_eq!(opened["windows"], json!({ "wait_until": NEXT_DAY, "decide_by": NEXT_DAY }));
    assert_eq!(
        items[4],
        json!({
            "index": 4,
            "kind": "RequestDecided",
            "at": AT,
            "request": "3.0",
            "request_id": request["request_id"],
            "decision": { "decision": "deny", "reason": "no" },
            "by": ann(),
        })
    );
}

#[tokio::test]
async fn an_expiry_in_the_journal_names_its_requests() {
    let app = App::new();
    let two = vec![call("a", "deploy", r#"{"n":1}"#), call("b", "deploy", r#"{"n":2}"#)];
    let run = app.run("ann", vec![two]).await;
    app.world.clock.advance(24 * 3_600_000 + 1);
    app.step(&run).await;
    let journal = app.get("ann", &format!("/v1/runs/{run}/journal")).await.expect(200);
    let expired = journal["items"].as_array().unwrap().iter().find(|item| item["kind"] == "RequestExpired").unwrap();
    assert_eq!(expired["requests"], json!([format!("{run}.3.0"), format!("{run}.3.1")]));
}

/// A12: a standing rule is shown with what it lets run, for whom, from which request and by whom, and is taken back.
#[tokio::test]
async fn a12_a_standing_rule() {
    let app = App::new();
    let (run, request) = app.waiting("ann").await;
    let always = json!({ "decision": "always", "scope": "run", "digest": request["digest"] });
    let decided = app.post("ann", &respond_url(&request), always).await.expect(200);
    assert_eq!(decided["decision"], json!({ "decision": "always", "scope": "run", "by": ann(), "at": AT }));
    assert!(decided["note"].as_str().unwrap().contains("until the rule is revoked"), "{decided}");

    let id = format!("run.{}", request["request_id"].as_str().unwrap());
    let mut rule = json!({
        "rule_id": id,
        "scope": "run",
        "run_id": run,
        "agent": "ops",
        "tool": "deploy",
        "about": r#"deploy(env: "test")"#,
        "request_id": request["request_id"],
        "by": ann(),
        "at": AT,
    });
    assert_eq!(app.get("ann", &format!("/v1/rules?run={run}")).await.expect(200), json!({ "items": [rule] }));
    for (query, items) in [("", json!([])), ("?owner=ann", json!([])), ("?agent=ops", json!([]))] {
        assert_eq!(app.get("ann", &format!("/v1/rules{query}")).await.expect(200)["items"], items, "{query}");
    }
    let both = app.get("ann", &format!("/v1/rules?run={run}&agent=ops")).await.expect_problem(400, "invalid-request");
    assert!(both["detail"].as_str().unwrap().contains("at most"), "{both}");
    app.get("ann", "/v1/rules?run=nonsense").await.expect_problem(404, "not-found");

    rule["revoked"] = json!({ "by": ann(), "at": AT });
    for _ in 0..2 {
        let event = event("ann", http::Method::DELETE, &format!("/v1/rules/{id}"), "");
        assert_eq!(app.send(event).await.expect(200), rule);
    }
    assert_eq!(app.get("ann", &format!("/v1/rules?run={run}")).await.expect(200), json!({ "items": [rule] }));
}
