//! The queue of wakes on SQS.

use std::time::Duration;

use async_trait::async_trait;
use aws_config::{SdkConfig, timeout::TimeoutConfig};
use aws_sdk_sqs::{
    Client,
    config::StalledStreamProtectionConfig,
    error::DisplayErrorContext,
    types::{MessageSystemAttributeName, SendMessageBatchRequestEntry},
};
use dormouse_domain::RunId;
use dormouse_engine::ports::{Queue, QueueError, Wake};

use crate::connect::{self, ATTEMPT_TIMEOUT};

/// Most entries of one batch.
const MAX_BATCH: usize = 10;

/// Longest delay of a message, in seconds.
const MAX_DELAY_S: u64 = 900;

/// Longest wait for messages, in seconds.
const MAX_WAIT_S: u64 = 20;

/// Longest time that a received message can be hidden, in seconds.
const MAX_VISIBILITY_S: u64 = 12 * 60 * 60;

fn wake_body(run: &RunId) -> String {
    serde_json::json!(Wake { run_id: run.clone() }).to_string()
}

/// `delay` in whole seconds, rounded up: a timer never fires early. What is longer than SQS can
/// delay is cut; the sweep finds the run when it is due.
fn delay_seconds(delay: Duration) -> i32 {
    seconds_up(delay, MAX_DELAY_S)
}

fn seconds_up(span: Duration, most: u64) -> i32 {
    let seconds = span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0)).min(most);
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

/// A message as it was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Its name.
    pub message_id: String,
    /// By which it can be deleted, until it becomes visible again.
    pub receipt_handle: String,
    /// Its body: a [`Wake`] as JSON, if it is one of ours.
    pub body: String,
    /// How often it was received, this time included.
    pub receive_count: u32,
}

/// The queue of wakes on SQS: a standard queue, since order and exclusion come from the journal.
#[derive(Debug, Clone)]
pub struct SqsQueue {
    client: Client,
    url: String,
}

impl SqsQueue {
    /// The queue at `url`, reached by a client of [these timeouts](crate::timeouts).
    #[must_use]
    pub fn connect(config: &SdkConfig, url: impl Into<String>) -> Self {
        Self::new(connect::sqs(config), url)
    }

    /// The queue at `url`, reached by `client`.
    #[must_use]
    pub fn new(client: Client, url: impl Into<String>) -> Self {
        Self { client, url: url.into() }
    }

    /// Takes at most `max` messages (1 to 10), waits at most `wait` (20 s) for the first, and hides
    /// them for `visibility`.
    ///
    /// # Errors
    /// If SQS does not answer.
    pub async fn receive(&self, max: usize, wait: Duration, visibility: Duration) -> Result<Vec<Received>, QueueError> {
        let wait_s = seconds_up(wait, MAX_WAIT_S);
        let call = self
            .client
            .receive_message()
            .queue_url(&self.url)
            .max_number_of_messages(i32::try_from(max.clamp(1, MAX_BATCH)).unwrap_or(1))
            .wait_time_seconds(wait_s)
            .visibility_timeout(seconds_up(visibility, MAX_VISIBILITY_S))
            .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount);
        // A long poll takes its time before it answers; the usual timeouts would end it.
        let patience = Duration::from_secs(u64::from(wait_s.unsigned_abs())) + ATTEMPT_TIMEOUT;
        let timeouts = TimeoutConfig::builder().operation_attempt_timeout(patience).operation_timeout(patience * 2);
        // So would the SDK's protection against streams that stall, to which silence is one.
        let patient = aws_sdk_sqs::Config::builder()
            .timeout_config(timeouts.build())
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
        let answer = call.customize().config_override(patient).send().await.map_err(failed)?;
        let messages = answer.messages.unwrap_or_default().into_iter();
        Ok(messages.filter_map(received).collect())
    }

    /// Deletes a received message.
    ///
    /// # Errors
    /// If SQS does not answer; the message will come again.
    pub async fn delete(&self, receipt_handle: &str) -> Result<(), QueueError> {
        let call = self.client.delete_message().queue_url(&self.url).receipt_handle(receipt_handle);
        call.send().await.map_err(failed).map(drop)
    }

    /// Sends one batch; returns the runs whose message was not taken.
    async fn wake_batch(&self, runs: &[RunId]) -> Vec<RunId> {
        let entry = |(place, run): (usize, &RunId)| {
            SendMessageBatchRequestEntry::builder().id(place.to_string()).message_body(wake_body(run)).build()
        };
        let entries: Result<Vec<_>, _> = runs.iter().enumerate().map(entry).collect();
        let Ok(entries) = entries else { return runs.to_vec() };
        match self.client.send_message_batch().queue_url(&self.url).set_entries(Some(entries)).send().await {
            Ok(answer) => {
                // What is not said to be sent is not: better woken twice than not at all.
                let sent: Vec<&str> = answer.successful.iter().map(|entry| entry.id.as_str()).collect();
                let unsent = runs.iter().enumerate().filter(|(place, _)| !sent.contains(&place.to_string().as_str()));
                unsent.map(|(_, run)| run.clone()).collect()
            }
            Err(error) => {
                tracing::warn!(error = %DisplayErrorContext(&error), count = runs.len(), "wakes that were not sent");
                runs.to_vec()
            }
        }
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> QueueError {
    QueueError(DisplayErrorContext(&error).to_string())
}

fn received(message: aws_sdk_sqs::types::Message) -> Option<Received> {
    let count =
        message.attributes.as_ref().and_then(|all| all.get(&MessageSystemAttributeName::ApproximateReceiveCount));
    Some(Received {
        receive_count: count.and_then(|digits| digits.parse().ok()).unwrap_or(1),
        message_id: message.message_id?,
        receipt_handle: message.receipt_handle?,
        body: message.body.unwrap_or_default(),
    })
}

#[async_trait]
impl Queue for SqsQueue {
    async fn wake(&self, run: &RunId, delay: Duration) -> Result<(), QueueError> {
        let call = self.client.send_message().queue_url(&self.url).message_body(wake_body(run));
        call.delay_seconds(delay_seconds(delay)).send().await.map_err(failed).map(drop)
    }

    async fn wake_all(&self, runs: &[RunId]) -> Vec<RunId> {
        let mut unsent = Vec::new();
        for batch in runs.chunks(MAX_BATCH) {
            unsent.extend(self.wake_batch(batch).await);
        }
        unsent
    }
}
