//! `kill -9` at moments that nobody chose, two hundred times, while runs keep arriving and a person
//! keeps answering.
//!
//! `DORMOUSE_KILLS` says how often instead; `DORMOUSE_SEED` repeats the same choices, though not the
//! same schedule.

mod person;
mod world;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use dormouse_domain::{
    Fact, Millis, Next, Run,
    audit::{self, Violation},
    next, record,
};
use dormouse_e2e::{Api, Process, Spawned, assert_every_call_has_one_result, eventually};
use serde_json::{Value, json};
use tokio::{sync::watch, time::sleep};

use person::Person;
use world::World;

const KILLS: u32 = 200;
/// The longest that a process lives once it serves, but for the last.
const LIFE: Duration = Duration::from_millis(340);
/// The longest that a run may stand still, while there is something to do, once nobody kills any more.
/// D7 allows a step's timeout and two minutes. Here a new process takes over at once and the sweep
/// comes each second, so it is far less than the half minute for which the sweep leaves alone what it
/// woke: a wake that is lost for good is found by this.
const BOUND: Duration = Duration::from_secs(20);

fn kills() -> u32 {
    std::env::var("DORMOUSE_KILLS").ok().map_or(KILLS, |text| text.parse().expect("DORMOUSE_KILLS is a number"))
}

/// The key of a start, and the agent: one waits for its person, the other goes on without.
type Key = (String, &'static str);

/// Starts the run of this key, once, however often it is asked for.
async fn start(api: &Api, (key, agent): &Key) -> reqwest::Result<Value> {
    let body = json!({"agent": agent, "input": "Go."}).to_string();
    let request = api.request("POST", "/v1/runs").header("idempotency-key", key).body(body);
    Api::try_send(request).await.map(|answer| answer.expect(202))
}

/// B4, D7, D8, E3, E4, I8: whenever the process is killed, no `manual` call is repeated without a
/// person's word, no decision that was answered is lost or changed, each run comes to its end in time,
/// and each journal is one that the auditor accepts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b4_d7_d8_e3_e4_two_hundred_kills_lose_and_repeat_nothing() {
    let world = Arc::new(World::new().await);
    let (current, serving) = watch::channel(None);
    let mut person = Person::new(Arc::clone(&world));
    let began = Instant::now();
    let (process, runs, last_start) = tokio::select! {
        () = person.answers(serving) => panic!("a person never stops"),
        lived = lives(&world, &current) => lived,
    };
    let api = &process.api;
    println!("{} runs came to their end, {:?} after the first start", runs.len(), began.elapsed());
    let (mut slowest, mut slowest_in_peace) = (Duration::ZERO, Duration::ZERO);
    let mut journals = BTreeMap::new();
    for run in &runs {
        for (since, until) in check_journal(&world, api, run, &mut journals).await {
            slowest = slowest.max(Duration::from_millis(until.since(since)));
            slowest_in_peace = slowest_in_peace.max(Duration::from_millis(until.since(since.max(last_start))));
        }
    }
    let late = journals.values().flatten().filter(|fact| matches!(fact, Fact::WaitExpired { .. })).count();
    println!("{late} times a conversation went on without an answer");
    println!("the longest that a run stood still: {slowest:?}, after the last kill {slowest_in_peace:?}");
    assert!(slowest_in_peace < BOUND, "a run stood still for {slowest_in_peace:?}");
    check_executions(&world, &journals);
    person.check(&journals);
    for request in world.model.requests() {
        assert_every_call_has_one_result(&request.body);
    }
}

/// Kills, and then lets the runs end. Returns the last process, the runs, and when it was started.
async fn lives(world: &World, current: &watch::Sender<Option<Api>>) -> (Process, Vec<String>, Millis) {
    let kills = kills();
    let mut keys = Vec::new();
    let began = Instant::now();
    for kill in 0..kills {
        let life = world.time_below(LIFE);
        if world.below(4) == 0 {
            // While it starts.
            let process = Spawned::new(world.data.path(), &world.agents, &world.environment());
            sleep(life / 3).await;
            drop(process);
            continue;
        }
        let process = world.process().await;
        let api = process.api.clone();
        current.send_replace(Some(api.clone()));
        let starting = (kill % 4 == 0 && kill < kills / 4 * 3 + 1).then(|| {
            let key = (format!("run-{kill}"), if kill % 8 == 0 { "patient" } else { "hasty" });
            keys.push(key.clone());
            tokio::spawn(async move { start(&api, &key).await })
        });
        sleep(life).await;
        current.send_replace(None);
        process.kill();
        if let Some(starting) = starting {
            // An answer or a broken connection; the key tells later which it was.
            let _either = starting.await.expect("a start does not panic");
        }
    }
    println!("{kills} kills in {:?}, {} starts", began.elapsed(), keys.len());

    let process = world.process().await;
    let last_start = now();
    current.send_replace(Some(process.api.clone()));
    let mut runs = Vec::new();
    for key in &keys {
        let started = start(&process.api, key).await.expect("an answer");
        runs.push(started["run_id"].as_str().unwrap().to_owned());
    }
    assert_eq!(listed(&process.api).await, runs.len(), "one run for each key");
    let after_kills = Instant::now();
    for run in &runs {
        let settled = async || is_settled(&process.api, run).await.then_some(());
        eventually(&format!("the end of {run}"), settled).await;
    }
    println!("all are over {:?} after the last kill", after_kills.elapsed());
    (process, runs, last_start)
}

fn now() -> Millis {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Millis(now.as_millis().try_into().unwrap())
}

/// Whether `run` has completed, and nothing is to come of it any more.
async fn is_settled(api: &Api, run: &str) -> bool {
    if api.run(run).await["status"] != "completed" {
        return false;
    }
    let recording = record::read(&api.recording(run).await).unwrap();
    let definition = Arc::new(recording.header.definition);
    let mut folded = Run::start(recording.header.run_id, definition, &recording.entries[0]).unwrap();
    recording.entries[1..].iter().for_each(|entry| folded.apply(entry).unwrap());
    let nothing = Next::Rest { open: Vec::new(), until: None };
    folded.driver.is_none() && next(&folded, recording.header.exported_at) == nothing
}

/// How many runs there are.
async fn listed(api: &Api) -> usize {
    let (mut count, mut cursor) = (0, String::new());
    loop {
        let page = api.get(&format!("/v1/runs?limit=100{cursor}")).await.expect(200);
        count += page["items"].as_array().unwrap().len();
        let Some(next) = page["next_cursor"].as_str() else { return count };
        cursor = format!("&cursor={next}");
    }
}

/// Audits the recording of `run` and adds its facts to `journals`. Returns when it stood still, from when
/// to when, although there was something to do.
async fn check_journal(
    world: &World,
    api: &Api,
    run: &str,
    journals: &mut BTreeMap<String, Vec<Fact>>,
) -> Vec<(Millis, Millis)> {
    let recording = record::read(&api.recording(run).await).unwrap();
    let definition = Arc::new(recording.header.definition);
    let id = recording.header.run_id;
    let found = audit::journal(&id, &definition, &recording.entries).unwrap();
    let found: Vec<_> = found.iter().map(Violation::to_string).collect();
    assert!(found.is_empty(), "{run}: {found:#?}");
    let mut folded = Run::start(id, definition, &recording.entries[0]).unwrap();
    let mut still = Vec::new();
    for pair in recording.entries.windows(2) {
        let (entry, later) = (&pair[0], &pair[1]);
        if entry.index > 0 {
            folded.apply(entry).unwrap();
        }
        // Who rests until a moment has something to do from then on.
        let since = match next(&folded, entry.at) {
            _ if folded.driver.is_some() => Some(entry.at),
            Next::Rest { open, until } if open.is_empty() => until,
            Next::Rest { .. }
            | Next::Dispatch(_)
            | Next::Await
            | Next::CallModel
            | Next::Expire(_)
            | Next::StopWaiting(_)
            | Next::Reopen
            | Next::Finish(_) => Some(entry.at),
        };
        still.extend(since.map(|since| (since, later.at)));
    }
    world.account_for(run, &recording.entries);
    journals.insert(run.to_owned(), recording.entries.into_iter().map(|entry| entry.fact).collect());
    still
}

/// What the tools saw is what the journals allow.
fn check_executions(world: &World, journals: &BTreeMap<String, Vec<Fact>>) {
    let retries = person::retries(journals);
    let mut repeated = 0;
    for (key, (tool, count)) in world.executions() {
        let retries = retries.get(&key).copied().unwrap_or(0);
        repeated += u32::from(count > 1);
        let most = match tool.as_str() {
            "act" | "deploy" => 1 + retries,
            // Three attempts, and three for each time that a person says so.
            _ => 3 + retries,
        };
        assert!(count <= most, "{tool} {key} ran {count} times, with {retries} retries");
    }
    println!("{repeated} calls ran more than once, each for a reason");
}
