//! The clock stands at one side of the edge, on it, at the other side, or moves over it meanwhile.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use dormouse_aws::{DynamoStore, schema::create_table};
use dormouse_domain::{
    Caller, Fact, RequestId, RunId, audit,
    decide::{Answer, Decision, Refusal},
    message::Content,
    request::{DecisionKind, Request, RequestStatus, Settled},
};
use dormouse_engine::{Engine, Ports, Problem, Responded, Settings, StartRun, StepReport, ports::Clock as _};
use dormouse_localstack::emulators::{EmbeddedDynamo, sdk_config};
use dormouse_testkit::{
    AgentList, FakeTools, ManualClock, MemoryQueue, ScriptedModels, SequentialIds, World, agent, answer, approve, call,
    say, test_keys,
};
use futures::future::join_all;

use super::DECIDERS;

const AGENT: &str = r#"
    models = ["scripted:x"]
    decide_within = "1h"
    [[tools]]
    name = "deploy"
    http = { url = "http://tools/deploy" }
"#;

const STEP_MS: u64 = 180_000;

/// An engine over DynamoDB's client, and what it talks to.
struct Bed {
    engine: Engine,
    clock: Arc<ManualClock>,
    models: Arc<ScriptedModels>,
    tools: Arc<FakeTools>,
}

/// Where the clock stands while everybody decides.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Edge {
    Before,
    At,
    After,
    /// From the last moment to the one after it, this long after they began.
    Moves(Duration),
}

/// What became of one request.
struct Outcome {
    decided: Vec<Result<Responded, Problem>>,
    run: RunId,
    request: RequestId,
}

impl Bed {
    async fn new() -> Self {
        let clock = Arc::new(ManualClock::at(dormouse_domain::Millis(1_700_000_000_000)));
        let dynamo = EmbeddedDynamo::memory().unwrap();
        let store = Arc::new(DynamoStore::connect(&sdk_config(dynamo.http_client()), "edge", clock.clone()));
        create_table(store.client(), "edge").await.unwrap();
        let (models, tools) = (Arc::new(ScriptedModels::default()), Arc::new(FakeTools::default()));
        let agents = Arc::new(AgentList::default());
        agents.add(agent("ops", AGENT));
        let ports = Ports {
            store,
            queue: Arc::new(MemoryQueue::default()),
            models: models.clone(),
            tools: tools.clone(),
            agents,
            clock: clock.clone(),
            ids: Arc::new(SequentialIds::default()),
            keys: test_keys(),
        };
        Self { engine: Engine::new(ports, Settings::new("host".to_owned(), STEP_MS)), clock, models, tools }
    }

    async fn step(&self, run: &RunId) -> StepReport {
        let deadline = self.clock.now().plus(STEP_MS);
        self.engine.step(run, deadline).await.unwrap()
    }

    /// A run that waits for an approval, and its request.
    async fn waiting(&self) -> (RunId, Request) {
        let start =
            StartRun { agent: "ops".into(), input: vec![Content::text("go")], mode: None, metadata: BTreeMap::new() };
        let run = self.engine.start(&me(), start, None).await.unwrap().run_id;
        self.models.reply(vec![call("a", "deploy", "{}")]);
        self.models.reply(vec![say("done")]);
        assert_eq!(self.step(&run).await, StepReport::Suspended);
        let request = self.engine.run_view(&me(), &run).await.unwrap().pending.remove(0);
        (run, request)
    }

    /// Lets everybody at the request at once.
    async fn round(&self, edge: Edge, sweep: bool) -> Outcome {
        let (run, request) = self.waiting().await;
        let last = request.windows.decide_by;
        let link = self.engine.make_link(&me(), &request.id, None, Some(u64::MAX)).await.unwrap();
        assert_eq!(link.link.expires_at, last);
        self.clock.set(match edge {
            Edge::Before => dormouse_domain::Millis(last.0 - 1),
            Edge::At | Edge::Moves(_) => last,
            Edge::After => last.plus(1),
        });
        let deciders = (0..DECIDERS).map(|number| {
            let (engine, run, request, link) = (self.engine.clone(), run.clone(), request.clone(), link.token.clone());
            tokio::spawn(async move { decide(&engine, number, &run, &request, &link).await })
        });
        let deciders: Vec<_> = deciders.collect();
        let lists = async {
            for _ in 0..6 {
                self.look(&request).await;
            }
        };
        let sweeps = async {
            // What the sweep does, and what the step does that it wakes.
            for _ in 0..if sweep { 4 } else { 0 } {
                self.engine.sweep().await.unwrap();
                self.step(&run).await;
            }
        };
        let moves = async {
            if let Edge::Moves(after) = edge {
                tokio::time::sleep(after).await;
                self.clock.advance(1);
            }
        };
        let (decided, (), (), ()) = tokio::join!(join_all(deciders), lists, sweeps, moves);
        let decided = decided.into_iter().map(|decided| decided.unwrap()).collect();
        Outcome { decided, run, request: request.id }
    }

    /// Nobody is offered what can no longer be decided.
    async fn look(&self, request: &Request) {
        let began = self.clock.now();
        let inbox = self.engine.inbox(&me(), None, 100).await.unwrap();
        let view = self.engine.run_view(&me(), &request.id.run).await.unwrap();
        for offered in inbox.items.iter().chain(&view.pending).filter(|offered| offered.id == request.id) {
            assert!(offered.windows.is_decidable(began), "offered at {began:?}, {:?}", offered.windows);
        }
    }

    /// Checks that everybody was told what stands; returns the decision, if there is one.
    async fn check(&self, outcome: &Outcome, edge: Edge, swept: bool) -> Option<Settled> {
        let taken: Vec<_> = outcome.decided.iter().filter_map(|decided| decided.as_ref().ok()).collect();
        match edge {
            Edge::Before | Edge::At => assert_eq!(taken.len(), 1, "{edge:?}"),
            Edge::After => assert_eq!(taken.len(), 0, "{edge:?}"),
            Edge::Moves(_) => assert!(taken.len() <= 1, "{edge:?}: {taken:?}"),
        }
        let stands = taken.first().map(|responded| responded.decision.clone());
        for refused in outcome.decided.iter().filter_map(|decided| decided.as_ref().err()) {
            match refused {
                Problem::Refused(Refusal::AlreadyDecided(told)) => assert_eq!(Some(&**told), stands.as_ref()),
                // Only who looked after the edge was told so.
                Problem::Refused(Refusal::Gone(RequestStatus::Expired) | Refusal::LinkExpired) => {
                    assert!(matches!(edge, Edge::After | Edge::Moves(_)), "{edge:?}");
                }
                other => panic!("{edge:?}: {other:?}"),
            }
        }
        let row = self.engine.request(&me(), &outcome.request).await.unwrap();
        assert_eq!(row.decision, stands, "what stands is what was answered");
        if let Some(stands) = &stands {
            assert!(stands.at <= row.windows.decide_by);
        }
        if matches!(edge, Edge::After | Edge::Moves(_)) {
            let expected = match (&stands, swept) {
                (Some(_), _) => RequestStatus::Decided,
                (None, true) => RequestStatus::Expired,
                (None, false) => RequestStatus::Pending,
            };
            assert_eq!(row.status, expected, "{edge:?}, swept: {swept}");
            let offered = self.engine.run_view(&me(), &outcome.run).await.unwrap().pending;
            assert!(offered.is_empty(), "nothing is on offer after the edge: {offered:?}");
        }
        stands
    }

    /// Lets the run come to its end; its journal says the same as the answers did.
    async fn finish(&self, outcome: &Outcome, stands: Option<&Settled>) {
        self.step(&outcome.run).await;
        let entries = self.engine.entries(&me(), &outcome.run, 0, 200).await.unwrap();
        let decided: Vec<_> = entries
            .iter()
            .filter_map(|entry| match &entry.fact {
                Fact::RequestDecided { decision, .. } => Some(decision),
                _ => None,
            })
            .collect();
        assert_eq!(decided, stands.map(|stands| &stands.decision).into_iter().collect::<Vec<_>>());
        let expired = entries.iter().filter(|entry| matches!(entry.fact, Fact::RequestExpired { .. })).count();
        assert_eq!(expired, usize::from(stands.is_none()));
        let definition = self.engine.definition(&me(), &outcome.run).await.unwrap();
        assert_eq!(audit::journal(&outcome.run, &definition, &entries).unwrap(), []);
        let ran = self.tools.calls().iter().filter(|call| call.run == outcome.run).count();
        let approved = stands.is_some_and(|stands| stands.decision == Decision::Approve);
        assert_eq!(ran, usize::from(approved));
    }
}

fn me() -> Caller {
    World::user("ann")
}

/// What decider `number` does: a third of them go by the request's name, a third by its run's, a third through a link;
/// half approve, half deny.
async fn decide(
    engine: &Engine,
    number: usize,
    run: &RunId,
    request: &Request,
    link: &str,
) -> Result<Responded, Problem> {
    let answer = match number % 2 {
        0 => approve(request),
        _ => Answer { reason: Some(format!("{number} says no")), ..answer(DecisionKind::Deny) },
    };
    match number % 3 {
        0 => engine.respond(&me(), &request.id, &answer, None).await,
        1 => engine.respond_to_run(&me(), run, &answer, None).await,
        _ => engine.respond_by_link(link, &answer, None).await,
    }
}

async fn rounds(edges: impl IntoIterator<Item = Edge>) {
    let bed = Bed::new().await;
    let mut decided = 0;
    let mut rounds = 0;
    for edge in edges {
        for sweep in [true, false] {
            let outcome = bed.round(edge, sweep).await;
            let swept = sweep && bed.step(&outcome.run).await != StepReport::Busy;
            let stands = bed.check(&outcome, edge, swept).await;
            bed.finish(&outcome, stands.as_ref()).await;
            decided += u32::from(stands.is_some());
            rounds += 1;
        }
    }
    println!("{decided} of {rounds} requests were decided");
}

/// Cases 1, 2, 20: up to and including the last moment one of them wins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e1_e2_x6_case_20_at_the_last_moment_one_of_sixty_four_wins_by_api_or_link() {
    rounds([Edge::Before, Edge::At].into_iter().cycle().take(6)).await;
}

/// Cases 20 and 24: a moment later nobody does, whether the sweep came or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e1_e2_x6_case_20_case_24_a_moment_later_nobody_wins_by_api_or_link() {
    rounds([Edge::After; 4]).await;
}

/// Case 20: while the moment passes, one wins or nobody, and everybody else is told the truth.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e1_e2_x6_case_20_while_the_moment_passes_api_link_and_sweep_agree() {
    rounds((0..10).map(|wait| Edge::Moves(Duration::from_millis(wait * wait / 2)))).await;
}
