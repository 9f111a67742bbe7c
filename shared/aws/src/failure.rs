//! What a failed call says about the table: that it wrote nothing, or that nobody knows (B13).

use std::{error::Error, fmt::Display};

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_dynamodb::{
    config::http::HttpResponse,
    error::{DisplayErrorContext, ProvideErrorMetadata, SdkError},
};
use dormouse_engine::ports::{StoreError, WriteError};

/// How one attempt at a write came out.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// It is in the table.
    Landed,
    /// The table's state refused it, and would refuse it again.
    Refused(WriteError),
    /// This attempt wrote nothing.
    NotWritten {
        /// What to report.
        error: WriteError,
        /// Whether another attempt makes sense.
        again: bool,
    },
    /// It may have been written.
    Unclear(String),
}

/// The error codes with which DynamoDB says "slow down" before it does anything.
const THROTTLED: [&str; 3] = ["ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"];

/// The error codes with which it says that another write was under way on the same item.
const CONFLICT: [&str; 2] = ["TransactionConflictException", "ReplicatedWriteConflictException"];

/// Judges an attempt at a write that failed for other reasons than its conditions.
pub(crate) fn judge<E>(error: &SdkError<E, HttpResponse>) -> Attempt
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let text = DisplayErrorContext(error).to_string();
    match error {
        SdkError::ConstructionFailure(_) => not_written(text, false),
        SdkError::DispatchFailure(failure) => match failure.as_connector_error() {
            Some(source) if never_sent(source) => not_written(text, true),
            Some(_) | None => Attempt::Unclear(text),
        },
        SdkError::ServiceError(answer) => service(answer.err(), answer.raw().status().as_u16(), text),
        // Timeouts, replies that cannot be read, and whatever later versions of the SDK add.
        SdkError::TimeoutError(_) | SdkError::ResponseError(_) | _ => Attempt::Unclear(text),
    }
}

fn service(error: &impl ProvideErrorMetadata, status: u16, text: String) -> Attempt {
    // An answer without a code is not DynamoDB's, and whoever gave it may have passed the request on.
    let Some(code) = error.code() else { return Attempt::Unclear(text) };
    if THROTTLED.contains(&code) {
        return not_written(text, true);
    }
    if CONFLICT.contains(&code) {
        return Attempt::NotWritten { error: WriteError::Contention, again: true };
    }
    if code == "IdempotentParameterMismatchException" {
        let text =
            "this commit's id was used within ten minutes for another commit; ids are made once per intended write";
        return not_written(text, false);
    }
    // An earlier attempt of the same transaction is still being worked on.
    if code == "TransactionInProgressException" || status >= 500 {
        return Attempt::Unclear(text);
    }
    not_written(text, false)
}

fn not_written(text: impl Into<String>, again: bool) -> Attempt {
    Attempt::NotWritten { error: WriteError::Unavailable(text.into()), again }
}

/// Whether no byte of the request can have left: there was no connection, or nothing to sign with.
fn never_sent(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let unconnected = error.downcast_ref::<hyper_util::client::legacy::Error>().is_some_and(|e| e.is_connect());
        if unconnected || error.is::<CredentialsError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// A read that failed.
pub(crate) fn unread<E>(error: SdkError<E, HttpResponse>) -> StoreError
where
    E: Error + Send + Sync + 'static,
{
    unavailable(DisplayErrorContext(&error))
}

pub(crate) fn unavailable(why: impl Display) -> StoreError {
    StoreError::Unavailable(why.to_string())
}
