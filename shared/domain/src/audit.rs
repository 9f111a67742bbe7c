//! The invariants, as a checker of journals: what a journal of ours never holds, and what the fold
//! never makes of it.
//!
//! [`Audit::entry`] keeps its own books from the bare facts, so that a fault in the fold is found by
//! it rather than shared; [`Audit::state`] then compares these books with the folded state. It is
//! for tests and for recorded journals; production never asks it, because there each rule is held
//! where it can be broken.
//!
//! A violation names the invariant of `ARCHITECTURE.md` (`I1` to `I10`) or the promise that it breaks.

mod beside;
mod call;
mod forked;
mod request;
mod spending;
mod state;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;

use crate::{
    agent::{Definition, Mode, Replay},
    entry::{Entry, Fact, FinalStatus},
    fold::Corrupt,
    ids::{CallKey, DriverId, EntryId, Millis, Principal, RequestKey, RunId},
    message::{ModelRef, ReplyBlock},
    plan::{self, Plan},
    policy::{self, Asked, RuledBy, Verdict},
    run::Run,
    token,
};
use call::CallBook;
use request::RequestBook;
use spending::Spending;

/// An invariant that an entry, or the state after it, breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its name: `I7`.
    pub invariant: &'static str,
    /// The entry.
    pub index: u32,
    /// What is wrong.
    pub what: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "entry {} breaks {}: {}", self.index, self.invariant, self.what)
    }
}

/// A rule that is broken, and how.
#[derive(Debug)]
struct Broken(&'static str, String);

type Checked = Result<(), Broken>;

fn broken<T>(invariant: &'static str, what: &str) -> Result<T, Broken> {
    Err(Broken(invariant, what.to_owned()))
}

fn ensure(holds: bool, invariant: &'static str, what: &str) -> Checked {
    if holds { Ok(()) } else { broken(invariant, what) }
}

/// The books about one run.
#[derive(Debug, Clone)]
pub struct Audit {
    /// Whose entry is looked at: the run, or one that it was forked from.
    id: RunId,
    /// Whose entries follow, from which index on.
    names: BTreeMap<u32, RunId>,
    definition: Arc<Definition>,
    owner: Option<Principal>,
    mode: Mode,
    /// The mode of the run that delegated to it, if one did.
    widest: Option<Mode>,
    /// The entry that is looked at, and the one that must come next.
    index: u32,
    next_index: u32,
    entry_ids: BTreeSet<EntryId>,
    driver_ids: BTreeSet<DriverId>,
    /// The driver that holds the run, and when its platform kills it.
    holder: Option<(DriverId, Millis)>,
    paused: bool,
    cancelled: bool,
    ended: Option<FinalStatus>,
    /// What the tools keep, by name.
    kept: BTreeMap<String, Value>,
    spending: Spending,
    /// How many entries the last reply's prompt contained, and the least that the next one's must.
    seen: u32,
    calls: BTreeMap<CallKey, CallBook>,
    requests: BTreeMap<RequestKey, RequestBook>,
    /// Prompts that a driver may have sent since the last reply, by how many entries they contain.
    prompts: BTreeMap<u32, Vec<String>>,
    /// The last prompt that each model answered.
    answered: BTreeMap<ModelRef, Vec<String>>,
}

/// Audits a whole journal with the production fold.
///
/// # Errors
/// [`Corrupt`] if it cannot be folded.
pub fn journal(id: &RunId, definition: &Arc<Definition>, entries: &[Entry]) -> Result<Vec<Violation>, Corrupt> {
    let mut audit = Audit::of(id.clone(), definition.clone(), entries);
    let mut folded: Option<Run> = None;
    let mut found = Vec::new();
    for entry in entries {
        let run = match folded.take() {
            None => Run::start(id.clone(), definition.clone(), entry)?,
            Some(mut run) => run.apply(entry).map(|()| run)?,
        };
        found.extend(audit.check(entry, &run));
        folded = Some(run);
    }
    Ok(found)
}

impl Audit {
    /// Empty books about run `id`, whose agent is frozen as `definition`.
    #[must_use]
    pub fn new(id: RunId, definition: Arc<Definition>) -> Self {
        Self {
            id,
            names: BTreeMap::new(),
            mode: definition.mode,
            widest: None,
            spending: Spending::new(&definition),
            definition,
            owner: None,
            index: 0,
            next_index: 0,
            entry_ids: BTreeSet::new(),
            driver_ids: BTreeSet::new(),
            holder: None,
            paused: false,
            cancelled: false,
            ended: None,
            kept: BTreeMap::new(),
            seen: 0,
            calls: BTreeMap::new(),
            requests: BTreeMap::new(),
            prompts: BTreeMap::new(),
            answered: BTreeMap::new(),
        }
    }

    /// Enters the next entry, and compares the books with the state `after` it.
    #[must_use]
    pub fn check(&mut self, entry: &Entry, after: &Run) -> Vec<Violation> {
        let mut found = self.entry(entry);
        found.extend(self.state(after, entry.at));
        found
    }

    /// Enters the next entry. What it breaks is returned; the books go on as far as they can.
    #[must_use]
    pub fn entry(&mut self, entry: &Entry) -> Vec<Violation> {
        self.index = entry.index;
        let expected = std::mem::replace(&mut self.next_index, entry.index.saturating_add(1));
        let checks = [
            ensure(entry.index == expected, "I1", &format!("it stands where {expected} should")),
            ensure(self.entry_ids.insert(entry.entry_id.clone()), "I1", "its entry_id stands earlier in the journal"),
            self.writer(entry),
            self.after_the_end(&entry.fact, entry.driver.as_ref()),
            self.fact(entry),
        ];
        self.violations(checks)
    }

    fn violations(&self, checks: impl IntoIterator<Item = Checked>) -> Vec<Violation> {
        let broken = checks.into_iter().filter_map(Result::err);
        broken.map(|Broken(invariant, what)| Violation { invariant, index: self.index, what }).collect()
    }

    /// What only the holder of the run writes.
    fn writer(&self, entry: &Entry) -> Checked {
        let holders_own = match &entry.fact {
            Fact::DriverStopped { .. }
            | Fact::ModelReplied { .. }
            | Fact::ModelFailed { .. }
            | Fact::CallDispatched { .. }
            | Fact::CallsReplanned { .. }
            | Fact::Suspended { .. }
            | Fact::WaitExpired { .. }
            | Fact::RequestExpired { .. }
            | Fact::Reopened {} => true,
            // A decision that cancels ends a run in its own transaction, whoever holds it.
            Fact::RunFinished(outcome) => entry.driver.is_some() || outcome.status != FinalStatus::Cancelled,
            // Only whoever runs a call writes its result: judged with the call.
            Fact::RunStarted { .. }
            | Fact::DriverStarted { .. }
            | Fact::CallFinished { .. }
            | Fact::RequestDecided { .. }
            | Fact::MessageAdded { .. }
            | Fact::ModeChanged { .. }
            | Fact::Paused { .. }
            | Fact::Resumed { .. }
            | Fact::CancelRequested { .. }
            | Fact::Forked { .. } => false,
        };
        let holder = self.holder.as_ref().map(|(id, _)| id);
        let may = !holders_own || (holder.is_some() && holder == entry.driver.as_ref());
        // A driver that stopped has no more to say (I4); one that never held the run never had (I1).
        let stopped = entry.driver.as_ref().is_some_and(|driver| self.driver_ids.contains(driver));
        let rule = if stopped && holder.is_none() { "I4" } else { "I1" };
        ensure(may, rule, "written by one that does not hold the run")
    }

    /// What may follow the end of a run.
    fn after_the_end(&self, fact: &Fact, by: Option<&DriverId>) -> Checked {
        let may = match (self.ended, fact) {
            (None, _) => true,
            // Another system can be done after a run has failed, and a message goes on with both.
            (Some(FinalStatus::Failed), Fact::CallFinished { .. }) => by.is_none(),
            (Some(ended @ (FinalStatus::Completed | FinalStatus::Failed)), fact) => match fact {
                Fact::MessageAdded { .. } | Fact::ModeChanged { .. } => true,
                // What the conversation went on without can still be decided, run and told.
                Fact::DriverStarted { .. }
                | Fact::DriverStopped { .. }
                | Fact::CallDispatched { .. }
                | Fact::CallsReplanned { .. }
                | Fact::CallFinished { .. }
                | Fact::Suspended { .. }
                | Fact::RequestDecided { .. }
                | Fact::RequestExpired { .. }
                | Fact::Reopened {}
                | Fact::Forked { .. } => ended == FinalStatus::Completed,
                // It can crash its step each time.
                Fact::RunFinished(outcome) => ended == FinalStatus::Completed && outcome.status == FinalStatus::Failed,
                Fact::RunStarted { .. }
                | Fact::ModelReplied { .. }
                | Fact::ModelFailed { .. }
                | Fact::WaitExpired { .. }
                | Fact::Paused { .. }
                | Fact::Resumed { .. }
                | Fact::CancelRequested { .. } => false,
            },
            (Some(FinalStatus::Cancelled), _) => false,
        };
        ensure(may, "I4", &format!("{} after the end of the run", fact.kind()))
    }

    fn fact(&mut self, entry: &Entry) -> Checked {
        let by = entry.driver.as_ref();
        match &entry.fact {
            Fact::RunStarted { owner, definition, mode, parent, .. } => {
                (self.owner, self.mode) = (Some(owner.clone()), *mode);
                self.widest = parent.as_ref().map(|parent| parent.mode);
                self.spending.share(parent.as_ref());
                self.no_wider(*mode)?;
                let own = self.definition.digest().is_ok_and(|digest| digest == *definition);
                ensure(entry.index == 0, "I1", "a run starts in its midst")?;
                ensure(own, "I10", "the agent's definition is not the one that was frozen")
            }
            Fact::DriverStarted { until } => {
                self.lose_running();
                let Some(id) = by else { return broken("I1", "a driver without a name") };
                self.holder = Some((id.clone(), *until));
                ensure(self.driver_ids.insert(id.clone()), "I4", "a driver that held the run before starts again")
            }
            Fact::DriverStopped { .. } => {
                self.holder = None;
                self.lose_running();
                Ok(())
            }
            Fact::ModelReplied { model, content, seen, calls, usage, .. } => {
                self.replied(model, content, *seen, calls, by)?;
                self.spending.replied(&self.definition, model, usage)
            }
            Fact::ModelFailed { .. } => Ok(()),
            Fact::CallDispatched { calls } => {
                let quiet = self.paused || self.cancelled;
                ensure(!quiet, "B8", "calls start while the run is paused or cancelled")?;
                calls.iter().try_for_each(|start| {
                    self.call(start.call)?.announce(start.attempt, by)?;
                    self.not_forbidden(start.call)
                })
            }
            Fact::CallsReplanned { calls } => {
                let index = self.index;
                calls.iter().try_for_each(|change| self.call(change.call)?.withhold(&change.plan, index))
            }
            Fact::CallFinished { call, attempt, result, kv, used } => {
                let index = self.index;
                if let Some(request) = self.call(*call)?.finish(index, *attempt, result, by)? {
                    self.take_request(request)?;
                }
                self.spending.child(used.as_ref());
                let answers = used.is_none() || (by.is_none() && self.call(*call)?.delegates);
                ensure(answers, "D6", "a call that was not delegated says what another run has used")?;
                self.kept(result, kv)
            }
            Fact::Suspended { requests, .. } => {
                self.holder = None;
                self.lose_running();
                (0..).zip(requests).try_for_each(|(ordinal, opened)| self.opened(ordinal, opened))
            }
            Fact::RequestDecided { request, decision, by, digest, via } => {
                self.spending.decided(decision);
                self.decided(*request, decision, by, digest.as_ref(), entry.at)?;
                ensure(
                    via.is_none() || token::shareable(decision.kind()),
                    "I6",
                    "a link decides what none can give out",
                )
            }
            Fact::WaitExpired { requests } => requests.iter().try_for_each(|key| self.wait_expired(*key, entry.at)),
            Fact::Reopened {} => self.reopened(),
            Fact::RequestExpired { requests } => requests.iter().try_for_each(|key| {
                let (call, windows) = self.take_request(*key)?;
                let index = self.index;
                if let Some(call) = call {
                    self.call(call)?.settle(index);
                }
                ensure(entry.at > windows.decide_by, "I6", &format!("{key} expires while it can be decided"))
            }),
            Fact::MessageAdded { supersedes, .. } => {
                self.ended = None;
                if *supersedes {
                    self.superseded()?;
                }
                ensure(!self.cancelled, "B8", "a message to a cancelled run")
            }
            Fact::ModeChanged { mode, calls, .. } => {
                self.mode = *mode;
                self.no_wider(*mode)?;
                calls.iter().try_for_each(|change| {
                    let index = self.index;
                    self.call(change.call)?.replan(&change.plan, index)?;
                    self.verdict(change.call, &change.plan)
                })
            }
            Fact::Paused { .. } => ensure(!std::mem::replace(&mut self.paused, true), "B8", "it is paused already"),
            Fact::Resumed { .. } => ensure(std::mem::replace(&mut self.paused, false), "B8", "it is not paused"),
            Fact::CancelRequested { .. } => {
                self.close_all();
                ensure(!std::mem::replace(&mut self.cancelled, true), "B8", "it is cancelled already")
            }
            Fact::Forked { .. } => self.forked(entry),
            Fact::RunFinished(outcome) => self.finished(outcome.status),
        }
    }

    /// A child's mode is never wider than its parent's.
    fn no_wider(&self, mode: Mode) -> Checked {
        ensure(self.widest.is_none_or(|widest| mode <= widest), "D5", "its mode is wider than that of its parent")
    }

    fn call(&mut self, key: CallKey) -> Result<&mut CallBook, Broken> {
        let missing = || Broken("I2", format!("there is no call {key} in a stored reply"));
        self.calls.get_mut(&key).ok_or_else(missing)
    }

    fn lose_running(&mut self) {
        let index = self.index;
        self.calls.values_mut().for_each(|call| call.lose(index));
    }

    fn replied(
        &mut self,
        model: &ModelRef,
        content: &[ReplyBlock],
        seen: u32,
        plans: &[Plan],
        by: Option<&DriverId>,
    ) -> Checked {
        let open = self.calls.iter().find(|(_, call)| call.is_awaited()).map(|(key, _)| *key);
        let least = std::mem::replace(&mut self.seen, self.index + 1);
        let blocks = content.iter().filter_map(|block| match block {
            ReplyBlock::ToolCall { name, arguments, .. } => Some((name, arguments)),
            ReplyBlock::Text { .. } | ReplyBlock::Reasoning { .. } | ReplyBlock::Opaque { .. } => None,
        });
        let blocks: Vec<_> = blocks.collect();
        let owner = self.owner.clone();
        for (ordinal, ((name, raw), plan)) in (0..).zip(blocks.iter().zip(plans)) {
            let replay = self.definition.tool(name).map_or(Replay::Manual, |tool| tool.replay);
            let arguments = plan::arguments(raw).ok();
            let digest =
                owner.as_ref().and_then(|owner| plan::call_digest(owner, &self.id, name, arguments.as_ref()?).ok());
            let key = CallKey::new(self.index, ordinal);
            let book = CallBook::new(name, replay, digest, arguments, plan, self.index);
            let tool = self.definition.tool(name);
            let delegates = tool.is_some_and(|tool| tool.delegates_to().is_some());
            self.calls.insert(key, book.later(tool.is_some_and(|tool| tool.later), delegates));
            self.recognised(key, plan, seen)?;
            if plan.starts() {
                ensure(!self.paused && !self.cancelled, "B8", "a call starts while the run is paused or cancelled")?;
                self.call(key)?.announce(1, by)?;
                self.not_forbidden(key)?;
            }
            let known = self.definition.tool(name).is_some() || matches!(plan, Plan::Invalid { .. });
            ensure(known, "I7", &format!("a plan for a call of {name:?}, which the agent does not have"))?;
            self.verdict(key, plan)?;
        }
        ensure(blocks.len() == plans.len(), "I2", "a reply whose calls and plans are not as many")?;
        ensure(open.is_none(), "I3", &format!("a reply while call {open:?} has no result"))?;
        ensure(seen <= self.index && seen >= least, "I10", &format!("it saw {seen} entries, after {least}"))?;
        self.prompt_grew(model, seen)
    }

    /// The prompt that was answered begins with the one that this model answered before.
    fn prompt_grew(&mut self, model: &ModelRef, seen: u32) -> Checked {
        let prompt = self.prompts.remove(&seen);
        self.prompts.clear();
        // Without the states there are no prompts to compare: entries alone were entered.
        let Some(prompt) = prompt else { return Ok(()) };
        let before = self.answered.insert(model.clone(), prompt);
        let now = self.answered.get(model);
        let grew = before.is_none_or(|before| now.is_some_and(|now| now.starts_with(&before)));
        ensure(grew, "I10", "its prompt does not begin with the one before")
    }

    /// What policy refuses is never planned to run or to be asked about, and what it asks about is not
    /// planned to run.
    fn verdict(&mut self, key: CallKey, plan: &Plan) -> Checked {
        let (definition, mode) = (self.definition.clone(), self.mode);
        let call = self.call(key)?;
        let tool = &call.tool;
        let ruling = definition.tool(tool).zip(call.arguments.as_ref()).map(|(tool, arguments)| {
            policy::authorize(&Asked { tool, arguments, mode, policies: &[&definition.policy], standing: &[] })
        });
        // A standing rule is not in the journal, only its name: it may allow what would ask, the floor aside.
        let verdict = ruling.map(|ruling| match (ruling.verdict, plan.rule()) {
            (Verdict::Ask, Some(_)) if ruling.by != RuledBy::Floor => Verdict::Allow,
            (verdict, _) => verdict,
        });
        let strictest = match plan {
            Plan::Start { .. } | Plan::Allow { .. } => Verdict::Allow,
            Plan::Ask { .. } | Plan::Question | Plan::Joins { .. } | Plan::Known { .. } => Verdict::Ask,
            Plan::Deny { .. } | Plan::Invalid { .. } => Verdict::Deny,
        };
        let follows = verdict.is_none_or(|verdict| verdict <= strictest);
        ensure(follows, "I7", &format!("policy says {verdict:?} of {tool}, and its plan is another"))
    }

    /// What the rules that are frozen with the run forbid never starts, whoever approved it.
    fn not_forbidden(&mut self, key: CallKey) -> Checked {
        let definition = self.definition.clone();
        let call = self.call(key)?;
        let asked = definition.tool(&call.tool).zip(call.arguments.as_ref());
        let why = asked.and_then(|(tool, arguments)| policy::forbidden(tool, arguments, &[&definition.policy]));
        ensure(why.is_none(), "I7", &format!("{key} starts, and {}", why.as_deref().unwrap_or_default()))
    }

    fn finished(&mut self, status: FinalStatus) -> Checked {
        self.holder = None;
        self.ended = Some(status);
        let open = self.calls.values().any(CallBook::is_awaited);
        if status != FinalStatus::Completed {
            self.close_all();
        }
        let runs = self.calls.values().any(|call| call.runs);
        ensure(!runs, "I3", "the run ends while a call runs")?;
        match status {
            FinalStatus::Completed => ensure(!open, "I3", "the run is complete, and a call has no result"),
            FinalStatus::Cancelled => ensure(self.cancelled, "B8", "the run is cancelled, and nobody cancelled it"),
            FinalStatus::Failed => Ok(()),
        }
    }
}
