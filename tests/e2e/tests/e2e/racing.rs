//! Many people answer at once.

use dormouse_e2e::{Agents, Answer, Api, TestStack, Tool, ToolServer};
use futures::future::join_all;
use serde_json::{Value, json};

const CLIENTS: usize = 16;
/// Rounds that are under way at once.
const AT_ONCE: usize = 4;

const SCRIPT: &str = r#"
[[replies]]
[[replies.calls]]
name = "deploy"
arguments = { service = "web" }

[[replies]]
text = "It says: {{result}}"
"#;

fn ops(tools: &ToolServer) -> Agents {
    Agents::new().scripted("ops", SCRIPT, &[Tool::http("deploy", &tools.url("deploy")).asks()])
}

/// What client `number` of `CLIENTS` answers: half of them approve, half deny.
fn answer(number: usize, request: &Value) -> Value {
    if number.is_multiple_of(2) {
        json!({"decision": "approve", "digest": request["digest"]})
    } else {
        json!({"decision": "deny", "reason": format!("client {number} says no")})
    }
}

/// Where a client answers `request`.
type Path = fn(number: usize, request: &Value) -> String;

fn by_its_name(_: usize, request: &Value) -> String {
    format!("/v1/requests/{}/respond", request["request_id"].as_str().unwrap())
}

/// Half of the clients by the request's name, half by its run's, whatever they decide.
fn by_either_name(number: usize, request: &Value) -> String {
    match number % 4 {
        0 | 1 => by_its_name(number, request),
        _ => format!("/v1/runs/{}/respond", request["run_id"].as_str().unwrap()),
    }
}

/// E2, cases 1 and 2: one answer stands, through whichever endpoint it came; everybody else is told
/// which, and what it says happens once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e2_case_1_case_2_sixteen_clients_answer_at_once() {
    race(180, by_either_name).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e2_case_1_sixteen_clients_answer_one_request_by_its_name() {
    race(20, by_its_name).await;
}

/// Case 25: clients that are one client, which was impatient: all are told the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_case_25_one_answer_sent_sixteen_times_at_once_under_one_key() {
    let tools = ToolServer::start().await;
    let agents = ops(&tools);
    let stack = TestStack::in_memory(&agents).await;
    let api = &stack.api;
    for (round, path) in [by_its_name as Path, by_either_name].into_iter().cycle().take(10).enumerate() {
        let run = api.start("ops", "Deploy web.").await;
        let request = api.request_of(&run).await;
        let (body, path) = (answer(round, &request), path(2, &request));
        let key = format!("round-{round}");
        let answers = join_all((0..CLIENTS).map(|_| api.post_with_key(&path, &key, &body))).await;
        let answers: Vec<_> = answers.into_iter().map(|answer| answer.expect(200)).collect();
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
        api.run_that_is(&run, "completed").await;
        assert_eq!(api.entries(&run, "RequestDecided").await.len(), 1);
    }
    assert_eq!(tools.calls().len(), 5, "half of the rounds approve");
}

/// Case 25: the same for a start; there is one run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_25_one_start_sent_sixteen_times_at_once_under_one_key() {
    let tools = ToolServer::start().await;
    let agents = ops(&tools);
    let stack = TestStack::in_memory(&agents).await;
    let body = json!({"agent": "ops", "input": "Deploy web."});
    let answers = join_all((0..CLIENTS).map(|_| stack.api.post_with_key("/v1/runs", "k", &body))).await;
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.expect(202)).collect();
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert_eq!(stack.api.get("/v1/runs").await.expect(200)["items"].as_array().unwrap().len(), 1);
}

async fn race(rounds: usize, path: Path) {
    let tools = ToolServer::start().await;
    let agents = ops(&tools);
    let stack = TestStack::in_memory(&agents).await;
    let api = &stack.api;
    let mut runs = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        runs.push(api.start("ops", "Deploy web.").await);
    }
    let mut approved = Vec::new();
    for runs in runs.chunks(AT_ONCE) {
        let rounds = runs.iter().map(|run| async move {
            let request = api.request_of(run).await;
            let answers = answer_at_once(api, &request, path).await;
            (run, one_stands(&request, answers))
        });
        let rounds = join_all(rounds).await;
        approved.extend(rounds.into_iter().filter(|(_, decision)| *decision == "approve").map(|(run, _)| run.clone()));
    }
    for run in &runs {
        let done = api.run_that_is(run, "completed").await;
        let ran = approved.contains(run);
        assert_eq!(done["output"].as_str().unwrap().contains("declined"), !ran, "{done}");
        let journal = api.journal(run).await;
        let count = |kind: &str| journal.iter().filter(|entry| entry["kind"] == kind).count();
        assert_eq!((count("RequestDecided"), count("CallDispatched")), (1, usize::from(ran)));
    }
    let called: Vec<_> = tools.calls().iter().map(|call| call.body["run_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(called.len(), approved.len(), "each approved call ran once");
    assert!(approved.iter().all(|run| called.contains(run)));
}

async fn answer_at_once(api: &Api, request: &Value, path: Path) -> Vec<Answer> {
    let clients = (0..CLIENTS).map(|number| {
        let (path, body) = (path(number, request), answer(number, request));
        async move { api.post(&path, &body).await }
    });
    join_all(clients).await
}

/// Checks that one of `answers` was taken and that the others name it; returns which decision it was.
fn one_stands(request: &Value, answers: Vec<Answer>) -> String {
    let (taken, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 200);
    assert_eq!(taken.len(), 1, "{taken:?}");
    let stands = taken[0].body["decision"].clone();
    assert_eq!(taken[0].body["request_id"], request["request_id"]);
    for answer in refused {
        let problem = answer.problem(409, "already-decided");
        assert_eq!(problem["decision"], stands);
    }
    stands["decision"].as_str().unwrap().to_owned()
}
