//! What 500 seeds must meet. A kind that never happens is a promise that nothing here checks.

use dormouse_domain::{
    Entry, Fact,
    decide::{Decision, Resolution},
    entry::CallResult,
    plan::Plan,
    request::{RuleScope, Via},
};

use crate::sim::Sim;

/// Counts what an entry says.
pub(crate) fn count(sim: &Sim, entry: &Entry) {
    sim.count(format!("fact {}", entry.fact.kind()));
    match &entry.fact {
        Fact::ModelReplied { calls, .. } => calls.iter().for_each(|plan| {
            sim.count(format!("plan {}", name(plan)));
            if plan.rule().is_some() {
                sim.count("allowed by a rule");
            }
        }),
        Fact::CallDispatched { calls } => {
            calls.iter().for_each(|start| sim.count(format!("attempt {}", start.attempt)));
        }
        Fact::CallFinished { result, kv, used, .. } => {
            if used.is_some() {
                sim.count("told by a child");
            }
            sim.count(match result {
                CallResult::Returned { .. } => "result returned",
                CallResult::NotSent { .. } => "result not sent",
                CallResult::Unknown { .. } => "result unknown",
                CallResult::Later {} => "result later",
            });
            kv.iter().for_each(|(_, value)| sim.count(if value.is_null() { "state removed" } else { "state set" }));
        }
        Fact::Suspended { requests, .. } => {
            requests.iter().for_each(|opened| sim.count(format!("asks {:?}", opened.kind)));
        }
        Fact::RequestDecided { via: Some(Via::Link { .. }), .. } => sim.count("decides by link"),
        Fact::RequestDecided { decision, via: None, .. } => sim.count(match decision {
            Decision::Approve => "decides to approve",
            Decision::Always { scope: RuleScope::Run, .. } => "allows its like in this run",
            Decision::Always { .. } => "allows its like in all runs",
            Decision::Edit { .. } => "approves with other arguments",
            Decision::Deny { .. } => "decides to deny",
            Decision::Answer { cancels: true, .. } => "answers, and ends the run",
            Decision::Answer { .. } => "answers",
            Decision::Settle { resolution: Resolution::Result(_) } => "settles with a result",
            Decision::Settle { resolution: Resolution::Retry } => "settles by a retry",
            Decision::Settle { resolution: Resolution::Abort } => "settles by leaving it",
            Decision::Raise { .. } => "raises a ceiling",
            Decision::Stop => "stops at a ceiling",
        }),
        Fact::MessageAdded { supersedes: true, .. } => sim.count("message supersedes"),
        Fact::RunStarted { .. }
        | Fact::DriverStarted { .. }
        | Fact::DriverStopped { .. }
        | Fact::ModelFailed { .. }
        | Fact::CallsReplanned { .. }
        | Fact::WaitExpired { .. }
        | Fact::RequestExpired { .. }
        | Fact::MessageAdded { .. }
        | Fact::ModeChanged { .. }
        | Fact::Paused { .. }
        | Fact::Resumed { .. }
        | Fact::CancelRequested { .. }
        | Fact::Reopened {}
        | Fact::Forked { .. }
        | Fact::RunFinished(_) => {}
    }
}

fn name(plan: &Plan) -> &'static str {
    match plan {
        Plan::Start { .. } => "Start",
        Plan::Allow { .. } => "Allow",
        Plan::Ask { .. } => "Ask",
        Plan::Question => "Question",
        Plan::Joins { .. } => "Joins",
        Plan::Known { .. } => "Known",
        Plan::Deny { .. } => "Deny",
        Plan::Invalid { .. } => "Invalid",
    }
}

/// The kinds of things that are expected to happen.
pub const EXPECTED: &[&str] = &[
    // Every fault of the network, the services and the processes.
    "fault RequestLost",
    "fault ReplyLost",
    "fault NeverArrives",
    "fault NoReply",
    "fault CarriedOutLate",
    "fault AppliedSlowly",
    "torn read",
    "conflict with what is being applied",
    "fault Throttled",
    "fault Failed",
    "fault FailedAfter",
    "fault Conflict",
    "fault DiesBefore",
    "fault DiesAfter",
    "index behind",
    "message lost",
    "message doubled",
    "message late",
    "message refused",
    "transaction repeated",
    // Every end of a tool's call.
    "tool Fails",
    "tool NotSent",
    "tool Unknown",
    "tool Hangs",
    "tool Panics",
    "tool DiesBefore",
    "tool DiesAfter",
    // Every failure of a model.
    "model too slow",
    "model dies",
    "model panics",
    "model Overloaded",
    "model RateLimited",
    "model Network",
    "model Server",
    "model BadReply",
    "model Rejected",
    "model Auth",
    // Every kind of entry.
    "fact RunStarted",
    "fact DriverStarted",
    "fact DriverStopped",
    "fact ModelReplied",
    "fact ModelFailed",
    "fact CallDispatched",
    "fact CallFinished",
    "fact Suspended",
    "fact RequestDecided",
    "fact WaitExpired",
    "fact RequestExpired",
    "fact MessageAdded",
    "fact ModeChanged",
    "fact Paused",
    "fact Resumed",
    "fact CancelRequested",
    "fact Reopened",
    "fact RunFinished",
    // What calls come to, what is asked, and what is decided.
    "plan Start",
    "plan Allow",
    "plan Ask",
    "plan Question",
    "plan Joins",
    "plan Known",
    "plan Deny",
    "plan Invalid",
    "attempt 1",
    "attempt 2",
    "attempt 3",
    "result returned",
    "result not sent",
    "result unknown",
    "result later",
    "told by a child",
    "state set",
    "state removed",
    "asks Approval",
    "asks Question",
    "asks Uncertain",
    "asks Budget",
    "decides to approve",
    "decides by link",
    "approves with other arguments",
    "allows its like in this run",
    "allows its like in all runs",
    "allowed by a rule",
    "revokes a rule",
    "decides to deny",
    "answers, and ends the run",
    "answers",
    "settles with a result",
    "settles by a retry",
    "settles by leaving it",
    "raises a ceiling",
    "stops at a ceiling",
    "decided after the end",
    "message supersedes",
    // Every end of a step and of a sweep, but two: a driver is only overtaken if it lives longer than its
    // platform lets it (`shared/engine/tests/races/overtaken.rs`), and one that cannot write is mostly ended
    // before it says so.
    "step Idle",
    "step Busy",
    "step Suspended",
    "step HandedOff",
    "step Finished",
    "step Crashed",
    "step died",
    "step timed out",
    "step could not load",
    "sweep woke",
    "sweep woke nobody",
    "sweep failed",
    "sweep died",
    // Every manner of answering, and every answer.
    "manner Once",
    "manner DoubleClick",
    "manner Twice",
    "manner Race",
    "manner AtTheEdge",
    "manner JustLate",
    "manner AfterTheWait",
    "manner TooLate",
    "manner WrongDigest",
    "manner Never",
    "key reused",
    "answered at the edge",
    "answered just late",
    "answer 200",
    "answer 409",
    "answer 410",
    "answer 4xx",
    "answer 503",
    "answer 503 unknown",
    "answer nothing",
    // Every end of a run.
    "status Waiting",
    "status Paused",
    "status Completed",
    "status Failed",
    "status Cancelled",
];
