//! What one thing makes of a run, at its edges: where a boundary, a condition or a field off by one would
//! pass the random journals unseen.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by stopping")]

mod again;
mod asking;
mod deciding;
mod folded;
mod forked;
mod going_on;
mod names;
mod planning;
mod reading;
mod stored;
mod texts;
mod waking;

use std::{collections::BTreeMap, sync::Arc};

use dormouse_domain::{
    CallKey, DriverId, Entry, EntryId, Fact, Millis, Mode, Next, Principal, RequestKey, Run, RunId, ToolDef,
    agent_file,
    decide::{self, Deciding, Decision, Resolution},
    entry::{CallResult, Dispatched, FinalStatus},
    kv::KvPatch,
    message::{Content, ReplyBlock, StopReason, Usage},
    next,
    plan::{self, Circumstances, Plan, Rules},
    request::{self, Request},
    run::{AskWhy, CallState, Ending},
};
use serde_json::Value;

/// An agent that waits for a minute, and can be decided for ten.
const AGENT: &str = r#"
    models = ["a:one", "b:two"]
    wait = "1m"
    decide_within = "10m"
    [limits]
    turns = 50
    cost_usd = 1000
    [[tools]]
    name = "do"
    http = { url = "http://x" }
    [[tools]]
    name = "look"
    kind = "read"
    replay = "safe"
    http = { url = "http://x" }
    [[tools]]
    name = "put"
    kind = "edit"
    permission = "allow"
    replay = "idempotent"
    reuse_result = true
    http = { url = "http://x" }
    [[tools]]
    name = "act"
    permission = "allow"
    http = { url = "http://x" }
    [[tools]]
    builtin = "ask_user"
"#;

/// Whatever is asked fits.
struct Anything;

impl Circumstances for Anything {
    fn rules(&self) -> Rules<'_> {
        Rules::none()
    }
    fn validate(&self, _: &ToolDef, _: &Value) -> Result<(), String> {
        Ok(())
    }
    fn fits(&self, _: &ToolDef) -> bool {
        true
    }
}

fn me() -> Principal {
    Principal { tenant: "t".into(), subject: "s".into() }
}

fn call(name: &str, arguments: &str) -> ReplyBlock {
    ReplyBlock::ToolCall { id: "c".into(), name: name.into(), arguments: arguments.into(), raw: None }
}

fn returned(text: &str) -> CallResult {
    CallResult::Returned { content: vec![Content::text(text)], is_error: false }
}

/// A run that grows by what the production planner, `next` and judge make of it, a second an entry.
/// Driver `d1` holds it from the start.
#[derive(Clone)]
struct Story {
    run: Run,
    entries: Vec<Entry>,
    now: Millis,
    drivers: u32,
}

impl Story {
    fn new() -> Self {
        Self::of(AGENT)
    }

    fn of(agent: &str) -> Self {
        let definition = Arc::new(agent_file::parse(agent, "a", 600_000).unwrap());
        let fact = Fact::RunStarted {
            owner: me(),
            agent: "a".into(),
            definition: definition.digest().unwrap(),
            mode: Mode::Normal,
            input: vec![Content::text("go")],
            metadata: BTreeMap::new(),
            parent: None,
        };
        let entry = Entry { index: 0, entry_id: EntryId("e0".into()), at: Millis(1_000), driver: None, fact };
        let run = Run::start(RunId::from_bits(7), definition, &entry).unwrap();
        let mut story = Self { run, entries: vec![entry], now: Millis(1_000), drivers: 0 };
        story.drive();
        story
    }

    fn entry(&self, fact: Fact, by: Option<DriverId>) -> Entry {
        let index = self.run.len;
        Entry { index, entry_id: EntryId(format!("e{index}")), at: self.now, driver: by, fact }
    }

    /// Writes this as whoever holds the run, or nobody.
    fn put(&mut self, fact: Fact) -> &mut Self {
        let by = self.run.driver.as_ref().map(|driver| driver.id.clone());
        self.put_by(fact, by)
    }

    fn put_by(&mut self, fact: Fact, by: Option<DriverId>) -> &mut Self {
        self.now = self.now.plus(1_000);
        let entry = self.entry(fact, by);
        self.run.apply(&entry).unwrap();
        self.entries.push(entry);
        self
    }

    fn refuses(&self, fact: Fact) -> bool {
        let by = self.run.driver.as_ref().map(|driver| driver.id.clone());
        self.run.clone().apply(&self.entry(fact, by)).is_err()
    }

    /// Another driver takes the run.
    fn drive(&mut self) -> &mut Self {
        self.drivers += 1;
        let until = self.now.plus(180_000);
        self.put_by(Fact::DriverStarted { until }, Some(DriverId(format!("d{}", self.drivers))))
    }

    /// The model replies with this to all that is in the journal.
    fn reply(&mut self, content: Vec<ReplyBlock>) -> &mut Self {
        self.reply_to(self.run.len, content)
    }

    /// The model replies with this to the first `seen` entries.
    fn reply_to(&mut self, seen: u32, content: Vec<ReplyBlock>) -> &mut Self {
        let stop = StopReason::EndTurn;
        let calls = plan::plan_reply(&self.run, &content, &stop, seen, &Anything);
        let (model, usage) = (self.run.model().clone(), Usage::default());
        self.put(Fact::ModelReplied { model, content, stop, usage, seen, calls })
    }

    fn next(&self) -> Next {
        next(&self.run, self.now)
    }

    /// Opens the requests that `next` wants opened, and lets the driver go.
    fn suspend(&mut self) -> Vec<RequestKey> {
        let Next::Rest { open, until } = self.next() else { panic!("{:?}", self.next()) };
        let keys = (0..).zip(&open).map(|(ordinal, _)| RequestKey::new(self.run.len, ordinal)).collect();
        self.put(Fact::Suspended { requests: open, until });
        keys
    }

    /// The one request that `next` wants opened, as it is persisted.
    fn request(&mut self) -> Request {
        let Next::Rest { open, .. } = self.next() else { panic!("{:?}", self.next()) };
        let built = request::build(&self.run, self.run.len, 0, &open[0], self.now).unwrap();
        self.suspend();
        built
    }

    fn deciding(&self, request: &Request, decision: Decision) -> Deciding {
        decide::record(&self.run, request, decision, &me(), None, self.now).unwrap()
    }

    fn decide(&mut self, request: &Request, decision: Decision) -> &mut Self {
        for fact in self.deciding(request, decision).facts {
            self.put(fact);
        }
        self
    }

    /// The conversation goes on without what it waits for, driven by another driver.
    fn go_on(&mut self) -> &mut Self {
        self.now = self.now.plus(61_000);
        self.drive();
        let Next::StopWaiting(requests) = self.next() else { panic!("{:?}", self.next()) };
        self.put(Fact::WaitExpired { requests })
    }

    fn finish(&mut self, call: CallKey, attempt: u32, result: CallResult) -> &mut Self {
        self.put(Fact::CallFinished { call, attempt, result, kv: KvPatch::new(), used: None })
    }

    fn dispatch(&mut self) -> &mut Self {
        let Next::Dispatch(calls) = self.next() else { panic!("{:?}", self.next()) };
        let attempt = |key: CallKey| self.run.call(key).unwrap().attempts + 1;
        let calls = calls.into_iter().map(|call| Dispatched { call, attempt: attempt(call) }).collect();
        self.put(Fact::CallDispatched { calls })
    }

    fn end(&mut self) -> FinalStatus {
        let Next::Finish(outcome) = self.next() else { panic!("{:?}", self.next()) };
        let status = outcome.status;
        self.put(Fact::RunFinished(outcome));
        status
    }

    /// The calls of the last reply.
    fn keys(&self) -> Vec<CallKey> {
        self.run.turns.last().unwrap().calls.iter().map(|call| call.key).collect()
    }

    fn state(&self, key: CallKey) -> &CallState {
        &self.run.call(key).unwrap().state
    }
}
