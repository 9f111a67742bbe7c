//! Delegation: starting the run of another agent, telling its parent how it ended, and cancelling it with its parent.
//!
//! Each of these is one write to one journal, and making it again does nothing: a child has the name that follows from
//! the call that it is for, and a call takes one result. So a step that dies between two of them is made good by the next
//! one, and there is no moment at which a child is lost to its parent.

use dormouse_domain::{
    Entry, Fact, Mode, Run, RunId,
    delegate::{self, MAX_DEPTH, Parent, Task},
    entry::{CallResult, FinalStatus, Outcome},
    item::RunItem,
    kv::KvPatch,
    message::Content,
};

use crate::{
    Engine,
    amend::Amendment,
    error::Problem,
    ports::{Commit, ItemWrite, WriteError},
};

/// A task that is about to be given to another agent.
pub(crate) struct Delegation {
    /// What the child is to know of the run that delegates.
    pub(crate) parent: Parent,
    /// The task.
    pub(crate) task: Task,
    /// The run that delegates.
    pub(crate) run: Run,
}

/// How a run that is told of another's end, or cancelled with it, answers: nothing to say.
type Told = ();

impl Engine {
    /// Starts the run of a delegation, unless it was started before. What the call comes to: that it is done later, or, if
    /// that run is over already, its answer.
    pub(crate) async fn delegate(&self, delegation: &Delegation) -> CallResult {
        match Box::pin(self.start_child(delegation)).await {
            Ok(result) => result,
            Err(why) => CallResult::Unknown { why },
        }
    }

    async fn start_child(&self, delegation: &Delegation) -> Result<CallResult, String> {
        let Delegation { parent, task, run } = delegation;
        let id = RunId::of_child(&parent.run, parent.call);
        let unknown = |error: &dyn std::fmt::Display| format!("whether run {id} was started: {error}");
        let Some(agent) = self.ports.agents.get(&task.agent) else {
            let text = format!("Not done: there is no agent {:?} any more.", task.agent);
            return Ok(CallResult::Returned { content: vec![Content::Text { text }], is_error: true });
        };
        let definition = delegate::held_to((*agent).clone(), &run.definition);
        let digest = definition.digest().map_err(|error| unknown(&error))?;
        self.ports.store.put_definition(&digest, &definition).await.map_err(|error| unknown(&error))?;
        let now = self.ports.clock.now();
        let fact = Fact::RunStarted {
            owner: run.owner.clone(),
            agent: task.agent.clone(),
            mode: definition.mode.min(parent.mode),
            definition: digest,
            input: vec![Content::text(task.task.clone())],
            metadata: std::collections::BTreeMap::new(),
            parent: Some(parent.clone()),
        };
        let entry = Entry { index: 0, entry_id: self.entry_id(), at: now, driver: None, fact };
        let child = Run::start(id.clone(), definition.into(), &entry).map_err(|error| unknown(&error))?;
        let commit = Commit {
            item: Some(ItemWrite::Create(RunItem::of(&child, now))),
            ..Commit::new(id.clone(), entry.entry_id.clone())
        };
        let commit = Commit { entries: vec![entry], ..commit };
        match self.ports.store.commit(&commit).await {
            Ok(()) => {}
            // An earlier attempt started it.
            Err(WriteError::LostIndex) => {
                let started = self.load(&id).await.map_err(|error| unknown(&error))?;
                if let Some((child, outcome)) =
                    started.as_ref().and_then(|child| Some((child, child.outcome.as_ref()?)))
                {
                    return Ok(delegate::answer(child, outcome));
                }
            }
            Err(error) => return Err(unknown(&error)),
        }
        self.send_wake(&id, 0).await;
        Ok(CallResult::Later {})
    }

    /// Tells the run that delegated to `child` how that one ends, if it still waits for it: its call has its result.
    ///
    /// # Errors
    /// [`Problem`] if that could not be written.
    pub(crate) async fn tell_parent(&self, child: &Run, outcome: &Outcome) -> Result<(), Problem> {
        let Some(parent) = &child.parent else { return Ok(()) };
        let result = delegate::answer(child, outcome);
        let used = Some(delegate::consumed(child, self.ports.clock.now()));
        let told = self.amend::<Told, _>(&child.owner, None, &parent.run, None, |run, _, _| {
            let call = run.call(parent.call).filter(|call| call.takes(call.attempts, &result));
            let Some(call) = call.filter(|_| !run.is_over() && run.cancel.is_none()) else { return Err(settled()) };
            let (call, attempt) = (call.key, call.attempts);
            let fact = Fact::CallFinished { call, attempt, result: result.clone(), kv: KvPatch::new(), used };
            Ok(amendment(fact))
        });
        unless_settled(told.await)
    }

    /// Cancels the runs that do tasks of `run`, because it ends with `outcome`.
    ///
    /// # Errors
    /// [`Problem`] if that could not be written.
    pub(crate) async fn cancel_children(&self, run: &Run, outcome: &Outcome) -> Result<(), Problem> {
        if outcome.status == FinalStatus::Completed {
            return Ok(());
        }
        let by = outcome.by.clone().unwrap_or_else(|| run.owner.clone());
        for child in run.children_at_work() {
            let reason = format!("run {}, which delegated to it, has ended: {}", run.id, outcome.why);
            let cancelled = self.amend::<Told, _>(&by, None, &child, None, |run, _, _| {
                if run.outcome.is_some() || run.cancel.is_some() {
                    return Err(settled());
                }
                Ok(amendment(Fact::CancelRequested { by: by.clone(), reason: Some(reason.clone()) }))
            });
            unless_settled(cancelled.await)?;
        }
        Ok(())
    }

    /// The widest mode that holds for `run` today: that of the narrowest run above it. What cannot be read does not
    /// widen anything (I11): then whatever changes something asks.
    pub(crate) async fn widest(&self, run: &Run) -> Mode {
        let (mut widest, mut above) = (Mode::Yolo, run.parent.as_ref().map(|parent| parent.run.clone()));
        for _ in 0..MAX_DEPTH {
            let Some(id) = above.take() else { break };
            match self.ports.store.item(&id).await {
                Ok(Some(item)) => {
                    widest = widest.min(item.mode);
                    above = item.parent.map(|parent| parent.run_id);
                }
                // It was deleted: its mode when it delegated holds.
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(run = %run.id, above = %id, %error, "the mode above cannot be read");
                    widest = widest.min(Mode::Normal);
                    break;
                }
            }
        }
        widest
    }
}

fn amendment(fact: Fact) -> Amendment<Told> {
    Amendment { facts: vec![fact], decided: Vec::new(), rule: None, answer: Box::new(|_| ()) }
}

/// There is nothing left to say to the other run.
fn settled() -> Problem {
    Problem::NotFound("run")
}

fn unless_settled(written: Result<Told, Problem>) -> Result<(), Problem> {
    match written {
        Err(problem) if problem.is_not_found() => Ok(()),
        written => written,
    }
}
