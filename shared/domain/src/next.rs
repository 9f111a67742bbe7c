//! What a run does next.
//!
//! One fixed order of questions, each about the folded state and the time. It never does anything;
//! the engine performs the answer, appends what happened, and asks again.

use crate::{
    agent::LateDecision,
    budget::{self, exhausted},
    entry::{FinalStatus, Opened, Outcome},
    ids::{CallKey, Millis, RequestKey},
    message::StopReason,
    plan::MAX_RUNNING,
    request::{DecisionKind, RequestKind},
    run::{AskWhy, CallState, OpenedRequest, Run},
    windows::Windows,
};

/// Requests of one run that are open at once, that of a ceiling aside; more calls that ask wait their turn. Bounded by what
/// one transaction can hold (100 items).
pub const MAX_OPEN_REQUESTS: usize = 64;
/// Bytes of arguments that one suspension opens requests for, at most; one request is always
/// opened. Bounded by what one transaction can hold (4 MB).
const MAX_OPENED_BYTES: usize = 1024 * 1024;
/// Panics without progress after which a run fails.
const MAX_PANICS: u32 = 5;
/// Unexplained deaths of drivers without progress after which a run fails...
const MAX_DEATHS: u32 = 10;
/// ...if they took at least this long, in milliseconds.
const MIN_DYING_MS: u64 = 10 * 60 * 1000;

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Announce and start these calls.
    Dispatch(Vec<CallKey>),
    /// Calls are running: take their results.
    Await,
    /// Ask the model, with everything that is in the journal.
    CallModel,
    /// These requests can no longer be decided: say so.
    Expire(Vec<RequestKey>),
    /// The conversation has waited long enough for these requests: say that it goes on.
    StopWaiting(Vec<RequestKey>),
    /// The run had completed, and the agent must be told of a late decision.
    Reopen,
    /// The run is over.
    Finish(Outcome),
    /// All that is left now is to wait: for a decision, a message, a timer, or nothing at all.
    Rest {
        /// Requests to open first.
        open: Vec<Opened>,
        /// When to look again even if nothing happens.
        until: Option<Millis>,
    },
}

impl Next {
    /// Whether a driver is needed for this.
    #[must_use]
    pub fn is_work(&self) -> bool {
        match self {
            Self::Rest { open, .. } => !open.is_empty(),
            Self::Dispatch(_)
            | Self::Await
            | Self::CallModel
            | Self::Expire(_)
            | Self::StopWaiting(_)
            | Self::Reopen
            | Self::Finish(_) => true,
        }
    }
}

/// What `run` does next at `now`.
#[must_use]
pub fn next(run: &Run, now: Millis) -> Next {
    if run.is_over() {
        return Next::Rest { open: Vec::new(), until: None };
    }
    let running = run.open_calls().filter(|call| matches!(call.state, CallState::Running { .. })).count();
    if let Some(cancel) = &run.cancel {
        if running > 0 {
            return Next::Await;
        }
        let (by, why) = (Some(cancel.by.clone()), cancel.why.clone());
        return Next::Finish(Outcome { status: FinalStatus::Cancelled, why, by, unknown_calls: unknown_calls(run) });
    }
    let pending = |over: &dyn Fn(&OpenedRequest) -> bool| -> Vec<_> {
        run.pending().filter(|(_, request)| over(request)).map(|(key, _)| key).collect()
    };
    let late = pending(&|request| !request.windows.is_decidable(now));
    if !late.is_empty() {
        return Next::Expire(late);
    }
    let waited = pending(&|request| !request.moved_on && !request.windows.is_waiting(now));
    if !waited.is_empty() {
        return Next::StopWaiting(waited);
    }
    if let Some(why) = crash_loop(run, now) {
        return fail(run, why);
    }
    let timer = run.pending().map(|(_, request)| request.times_out_at()).min();
    // With nothing to do it need not wait for the next try either.
    let rests = run.paused && running == 0;
    if let Some(at) = run.deaths.retry_at().filter(|at| run.driver.is_none() && now < *at && !rests) {
        return Next::Rest { open: Vec::new(), until: Some(timer.map_or(at, |timer| timer.min(at))) };
    }
    if run.paused {
        return if running > 0 { Next::Await } else { Next::Rest { open: Vec::new(), until: timer } };
    }
    let ready = run.open_calls().filter(|call| call.state == CallState::Ready).map(|call| call.key);
    let busy = running + run.delegated().count();
    let ready: Vec<_> = ready.take(MAX_RUNNING.saturating_sub(busy)).collect();
    if !ready.is_empty() {
        return Next::Dispatch(ready);
    }
    if running > 0 {
        return Next::Await;
    }
    let open = to_open(run, now);
    if !open.is_empty() || run.awaited_calls().next().is_some() {
        return Next::Rest { open, until: timer };
    }
    match (conversation(run, now), &run.outcome) {
        // What was asked before the conversation went on has its own timer.
        (Next::Rest { open, until }, _) => Next::Rest { open, until: until.into_iter().chain(timer).min() },
        (_, Some(_)) if !must_tell(run, now) => Next::Rest { open: Vec::new(), until: timer },
        (_, Some(_)) => Next::Reopen,
        (next, None) => next,
    }
}

/// Whether the agent is to be woken for a late decision that it does not know of. A run that has
/// reached a ceiling is not, nor one whose models just failed for good: that would turn a good end into a
/// failure, and close what can still be decided.
fn must_tell(run: &Run, now: Millis) -> bool {
    let seen = run.turns.last().map_or(0, |turn| turn.seen);
    let untold = run.messages.iter().filter(|message| message.index >= seen).filter_map(|message| message.late);
    run.definition.late_decision == LateDecision::Wake
        && untold.into_iter().any(|late| late.decided)
        && run.trouble.gave_up.is_none()
        && exhausted(run, now).is_none()
}

/// No call is awaited: the model's turn, or the end.
fn conversation(run: &Run, now: Millis) -> Next {
    let replied = match run.turns.last() {
        None => false,
        Some(turn) => {
            let spoken = run.messages.iter().any(|message| message.late.is_none() && message.index >= turn.seen);
            turn.calls.is_empty() && !spoken && turn.stop != StopReason::Pause && !must_tell(run, now)
        }
    };
    if let (true, Some(turn)) = (replied, run.turns.last()) {
        let why = turn.stop.as_str().to_owned();
        return Next::Finish(Outcome { status: FinalStatus::Completed, why, by: None, unknown_calls: vec![] });
    }
    if let Some(why) = &run.trouble.gave_up {
        return fail(run, format!("the model call failed: {why}"));
    }
    if let Some(why) = exhausted(run, now) {
        return at_ceiling(run, why, now);
    }
    match run.trouble.retry_at {
        Some(at) if now < at => Next::Rest { open: Vec::new(), until: Some(at) },
        Some(_) | None => Next::CallModel,
    }
}

/// Whether a driver that holds the run at `now` may be asking its model, paused or not.
pub(crate) fn wants_model(run: &Run, now: Millis) -> bool {
    run.outcome.is_none() && run.awaited_calls().next().is_none() && conversation(run, now) == Next::CallModel
}

/// A ceiling is reached: somebody raises it, or the run ends.
fn at_ceiling(run: &Run, why: String, now: Millis) -> Next {
    if run.trouble.unraised {
        return fail(run, format!("{why}, and nobody raised it in time"));
    }
    // Beside the others, for which alone there is a limit.
    let ask = budget::pending(run).is_none().then(|| Opened {
        call: None,
        kind: RequestKind::Budget,
        windows: Windows::whole(&run.definition, now),
        decisions: DecisionKind::offered(RequestKind::Budget),
    });
    Next::Rest { open: ask.into_iter().collect(), until: None }
}

fn fail(run: &Run, why: String) -> Next {
    Next::Finish(Outcome { status: FinalStatus::Failed, why, by: None, unknown_calls: unknown_calls(run) })
}

fn crash_loop(run: &Run, now: Millis) -> Option<String> {
    let deaths = &run.deaths;
    if deaths.panics >= MAX_PANICS {
        return Some(format!("the step crashed {} times in a row after entry {}", deaths.panics, run.len - 1));
    }
    let lasted = deaths.since.map_or(0, |since| now.since(since));
    if deaths.unexplained >= MAX_DEATHS && lasted >= MIN_DYING_MS {
        return Some(format!("the step died {} times in a row after entry {}", deaths.unexplained, run.len - 1));
    }
    None
}

/// Calls of which it is not known what they did, of all turns: also those that nobody will try or
/// ask about again.
fn unknown_calls(run: &Run) -> Vec<CallKey> {
    let unknown = run.calls().filter(|call| match &call.state {
        CallState::Unknown { .. } | CallState::Delegated { .. } => true,
        CallState::Pending { .. } | CallState::Ready => call.attempts > 0,
        CallState::Done(ending) => ending.is_unknown(),
        CallState::Asking(_) | CallState::Running { .. } => false,
    });
    unknown.map(|call| call.key).collect()
}

/// The requests to open: as many as there is room for, in the order of the calls.
fn to_open(run: &Run, now: Millis) -> Vec<Opened> {
    let room = MAX_OPEN_REQUESTS.saturating_sub(run.pending().count());
    let windows = Windows::open(&run.definition, now);
    let offered = |kind| (kind, DecisionKind::offered(kind));
    let asking = run.open_calls().filter_map(|call| {
        let (kind, decisions) = match &call.state {
            CallState::Asking(AskWhy::Approval { floor: false, .. }) => {
                (RequestKind::Approval, DecisionKind::offered_for_good())
            }
            CallState::Asking(AskWhy::Approval { floor: true, .. }) => offered(RequestKind::Approval),
            CallState::Asking(AskWhy::Question) => offered(RequestKind::Question),
            CallState::Unknown { .. } if call.later => offered(RequestKind::External),
            CallState::Unknown { .. } => offered(RequestKind::Uncertain),
            CallState::Ready
            | CallState::Pending { .. }
            | CallState::Running { .. }
            | CallState::Delegated { .. }
            | CallState::Done(_) => {
                return None;
            }
        };
        let edited = call.edited.as_ref().map_or(0, |arguments| arguments.to_string().len());
        let bytes = call.raw_arguments(run).map_or(0, str::len).max(edited);
        Some((bytes, Opened { call: Some(call.key), kind, windows, decisions }))
    });
    let mut opened_bytes = 0_usize;
    let fitting = asking.take(room).take_while(|(bytes, _)| {
        let fits = opened_bytes == 0 || opened_bytes + bytes <= MAX_OPENED_BYTES;
        opened_bytes += bytes.max(&1);
        fits
    });
    fitting.map(|(_, opened)| opened).collect()
}
