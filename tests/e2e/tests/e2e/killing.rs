//! `kill -9` at moments that nobody chose.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use dormouse_e2e::{
    Agents, Api, ModelServer, Process, Seed, Spawned, Tool, ToolAnswer, ToolServer, anthropic,
    assert_every_call_has_one_result,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::sleep;

const KILLS: u32 = 10;
/// The longest that a process lives, but for the last.
const LIFE: Duration = Duration::from_millis(900);

/// Calls of the tool `act`, which is `manual`, and of `look`, which is `safe`.
fn replies() -> Vec<String> {
    let call = |id: &str, tool: &str| format!(r#"{{"type":"tool_use","id":"{id}","name":"{tool}","input":{{}}}}"#);
    let turn = |calls: &[String]| anthropic(&calls.iter().map(String::as_str).collect::<Vec<_>>());
    vec![
        turn(&[call("a", "act"), call("b", "act")]),
        turn(&[call("c", "look"), call("d", "act")]),
        turn(&[call("e", "act")]),
        turn(&[call("f", "look")]),
        anthropic(&[r#"{"type":"text","text":"Done."}"#]),
    ]
}

/// Where the runs live, and what they talk to.
struct World {
    model: ModelServer,
    tools: ToolServer,
    agents: Agents,
    data: TempDir,
}

impl World {
    async fn new(seed: &Arc<Mutex<Seed>>) -> Self {
        let tools = ToolServer::start().await;
        for tool in ["act", "look"] {
            let seed = Arc::clone(seed);
            tools.serves(tool, move |_| {
                let delay = seed.lock().unwrap().time_below(Duration::from_millis(120));
                async move { ToolAnswer::text("done").after(delay) }
            });
        }
        let agents = Agents::new().with(
            "ops",
            "anthropic:claude-test",
            &[
                Tool::http("act", &tools.url("act")).allowed(),
                Tool::http("look", &tools.url("look")).reads().set("replay", "\"safe\""),
            ],
        );
        Self { model: ModelServer::start(replies()).await, tools, agents, data: TempDir::new().unwrap() }
    }

    async fn process(&self) -> Process {
        Process::start(self.data.path(), &self.agents, &self.model.environment()).await
    }

    /// How often each call of `tool` arrived, by its key.
    fn arrivals(&self, tool: &str) -> BTreeMap<String, u32> {
        let mut arrivals = BTreeMap::new();
        for call in self.tools.calls_of(tool) {
            *arrivals.entry(call.key().to_owned()).or_default() += 1;
        }
        arrivals
    }
}

/// Starts the run of this key, once, however often it is asked for.
async fn start(api: &Api, key: &str) -> reqwest::Result<Value> {
    let body = json!({"agent": "ops", "input": "Go."}).to_string();
    let request = api.request("POST", "/v1/runs").header("idempotency-key", key).body(body);
    Api::try_send(request).await.map(|answer| answer.expect(202))
}

/// B4, D7, E4, I8: a `manual` call never runs twice without a person's word, and every run comes to
/// an end or waits for a person.
#[tokio::test]
async fn b4_d7_e4_a_process_that_is_killed_at_any_moment_repeats_no_manual_call() {
    let seed = Arc::new(Mutex::new(Seed::printed()));
    let world = World::new(&seed).await;
    for kill in 0..KILLS {
        let life = seed.lock().unwrap().time_below(LIFE);
        if seed.lock().unwrap().below(4) == 0 {
            // While it starts.
            let process = Spawned::new(world.data.path(), &world.agents, &world.model.environment());
            sleep(life / 2).await;
            drop(process);
            continue;
        }
        let process = world.process().await;
        let api = process.api.clone();
        let starting = tokio::spawn(async move { start(&api, &format!("run-{kill}")).await });
        sleep(life).await;
        process.kill();
        // An answer or a broken connection; the key tells later which it was.
        let _either = starting.await.expect("a start does not panic");
    }

    let process = world.process().await;
    let mut runs = Vec::new();
    for kill in 0..KILLS {
        let started = start(&process.api, &format!("run-{kill}")).await.expect("an answer");
        runs.push(started["run_id"].as_str().unwrap().to_owned());
    }
    let listed = process.api.get("/v1/runs?limit=100").await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), runs.len(), "one run for each key");

    let rests = |run: &Value| ["completed", "waiting"].contains(&run["status"].as_str().unwrap());
    for run in &runs {
        process.api.run_when(run, "at an end or waiting", rests).await;
    }
    for (key, count) in world.arrivals("act") {
        assert_eq!(count, 1, "{key} ran {count} times, and nobody said that it may");
    }
    let mut settled = 0;
    for run in &runs {
        settled += finish(&process.api, run).await;
        account_for(&world, run, &process.api.journal(run).await);
    }
    println!("{settled} calls were a person's to settle");
    for (key, count) in world.arrivals("act") {
        assert_eq!(count, 1, "{key} ran {count} times, and nobody said that it may");
    }
    for (key, count) in world.arrivals("look") {
        assert!(count <= 3, "{key} was tried {count} times");
    }
    for request in world.model.requests() {
        assert_every_call_has_one_result(&request.body);
    }
}

/// Settles what waits in `run`, until it is over; returns how much that was.
async fn finish(api: &Api, run: &str) -> u32 {
    let mut settled = 0;
    loop {
        let rests = |run: &Value| ["completed", "waiting"].contains(&run["status"].as_str().unwrap());
        let view = api.run_when(run, "at an end or waiting", rests).await;
        if view["status"] == "completed" {
            return settled;
        }
        for request in view["requests"].as_array().unwrap() {
            assert_eq!((&request["kind"], &request["tool"]), (&json!("uncertain"), &json!("act")), "{request}");
            api.respond(request, &json!({"decision": "settle", "resolution": "abort"})).await.expect(200);
            settled += 1;
        }
    }
}

/// A result in the journal is that of a call that arrived.
fn account_for(world: &World, run: &str, journal: &[Value]) {
    let (act, look) = (world.arrivals("act"), world.arrivals("look"));
    for finished in journal.iter().filter(|entry| entry["kind"] == "CallFinished") {
        let key = format!("{run}.{}", finished["call"].as_str().unwrap());
        if finished["result"]["outcome"] == "returned" {
            assert!(act.contains_key(&key) || look.contains_key(&key), "{finished}");
        }
    }
}
