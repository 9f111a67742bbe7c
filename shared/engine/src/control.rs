//! What an owner does to a run from outside: speak, pause, resume, cancel, change the mode.

use dormouse_domain::{
    Caller, Fact, Millis, Mode, Run, RunId,
    agent::OnMessage,
    decide::MAX_TEXT_BYTES,
    entry::FinalStatus,
    message::Content,
    plan::{self, Rules},
    run::Status,
};
use serde::{Deserialize, Serialize};

use crate::{Engine, IdempotencyKey, amend::Amendment, error::Problem, modes};

/// What a change led to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The run.
    pub run_id: RunId,
    /// Where it stands now.
    pub status: Status,
    /// What the change does and what it does not, in words.
    pub note: String,
}

impl Engine {
    /// Adds a message. A run that works reads it with its next model call; one that waits, after
    /// what it waits for, or, where the agent file says so, instead of it; one that ended goes on
    /// with it, unless it was cancelled (D12). One that has reached a ceiling asks first.
    ///
    /// # Errors
    /// [`Problem`].
    pub async fn add_message(
        &self,
        by: &Caller,
        run_id: &RunId,
        content: Vec<Content>,
        key: Option<&IdempotencyKey>,
    ) -> Result<Changed, Problem> {
        if content.iter().all(Content::is_blank) {
            return Err(Problem::Invalid("the message is empty".to_owned()));
        }
        let note = "the agent reads the message with its next model call: after what the run waits for, or, where the \
                    agent file says so, instead of it";
        self.change(by, run_id, key, note, |run, _| {
            if run.cancel.is_some() {
                return Err(Problem::WrongState("the run was cancelled, which is final; start a new one".to_owned()));
            }
            let supersedes =
                run.definition.on_message == OnMessage::Supersede && run.driver.is_none() && run.waits_for_person();
            Ok(Fact::MessageAdded { by: by.principal.clone(), content: content.clone(), supersedes })
        })
        .await
    }

    /// Pauses: nothing new starts, what runs settles (B8).
    ///
    /// # Errors
    /// [`Problem::WrongState`] if it is over or paused already.
    pub async fn pause(&self, by: &Caller, run_id: &RunId, key: Option<&IdempotencyKey>) -> Result<Changed, Problem> {
        self.change(by, run_id, key, "nothing new starts; calls that run settle and keep their results", |run, _| {
            unfinished(run)?;
            if run.paused {
                return Err(Problem::WrongState("the run is paused already".to_owned()));
            }
            Ok(Fact::Paused { by: by.principal.clone() })
        })
        .await
    }

    /// Lets a paused run go on.
    ///
    /// # Errors
    /// [`Problem::WrongState`] if it is not paused.
    pub async fn resume(&self, by: &Caller, run_id: &RunId, key: Option<&IdempotencyKey>) -> Result<Changed, Problem> {
        self.change(by, run_id, key, "the run goes on where it was", |run, _| {
            unfinished(run)?;
            if !run.paused {
                return Err(Problem::WrongState("the run is not paused".to_owned()));
            }
            Ok(Fact::Resumed { by: by.principal.clone() })
        })
        .await
    }

    /// Cancels: cooperative, final, and undoing nothing (B8).
    ///
    /// # Errors
    /// [`Problem::WrongState`] if it is over or cancelled already.
    pub async fn cancel(
        &self,
        by: &Caller,
        run_id: &RunId,
        reason: Option<String>,
        key: Option<&IdempotencyKey>,
    ) -> Result<Changed, Problem> {
        if reason.as_ref().is_some_and(|reason| reason.len() > MAX_TEXT_BYTES) {
            return Err(Problem::Invalid(format!("the reason is too long; at most {MAX_TEXT_BYTES} bytes are taken")));
        }
        let note = "nothing new starts, what waits is closed, calls that run settle; what was done is not undone";
        self.change(by, run_id, key, note, |run, _| {
            unfinished(run)?;
            if run.cancel.is_some() {
                return Err(Problem::WrongState("the run is being cancelled already".to_owned()));
            }
            Ok(Fact::CancelRequested { by: by.principal.clone(), reason: reason.clone() })
        })
        .await
    }

    /// Changes the mode. Open requests stay open; calls that were neither run nor asked about get
    /// the verdict of the new mode.
    ///
    /// # Errors
    /// [`Problem::Invalid`] if it is wider than the agent's `max_mode`.
    pub async fn set_mode(
        &self,
        by: &Caller,
        run_id: &RunId,
        mode: Mode,
        key: Option<&IdempotencyKey>,
    ) -> Result<Changed, Problem> {
        let item = self.ports.store.item(run_id).await?.ok_or(Problem::NotFound("run"))?;
        let rules = self.rules_about(run_id, &item.owner, &item.agent).await?;
        let note = "the mode holds from the next call on; open requests stay open";
        let may = |run: &Run| run.owner == by.principal || modes::decides_all(&run.definition, &run.owner, by);
        self.change_if(by, run_id, key, note, may, |run, _| {
            if run.cancel.is_some() {
                return Err(Problem::WrongState("the run was cancelled".to_owned()));
            }
            modes::check(&run.definition, mode, &run.owner, by)?;
            if let Some(parent) = run.parent.as_ref().filter(|parent| mode > parent.mode) {
                let (above, widest) = (&parent.run, parent.mode);
                let detail =
                    format!("mode {mode} is wider than that of run {above}, which delegated to this one: {widest}");
                return Err(Problem::Invalid(detail));
            }
            let policy = self.ports.agents.policy(&run.agent);
            let standing: Vec<_> = rules.iter().filter(|rule| rule.stands_for(run)).cloned().collect();
            let rules = Rules { policy: &policy, standing: &standing, widest: Mode::Yolo };
            Ok(Fact::ModeChanged { by: by.principal.clone(), mode, calls: plan::replan(run, mode, rules) })
        })
        .await
    }

    /// A change by the person whose run it is.
    async fn change(
        &self,
        by: &Caller,
        run_id: &RunId,
        key: Option<&IdempotencyKey>,
        note: &str,
        fact: impl Fn(&Run, Millis) -> Result<Fact, Problem> + Send + Sync,
    ) -> Result<Changed, Problem> {
        self.change_if(by, run_id, key, note, |run| run.owner == by.principal, fact).await
    }

    /// A change by whoever `may` make it; to all others there is no such run.
    async fn change_if(
        &self,
        by: &Caller,
        run_id: &RunId,
        key: Option<&IdempotencyKey>,
        note: &str,
        may: impl Fn(&Run) -> bool + Send + Sync,
        fact: impl Fn(&Run, Millis) -> Result<Fact, Problem> + Send + Sync,
    ) -> Result<Changed, Problem> {
        self.amend(&by.principal, key, run_id, None, |run, _, now| {
            if !may(run) {
                return Err(Problem::NotFound("run"));
            }
            let (run_id, note) = (run.id.clone(), note.to_owned());
            Ok(Amendment {
                facts: vec![fact(run, now)?],
                decided: Vec::new(),
                rule: None,
                answer: Box::new(move |status| Changed { run_id, status, note }),
            })
        })
        .await
    }
}

fn unfinished(run: &Run) -> Result<(), Problem> {
    let Some(outcome) = &run.outcome else { return Ok(()) };
    let how = match outcome.status {
        FinalStatus::Completed => "completed",
        FinalStatus::Failed => "failed",
        FinalStatus::Cancelled => "was cancelled",
    };
    Err(Problem::WrongState(format!("the run {how} already")))
}
