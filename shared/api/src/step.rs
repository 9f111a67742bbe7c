//! Wake messages: each names a run to look at, and nothing else.

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use dormouse_domain::{Millis, RunId};
use dormouse_engine::{Engine, StepReport, ports::Wake};
use futures::future::join_all;

/// Drives the runs that `event` names, side by side, until nothing is left to do now or until
/// `deadline`, at which the platform kills the invocation. The answer lists the messages that must
/// come again.
///
/// Only ids that stand in the event are ever listed, and no empty one: Lambda takes an unknown or
/// empty id for the failure of the whole batch (case 40). So a message without an id cannot be
/// listed; it is acknowledged whatever comes of it, which loses nothing, because a run that wants
/// something has a `due_at` by which the sweep finds it (D8). For the same reason a body that can't
/// be read is logged and acknowledged: it will not be better the next time.
pub async fn step(engine: &Engine, event: SqsEvent, deadline: Millis) -> SqsBatchResponse {
    let steps = event.records.iter().map(|message| step_one(engine, message, deadline));
    let done = join_all(steps).await;
    let mut response = SqsBatchResponse::default();
    for (message, ok) in event.records.iter().zip(done) {
        let id = message.message_id.as_deref().filter(|id| !id.is_empty());
        match id {
            Some(id) if !ok => response.add_failure(id),
            Some(_) => {}
            None if !ok => tracing::warn!("a message without an id failed; the sweep will wake its run"),
            None => {}
        }
    }
    response
}

/// Whether `message` is done with.
async fn step_one(engine: &Engine, message: &SqsMessage, deadline: Millis) -> bool {
    let body = message.body.as_deref().unwrap_or_default();
    let run = match serde_json::from_str::<Wake>(body) {
        Ok(wake) => wake.run_id,
        Err(error) => {
            tracing::error!(message = message.message_id, %error, "not a wake message; acknowledged");
            return true;
        }
    };
    match engine.step(&run, deadline).await {
        Ok(report) => {
            log(&run, report);
            true
        }
        Err(error) => {
            tracing::error!(%run, %error, "the step failed; its message comes again");
            false
        }
    }
}

fn log(run: &RunId, report: StepReport) {
    match report {
        StepReport::Busy | StepReport::TakenOver | StepReport::Crashed | StepReport::NoSuchRun => {
            tracing::warn!(%run, ?report, "stepped");
        }
        StepReport::Idle | StepReport::Suspended | StepReport::HandedOff | StepReport::Finished => {
            tracing::info!(%run, ?report, "stepped");
        }
    }
}
