//! What the runs live in, and what they talk to.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use dormouse_domain::{Entry, Fact, entry::CallResult};
use dormouse_e2e::{Agents, ModelServer, Process, Seed, Tool, ToolAnswer, ToolServer, anthropic};
use tempfile::TempDir;

/// How long the conversation of the agent `hasty` waits.
pub(super) const WAIT: Duration = Duration::from_millis(700);

/// How often each call was executed, by its key, and by which tool.
type Executions = Arc<Mutex<BTreeMap<String, (String, u32)>>>;

pub(super) struct World {
    pub(super) model: ModelServer,
    pub(super) agents: Agents,
    pub(super) data: TempDir,
    _tools: ToolServer,
    executions: Executions,
    seed: Arc<Mutex<Seed>>,
}

/// Calls of `look` (safe), `act` and `deploy` (manual), `pay` and `note` (idempotent), and a question.
fn replies() -> Vec<String> {
    let call = |id: &str, tool: &str, input: &str| {
        format!(r#"{{"type":"tool_use","id":"{id}","name":"{tool}","input":{input}}}"#)
    };
    let turn = |calls: &[String]| anthropic(&calls.iter().map(String::as_str).collect::<Vec<_>>());
    let mut replies = vec![
        turn(&[call("a", "look", "{}"), call("b", "act", "{}")]),
        turn(&[call("c", "deploy", r#"{"n":1}"#), call("d", "pay", "{}"), call("e", "look", "{}")]),
        turn(&[call("f", "ask_user", r#"{"question":"Go on?"}"#), call("g", "act", "{}")]),
        turn(&[call("h", "act", "{}"), call("i", "deploy", r#"{"n":2}"#), call("j", "note", "{}")]),
    ];
    // One more for each late answer that it is told of.
    replies.extend((0..40).map(|_| anthropic(&[r#"{"type":"text","text":"Done."}"#])));
    replies
}

impl World {
    pub(super) async fn new() -> Self {
        let seed = Arc::new(Mutex::new(Seed::printed()));
        let executions = Executions::default();
        let tools = ToolServer::start().await;
        for tool in ["look", "act", "deploy", "pay", "note"] {
            let (seed, executions) = (Arc::clone(&seed), Arc::clone(&executions));
            tools.serves(tool, move |call| {
                // It happens when the call arrives; that it takes time is what is interrupted.
                executions.lock().unwrap().entry(call.key().to_owned()).or_insert((tool.to_owned(), 0)).1 += 1;
                let delay = seed.lock().unwrap().time_below(Duration::from_millis(80));
                async move { ToolAnswer::text("done").after(delay) }
            });
        }
        let http = |name: &str, replay: &str| Tool::http(name, &tools.url(name)).set("replay", &format!("{replay:?}"));
        let all = [
            http("look", "safe").reads(),
            http("act", "manual").allowed(),
            http("deploy", "manual").asks(),
            http("pay", "idempotent").allowed(),
            http("note", "idempotent").asks(),
            Tool::builtin("ask_user"),
        ];
        let model = "anthropic:claude-test";
        let hasty = format!("wait = \"{}ms\"", WAIT.as_millis());
        let agents = Agents::new().with("patient", model, &all).with_settings("hasty", model, &hasty, &all);
        let model = ModelServer::start(replies()).await;
        Self { model, agents, data: TempDir::new().unwrap(), _tools: tools, executions, seed }
    }

    /// The environment of a process.
    pub(super) fn environment(&self) -> Vec<(&'static str, String)> {
        let mut environment = self.model.environment();
        environment.push(("RUST_LOG", "warn".to_owned()));
        environment
    }

    /// A process that serves.
    pub(super) async fn process(&self) -> Process {
        Process::start(self.data.path(), &self.agents, &self.environment()).await
    }

    pub(super) fn below(&self, bound: u64) -> u64 {
        self.seed.lock().unwrap().below(bound)
    }

    pub(super) fn time_below(&self, bound: Duration) -> Duration {
        self.seed.lock().unwrap().time_below(bound)
    }

    pub(super) fn executions(&self) -> BTreeMap<String, (String, u32)> {
        self.executions.lock().unwrap().clone()
    }

    /// Whether the call of this key was executed.
    pub(super) fn saw(&self, key: &str) -> bool {
        self.executions.lock().unwrap().contains_key(key)
    }

    /// A result in the journal is that of a call that arrived.
    pub(super) fn account_for(&self, run: &str, entries: &[Entry]) {
        for entry in entries {
            if let Fact::CallFinished { call, result: CallResult::Returned { is_error, .. }, .. } = &entry.fact {
                assert!(*is_error || self.saw(&format!("{run}.{call}")), "{entry:?}");
            }
        }
    }
}
