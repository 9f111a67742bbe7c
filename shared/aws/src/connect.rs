//! Timeouts and retries of the SDK clients. The SDK sets no attempt or operation timeout of its
//! own, and a call that hangs would use up a step's whole deadline.

use std::time::Duration;

use aws_config::{SdkConfig, retry::RetryConfig, timeout::TimeoutConfig};

/// How long a connection may take to come up.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long one attempt may take.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);

/// How long one operation may take, with the SDK's retries.
pub const OPERATION_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the SDK tries a read. Writes to the table are tried again by this crate instead: only
/// then is it known whether *any* attempt can have landed, and not just the last.
pub const READ_ATTEMPTS: u32 = 3;

/// The timeouts of all clients.
#[must_use]
pub fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .operation_timeout(OPERATION_TIMEOUT)
        .build()
}

fn retries() -> RetryConfig {
    RetryConfig::standard().with_max_attempts(READ_ATTEMPTS)
}

pub(crate) fn dynamo(config: &SdkConfig) -> aws_sdk_dynamodb::Client {
    let config = aws_sdk_dynamodb::config::Builder::from(config).timeout_config(timeouts()).retry_config(retries());
    aws_sdk_dynamodb::Client::from_conf(config.build())
}

pub(crate) fn secrets(config: &SdkConfig) -> aws_sdk_secretsmanager::Client {
    let config = aws_sdk_secretsmanager::config::Builder::from(config);
    aws_sdk_secretsmanager::Client::from_conf(config.timeout_config(timeouts()).retry_config(retries()).build())
}

pub(crate) fn sqs(config: &SdkConfig) -> aws_sdk_sqs::Client {
    let config = aws_sdk_sqs::config::Builder::from(config).timeout_config(timeouts()).retry_config(retries());
    aws_sdk_sqs::Client::from_conf(config.build())
}
