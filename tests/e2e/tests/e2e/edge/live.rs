//! The whole stack over HTTP, at the edge in real time.

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use dormouse_domain::{audit, record};
use dormouse_e2e::{Agents, Answer, Api, Fate, Network, Seed, TestStack, Tool, ToolServer};
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::DECIDERS;

/// When the deciders of each run come, in milliseconds after its edge: from long before it, so that one
/// of them surely wins, to so late that the answer of none can arrive in time.
const AROUND: [Range<i64>; 8] = [-2000..100, -1000..100, -500..100, -200..100, -80..60, -20..30, -5..20, 1..20];
/// How far apart the runs are.
const APART: Duration = Duration::from_millis(500);
/// How long a request can be decided.
const LIFE: Duration = Duration::from_millis(5_000);

const SCRIPT: &str = r#"
[[replies]]
[[replies.calls]]
name = "deploy"
arguments = { service = "web" }

[[replies]]
text = "It says: {{result}}"
"#;

/// Now, in milliseconds.
fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// The moment of an RFC 3339 time, in milliseconds.
fn moment(time: &Value) -> i64 {
    time.as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond()
}

/// What everybody was told about one request.
struct Round {
    run: String,
    request: Value,
    answers: Vec<Answer>,
}

/// Lets everybody at `request` at moments of theirs, in milliseconds after its edge.
async fn round(api: &Api, mut seed: Seed, (run, request, link): Waiting, when: Range<i64>) -> Round {
    let edge = moment(&request["decide_by"]);
    let deciders = (0..DECIDERS).map(|number| {
        let after = when.start + i64::try_from(seed.below(when.end.abs_diff(when.start))).unwrap();
        let (run, request, link) = (&run, &request, &link);
        async move {
            sleep(Duration::from_millis((edge + after - now()).try_into().unwrap_or(0))).await;
            let path = match number % 3 {
                0 => format!("/v1/requests/{}/respond", request["request_id"].as_str().unwrap()),
                1 => format!("/v1/runs/{run}/respond"),
                _ => link.clone(),
            };
            let body = match number % 2 {
                0 => json!({"decision": "approve", "digest": request["digest"]}),
                _ => json!({"decision": "deny", "reason": format!("{number} says no")}),
            };
            api.post(&path, &body).await
        }
    });
    let looks = async {
        while now() < edge + when.end {
            let began = now();
            let listed = api.get("/v1/requests").await.expect(200);
            let mut listed = listed["items"].as_array().unwrap().iter();
            let offered = listed.any(|one| one["request_id"] == request["request_id"]);
            assert!(!offered || began <= edge, "offered after its time");
            sleep(Duration::from_millis(15)).await;
        }
    };
    let (answers, ()) = tokio::join!(join_all(deciders), looks);
    Round { run, request, answers }
}

/// The decision that everybody was told of, if there is one.
fn agreed(round: &Round) -> Option<Value> {
    let edge = moment(&round.request["decide_by"]);
    let taken: Vec<_> = round.answers.iter().filter(|answer| answer.status == 200).collect();
    assert!(taken.len() <= 1, "{taken:?}");
    let stands = taken.first().map(|answer| answer.body["decision"].clone());
    if let Some(stands) = &stands {
        assert!(moment(&stands["at"]) <= edge, "{stands} after {edge:?}");
    }
    for answer in round.answers.iter().filter(|answer| answer.status != 200) {
        if answer.status == 409 {
            let told = answer.clone().problem(409, "already-decided")["decision"].clone();
            assert_eq!(Some(told), stands);
        } else {
            // A link that ends with its request says so of itself.
            let told = answer.clone().problem(410, "expired");
            let by_link = told["detail"].as_str().unwrap().contains("this link has expired");
            assert!(by_link || told["request_status"] == "expired", "{told}");
        }
    }
    stands
}

async fn journal_agrees(api: &Api, round: &Round, stands: Option<&Value>) {
    let decided = api.entries(&round.run, "RequestDecided").await;
    assert_eq!(decided.len(), usize::from(stands.is_some()), "{}", round.request);
    for (entry, stands) in decided.iter().zip(stands) {
        assert_eq!((&entry["decision"]["decision"], &entry["at"]), (&stands["decision"], &stands["at"]));
    }
    let recording = record::read(&api.recording(&round.run).await).unwrap();
    let definition = Arc::new(recording.header.definition);
    assert_eq!(audit::journal(&recording.header.run_id, &definition, &recording.entries).unwrap(), []);
}

fn ops(tools: &ToolServer) -> Agents {
    let settings = format!("decide_within = \"{}ms\"\n", LIFE.as_millis());
    let deploy = [Tool::http("deploy", &tools.url("deploy")).asks()];
    Agents::new().scripted("ops", SCRIPT, &deploy).with_settings("ops", "scripted:scripts/ops.toml", &settings, &deploy)
}

async fn stack(agents: &Agents, network: &Network, sweep_every: Duration) -> TestStack {
    let mut config = TestStack::config(network.backend(), agents);
    config.sweep_every = sweep_every;
    TestStack::start(config).await
}

/// A run that waits, its request, and the path of a link to that, good for as long.
type Waiting = (String, Value, String);

async fn waiting(api: &Api) -> Waiting {
    // On a machine that is busy with something else one can run out before it is seen.
    loop {
        let run = api.start("ops", "Deploy web.").await;
        let seen = |view: &Value| !["queued", "running"].contains(&view["status"].as_str().unwrap());
        let view = api.run_when(&run, "waiting or over", seen).await;
        assert_ne!(view["status"], "failed", "{view}");
        if view["requests"] != json!([]) {
            let request = view["requests"][0].clone();
            let path = format!("/v1/requests/{}/links", request["request_id"].as_str().unwrap());
            let link = api.post(&path, &json!({ "expires_in": "1d" })).await;
            if link.status == 201 {
                assert_eq!(link.body["expires_at"], request["decide_by"]);
                return (run, request, link.body["path"].as_str().unwrap().to_owned());
            }
        }
    }
}

/// Cases 1, 2, 20: the deciders come while the request runs out, and so does the sweep. One wins or the
/// expiry does; everybody is told which.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e1_e2_e11_x6_case_20_sixty_four_clients_by_api_and_link_at_the_edge_and_the_sweep() {
    let mut seed = Seed::printed();
    let tools = ToolServer::start().await;
    let agents = ops(&tools);
    let stack = stack(&agents, &Network::new(), Duration::from_millis(50)).await;
    // One after the other, so that the deciders of one do not delay those of the next.
    let rounds = (0..).zip(AROUND).map(|(place, when)| {
        let fork = Seed::of(seed.below(u64::MAX));
        let api = &stack.api;
        async move {
            sleep(APART * place).await;
            let waiting = waiting(api).await;
            round(api, fork, waiting, when).await
        }
    });
    let rounds = join_all(rounds).await;
    let (mut approved, mut decided) = (0, 0);
    for round in &rounds {
        let stands = agreed(round);
        let done = stack.api.run_that_is(&round.run, "completed").await;
        let status = if stands.is_some() { "decided" } else { "expired" };
        let path = format!("/v1/requests/{}", round.request["request_id"].as_str().unwrap());
        assert_eq!(stack.api.get(&path).await.expect(200)["status"], status);
        let expected = match stands.as_ref().map(|stands| stands["decision"].as_str().unwrap()) {
            Some("approve") => "done",
            Some(_) => "declined",
            None => "expired",
        };
        assert!(done["output"].as_str().unwrap().contains(expected), "{done}, {stands:?}");
        approved += usize::from(expected == "done");
        decided += usize::from(stands.is_some());
        journal_agrees(&stack.api, round, stands.as_ref()).await;
        let expiries = stack.api.entries(&round.run, "RequestExpired").await.len();
        assert_eq!(expiries, usize::from(stands.is_none()));
    }
    println!("{decided} of {} requests were decided", rounds.len());
    assert_eq!(tools.calls().len(), approved, "what was approved ran once, and nothing else did");
}

/// Case 24: nothing looks at the runs any more, no sweep and no timer. After the edge nobody wins all the
/// same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e1_e2_e11_x6_case_24_nobody_wins_by_api_or_link_after_the_edge_without_a_sweep() {
    let mut seed = Seed::printed();
    let tools = ToolServer::start().await;
    let network = Network::new();
    let agents = ops(&tools);
    let hour = Duration::from_secs(3600);
    let opened = stack(&agents, &network, hour).await;
    let waiting = join_all(AROUND.map(|_| waiting(&opened.api))).await.into_iter();
    drop(opened);
    // The queue's timers are gone with it, and of a new queue nothing is received.
    let network = network.with_new_sqs();
    network.sqs.judged_by(|operation| if operation == "ReceiveMessage" { Fate::Stuck } else { Fate::Answered });
    let stack = stack(&agents, &network, hour).await;
    let api = &stack.api;
    let rounds = join_all(waiting.map(|waiting| {
        let fork = Seed::of(seed.below(u64::MAX));
        round(api, fork, waiting, 1..80)
    }))
    .await;
    for round in &rounds {
        assert_eq!(agreed(round), None);
        let path = format!("/v1/requests/{}", round.request["request_id"].as_str().unwrap());
        let shown = api.get(&path).await.expect(200);
        assert_eq!((&shown["status"], &shown["decisions"]), (&json!("expired"), &json!([])));
        journal_agrees(api, round, None).await;
        assert_eq!(api.entries(&round.run, "RequestExpired").await.len(), 0, "nobody has looked");
        assert_eq!(api.run(&round.run).await["requests"], json!([]));
    }
    assert_eq!(api.get("/v1/requests").await.expect(200)["items"], json!([]));
    assert_eq!(tools.calls().len(), 0);
}

/// Cases 21 and 22: nobody ever answers. The expiry itself moves the run on, and what the model reads says
/// "expired, not run", and never that it is still pending.
#[tokio::test]
async fn c7_case_21_case_22_nobody_ever_answers() {
    let tools = ToolServer::start().await;
    let agents = ops(&tools);
    let stack = stack(&agents, &Network::new(), Duration::from_secs(1)).await;
    let run = stack.api.start("ops", "Deploy web.").await;
    let done = stack.api.run_that_is(&run, "completed").await;
    let output = done["output"].as_str().unwrap();
    assert!(output.contains("Not run") && output.contains("expired"), "{output}");
    assert!(!output.to_lowercase().contains("pending"), "{output}");
    assert_eq!(stack.api.entries(&run, "RequestExpired").await.len(), 1);
    assert_eq!(tools.calls().len(), 0);
}
