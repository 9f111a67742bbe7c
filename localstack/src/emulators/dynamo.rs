//! DynamoDB in this process: `dynoxide`, in a file or in memory, called by its typed functions.
//!
//! `dynoxide` keeps its own dispatch of an HTTP request to those functions private, so the table of
//! operations is repeated here; everything that decides an answer (conditions, transactions, error
//! bodies) is `dynoxide`'s.

use std::path::Path;
use std::sync::Arc;

use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_runtime_api::client::result::ConnectorError;
use bytes::Bytes;
use dynoxide::{Database, DynoxideError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::EmulatorError;
use super::transport::{self, Emulator};

/// In-process DynamoDB.
///
/// Each call blocks on one mutex around one SQLite connection, so it runs on tokio's blocking
/// threads. An operation that has begun is not undone if its caller gives up, just as on AWS.
#[derive(Clone)]
pub struct EmbeddedDynamo(Arc<Tables>);

struct Tables(Database);

impl EmbeddedDynamo {
    /// Opens the database at `path`, or creates it; its folder must exist.
    ///
    /// A write that was answered is on the disk: SQLite runs in WAL mode with `synchronous=FULL`.
    /// Nothing keeps another process from opening the same file; the caller locks its data folder.
    ///
    /// # Errors
    ///
    /// [`EmulatorError::PathNotUtf8`], or [`EmulatorError::Open`] if the file cannot be opened or
    /// is not a database.
    pub fn open(path: &Path) -> Result<Self, EmulatorError> {
        let utf8 = path.to_str().ok_or_else(|| EmulatorError::PathNotUtf8(path.to_owned()))?;
        Ok(Self(Arc::new(Tables(Database::new(utf8)?))))
    }

    /// Creates a database that is gone when the last handle to it is.
    ///
    /// # Errors
    ///
    /// [`EmulatorError::Open`] if SQLite has no memory left.
    pub fn memory() -> Result<Self, EmulatorError> {
        Ok(Self(Arc::new(Tables(Database::memory()?))))
    }

    /// The emulator as an HTTP client for the AWS SDK.
    pub fn http_client(&self) -> SharedHttpClient {
        transport::http_client(Arc::clone(&self.0))
    }

    /// A client that needs no further configuration.
    pub fn client(&self) -> aws_sdk_dynamodb::Client {
        aws_sdk_dynamodb::Client::new(&super::sdk_config(self.http_client()))
    }
}

impl Emulator for Tables {
    async fn answer(self: Arc<Self>, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, ConnectorError> {
        let (parts, body) = request.into_parts();
        let target = parts.headers.get("x-amz-target").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let operation = target.strip_prefix("DynamoDB_20120810.").unwrap_or_default().to_owned();
        let answered = tokio::task::spawn_blocking(move || dispatch(&self.0, &operation, &body));
        let (status, body) = match answered.await.map_err(transport::other)? {
            Ok(body) => (200, body),
            Err(error) => (error.status_code(), error.to_json().into_bytes()),
        };
        http::Response::builder()
            .status(status)
            .header(http::header::CONTENT_TYPE, "application/x-amz-json-1.0")
            .header("x-amzn-requestid", uuid::Uuid::new_v4().to_string())
            .body(Bytes::from(body))
            .map_err(transport::other)
    }
}

fn dispatch(db: &Database, operation: &str, body: &[u8]) -> Result<Vec<u8>, DynoxideError> {
    match operation {
        "BatchGetItem" => run(body, |request| db.batch_get_item(request)),
        "BatchWriteItem" => run(body, |request| db.batch_write_item(request)),
        "CreateTable" => run(body, |request| db.create_table(request)),
        "DeleteItem" => run(body, |request| db.delete_item(request)),
        "DeleteTable" => run(body, |request| db.delete_table(request)),
        "DescribeTable" => run(body, |request| db.describe_table(request)),
        "DescribeTimeToLive" => run(body, |request| db.describe_time_to_live(request)),
        "GetItem" => run(body, |request| db.get_item(request)),
        "ListTables" => run(body, |request| db.list_tables(request)),
        "PutItem" => run(body, |request| db.put_item(request)),
        "Query" => run(body, |request| db.query(request)),
        "Scan" => run(body, |request| db.scan(request)),
        "TransactGetItems" => run(body, |request| db.transact_get_items(request)),
        "TransactWriteItems" => run(body, |request| db.transact_write_items(request)),
        "UpdateItem" => run(body, |request| db.update_item(request)),
        "UpdateTable" => run(body, |request| db.update_table(request)),
        "UpdateTimeToLive" => run(body, |request| db.update_time_to_live(request)),
        // 501, which the SDK does not retry: the emulator lacks the operation, the request is fine.
        other => Err(DynoxideError::UnsupportedCapability(other.to_owned())),
    }
}

fn run<Request: DeserializeOwned, Response: Serialize>(
    body: &[u8],
    operation: impl FnOnce(Request) -> Result<Response, DynoxideError>,
) -> Result<Vec<u8>, DynoxideError> {
    let request = serde_json::from_slice(body).map_err(|error| unreadable(&error.to_string()))?;
    let response = operation(request)?;
    serde_json::to_vec(&response).map_err(|error| DynoxideError::InternalServerError(error.to_string()))
}

/// What DynamoDB answers to a request that could not be read. `dynoxide` checks attribute values
/// while it reads them, and marks the message with the class that DynamoDB reports: so a number of
/// 50 digits arrives here as `VALIDATION_REQUEST:Attempting to store more than 38 significant …`.
fn unreadable(message: &str) -> DynoxideError {
    let message = message.split(" at line ").next().unwrap_or(message);
    let (class, rest) = message.split_once(':').unwrap_or(("", message));
    match class {
        "VALIDATION" | "VALIDATION_REQUEST" | "VALIDATION_AS_READ" => {
            DynoxideError::ValidationException(rest.to_owned())
        }
        "SERIALIZATION" | "SERIALIZATION_AS_READ" => DynoxideError::SerializationException(rest.to_owned()),
        _ if message.starts_with("missing field") || message.starts_with("unknown variant") => {
            DynoxideError::ValidationException(message.to_owned())
        }
        _ => DynoxideError::SerializationException(message.to_owned()),
    }
}
