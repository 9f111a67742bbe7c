//! The keys of tokens in Secrets Manager: one secret, as JSON, read again every few minutes, so that a change of keys
//! takes effect without a deployment.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_secretsmanager::{Client, error::DisplayErrorContext};
use dormouse_domain::token::KeyRing;
use dormouse_engine::ports::{Keys, KeysError};
use tokio::{sync::Mutex, time::Instant};

use crate::connect;

/// How long keys are used before they are read again. Keys that were taken away are good for as long.
pub const KEYS_FRESH: Duration = Duration::from_secs(300);

/// Keys in Secrets Manager.
#[derive(Debug)]
pub struct SecretKeys {
    client: Client,
    secret_id: String,
    /// Held while they are read: many callers at once make one call.
    read: Mutex<Option<(Instant, Arc<KeyRing>)>>,
}

impl SecretKeys {
    /// The keys in the secret of this name or ARN.
    #[must_use]
    pub fn connect(config: &SdkConfig, secret_id: String) -> Self {
        Self { client: connect::secrets(config), secret_id, read: Mutex::default() }
    }

    async fn fetch(&self) -> Result<KeyRing, KeysError> {
        let read = self.client.get_secret_value().secret_id(&self.secret_id).send().await;
        // What Secrets Manager says of an error names the secret, and never what is in it.
        let read = read.map_err(|error| KeysError::Unavailable(DisplayErrorContext(error).to_string()))?;
        let bad = |what: String| KeysError::Unavailable(format!("the secret {}: {what}", self.secret_id));
        let text = read.secret_string().ok_or_else(|| bad("it is binary, and should be text".to_owned()))?;
        KeyRing::parse(text).map_err(|error| bad(error.to_string()))
    }
}

#[async_trait]
impl Keys for SecretKeys {
    /// Keys that could not be read again are not used on: those that were there may have been taken away.
    async fn ring(&self) -> Result<Arc<KeyRing>, KeysError> {
        let mut read = self.read.lock().await;
        if let Some((at, ring)) = read.as_ref()
            && at.elapsed() < KEYS_FRESH
        {
            return Ok(Arc::clone(ring));
        }
        let ring = Arc::new(self.fetch().await?);
        *read = Some((Instant::now(), Arc::clone(&ring)));
        Ok(ring)
    }
}
