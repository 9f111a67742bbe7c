//! The loop: ask `next`, do it, append what happened, ask again.

use std::{sync::Arc, time::Duration};

use dormouse_domain::{
    DriverId, Entry, Fact, Millis, Next, Run, ToolDef,
    message::ModelRef,
    next,
    plan::{self, Circumstances, Plan, Rules},
    policy::{Policy, StandingRule},
    retry::{self, Failure, FailureClass},
    run::CallState,
    transcript,
};
use serde_json::Value;
use tokio::task::JoinSet;

use super::{StepError, StepReport, calls::Finished};
use crate::{
    Engine,
    journal::{LoadError, catch_up},
    ports::{Commit, Reply, Tools, WriteError},
};

/// A driver at work.
pub(super) struct Drive<'e> {
    pub(super) engine: &'e Engine,
    pub(super) run: Run,
    pub(super) id: DriverId,
    deadline: Millis,
    /// The calls that run. Each hands over its result here; only this driver's one task appends.
    pub(super) running: JoinSet<Finished>,
    /// Time ran short: nothing new starts.
    pub(super) draining: bool,
    /// Whether this step has appended anything since its claim. A step hands nothing on before it
    /// has: else two steps whose time is too short for anything would hand a run on for ever.
    pub(super) worked: bool,
}

/// What became of an append.
pub(super) enum Appended {
    /// It stands, and is folded in.
    Done,
    /// Others were first; their entries are folded in. What to write must be judged anew.
    Lost,
}

impl<'e> Drive<'e> {
    pub(super) fn new(engine: &'e Engine, run: Run, id: DriverId, deadline: Millis) -> Self {
        Self { engine, run, id, deadline, running: JoinSet::new(), draining: false, worked: false }
    }

    pub(super) async fn abort(&mut self) {
        self.running.shutdown().await;
    }

    /// Whether this driver still holds the run: nobody took it over or ended it.
    pub(super) fn holds(&self) -> bool {
        self.run.driver.as_ref().is_some_and(|driver| driver.id == self.id)
    }

    pub(super) fn now(&self) -> Millis {
        self.engine.ports.clock.now()
    }

    /// The rules that refuse today, beside those that are frozen with the run.
    pub(super) fn policy(&self) -> Arc<Policy> {
        self.engine.ports.agents.policy(&self.run.agent)
    }

    /// Until when this driver can hold the run at most.
    pub(super) fn until(&self) -> Millis {
        self.deadline
    }

    /// Time left for work, in milliseconds: until the stop entry must be written.
    pub(super) fn left_ms(&self) -> u64 {
        self.deadline.since(self.now()).saturating_sub(self.engine.settings.stop_margin_ms)
    }

    pub(super) async fn go(&mut self) -> Result<StepReport, StepError> {
        loop {
            if !self.holds() {
                return self.stand_down().await;
            }
            let now = self.now();
            let next = next(&self.run, now);
            let stops_as = self.stops_as(&next);
            let appended = match next {
                Next::Dispatch(_) | Next::Await | Next::CallModel if self.draining => self.drain().await?,
                Next::Dispatch(calls) => self.dispatch(&calls).await?,
                Next::Await => self.take_result().await?,
                Next::CallModel if self.is_orphaned().await? => self.note(self.no_parent()).await?,
                Next::CallModel => self.call_model().await?,
                Next::Expire(requests) => self.note(Fact::RequestExpired { requests }).await?,
                Next::StopWaiting(requests) => self.note(Fact::WaitExpired { requests }).await?,
                Next::Reopen => self.note(Fact::Reopened {}).await?,
                Next::Finish(outcome) => self.finish(outcome).await?,
                Next::Rest { open, until } => self.suspend(open, until, now).await?,
            };
            match (appended, stops_as) {
                (Appended::Done, Some(report)) => return Ok(report),
                (Appended::Done, None) => self.worked = true,
                // Lost to another: what is next, and whether this driver still has a say, is asked anew.
                (Appended::Lost, _) => {}
            }
        }
    }

    /// How this driver stops, if doing `next` is its stop entry.
    fn stops_as(&self, next: &Next) -> Option<StepReport> {
        match next {
            Next::Finish(_) => Some(StepReport::Finished),
            Next::Rest { .. } => Some(StepReport::Suspended),
            Next::Dispatch(_) | Next::Await | Next::CallModel if self.draining && self.running.is_empty() => {
                Some(StepReport::HandedOff)
            }
            Next::Dispatch(_)
            | Next::Await
            | Next::CallModel
            | Next::Expire(_)
            | Next::StopWaiting(_)
            | Next::Reopen => None,
        }
    }

    /// Time is short: lets what runs settle, then hands the run on.
    async fn drain(&mut self) -> Result<Appended, StepError> {
        if self.running.is_empty() { self.hand_off().await } else { self.take_result().await }
    }

    /// Whether the run that delegated to this one was over before this one began: the step that started it may have been
    /// thought dead by then, so nobody has cancelled it.
    async fn is_orphaned(&self) -> Result<bool, StepError> {
        let Some(parent) = self.run.parent.as_ref().filter(|_| self.run.turns.is_empty()) else { return Ok(false) };
        let item = self.engine.ports.store.item(&parent.run).await.map_err(LoadError::from)?;
        Ok(item.is_none_or(|item| item.outcome.is_some()))
    }

    fn no_parent(&self) -> Fact {
        let reason = Some("the run that delegated to it is over".to_owned());
        Fact::CancelRequested { by: self.run.owner.clone(), reason }
    }

    async fn call_model(&mut self) -> Result<Appended, StepError> {
        let settings = &self.engine.settings;
        if self.worked && self.left_ms() < settings.model_needs_ms {
            self.draining = true;
            return Ok(Appended::Lost);
        }
        let seen = self.run.len;
        let model = self.run.model().clone();
        let began = self.now();
        let most_ms = settings.model_timeout_ms.min(retry::patience_ms(&self.run, began));
        let timeout = Duration::from_millis(self.left_ms().min(most_ms));
        let prompt = transcript::prompt(&self.run);
        let reply = self.engine.ports.models.call(&model, &prompt, timeout).await;
        match reply {
            Ok(reply) => self.record_reply(model, reply, seen, began).await,
            Err(failure) => self.record_failure(&failure, began).await,
        }
    }

    async fn record_failure(&mut self, failure: &Failure, began: Millis) -> Result<Appended, StepError> {
        tracing::warn!(run = %self.run.id, class = ?failure.class, message = failure.message, "the model call failed");
        while self.holds() {
            let fact = retry::after(&self.run, failure, began, self.now());
            if let Appended::Done = self.append(fact).await? {
                return Ok(Appended::Done);
            }
        }
        Ok(Appended::Lost)
    }

    /// Stores a reply, with a plan for each of its calls, before any of them runs (I2, A5). If others
    /// were first, the plans are made anew from what they wrote.
    async fn record_reply(
        &mut self,
        model: ModelRef,
        reply: Reply,
        seen: u32,
        began: Millis,
    ) -> Result<Appended, StepError> {
        let (mut standing, mut looked) = (Vec::new(), false);
        let widest = self.engine.widest(&self.run).await;
        while self.holds() {
            let tools = self.engine.ports.tools.as_ref();
            let policy = self.policy();
            let rules = Rules { policy: &policy, standing: &standing, widest };
            let outside = Outside { tools, rules, left_ms: self.left_ms() };
            let calls = plan::plan_reply(&self.run, &reply.content, &reply.stop, seen, &outside);
            // What people allowed for good matters only to what would ask.
            if !looked && calls.iter().any(|plan| matches!(plan, Plan::Ask { floor: false, .. })) {
                (standing, looked) = (self.standing().await, true);
                continue;
            }
            let fact = Fact::ModelReplied {
                model: model.clone(),
                content: reply.content.clone(),
                stop: reply.stop.clone(),
                usage: reply.usage,
                seen,
                calls,
            };
            match self.append(fact).await {
                Ok(Appended::Done) => {
                    self.start_announced()?;
                    return Ok(Appended::Done);
                }
                Ok(Appended::Lost) => {}
                Err(StepError::Write(WriteError::TooLarge(what))) => {
                    let message = format!("the reply is too large to store: {what}");
                    let failure = Failure::new(FailureClass::BadReply, message);
                    return self.record_failure(&failure, began).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Appended::Lost)
    }

    /// What people allowed for good. What cannot be read allows nothing (I11): a person is asked, and the reply is
    /// not lost over it.
    async fn standing(&self) -> Vec<StandingRule> {
        Box::pin(self.engine.standing(&self.run)).await.unwrap_or_else(|error| {
            tracing::warn!(run = %self.run.id, %error, "the standing rules cannot be read; none holds");
            Vec::new()
        })
    }

    /// Starts the calls that the last reply announced.
    fn start_announced(&mut self) -> Result<(), StepError> {
        let announced = self.run.open_calls().filter_map(|call| match call.state {
            CallState::Running { attempt } => Some((call.key, attempt)),
            CallState::Ready
            | CallState::Asking(_)
            | CallState::Pending { .. }
            | CallState::Delegated { .. }
            | CallState::Unknown { .. }
            | CallState::Done(_) => None,
        });
        let announced: Vec<_> = announced.collect();
        announced.into_iter().try_for_each(|(call, attempt)| self.start_call(call, attempt))
    }

    pub(super) fn entry(&self, fact: Fact) -> Entry {
        let entry_id = self.engine.entry_id();
        Entry { index: self.run.len, entry_id, at: self.now(), driver: Some(self.id.clone()), fact }
    }

    /// Appends a fact that changes nothing but the journal: one conditional put.
    pub(super) async fn append(&mut self, fact: Fact) -> Result<Appended, StepError> {
        let entry = self.entry(fact);
        let (engine, run_id) = (self.engine, self.run.id.clone());
        let result = engine.persist(&run_id, self.deadline, || engine.ports.store.append(&run_id, &entry)).await;
        self.settle(result, |run| {
            run.apply(&entry).map_err(LoadError::from)?;
            Ok(())
        })
        .await
    }

    /// Appends entries together with what depends on them. `after` has folded them.
    pub(super) async fn commit(&mut self, commit: &Commit, after: Run) -> Result<Appended, StepError> {
        let engine = self.engine;
        let result = engine.persist(&commit.run, self.deadline, || engine.ports.store.commit(commit)).await;
        self.settle(result, |run| {
            *run = after;
            Ok(())
        })
        .await
    }

    async fn settle(
        &mut self,
        result: Result<(), WriteError>,
        fold: impl FnOnce(&mut Run) -> Result<(), StepError>,
    ) -> Result<Appended, StepError> {
        match result {
            Ok(()) => {
                fold(&mut self.run)?;
                Ok(Appended::Done)
            }
            Err(WriteError::LostIndex | WriteError::RequestCondition) => {
                let news = catch_up(self.engine.ports.store.as_ref(), &mut self.run).await?;
                if news.is_empty() {
                    return Err(StepError::Bug("a write lost to nobody"));
                }
                Ok(Appended::Lost)
            }
            Err(error) => Err(error.into()),
        }
    }
}

struct Outside<'a> {
    tools: &'a dyn Tools,
    rules: Rules<'a>,
    left_ms: u64,
}

impl Circumstances for Outside<'_> {
    fn rules(&self) -> Rules<'_> {
        self.rules
    }

    fn validate(&self, tool: &ToolDef, arguments: &Value) -> Result<(), String> {
        self.tools.validate(tool, arguments)
    }

    fn fits(&self, tool: &ToolDef) -> bool {
        tool.timeout_ms <= self.left_ms
    }
}
