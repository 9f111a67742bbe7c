//! The keys that tokens are signed with.

use std::sync::Arc;

use async_trait::async_trait;
use dormouse_domain::token::KeyRing;

/// Keys that are not to be had.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// This deployment has none: it takes no tokens, and gives none out.
    #[error("no keys are set up")]
    NotSetUp,
    /// They cannot be read now; try again later.
    #[error("the keys are unavailable: {0}")]
    Unavailable(String),
}

/// The keys. Whoever has them can decide whatever can be decided by a link, so only what decides has them.
#[async_trait]
pub trait Keys: Send + Sync {
    /// The keys as they are now, or were some minutes ago.
    async fn ring(&self) -> Result<Arc<KeyRing>, KeysError>;
}

/// Keys that never change.
#[async_trait]
impl Keys for KeyRing {
    async fn ring(&self) -> Result<Arc<KeyRing>, KeysError> {
        Ok(Arc::new(self.clone()))
    }
}

/// No keys.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoKeys;

#[async_trait]
impl Keys for NoKeys {
    async fn ring(&self) -> Result<Arc<KeyRing>, KeysError> {
        Err(KeysError::NotSetUp)
    }
}
