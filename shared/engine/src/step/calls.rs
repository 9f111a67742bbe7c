//! Running tool calls: announced first, concurrently, each result appended as soon as it is there.

use std::{sync::Arc, time::Duration};

use dormouse_domain::{
    CallKey, Fact, Millis, Run, ToolDef,
    delegate::{self, Task},
    entry::{CallResult, Dispatched},
    kv::KvPatch,
    message::Content,
    plan::{self, Plan, Rules},
};

use serde_json::Value;

use super::{
    StepError, StepReport, commit,
    drive::{Appended, Drive},
};
use crate::{
    Engine,
    amend::closed,
    delegate::Delegation,
    journal::LoadError,
    ports::{Commit, ToolCall, ToolReply, Tools, WriteError},
};

/// How much longer than its own timeout a tool is waited for, in milliseconds.
const TOOL_GRACE_MS: u64 = 1_000;
/// How often a call whose files were changed by another is made again.
const FILE_ATTEMPTS: u32 = 3;

/// An attempt that ended.
pub(super) struct Finished {
    call: CallKey,
    attempt: u32,
    reply: ToolReply,
    /// What was called, to be made again if its files were changed meanwhile.
    made: Option<Box<ToolCall>>,
    tries: u32,
}

fn failed(text: String) -> CallResult {
    CallResult::Returned { content: vec![Content::Text { text }], is_error: true }
}

impl Drive<'_> {
    /// Announces calls and starts them, if they fit the time left. What the rules of today do not let run
    /// any more is withheld instead, before anything is announced (I7).
    pub(super) async fn dispatch(&mut self, calls: &[CallKey]) -> Result<Appended, StepError> {
        let policy = self.policy();
        let widest = self.engine.widest(&self.run).await;
        let mut withheld = plan::recheck(&self.run, calls, Rules { policy: &policy, standing: &[], widest });
        // One that would ask can be allowed for good; if that was revoked meanwhile, it asks.
        if withheld.iter().any(|change| matches!(change.plan, Plan::Ask { floor: false, .. })) {
            let standing = Box::pin(self.engine.standing(&self.run)).await.map_err(LoadError::from)?;
            withheld = plan::recheck(&self.run, calls, Rules { policy: &policy, standing: &standing, widest });
        }
        if !withheld.is_empty() {
            return self.append(Fact::CallsReplanned { calls: withheld }).await;
        }
        let left_ms = self.left_ms();
        let fitting = calls.iter().filter_map(|key| {
            let call = self.run.call(*key)?;
            let timeout_ms = self.run.definition.tool(&call.tool).map_or(0, |tool| tool.timeout_ms);
            (timeout_ms <= left_ms || !self.worked).then_some(Dispatched { call: *key, attempt: call.attempts + 1 })
        });
        let fitting: Vec<_> = fitting.collect();
        if fitting.is_empty() {
            self.draining = true;
            return Ok(Appended::Lost);
        }
        let appended = self.append(Fact::CallDispatched { calls: fitting.clone() }).await?;
        if let Appended::Done = appended {
            for start in fitting {
                self.start_call(start.call, start.attempt)?;
            }
        }
        Ok(appended)
    }

    /// Starts an attempt that is announced in the journal. Nobody else may start one.
    pub(super) fn start_call(&mut self, key: CallKey, attempt: u32) -> Result<(), StepError> {
        let call = self.run.call(key).ok_or(StepError::Bug("an announced call that is not in the journal"))?;
        let tool = self.run.definition.tool(&call.tool);
        let tool = tool.ok_or(StepError::Bug("an announced call of a tool that the agent does not have"))?;
        let mut tool = tool.clone();
        // An agent frozen under a longer step may have longer tools; a call never outlives its step.
        tool.timeout_ms = tool.timeout_ms.min(self.left_ms());
        let arguments = call.arguments(&self.run);
        let arguments = arguments.map_err(|_| StepError::Bug("an announced call whose arguments cannot be read"))?;
        if let Some(agents) = tool.delegates_to() {
            let task = Task::read(&arguments, agents);
            let task = task.map_err(|_| StepError::Bug("an announced task that cannot be read"))?;
            let parent = delegate::parent_of(&self.run, call, self.now());
            let parent = parent.ok_or(StepError::Bug("a call that delegates to nobody"))?;
            let delegation = Delegation { parent, task, run: self.run.clone() };
            self.spawn_child(delegation, attempt, tool.timeout_ms);
            return Ok(());
        }
        self.spawn(made_call(&self.run, key, attempt, tool, arguments), 1);
        Ok(())
    }

    /// Starts the run that does the task.
    fn spawn_child(&mut self, delegation: Delegation, attempt: u32, timeout_ms: u64) {
        let engine = self.engine.clone();
        let limit = Duration::from_millis(timeout_ms);
        self.running.spawn(async move {
            let call = delegation.parent.call;
            let reply = match tokio::time::timeout(limit, engine.delegate(&delegation)).await {
                Ok(result) => result.into(),
                Err(_) => unknown(format!("the other agent's run was not started within {timeout_ms} ms")),
            };
            Finished { call, attempt, reply, made: None, tries: 1 }
        });
    }

    fn spawn(&mut self, made: ToolCall, tries: u32) {
        let (engine, tools) = (self.engine.clone(), self.engine.ports.tools.clone());
        let (held, life_ms) = (self.until(), self.run.definition.decide_within_ms);
        let limit = Duration::from_millis(made.tool.timeout_ms + TOOL_GRACE_MS);
        self.running.spawn(async move {
            // A task of its own, so that a panic in a tool is that call's failure and nothing else's.
            let (call, attempt) = (made.call, made.attempt);
            let inner = made.clone();
            let mut task = tokio::spawn(async move { with_handover(&engine, tools, inner, held, life_ms).await });
            let reply = match tokio::time::timeout(limit, AbortOnDrop(&mut task).joined()).await {
                Ok(Ok(reply)) => reply,
                Ok(Err(error)) if error.is_panic() => failed("The tool failed: it panicked.".to_owned()).into(),
                Ok(Err(_)) => unknown("the call was aborted".to_owned()),
                Err(_) => unknown(format!("the tool did not answer within {} ms", made.tool.timeout_ms)),
            };
            Finished { call, attempt, reply, made: Some(Box::new(made)), tries }
        });
    }

    /// Waits for a call that runs, and appends its result.
    pub(super) async fn take_result(&mut self) -> Result<Appended, StepError> {
        match self.running.join_next().await {
            Some(Ok(finished)) => self.record(finished).await,
            Some(Err(_)) => Err(StepError::Bug("the task around a tool call did not finish")),
            None => Err(StepError::Bug("the journal says that a call runs, and none does")),
        }
    }

    /// Appends the result of an attempt, unless the call was settled meanwhile: that fences late
    /// writers (case 37).
    async fn record(&mut self, mut finished: Finished) -> Result<Appended, StepError> {
        loop {
            let (key, attempt) = (finished.call, finished.attempt);
            let result = finished.reply.result.clone();
            let news = self.run.call(key).is_some_and(|call| call.takes(attempt, &result));
            if !news || self.run.is_over() {
                tracing::warn!(run = %self.run.id, call = %key, attempt, "a late result is not needed any more");
                return Ok(Appended::Lost);
            }
            let (result, kv) = kept(&self.run, result, finished.reply.kv.clone());
            let fact = Fact::CallFinished { call: key, attempt, result, kv, used: None };
            match self.append_result(fact, &finished.reply).await {
                Ok(Appended::Done) => return Ok(Appended::Done),
                Ok(Appended::Lost) => {}
                Err(StepError::Write(WriteError::FileChanged { path })) => {
                    // Nothing was written, so the tool can look again. If it keeps losing, it says so.
                    match finished.made.take().filter(|_| finished.tries < FILE_ATTEMPTS) {
                        Some(made) => {
                            let made = ToolCall { state: self.run.state.clone(), ..*made };
                            self.spawn(made, finished.tries + 1);
                            return Ok(Appended::Lost);
                        }
                        None => {
                            let text = format!("Not done: {path} keeps being changed by others; read it again.");
                            finished.reply = failed(text).into();
                        }
                    }
                }
                Err(StepError::Write(WriteError::TooLarge(what))) if !finished.reply.files.is_empty() => {
                    let text = format!("Not done: too large to store ({what}).");
                    finished.reply = failed(text).into();
                }
                Err(StepError::Write(WriteError::TooLarge(what))) => {
                    let text = format!(
                        "The tool ran, but its result is too large to store ({what}) and is lost, with what it set in \
                         the run's state if it set anything."
                    );
                    finished.reply = failed(text).into();
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn append_result(&mut self, fact: Fact, reply: &ToolReply) -> Result<Appended, StepError> {
        if reply.files.is_empty() && self.holds() {
            return self.append(fact).await;
        }
        let entry = self.entry(fact);
        let mut after = self.run.clone();
        after.apply(&entry).map_err(LoadError::from)?;
        let base = commit(&after, vec![entry], self.now());
        if self.holds() {
            let commit = Commit { files: reply.files.clone(), item: None, ..base };
            return self.commit(&commit, after).await;
        }
        // From a driver that no longer holds the run the result changes where the run stands: it can
        // answer an uncertain request, which closes with it, and leave the run with something to do.
        let commit = Commit { files: reply.files.clone(), requests: closed(&self.run, &after), ..base };
        let appended = self.commit(&commit, after).await?;
        if let Appended::Done = appended {
            self.engine.wake_when_due(&self.run, self.now()).await;
        }
        Ok(appended)
    }

    /// Another driver has the run, or somebody ended it. What this one's calls did is still worth
    /// knowing: each result is appended if its attempt is the latest and nobody has settled the call.
    /// Then it stops.
    pub(super) async fn stand_down(&mut self) -> Result<StepReport, StepError> {
        while let Some(joined) = self.running.join_next().await {
            if let Ok(finished) = joined {
                self.record(finished).await?;
            }
        }
        if self.run.is_over() {
            return Ok(StepReport::Finished);
        }
        tracing::warn!(run = %self.run.id, "another driver took the run over");
        Ok(StepReport::TakenOver)
    }
}

/// An attempt at a call of `run`, as tools are given it.
pub(crate) fn made_call(run: &Run, call: CallKey, attempt: u32, tool: ToolDef, arguments: Value) -> ToolCall {
    ToolCall {
        run: run.id.clone(),
        owner: run.owner.clone(),
        call,
        execution_key: format!("{}.{call}", run.id),
        attempt,
        tool,
        arguments,
        workspace: run.id.to_string(),
        state: run.state.clone(),
        handover: None,
    }
}

/// Makes a call, with what it is completed by if its tool may answer later. Without that it is not made: nobody could
/// complete it.
async fn with_handover(
    engine: &Engine,
    tools: Arc<dyn Tools>,
    mut made: ToolCall,
    held: Millis,
    life_ms: u64,
) -> ToolReply {
    if made.tool.later {
        match engine.handover(&made, held, life_ms).await {
            Ok(handover) => made.handover = Some(handover),
            Err(error) => {
                let why = format!("it may be completed later, and no token can be made for that: {error}");
                return CallResult::NotSent { why }.into();
            }
        }
    }
    tools.call(&made).await
}

/// The result to be stored, and what the tool keeps for the run with it. What cannot be kept beside what is there
/// is refused as a whole, and the result says so before it says anything else (A13).
fn kept(run: &Run, result: CallResult, kv: KvPatch) -> (CallResult, KvPatch) {
    if kv.is_empty() {
        return (result, kv);
    }
    match result {
        CallResult::Returned { content, is_error } => match run.state.after(&kv) {
            Ok(_) => (CallResult::Returned { content, is_error }, kv),
            Err(error) => {
                let refused = format!(
                    "The tool ran, but what it set in the run's state was refused, all of it: {error}. Nothing of the \
                     state has changed. The tool answered:"
                );
                let content = std::iter::once(Content::Text { text: refused }).chain(content).collect();
                (CallResult::Returned { content, is_error: true }, KvPatch::new())
            }
        },
        CallResult::NotSent { why } => (CallResult::NotSent { why: not_kept(&why) }, KvPatch::new()),
        CallResult::Unknown { why } => (CallResult::Unknown { why: not_kept(&why) }, KvPatch::new()),
        CallResult::Later {} => (CallResult::Later {}, KvPatch::new()),
    }
}

/// A tool that does not know what it did has nothing to keep. One that tries is told of where people look.
fn not_kept(why: &str) -> String {
    format!("{why}; what it set in the run's state is not kept")
}

fn unknown(why: String) -> ToolReply {
    CallResult::Unknown { why }.into()
}

/// A task that is aborted when whoever waits for it stops waiting.
struct AbortOnDrop<'a, T>(&'a mut tokio::task::JoinHandle<T>);

impl<T> AbortOnDrop<'_, T> {
    async fn joined(self) -> Result<T, tokio::task::JoinError> {
        (&mut *self.0).await
    }
}

impl<T> Drop for AbortOnDrop<'_, T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
