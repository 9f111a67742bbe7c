//! Clock, names, queue, models, tools and agents for tests.

use std::{
    collections::{BTreeMap, VecDeque},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use dormouse_domain::{
    Caller, Definition, Millis, Principal, RunId, ToolDef, agent_file,
    decide::Answer,
    entry::CallResult,
    message::{Content, ModelRef, ReplyBlock, StopReason, Usage},
    policy::Policy,
    request::{DecisionKind, Request},
    retry::{Failure, FailureClass},
    run::Status,
    token::KeyRing,
    transcript::Prompt,
};
use dormouse_engine::{
    Engine, Ports, RunView, Settings, StartRun,
    ports::{Agents, Clock, Ids, Models, Queue, QueueError, Reply, ToolCall, ToolReply, Tools},
};
use serde_json::Value;

use crate::{FaultyStore, MemoryStore};

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A clock that moves only when told to.
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that stands at `now`.
    #[must_use]
    pub fn at(now: Millis) -> Self {
        Self(AtomicU64::new(now.0))
    }

    /// Moves it on.
    pub fn advance(&self, span_ms: u64) {
        self.0.fetch_add(span_ms, Ordering::SeqCst);
    }

    /// Sets it.
    pub fn set(&self, now: Millis) {
        self.0.store(now.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Millis {
        Millis(self.0.load(Ordering::SeqCst))
    }
}

/// Names that count up, the same in every run of a test.
#[derive(Default)]
pub struct SequentialIds(AtomicU64);

impl Ids for SequentialIds {
    fn fresh(&self) -> u128 {
        u128::from(self.0.fetch_add(1, Ordering::SeqCst)) + 1
    }
}

/// A queue that remembers what was sent.
#[derive(Default)]
pub struct MemoryQueue {
    sent: Mutex<Vec<(RunId, Duration)>>,
    broken: Mutex<bool>,
}

impl MemoryQueue {
    /// Takes what was sent since the last call.
    pub fn take(&self) -> Vec<(RunId, Duration)> {
        std::mem::take(&mut locked(&self.sent))
    }

    /// Makes every send fail, or work again.
    pub fn set_broken(&self, broken: bool) {
        *locked(&self.broken) = broken;
    }
}

#[async_trait]
impl Queue for MemoryQueue {
    async fn wake(&self, run: &RunId, delay: Duration) -> Result<(), QueueError> {
        if *locked(&self.broken) {
            return Err(QueueError("broken by the test".to_owned()));
        }
        locked(&self.sent).push((run.clone(), delay));
        Ok(())
    }

    async fn wake_all(&self, runs: &[RunId]) -> Vec<RunId> {
        let mut unsent = Vec::new();
        for run in runs {
            if self.wake(run, Duration::ZERO).await.is_err() {
                unsent.push(run.clone());
            }
        }
        unsent
    }
}

type Hook = Pin<Box<dyn Future<Output = ()> + Send>>;
type BeforeReply = Box<dyn FnOnce() -> Hook + Send>;
type Mind = Box<dyn Fn(&str) -> Vec<ReplyBlock> + Send + Sync>;

/// A model that gives prepared replies in order, and remembers what it was asked.
#[derive(Default)]
pub struct ScriptedModels {
    replies: Mutex<VecDeque<Result<Reply, Failure>>>,
    asked: Mutex<Vec<String>>,
    before: Mutex<Option<BeforeReply>>,
    mind: Mutex<Option<Mind>>,
}

impl ScriptedModels {
    /// Prepares one more reply.
    pub fn reply(&self, content: Vec<ReplyBlock>) {
        locked(&self.replies).push_back(Ok(reply(content)));
    }

    /// Prepares a failure.
    pub fn fail(&self, class: FailureClass) {
        let failure = Failure::new(class, "prepared by the test");
        locked(&self.replies).push_back(Err(failure));
    }

    /// Replies from now on with what `mind` makes of the prompt's debug text, where nothing is prepared.
    pub fn answer(&self, mind: impl Fn(&str) -> Vec<ReplyBlock> + Send + Sync + 'static) {
        *locked(&self.mind) = Some(Box::new(mind));
    }

    /// Runs `hook` while the next call is under way, before its reply arrives.
    pub fn before_reply<F>(&self, hook: impl FnOnce() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        *locked(&self.before) = Some(Box::new(move || Box::pin(hook())));
    }

    /// The prompts so far, each as the debug text of its messages.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        locked(&self.asked).clone()
    }
}

#[async_trait]
impl Models for ScriptedModels {
    async fn call(&self, _: &ModelRef, prompt: &Prompt<'_>, _: Duration) -> Result<Reply, Failure> {
        let text = format!("{:?}", prompt.messages);
        locked(&self.asked).push(text.clone());
        let hook = locked(&self.before).take();
        if let Some(hook) = hook {
            hook().await;
        }
        let prepared = locked(&self.replies).pop_front();
        let thought = || locked(&self.mind).as_ref().map(|mind| Ok(reply(mind(&text))));
        prepared.or_else(thought).unwrap_or_else(|| {
            Ok(Reply { content: vec![say("done")], stop: StopReason::EndTurn, usage: Usage::default() })
        })
    }
}

fn reply(content: Vec<ReplyBlock>) -> Reply {
    let calls = content.iter().any(|block| matches!(block, ReplyBlock::ToolCall { .. }));
    let stop = if calls { StopReason::ToolUse } else { StopReason::EndTurn };
    let usage = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() };
    Reply { content, stop, usage }
}

type Behaviour = Box<dyn Fn(&ToolCall) -> ToolReply + Send + Sync>;

/// Tools that do as they are told, and remember each call.
#[derive(Default)]
pub struct FakeTools {
    behaviours: Mutex<BTreeMap<String, Arc<Behaviour>>>,
    calls: Mutex<Vec<ToolCall>>,
    slow: Mutex<BTreeMap<String, Duration>>,
}

impl FakeTools {
    /// Sets what calls of `tool` do; without this they return `ok`.
    pub fn on<R: Into<ToolReply>>(&self, tool: &str, behaviour: impl Fn(&ToolCall) -> R + Send + Sync + 'static) {
        let behaviour = move |call: &ToolCall| behaviour(call).into();
        locked(&self.behaviours).insert(tool.to_owned(), Arc::new(Box::new(behaviour)));
    }

    /// Makes calls of `tool` take this long, in tokio's time.
    pub fn slow(&self, tool: &str, span: Duration) {
        locked(&self.slow).insert(tool.to_owned(), span);
    }

    /// The calls so far.
    #[must_use]
    pub fn calls(&self) -> Vec<ToolCall> {
        locked(&self.calls).clone()
    }

    /// How often `tool` was called.
    #[must_use]
    pub fn count(&self, tool: &str) -> usize {
        self.calls().iter().filter(|call| call.tool.name == tool).count()
    }
}

#[async_trait]
impl Tools for FakeTools {
    fn validate(&self, tool: &ToolDef, arguments: &Value) -> Result<(), String> {
        let required = tool.input_schema.get("required").and_then(Value::as_array).into_iter().flatten();
        for name in required.filter_map(Value::as_str) {
            if arguments.get(name).is_none() {
                return Err(format!("{name:?} is required"));
            }
        }
        Ok(())
    }

    async fn call(&self, call: &ToolCall) -> ToolReply {
        locked(&self.calls).push(call.clone());
        let span = locked(&self.slow).get(&call.tool.name).copied();
        if let Some(span) = span {
            tokio::time::sleep(span).await;
        }
        let behaviour = locked(&self.behaviours).get(&call.tool.name).cloned();
        match behaviour {
            Some(behaviour) => behaviour(call),
            None => CallResult::Returned { content: vec![Content::text("ok")], is_error: false }.into(),
        }
    }
}

/// A fixed list of agents.
#[derive(Default)]
pub struct AgentList(Mutex<BTreeMap<String, Arc<Definition>>>);

impl AgentList {
    /// Adds an agent, or replaces the one of its name.
    pub fn add(&self, definition: Definition) {
        locked(&self.0).insert(definition.name.clone(), Arc::new(definition));
    }
}

impl Agents for AgentList {
    fn get(&self, name: &str) -> Option<Arc<Definition>> {
        locked(&self.0).get(name).cloned()
    }

    fn names(&self) -> Vec<String> {
        locked(&self.0).keys().cloned().collect()
    }

    fn policy(&self, agent: &str) -> Arc<Policy> {
        Arc::new(self.get(agent).map(|agent| agent.policy.clone()).unwrap_or_default())
    }
}

/// The agent that this agent file describes.
///
/// # Panics
/// If the file has faults.
#[must_use]
#[expect(clippy::panic, reason = "a test's own agent file is wrong: say so and stop")]
pub fn agent(name: &str, file: &str) -> Definition {
    agent_file::parse(file, name, 600_000).unwrap_or_else(|faults| panic!("{faults:#?}"))
}

/// The answer that decides `decision`, with nothing else in it.
#[must_use]
pub fn answer(decision: DecisionKind) -> Answer {
    Answer::new(decision)
}

/// The answer that approves `request` as it is stored.
#[must_use]
pub fn approve(request: &Request) -> Answer {
    Answer { digest: Some(request.digest.to_string()), ..answer(DecisionKind::Approve) }
}

/// A text block of a reply.
#[must_use]
pub fn say(text: &str) -> ReplyBlock {
    ReplyBlock::Text { text: text.to_owned(), raw: None }
}

/// A tool call of a reply.
#[must_use]
pub fn call(id: &str, name: &str, arguments: &str) -> ReplyBlock {
    ReplyBlock::ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned(), raw: None }
}

/// The keys of every world: one, which everybody knows.
///
/// # Panics
/// Never: they are legal.
#[must_use]
#[expect(clippy::expect_used, reason = "the text is this crate's own")]
pub fn test_keys() -> Arc<KeyRing> {
    Arc::new(KeyRing::parse(&KeyRing::text_of_one("test", &[7; 32])).expect("legal keys"))
}

/// How long steps have, in milliseconds.
const STEP_MS: u64 = 180_000;

/// A whole world in memory, and an engine in it.
pub struct World {
    /// The engine.
    pub engine: Engine,
    /// The store beneath the faults.
    pub memory: Arc<MemoryStore>,
    /// The store that the engine uses; faults can be put on it.
    pub store: Arc<FaultyStore>,
    /// The queue.
    pub queue: Arc<MemoryQueue>,
    /// The model.
    pub models: Arc<ScriptedModels>,
    /// The tools.
    pub tools: Arc<FakeTools>,
    /// The agents.
    pub agents: Arc<AgentList>,
    /// The clock.
    pub clock: Arc<ManualClock>,
}

impl Default for World {
    fn default() -> Self {
        let clock = Arc::new(ManualClock::at(Millis(1_700_000_000_000)));
        let memory = Arc::new(MemoryStore::new(clock.clone()));
        let store = Arc::new(FaultyStore::new(memory.clone()));
        let queue = Arc::new(MemoryQueue::default());
        let models = Arc::new(ScriptedModels::default());
        let tools = Arc::new(FakeTools::default());
        let agents = Arc::new(AgentList::default());
        let ports = Ports {
            store: store.clone(),
            queue: queue.clone(),
            models: models.clone(),
            tools: tools.clone(),
            agents: agents.clone(),
            clock: clock.clone(),
            ids: Arc::new(SequentialIds::default()),
            keys: test_keys(),
        };
        let engine = Engine::new(ports, Settings::new("host".to_owned(), STEP_MS));
        Self { engine, memory, store, queue, models, tools, agents, clock }
    }
}

impl World {
    /// Another engine on the same store, queue, models and tools: another machine.
    #[must_use]
    pub fn other_host(&self, name: &str) -> Engine {
        Engine::new(self.engine.ports().clone(), Settings::new(name.to_owned(), STEP_MS))
    }

    /// Adds this agent, and starts a run of it for `ann` that is asked `go`.
    ///
    /// # Panics
    /// If it cannot be started.
    #[expect(clippy::panic, reason = "without a run a test has nothing to test: say so and stop")]
    pub async fn start(&self, definition: Definition) -> RunId {
        let agent = definition.name.clone();
        self.agents.add(definition);
        let start = StartRun { agent, input: vec![Content::text("go")], mode: None, metadata: BTreeMap::new() };
        let started = self.engine.start(&Self::user("ann"), start, None).await;
        started.unwrap_or_else(|problem| panic!("{problem:?}")).run_id
    }

    /// What waits in this run of `ann`'s.
    ///
    /// # Panics
    /// If it cannot be read.
    pub async fn pending(&self, run: &RunId) -> Vec<Request> {
        self.view(run).await.pending
    }

    /// Where this run of `ann`'s stands.
    ///
    /// # Panics
    /// If it cannot be read.
    pub async fn status(&self, run: &RunId) -> Status {
        self.view(run).await.item.status
    }

    /// This run of `ann`'s, as she sees it.
    ///
    /// # Panics
    /// If it cannot be read.
    #[expect(clippy::panic, reason = "a test that cannot see its run has nothing to say: stop")]
    pub async fn view(&self, run: &RunId) -> RunView {
        self.engine.run_view(&Self::user("ann"), run).await.unwrap_or_else(|problem| panic!("{problem:?}"))
    }

    /// A deadline three minutes from now.
    #[must_use]
    pub fn deadline(&self) -> Millis {
        self.clock.now().plus(STEP_MS)
    }

    /// The user `name` of tenant `acme`.
    #[must_use]
    pub fn user(name: &str) -> Caller {
        Principal { tenant: "acme".to_owned(), subject: name.to_owned() }.into()
    }

    /// The same, in these groups.
    #[must_use]
    pub fn member(name: &str, groups: &[&str]) -> Caller {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        Caller { groups, ..Self::user(name) }
    }
}
