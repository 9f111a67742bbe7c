//! What Lambda's event source mapping does: takes wake messages and hands each to an invocation of
//! the step function, which ends at its deadline, whatever it is doing.

use std::{sync::Arc, time::Duration};

use aws_config::SdkConfig;
use aws_lambda_events::sqs::{SqsEvent, SqsMessage};
use aws_sdk_sqs::types::QueueAttributeName;
use dormouse_aws::{Received, SqsQueue};
use dormouse_domain::Millis;
use dormouse_engine::Engine;
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
};

/// Receives before a message goes to the dead-letter queue.
const MAX_RECEIVES: u32 = 5;
/// How long one receive waits for a message.
const POLL: Duration = Duration::from_secs(20);
/// How long to wait after a receive that failed.
const PAUSE: Duration = Duration::from_millis(500);

/// Creates the wake queue and its dead-letter queue, unless they are there; returns the URL.
///
/// # Errors
/// What SQS said.
pub(crate) async fn create_queue(config: &SdkConfig, name: &str, step_timeout: Duration) -> Result<String, String> {
    let client = aws_sdk_sqs::Client::new(config);
    let failed = |error: &dyn std::error::Error| aws_sdk_sqs::error::DisplayErrorContext(error).to_string();
    let dead = client.create_queue().queue_name(format!("{name}-dead")).send().await.map_err(|e| failed(&e))?;
    let dead_url = dead.queue_url.ok_or("no queue URL")?;
    let asked = client.get_queue_attributes().queue_url(dead_url).attribute_names(QueueAttributeName::QueueArn);
    let attributes = asked.send().await.map_err(|error| failed(&error))?.attributes.unwrap_or_default();
    let arn = attributes.get(&QueueAttributeName::QueueArn).ok_or("no queue ARN")?;
    let redrive = serde_json::json!({"deadLetterTargetArn": arn, "maxReceiveCount": MAX_RECEIVES}).to_string();
    let created = client
        .create_queue()
        .queue_name(name)
        .attributes(QueueAttributeName::VisibilityTimeout, visibility(step_timeout).as_secs().to_string())
        .attributes(QueueAttributeName::RedrivePolicy, redrive)
        .send()
        .await
        .map_err(|error| failed(&error))?;
    created.queue_url.ok_or_else(|| "no queue URL".to_owned())
}

/// Six times the function's timeout, as AWS advises: the sweep is the quick path, not redelivery.
fn visibility(step_timeout: Duration) -> Duration {
    (step_timeout * 6).max(Duration::from_secs(1))
}

/// The event source mapping.
pub(crate) struct Pump {
    engine: Engine,
    queue: Arc<SqsQueue>,
    step_timeout: Duration,
    slots: Arc<Semaphore>,
}

impl Pump {
    pub(crate) fn new(engine: Engine, queue: Arc<SqsQueue>, step_timeout: Duration, concurrency: usize) -> Self {
        Self { engine, queue, step_timeout, slots: Arc::new(Semaphore::new(concurrency.max(1))) }
    }

    /// Runs until told to stop, then until the invocations that run have ended.
    pub(crate) async fn run(self, mut stopped: watch::Receiver<bool>) {
        let mut invocations = JoinSet::new();
        loop {
            while invocations.try_join_next().is_some() {}
            let slots = self.slots.clone();
            let slot = tokio::select! {
                _ = stopped.wait_for(|stop| *stop) => break,
                slot = slots.acquire_owned() => slot,
            };
            let Ok(slot) = slot else { break };
            let received = tokio::select! {
                _ = stopped.wait_for(|stop| *stop) => break,
                received = self.queue.receive(1, POLL, visibility(self.step_timeout)) => received,
            };
            let message = match received {
                Ok(messages) => messages.into_iter().next(),
                Err(error) => {
                    tracing::error!(%error, "no wake messages can be received");
                    tokio::time::sleep(PAUSE).await;
                    None
                }
            };
            if let Some(message) = message {
                let (engine, queue, timeout) = (self.engine.clone(), self.queue.clone(), self.step_timeout);
                invocations.spawn(async move {
                    invoke(&engine, &queue, timeout, message).await;
                    drop(slot);
                });
            }
        }
        while invocations.join_next().await.is_some() {}
    }
}

async fn invoke(engine: &Engine, queue: &SqsQueue, timeout: Duration, message: Received) {
    let id = message.message_id.clone();
    let mut record = SqsMessage::default();
    (record.message_id, record.body) = (Some(message.message_id), Some(message.body));
    let mut event = SqsEvent::default();
    event.records = vec![record];
    let span = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let deadline: Millis = engine.ports().clock.now().plus(span);
    let Ok(response) = tokio::time::timeout(timeout, dormouse_api::step(engine, event, deadline)).await else {
        tracing::error!(message = id, "a step was ended at its deadline");
        return;
    };
    if !response.batch_item_failures.is_empty() {
        return;
    }
    if let Err(error) = queue.delete(&message.receipt_handle).await {
        tracing::warn!(%error, message = id, "a message that is done could not be deleted; it will come again");
    }
}
