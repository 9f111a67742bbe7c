//! DynamoDB and SQS inside this process, behind the real AWS clients.
//!
//! Each emulator is handed to the AWS SDK as its HTTP client, so everything above that line
//! (serialisation, signing, retries, parsing of errors) is what runs on AWS, and there is no
//! socket below it. Tests that count or break requests wrap [`EmbeddedDynamo::http_client`] or
//! [`EmbeddedSqs::http_client`] in a client of their own and give that to [`sdk_config`].
//!
//! Why these two, and where they differ from AWS: `docs/decisions/0003-embedded-emulators.md`.

mod dynamo;
mod sqs;
mod transport;

use std::path::PathBuf;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_runtime_api::client::http::SharedHttpClient;

pub use dynamo::EmbeddedDynamo;
pub use sqs::EmbeddedSqs;

/// An emulator that could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// SQLite takes its file name as UTF-8 only: choose another data folder.
    #[error("the database path {0:?} is not valid UTF-8")]
    PathNotUtf8(PathBuf),
    /// The database could not be opened, or is not one of ours.
    #[error("the database could not be opened")]
    Open(#[from] dynoxide::DynoxideError),
}

/// The configuration for clients of one emulator: its HTTP client, credentials that open nothing,
/// region `us-east-1`, and an endpoint that no resolver knows (`.invalid`, RFC 2606), so that a
/// request which escapes the emulator fails instead of reaching AWS.
pub fn sdk_config(http: SharedHttpClient) -> SdkConfig {
    let credentials = Credentials::new("embedded", "embedded", None, None, "embedded");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .endpoint_url("http://embedded.invalid")
        .http_client(http)
        .build()
}
