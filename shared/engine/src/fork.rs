//! Forking a run: a new run whose journal begins with a copy of another's, up to some entry (X8).
//!
//! A journal can be larger than a transaction, so the copy is made in batches, in order, each conditional on its
//! indexes being free. The run's item comes last, in one transaction with the entry that says that it is a fork: until
//! then there is no run. A copy that is broken off leaves entries under a name that nobody was told, that no list
//! shows and that nothing drives.

use std::collections::BTreeMap;

use dormouse_domain::{
    Caller, Entry, Fact, Millis, Mode, Run, RunId,
    agent::{OnMessage, Target},
    entry::{CallResult, FinalStatus},
    item::RunItem,
    message::Content,
    plan::{self, Rules},
};

use crate::{
    Engine, IdempotencyKey, Started,
    amend::receipt,
    error::{Problem, final_write_error},
    journal::{LoadError, fold},
    modes,
    ports::{Commit, FileVersion, FileWrite, ItemWrite, ToolCall, WriteError},
    step::made_call,
};

/// Entries that are copied at once, at most.
const BATCH_ENTRIES: usize = 40;
/// Bytes of their bodies, unless one alone has more. A transaction holds 100 items and 4 MB.
const BATCH_BYTES: usize = 2_500_000;

/// A fork to be made.
#[derive(Debug, Clone)]
pub struct ForkRun {
    /// The last entry that is copied.
    pub at: u32,
    /// What a person says next, not blank, if they say anything.
    pub message: Option<Vec<Content>>,
    /// The mode from there on, if not that of the other run.
    pub mode: Option<Mode>,
    /// The client's labels, if not those of the other run.
    pub metadata: Option<BTreeMap<String, String>>,
}

impl Engine {
    /// Makes a new run of `by`'s whose journal begins with the entries of `run` up to `fork.at`, under the same
    /// indexes, and wakes a step. Results in the copy are used; a call that the other run may have made since is not
    /// made unasked.
    ///
    /// # Errors
    /// [`Problem`]; then no run was made, except as [`Problem::Unknown`] says.
    pub async fn fork(
        &self,
        by: &Caller,
        run: &RunId,
        fork: ForkRun,
        key: Option<&IdempotencyKey>,
    ) -> Result<Started, Problem> {
        if let Some(answer) = self.earlier_start(by, key).await? {
            return Ok(answer);
        }
        if fork.message.as_ref().is_some_and(|message| message.iter().all(Content::is_blank)) {
            return Err(Problem::Invalid("the message is empty; leave it out, or say something".to_owned()));
        }
        self.owned_item(by, run).await?;
        let (from, copy) = self.prefix(run, fork.at).await?;
        let id = RunId::from_bits(self.ports.ids.fresh());
        let Some(before) = fold(self.ports.store.as_ref(), &id, &copy).await? else {
            return Err(Problem::NotFound("run"));
        };
        let now = self.ports.clock.now();
        let forked = self.forked(by, &from, &fork, &before)?;
        let files = self.files(&before, &copy).await?;
        let (mut run, mut entries) = (before, Vec::new());
        self.append_to(&mut run, &mut entries, forked, now)?;
        if let Some(content) = fork.message {
            let supersedes = run.definition.on_message == OnMessage::Supersede && run.waits_for_person();
            let said = Fact::MessageAdded { by: by.principal.clone(), content, supersedes };
            self.append_to(&mut run, &mut entries, said, now)?;
        }
        let item = RunItem::of(&run, now);
        let started = Started { run_id: id.clone(), status: item.status };
        for batch in batches(&copy)? {
            let commit = Commit { entries: batch.to_vec(), ..Commit::new(id.clone(), self.entry_id()) };
            self.ports.store.commit(&commit).await.map_err(unfinished)?;
        }
        for files in file_batches(files) {
            let commit = Commit { files, ..Commit::new(id.clone(), self.entry_id()) };
            self.ports.store.commit(&commit).await.map_err(unfinished)?;
        }
        let receipt = receipt(&by.principal, key, &started, now)?;
        let commit = Commit {
            entries,
            item: Some(ItemWrite::Create(item)),
            receipt,
            ..Commit::new(id.clone(), self.entry_id())
        };
        match self.ports.store.commit(&commit).await {
            Ok(()) => {
                self.wake_when_due(&run, now).await;
                Ok(started)
            }
            // Somebody sent the same key at the same time and was first: theirs is the fork.
            Err(WriteError::ReceiptExists) => match self.earlier_start(by, key).await? {
                Some(answer) => Ok(answer),
                None => Err(Problem::Unavailable(WriteError::ReceiptExists.into())),
            },
            Err(error) => Err(final_write_error(error)),
        }
    }

    /// The entries of run `run` up to `at`, and who wrote that one: a fork has its first entries from another.
    async fn prefix(&self, run: &RunId, at: u32) -> Result<(RunId, Vec<Entry>), Problem> {
        let mut entries = self.ports.store.load(run, 0).await?;
        let writer = entries.iter().filter(|entry| entry.index > at).find_map(|entry| {
            let Fact::Forked { from, .. } = &entry.fact else { return None };
            Some(from.clone())
        });
        let last = entries.last().map(|last| last.index);
        entries.retain(|entry| entry.index <= at);
        match last {
            Some(last) if last >= at => Ok((writer.unwrap_or_else(|| run.clone()), entries)),
            Some(last) => Err(Problem::Invalid(format!(
                "the run has no entry {at} yet; its last one is {last}, so `at` is at most that"
            ))),
            None => Err(Problem::NotFound("run")),
        }
    }

    /// The entry that makes a run of the copy, which leaves it as `before`.
    fn forked(&self, by: &Caller, from: &RunId, fork: &ForkRun, before: &Run) -> Result<Fact, Problem> {
        may_fork(before, fork)?;
        let may = |mode| modes::check(&before.definition, mode, &before.owner, by);
        let mode = match fork.mode {
            Some(mode) => may(mode).map(|()| mode)?,
            None if may(before.mode).is_ok() => before.mode,
            // Those who decide widened the other run, not this one.
            None => before.definition.mode,
        };
        let policy = self.ports.agents.policy(&before.agent);
        let calls = plan::fork(before, mode, Rules { policy: &policy, standing: &[], widest: Mode::Yolo });
        let metadata = fork.metadata.clone().unwrap_or_else(|| before.metadata.clone());
        Ok(Fact::Forked { from: from.clone(), last: fork.at, by: by.principal.clone(), mode, metadata, calls })
    }

    /// The workspace as the copy leaves it: that of the other run may have changed since, and is its own.
    async fn files(&self, before: &Run, copy: &[Entry]) -> Result<Vec<FileWrite>, Problem> {
        let made: Vec<_> = copy.iter().filter_map(|entry| written_by(before, entry)).collect();
        let files = self.ports.tools.files_after(&made).await.map_err(|why| {
            let at = before.len - 1;
            Problem::WrongState(format!(
                "the files of entry {at} cannot be made again ({why}); fork it at an earlier one"
            ))
        })?;
        let workspace = before.id.to_string();
        let new = files.into_iter().map(|(path, content)| {
            let workspace = workspace.clone();
            FileWrite { workspace, path, content, expect: FileVersion::Absent }
        });
        Ok(new.collect())
    }

    fn append_to(&self, run: &mut Run, entries: &mut Vec<Entry>, fact: Fact, at: Millis) -> Result<(), Problem> {
        let entry = Entry { index: run.len, entry_id: self.entry_id(), at, driver: None, fact };
        run.apply(&entry).map_err(LoadError::from)?;
        entries.push(entry);
        Ok(())
    }
}

/// Whether a run can go on from the entry that left it as `before`.
fn may_fork(before: &Run, fork: &ForkRun) -> Result<(), Problem> {
    let at = fork.at;
    if before.cancel.is_some() {
        let why =
            format!("at entry {at} the run was cancelled, and what it waited for is closed; fork it at an earlier one");
        return Err(Problem::WrongState(why));
    }
    let Some(outcome) = &before.outcome else { return Ok(()) };
    if outcome.status != FinalStatus::Completed {
        let why =
            format!("at entry {at} the run had failed, and what it waited for is closed; fork it at an earlier one");
        return Err(Problem::WrongState(why));
    }
    if fork.message.is_none() {
        let why = format!(
            "at entry {at} the run was complete; send a `message` to go on from there, or fork it at an earlier one"
        );
        return Err(Problem::Invalid(why));
    }
    Ok(())
}

/// The copy in pieces that each fit a transaction.
fn batches(copy: &[Entry]) -> Result<Vec<&[Entry]>, Problem> {
    let mut batches = Vec::new();
    let (mut begin, mut bytes) = (0, 0);
    for (place, entry) in copy.iter().enumerate() {
        let (_, body) = entry.fact.encode().map_err(|error| Problem::Corrupt(error.into()))?;
        if place > begin && (place - begin == BATCH_ENTRIES || bytes + body.len() > BATCH_BYTES) {
            batches.push(&copy[begin..place]);
            (begin, bytes) = (place, 0);
        }
        bytes += body.len();
    }
    batches.push(&copy[begin..]);
    Ok(batches)
}

/// The call that wrote a file, if this entry tells of one.
fn written_by(run: &Run, entry: &Entry) -> Option<ToolCall> {
    let Fact::CallFinished { call, attempt, result: CallResult::Returned { is_error: false, .. }, .. } = &entry.fact
    else {
        return None;
    };
    let call = run.call(*call)?;
    let tool = run.definition.tool(&call.tool)?;
    let writes = match &tool.target {
        Target::Builtin(builtin) => builtin.kind().mutates(),
        Target::Http { .. } | Target::Agents { .. } => false,
    };
    if !writes {
        return None;
    }
    let arguments = call.arguments(run).ok()?;
    Some(made_call(run, call.key, *attempt, tool.clone(), arguments))
}

/// The files in pieces that each fit a transaction.
fn file_batches(files: Vec<FileWrite>) -> Vec<Vec<FileWrite>> {
    let (mut batches, mut bytes) = (Vec::<Vec<FileWrite>>::new(), 0);
    for file in files {
        let full = batches.last().is_none_or(|batch| batch.len() == BATCH_ENTRIES);
        if full || bytes + file.content.len() > BATCH_BYTES {
            batches.push(Vec::new());
            bytes = 0;
        }
        bytes += file.content.len();
        if let Some(batch) = batches.last_mut() {
            batch.push(file);
        }
    }
    batches
}

/// A copy that was broken off is no run, whatever became of its last write.
fn unfinished(error: WriteError) -> Problem {
    if let WriteError::TooLarge(what) = &error {
        return Problem::TooLarge(format!("too large to copy: {what}"));
    }
    Problem::Unavailable(error.into())
}
