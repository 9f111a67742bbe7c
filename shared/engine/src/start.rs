//! Starting a run.

use std::collections::BTreeMap;

use dormouse_domain::{Caller, Entry, Fact, Mode, Run, RunId, item::RunItem, message::Content, run::Status};
use serde::{Deserialize, Serialize};

use crate::{
    Engine, IdempotencyKey,
    amend::receipt,
    error::{Problem, final_write_error},
    modes,
    ports::{Commit, ItemWrite, WriteError},
};

/// A run to be started.
#[derive(Debug, Clone)]
pub struct StartRun {
    /// The agent's name.
    pub agent: String,
    /// What it is asked, not blank.
    pub input: Vec<Content>,
    /// The mode to start in, if not the agent's own.
    pub mode: Option<Mode>,
    /// The client's labels.
    pub metadata: BTreeMap<String, String>,
}

/// A run that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Its name.
    pub run_id: RunId,
    /// Where it stands.
    pub status: Status,
}

impl Engine {
    /// Starts a run for `owner`: freezes the agent's definition, writes entry 0, and wakes a step.
    ///
    /// # Errors
    /// [`Problem`]; then no run was started, except as [`Problem::Unknown`] says.
    pub async fn start(
        &self,
        owner: &Caller,
        start: StartRun,
        key: Option<&IdempotencyKey>,
    ) -> Result<Started, Problem> {
        if let Some(answer) = self.earlier_start(owner, key).await? {
            return Ok(answer);
        }
        let agents = &self.ports.agents;
        let Some(definition) = agents.get(&start.agent) else {
            return Err(Problem::UnknownAgent { name: start.agent, known: agents.names().join(", ") });
        };
        if start.input.iter().all(Content::is_blank) {
            return Err(Problem::Invalid("the input is empty; say what the agent is to do".to_owned()));
        }
        let mode = start.mode.unwrap_or(definition.mode);
        modes::check(&definition, mode, &owner.principal, owner)?;
        let digest = definition.digest().map_err(|error| Problem::Corrupt(error.into()))?;
        self.ports.store.put_definition(&digest, &definition).await.map_err(final_write_error)?;

        let run_id = RunId::from_bits(self.ports.ids.fresh());
        let now = self.ports.clock.now();
        let fact = Fact::RunStarted {
            owner: owner.principal.clone(),
            agent: start.agent,
            definition: digest,
            mode,
            input: start.input,
            metadata: start.metadata,
            parent: None,
        };
        let entry = Entry { index: 0, entry_id: self.entry_id(), at: now, driver: None, fact };
        let run = Run::start(run_id.clone(), definition, &entry).map_err(|error| Problem::Corrupt(error.into()))?;
        let item = RunItem::of(&run, now);
        let started = Started { run_id: run_id.clone(), status: item.status };
        let id = entry.entry_id.clone();
        let commit = Commit {
            entries: vec![entry],
            item: Some(ItemWrite::Create(item)),
            receipt: receipt(&owner.principal, key, &started, now)?,
            ..Commit::new(run_id.clone(), id)
        };
        match self.ports.store.commit(&commit).await {
            Ok(()) => {
                self.send_wake(&run_id, 0).await;
                Ok(started)
            }
            // Somebody sent the same key at the same time and was first: theirs is the run.
            Err(WriteError::ReceiptExists) => match self.earlier_start(owner, key).await? {
                Some(answer) => Ok(answer),
                None => Err(Problem::Unavailable(WriteError::ReceiptExists.into())),
            },
            Err(error) => Err(final_write_error(error)),
        }
    }

    pub(crate) async fn earlier_start(
        &self,
        owner: &Caller,
        key: Option<&IdempotencyKey>,
    ) -> Result<Option<Started>, Problem> {
        let earlier: Option<Started> = self.earlier_answer(&owner.principal, key).await?;
        if let Some(started) = &earlier {
            self.send_wake(&started.run_id, 0).await;
        }
        Ok(earlier)
    }
}
