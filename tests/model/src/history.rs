//! What happened, from the entries alone: a second account of a journal beside the fold's, and much
//! simpler, so that one of the two notices a fault of the other.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{Hash, Hasher},
};

use dormouse_domain::{
    CallKey, Digest, Entry, Fact, Millis, RequestKey, Run,
    agent::Replay,
    decide::{Decision, Resolution},
    entry::Dispatched,
    message::ReplyBlock,
    plan::{self, Plan},
    policy::{self, Verdict},
    request::{RequestKind, RequestStatus},
    run::{Call, CallState},
    transcript::{self, AssistantBlock, Message, UserBlock},
};

use crate::{
    rules::{Broken, Rule},
    shared::hash_of,
};

/// Attempts at a call that may be repeated, as the promise says: three in all.
const ATTEMPTS: u32 = 3;

/// What the rules need to know of a journal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct History {
    /// Calls that policy allows, by their latest verdict.
    allowed: BTreeSet<CallKey>,
    /// Calls that a person approved, and of which arguments.
    approved: BTreeMap<CallKey, Digest>,
    /// How often a person said that a call may be repeated.
    retries: BTreeMap<CallKey, u32>,
    /// Which driver announced an attempt.
    announced: BTreeMap<(CallKey, u32), u32>,
}

/// The number of a driver: the index of the entry by which it claimed the run.
#[must_use]
pub fn driver_number(entry: &Entry) -> u32 {
    let number = entry.driver.as_ref().and_then(|driver| driver.0.rsplit('.').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(u32::MAX)
}

/// The digest of the arguments that would run, worked out anew from what the model wrote.
#[must_use]
pub fn digest(run: &Run, call: &Call) -> Option<Digest> {
    let turn = run.turns.iter().find(|turn| turn.index == call.key.entry)?;
    let ReplyBlock::ToolCall { arguments, .. } = turn.content.get(call.block)? else { return None };
    let arguments = plan::arguments(arguments).ok()?;
    plan::call_digest(&run.owner, &run.id, &call.tool, &arguments).ok()
}

impl History {
    /// Whether `driver` announced `attempt` of `call`.
    #[must_use]
    pub fn announced(&self, call: CallKey, attempt: u32, driver: u32) -> bool {
        self.announced.get(&(call, attempt)) == Some(&driver)
    }

    /// The history with `entry`, which is about to follow `run`.
    pub fn after(&self, run: &Run, entry: &Entry, broken: &mut Broken) -> Self {
        let mut history = self.clone();
        broken.unless(entry.index == run.len, Rule::I1);
        match &entry.fact {
            Fact::CallDispatched { calls } => {
                for start in calls {
                    history.dispatched(run, entry, *start, broken);
                }
            }
            Fact::CallFinished { call, attempt, .. } => {
                let known = run.call(*call);
                broken.unless(known.is_some_and(|call| call.attempts == *attempt), Rule::I3);
                broken.unless(known.is_some_and(|call| !matches!(call.state, CallState::Done(_))), Rule::I3);
            }
            Fact::RequestDecided { request, decision, digest, .. } => {
                history.decided(run, *request, decision, digest.as_ref(), entry.at, broken);
            }
            Fact::RequestExpired { requests } => {
                for key in requests {
                    let request = run.requests.get(key);
                    // At the very edge a request can still be decided (case 20).
                    broken.unless(request.is_some_and(|request| entry.at > request.windows.decide_by), Rule::I6);
                }
            }
            Fact::ModeChanged { mode, calls, .. } => {
                for change in calls {
                    history.allowed.remove(&change.call);
                    let tool = run.call(change.call).and_then(|call| run.definition.tool(&call.tool));
                    if let (Plan::Start | Plan::Allow, Some(tool)) = (&change.plan, tool) {
                        broken.unless(policy::authorize(tool, *mode).verdict == Verdict::Allow, Rule::I7);
                        history.allowed.insert(change.call);
                    }
                }
            }
            Fact::ModelReplied { .. }
            | Fact::RunStarted { .. }
            | Fact::DriverStarted { .. }
            | Fact::DriverStopped { .. }
            | Fact::ModelFailed { .. }
            | Fact::Suspended { .. }
            | Fact::MessageAdded { .. }
            | Fact::Paused { .. }
            | Fact::Resumed { .. }
            | Fact::CancelRequested { .. }
            | Fact::RunFinished(_) => {}
        }
        history
    }

    fn dispatched(&mut self, run: &Run, entry: &Entry, start: Dispatched, broken: &mut Broken) {
        let Some(call) = run.call(start.call) else { return broken.unless(false, Rule::I7) };
        broken.unless(!matches!(call.state, CallState::Done(_)), Rule::I3);
        let approved = self.approved.get(&call.key).is_some_and(|seen| Some(seen) == digest(run, call).as_ref());
        broken.unless(approved || self.allowed.contains(&call.key), Rule::I7);
        broken.unless(run.cancel.is_none() && !run.paused, Rule::I11);
        let retries = self.retries.get(&call.key).copied().unwrap_or(0);
        let replay = run.definition.tool(&call.tool).map_or(Replay::Manual, |tool| tool.replay);
        let free = if replay == Replay::Manual { 1 } else { ATTEMPTS };
        broken.unless(start.attempt <= free + retries, Rule::I8);
        self.announced.insert((start.call, start.attempt), driver_number(entry));
    }

    fn decided(
        &mut self,
        run: &Run,
        key: RequestKey,
        decision: &Decision,
        seen: Option<&Digest>,
        at: Millis,
        broken: &mut Broken,
    ) {
        let Some(request) = run.requests.get(&key) else { return broken.unless(false, Rule::I6) };
        broken.unless(request.status == RequestStatus::Pending && run.cancel.is_none(), Rule::I6);
        broken.unless(at <= request.windows.decide_by, Rule::I6);
        let runs = match decision {
            Decision::Approve => request.kind == RequestKind::Approval,
            Decision::Settle { resolution: Resolution::Retry } => true,
            Decision::Settle { resolution: Resolution::Result(_) | Resolution::Abort }
            | Decision::Deny { .. }
            | Decision::Answer { .. } => return,
        };
        let shown = run.call(request.call).and_then(|call| digest(run, call));
        broken.unless(runs && shown.is_some() && shown.as_ref() == seen, Rule::I7);
        if let Some(shown) = shown {
            self.approved.insert(request.call, shown);
        }
        if let Decision::Settle { .. } = decision {
            *self.retries.entry(request.call).or_default() += 1;
        }
    }

    /// The history once the fold has taken `entry` and made `after` of `before`.
    pub fn folded(mut self, before: &Run, after: &Run, entry: &Entry, broken: &mut Broken) -> Self {
        if let Fact::ModelReplied { calls, .. } = &entry.fact {
            let turn = after.turns.last().into_iter().flat_map(|turn| &turn.calls);
            for (call, plan) in turn.zip(calls) {
                self.planned(after, call, plan, entry, broken);
            }
        }
        for call in before.calls() {
            // What is known of a call's end is never unlearnt.
            let now = after.call(call.key);
            if matches!(call.state, CallState::Done(_)) {
                broken.unless(now == Some(call), Rule::I3);
            }
        }
        for (key, request) in &before.requests {
            if request.status != RequestStatus::Pending {
                broken.unless(after.requests.get(key) == Some(request), Rule::I6);
            }
        }
        if after.cancel.is_some() || after.outcome.is_some() {
            broken.unless(after.pending().next().is_none(), Rule::I5);
        }
        self
    }

    fn planned(&mut self, run: &Run, call: &Call, plan: &Plan, entry: &Entry, broken: &mut Broken) {
        match plan {
            Plan::Start | Plan::Allow => {
                let tool = run.definition.tool(&call.tool);
                broken.unless(digest(run, call).is_some() && tool.is_some(), Rule::I11);
                let allowed = tool.is_some_and(|tool| policy::authorize(tool, run.mode).verdict == Verdict::Allow);
                broken.unless(allowed, Rule::I7);
                self.allowed.insert(call.key);
            }
            Plan::Ask { .. } | Plan::Question | Plan::Deny { .. } | Plan::Invalid { .. } => {}
        }
        if *plan == Plan::Start {
            broken.unless(run.cancel.is_none() && !run.paused, Rule::I11);
            self.announced.insert((call.key, 1), driver_number(entry));
        }
    }
}

/// The content blocks of the prompt that `run` makes, in order, each as its hash.
#[must_use]
pub fn prompt(run: &Run) -> Vec<u64> {
    struct Block<'a, T>(&'a str, T);
    impl<T: Hash> Hash for Block<'_, T> {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
            self.1.hash(state);
        }
    }
    let mut hashes = Vec::new();
    for message in transcript::prompt(run).messages {
        match message {
            Message::User(blocks) => hashes.extend(blocks.iter().map(|block| match block {
                UserBlock::Result { id, content, is_error } => hash_of(&Block("result", (id, content, is_error))),
                UserBlock::Said(content) => hash_of(&Block("said", content)),
            })),
            Message::Assistant { model, blocks } => hashes.extend(blocks.iter().map(|block| match block {
                AssistantBlock::Call { id, block } => hash_of(&Block("call", (model, id, block))),
                AssistantBlock::Plain(block) => hash_of(&Block("plain", (model, block))),
            })),
        }
    }
    hashes
}
