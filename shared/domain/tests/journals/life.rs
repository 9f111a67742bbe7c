//! A random life of a run: bytes are choices.

use std::sync::Arc;

use dormouse_domain::{
    CallKey, Definition, DriverId, Entry, EntryId, Fact, Millis, Mode, Next, Principal, Run, RunId, ToolDef,
    agent_file,
    budget::Amounts,
    decide::{Decision, Resolution},
    entry::{CallResult, Dispatched, DriverStop},
    kv::KvPatch,
    message::{Content, ReplyBlock, StopReason, Usage},
    next,
    plan::{self, Circumstances, Rules},
    price::Cost,
    request::RequestKind,
    retry::{self, Failure, FailureClass},
    run::CallState,
};
use serde_json::Value;

const AGENT: &str = r#"
    models = ["a:one", "b:two"]
    wait = "1m"
    decide_within = "10m"
    limits = { turns = 1000, tokens = 100000000 }
    [[tools]]
    name = "look"
    kind = "read"
    replay = "safe"
    http = { url = "http://x" }
    [[tools]]
    name = "edit"
    kind = "edit"
    replay = "idempotent"
    http = { url = "http://x" }
    [[tools]]
    name = "do"
    later = true
    http = { url = "http://x" }
    [[tools]]
    builtin = "ask_user"
"#;

/// A run and the choices that are left.
pub(crate) struct Life {
    pub(crate) run: Run,
    pub(crate) entries: Vec<Entry>,
    pub(crate) now: Millis,
    choices: Vec<u8>,
    at: usize,
    definition: Arc<Definition>,
    asks: bool,
    /// Entries that [`news`](Self::news) has shown.
    shown: u32,
    /// Drivers that lost the run while they ran these attempts: their results can still come.
    lost: Vec<(CallKey, u32, DriverId)>,
    /// The run that this one was forked from, and whether anybody looked at it since.
    forked: Option<Fresh>,
    /// The last number that a run was named by.
    born: u128,
    /// The reply that a model is about to give, and how many entries its prompt contained.
    thinking: Option<(Vec<ReplyBlock>, StopReason, u32)>,
}

/// A fork that was just made.
struct Fresh;

struct Anything;

impl Circumstances for Anything {
    fn rules(&self) -> Rules<'_> {
        Rules::none()
    }
    fn validate(&self, _: &ToolDef, _: &Value) -> Result<(), String> {
        Ok(())
    }
    fn fits(&self, tool: &ToolDef) -> bool {
        tool.name != "edit"
    }
}

fn me() -> Principal {
    Principal { tenant: "t".into(), subject: "s".into() }
}

fn first(definition: &Definition) -> Entry {
    Entry {
        index: 0,
        entry_id: EntryId("e0".into()),
        at: Millis(1000),
        driver: None,
        fact: Fact::RunStarted {
            owner: me(),
            agent: "a".into(),
            definition: definition.digest().unwrap(),
            mode: Mode::Normal,
            input: vec![Content::text("go")],
            metadata: std::collections::BTreeMap::new(),
            parent: None,
        },
    }
}

/// A run whose one call returned `content`.
pub(crate) fn one_call(content: Vec<Content>) -> Run {
    let mut life = Life::new(&[]);
    life.put(Fact::DriverStarted { until: Millis(9000) });
    let block = ReplyBlock::ToolCall { id: "c".into(), name: "look".into(), arguments: "{}".into(), raw: None };
    life.reply(vec![block], StopReason::ToolUse, 2);
    let result = CallResult::Returned { content, is_error: false };
    life.put(Fact::CallFinished { call: CallKey::new(2, 0), attempt: 1, result, kv: KvPatch::new(), used: None });
    life.run
}

impl Life {
    pub(crate) fn new(choices: &[u8]) -> Self {
        let definition = Arc::new(agent_file::parse(AGENT, "a", 600_000).unwrap());
        let entry = first(&definition);
        let run = Run::start(RunId::from_bits(7), definition.clone(), &entry).unwrap();
        Self {
            run,
            entries: vec![entry],
            now: Millis(1000),
            choices: choices.to_vec(),
            at: 0,
            definition,
            asks: false,
            shown: 1,
            lost: Vec::new(),
            forked: None,
            born: 7,
            thinking: None,
        }
    }

    /// The entry that was written since this was last asked, if one was.
    pub(crate) fn news(&mut self) -> Option<Entry> {
        let entry = self.entries.last().filter(|entry| entry.index >= self.shown)?;
        self.shown = entry.index + 1;
        Some(entry.clone())
    }

    /// Whether the model is asked in this very state.
    pub(crate) fn asks_model(&self) -> bool {
        self.asks
    }

    pub(crate) fn fold_stored(&self) -> Run {
        let stored = self.entries.iter().map(|entry| {
            let (kind, body) = entry.fact.encode().unwrap();
            Entry { fact: Fact::decode(kind, &body).unwrap(), ..entry.clone() }
        });
        let stored: Vec<_> = stored.collect();
        let mut run = Run::start(self.run.id.clone(), self.definition.clone(), &stored[0]).unwrap();
        stored[1..].iter().for_each(|entry| run.apply(entry).unwrap());
        run
    }

    fn choose(&mut self, of: u8) -> u8 {
        let choice = self.choices.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        choice % of
    }

    fn put(&mut self, fact: Fact) {
        let driver = match (&fact, &self.run.driver) {
            (Fact::DriverStarted { .. }, _) => Some(DriverId::new("h", &self.entries.len().to_string())),
            (_, driver) => driver.as_ref().map(|driver| driver.id.clone()),
        };
        self.put_by(fact, driver);
    }

    fn put_by(&mut self, fact: Fact, driver: Option<DriverId>) {
        let index = self.run.len;
        let entry = Entry { index, entry_id: EntryId(format!("e{index}")), at: self.now, driver, fact };
        self.run.apply(&entry).unwrap();
        self.entries.push(entry);
    }

    /// Lets one thing happen; false when the choices are used up.
    pub(crate) fn step(&mut self) -> bool {
        self.asks = false;
        if self.at >= self.choices.len() {
            return false;
        }
        self.now = self.now.plus(u64::from(self.choose(50)));
        // Others may write while the model thinks; a dead driver's reply is never heard of.
        match self.choose(8) {
            0 => self.outside(),
            1 if self.run.driver.is_some() => {
                self.thinking = None;
                let holder = self.run.driver.as_ref().map(|driver| driver.id.clone());
                let running = self.running().into_iter();
                self.lost.extend(running.filter_map(|(call, attempt)| Some((call, attempt, holder.clone()?))));
                self.put(Fact::DriverStarted { until: self.now.plus(1000) });
            }
            2 if !self.lost.is_empty() => self.late(),
            3 if self.choose(4) == 0 => self.fork(),
            _ => self.drive(),
        }
        true
    }

    /// Whether this life has become that of a fork since this was last asked: then all of its journal is news.
    pub(crate) fn was_forked(&mut self) -> bool {
        self.forked.take().is_some()
    }

    /// Goes on with a fork of the run, from any entry from which one can.
    fn fork(&mut self) {
        let last = u32::from(self.choose(255)) % self.run.len;
        let copy = &self.entries[..=last as usize];
        self.born += 1;
        let id = RunId::from_bits(self.born);
        let mut run = Run::start(id, self.definition.clone(), &copy[0]).unwrap();
        copy[1..].iter().for_each(|entry| run.apply(entry).unwrap());
        if run.cancel.is_some() || run.is_over() {
            return;
        }
        let from = self.run.writer(last).clone();
        let mode = [run.mode, Mode::Normal, Mode::Yolo][usize::from(self.choose(3))];
        let calls = plan::fork(&run, mode, Rules::none());
        self.entries.truncate(last as usize + 1);
        (self.run, self.thinking, self.forked) = (run, None, Some(Fresh));
        self.lost.clear();
        let metadata = std::collections::BTreeMap::new();
        self.put_by(Fact::Forked { from, last, by: me(), mode, metadata, calls }, None);
        if self.run.outcome.is_some() || self.choose(4) == 0 {
            let content = vec![Content::text("otherwise")];
            self.put_by(Fact::MessageAdded { by: me(), content, supersedes: false }, None);
        }
        self.shown = self.run.len;
    }

    fn drive(&mut self) {
        let thought = self.thinking.take().filter(|_| self.run.driver.is_some() && self.run.outcome.is_none());
        if let Some((content, stop, seen)) = thought {
            return self.reply(content, stop, seen);
        }
        let next = next(&self.run, self.now);
        if self.run.driver.is_none() {
            if next.is_work() {
                self.put(Fact::DriverStarted { until: self.now.plus(1000) });
            } else {
                self.decide();
            }
            return;
        }
        match next {
            Next::Dispatch(calls) => {
                let withheld = plan::recheck(&self.run, &calls, Rules::none());
                if !withheld.is_empty() {
                    return self.put(Fact::CallsReplanned { calls: withheld });
                }
                let starts = calls.iter().filter_map(|key| {
                    let call = self.run.call(*key)?;
                    Some(Dispatched { call: *key, attempt: call.attempts + 1 })
                });
                let calls = starts.collect();
                self.put(Fact::CallDispatched { calls });
            }
            Next::Await => self.finish_one(),
            Next::CallModel => self.ask_model(),
            Next::Expire(requests) => self.put(Fact::RequestExpired { requests }),
            Next::StopWaiting(requests) => self.put(Fact::WaitExpired { requests }),
            Next::Reopen => self.put(Fact::Reopened {}),
            Next::Finish(outcome) => self.put(Fact::RunFinished(outcome)),
            Next::Rest { open, until } => self.put(Fact::Suspended { requests: open, until }),
        }
    }

    fn running(&self) -> Vec<(CallKey, u32)> {
        let running = self.run.open_calls().filter_map(|call| match call.state {
            CallState::Running { attempt } => Some((call.key, attempt)),
            _ => None,
        });
        running.collect()
    }

    fn finish_one(&mut self) {
        let running = self.running();
        let pick = usize::from(self.choose(16)) % running.len();
        let (call, attempt) = running[pick];
        let (result, kv) = self.result(call);
        self.put(Fact::CallFinished { call, attempt, result, kv, used: None });
    }

    /// What an attempt came to, and what its tool keeps for the run: only with an answer.
    fn result(&mut self, call: CallKey) -> (CallResult, KvPatch) {
        let later = self.run.call(call).is_some_and(|call| call.tool == "do");
        let result = match self.choose(7) {
            5 | 6 if later => return (CallResult::Later {}, KvPatch::new()),
            0 => return (CallResult::Unknown { why: "lost".into() }, KvPatch::new()),
            1 => return (CallResult::NotSent { why: "refused".into() }, KvPatch::new()),
            2 => CallResult::Returned { content: vec![], is_error: true },
            _ => CallResult::Returned { content: vec![Content::text("fine")], is_error: false },
        };
        let mut kv = KvPatch::new();
        for name in ["a", "b"] {
            match self.choose(3) {
                0 => {}
                1 => kv.remove(name).unwrap(),
                _ => kv.set(name, &serde_json::json!({ "at": self.run.len })).unwrap(),
            }
        }
        (result, kv)
    }

    /// A driver that lost the run writes what its call returned, if that is still news (case 37).
    fn late(&mut self) {
        let pick = usize::from(self.choose(16)) % self.lost.len();
        let (call, attempt, driver) = self.lost.swap_remove(pick);
        let (result, kv) = self.result(call);
        let news = self.run.call(call).is_some_and(|state| state.takes(attempt, &result));
        if news && self.run.outcome.is_none() {
            self.put_by(Fact::CallFinished { call, attempt, result, kv, used: None }, Some(driver));
        }
    }

    /// Whoever has the token of an attempt says what it did, if that is still news (X7).
    fn complete(&mut self) {
        let result = CallResult::Returned { content: vec![Content::text("completed")], is_error: false };
        let open = self.run.calls().filter(|call| call.tool == "do" && call.takes(call.attempts, &result));
        let open: Vec<_> = open.map(|call| (call.key, call.attempts)).collect();
        if open.is_empty() || self.run.is_over() || self.run.cancel.is_some() {
            return self.decide();
        }
        let (call, attempt) = open[usize::from(self.choose(16)) % open.len()];
        self.put_by(Fact::CallFinished { call, attempt, result, kv: KvPatch::new(), used: None }, None);
    }

    fn ask_model(&mut self) {
        if self.choose(10) == 0 {
            let failure = Failure::new(FailureClass::Overloaded, "no");
            let fact = retry::after(&self.run, &failure, self.now, self.now);
            self.put(fact);
            return;
        }
        self.asks = true;
        let seen = self.run.len;
        let mut content = Vec::new();
        for _ in 0..self.choose(5) {
            content.push(self.block());
        }
        let stop = if self.choose(9) == 0 { StopReason::Pause } else { StopReason::EndTurn };
        self.thinking = Some((content, stop, seen));
    }

    fn block(&mut self) -> ReplyBlock {
        match self.choose(6) {
            0 => ReplyBlock::Text { text: ["", " ", "hello"][usize::from(self.choose(3))].into(), raw: None },
            1 => ReplyBlock::Reasoning { raw: "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"s\"}".into() },
            _ => {
                let id = ["x", "", "a.b", "call_3_0", "y"][usize::from(self.choose(5))];
                let name = ["look", "edit", "do", "ask_user", "nope"][usize::from(self.choose(5))];
                let arguments = ["{}", "{\"question\":\"q\"}", "{\"a\":", "[1]", ""][usize::from(self.choose(5))];
                ReplyBlock::ToolCall { id: id.into(), name: name.into(), arguments: arguments.into(), raw: None }
            }
        }
    }

    fn reply(&mut self, content: Vec<ReplyBlock>, stop: StopReason, seen: u32) {
        let calls = plan::plan_reply(&self.run, &content, &stop, seen, &Anything);
        let usage = Usage { input_tokens: 1, output_tokens: 1, ..Usage::default() };
        let model = self.run.model().clone();
        self.put(Fact::ModelReplied { model, content, stop, usage, seen, calls });
    }

    fn outside(&mut self) {
        let by = me();
        match self.choose(7) {
            6 => self.complete(),
            0 if self.run.cancel.is_none() => {
                let supersedes = self.run.driver.is_none() && self.run.waits_for_person() && self.choose(3) == 0;
                self.put(Fact::MessageAdded { by, content: vec![Content::text("hm")], supersedes });
            }
            1 if self.run.outcome.is_none() && !self.run.paused => self.put(Fact::Paused { by }),
            2 if self.run.outcome.is_none() && self.run.paused => self.put(Fact::Resumed { by }),
            3 if self.run.outcome.is_none() => {
                let mode = [Mode::Plan, Mode::Normal, Mode::AutoEdit, Mode::Yolo][usize::from(self.choose(4))];
                let calls = plan::replan(&self.run, mode, Rules::none());
                self.put(Fact::ModeChanged { by, mode, calls });
            }
            4 if self.run.outcome.is_none() && self.run.cancel.is_none() && self.choose(8) == 0 => {
                self.put(Fact::CancelRequested { by, reason: None });
            }
            5 if self.run.driver.is_some() => {
                let stop = if self.choose(2) == 0 {
                    DriverStop::HandedOff
                } else {
                    DriverStop::Crashed { message: "x".into() }
                };
                self.thinking = None;
                self.put(Fact::DriverStopped { stop });
            }
            _ => self.decide(),
        }
    }

    fn decide(&mut self) {
        let pending: Vec<_> = self.run.pending().map(|(key, request)| (key, request.clone())).collect();
        if pending.is_empty() {
            self.now = self.now.plus(60_000);
            return;
        }
        let pick = usize::from(self.choose(16)) % pending.len();
        let (request, row) = &pending[pick];
        if !row.windows.is_decidable(self.now) || self.choose(12) == 0 {
            self.now = self.now.max(row.windows.expires_at());
            return;
        }
        if row.windows.is_waiting(self.now) && self.choose(4) == 0 {
            self.now = row.windows.stops_waiting_at();
            return;
        }
        let decision = match (row.kind, self.choose(3)) {
            (RequestKind::Question, n) => {
                Decision::Answer { answer: Value::from(["", "yes", "no"][usize::from(n)]), cancels: false }
            }
            (RequestKind::Uncertain | RequestKind::External, 0) => Decision::Settle { resolution: Resolution::Retry },
            (RequestKind::Uncertain | RequestKind::External, 1) => Decision::Settle { resolution: Resolution::Abort },
            (RequestKind::Uncertain | RequestKind::External, _) => {
                Decision::Settle { resolution: Resolution::Result(String::new()) }
            }
            (RequestKind::Budget, 0) if self.choose(4) == 0 => Decision::Stop,
            (RequestKind::Budget, n) => {
                let cost = Cost::of_dollars(f64::from(n) * 4.0);
                Decision::Raise { amount: Amounts { cost, turns: 1, ..Amounts::default() } }
            }
            (RequestKind::Approval, 0) => Decision::Deny { reason: None },
            (RequestKind::Approval, 1) => Decision::Edit { arguments: serde_json::json!({ "edited": self.run.len }) },
            (RequestKind::Approval, _) => Decision::Approve,
        };
        let about_arguments = matches!(
            decision,
            Decision::Approve | Decision::Edit { .. } | Decision::Settle { resolution: Resolution::Retry }
        );
        let call = row.call.and_then(|call| self.run.call(call)).filter(|_| about_arguments);
        let digest = call.map(|call| {
            let arguments = call.arguments(&self.run).unwrap();
            plan::call_digest(&self.run.owner, &self.run.id, &call.tool, &arguments).unwrap()
        });
        self.put(Fact::RequestDecided { request: *request, decision, by: me(), digest, via: None });
    }
}
