//! The keys that tokens are signed with, as they are kept: `{"keys":[{"id":"a","secret":"<base64>"}]}`.

use std::fmt;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};

/// Shortest secret, in bytes: what HMAC-SHA256 gives out (RFC 2104, section 3).
pub const MIN_SECRET_BYTES: usize = 32;
/// Longest id of a key.
const MAX_ID_BYTES: usize = 32;
/// Keys at once.
const MAX_KEYS: usize = 16;

/// Keys that cannot be used. Says where and what, and never quotes a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadKeys {
    /// Not the JSON that it should be.
    #[error("they are not of the form {{\"keys\":[{{\"id\":\"…\",\"secret\":\"<base64>\"}}]}} (line {line})")]
    Form {
        /// Where.
        line: usize,
    },
    /// None, or too many.
    #[error("there must be 1 to {MAX_KEYS} keys, not {0}")]
    Count(usize),
    /// An id that cannot be one.
    #[error("the id of key {0} must be 1 to {MAX_ID_BYTES} letters and digits, and no other key's")]
    Id(usize),
    /// A secret that is none.
    #[error("the secret of key {0} must be base64 of at least {MIN_SECRET_BYTES} bytes")]
    Secret(usize),
}

/// One key. What it prints as says which, and not what.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    id: String,
    secret: Vec<u8>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Key {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn secret(&self) -> &[u8] {
        &self.secret
    }
}

/// All keys: the first signs, each verifies. To change keys, add the new one at the end; when every process has read
/// it, put it first; when the tokens of the old one are over, take that away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRing {
    first: Key,
    others: Vec<Key>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredKeys {
    keys: Vec<StoredKey>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredKey {
    id: String,
    secret: String,
}

impl KeyRing {
    /// The keys as they are kept.
    ///
    /// # Errors
    /// [`BadKeys`].
    pub fn parse(text: &str) -> Result<Self, BadKeys> {
        // serde's own message could quote what it read.
        let stored: StoredKeys = serde_json::from_str(text).map_err(|error| BadKeys::Form { line: error.line() })?;
        let count = stored.keys.len();
        let mut keys: Vec<Key> = Vec::with_capacity(count);
        for (number, StoredKey { id, secret }) in (1..).zip(stored.keys) {
            let is_id = (1..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
            if !is_id || keys.iter().any(|key| key.id == id) {
                return Err(BadKeys::Id(number));
            }
            let secret = BASE64_STANDARD.decode(secret).ok().filter(|secret| secret.len() >= MIN_SECRET_BYTES);
            keys.push(Key { id, secret: secret.ok_or(BadKeys::Secret(number))? });
        }
        if count > MAX_KEYS || keys.is_empty() {
            return Err(BadKeys::Count(count));
        }
        let first = keys.remove(0);
        Ok(Self { first, others: keys })
    }

    /// A single key with this secret, as it is kept. The caller draws the secret.
    #[must_use]
    pub fn text_of_one(id: &str, secret: &[u8; MIN_SECRET_BYTES]) -> String {
        let secret = BASE64_STANDARD.encode(secret);
        serde_json::json!({ "keys": [{ "id": id, "secret": secret }] }).to_string()
    }

    pub(super) fn signing(&self) -> &Key {
        &self.first
    }

    pub(super) fn key(&self, id: &str) -> Option<&Key> {
        std::iter::once(&self.first).chain(&self.others).find(|key| key.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(keys: &[(&str, &str)]) -> String {
        let keys: Vec<_> = keys.iter().map(|(id, secret)| serde_json::json!({ "id": id, "secret": secret })).collect();
        serde_json::json!({ "keys": keys }).to_string()
    }

    #[test]
    fn keys_that_cannot_be_used_are_refused_and_not_quoted() {
        let good = BASE64_STANDARD.encode([7; 32]);
        let short = BASE64_STANDARD.encode([7; 31]);
        for (text, expected) in [
            ("{".to_owned(), BadKeys::Form { line: 1 }),
            (format!(r#"{{"keys":[{{"id":"a","secret":"{good}","sekret":1}}]}}"#), BadKeys::Form { line: 1 }),
            (format!(r#"{{"keys":{good:?}}}"#), BadKeys::Form { line: 1 }),
            (stored(&[]), BadKeys::Count(0)),
            (stored(&[("", &good)]), BadKeys::Id(1)),
            (stored(&[("a.b", &good)]), BadKeys::Id(1)),
            (stored(&[("ä", &good)]), BadKeys::Id(1)),
            (stored(&[("a", &good), ("a", &good)]), BadKeys::Id(2)),
            (stored(&[("a", &short)]), BadKeys::Secret(1)),
            (stored(&[("a", &good), ("b", "not base64!")]), BadKeys::Secret(2)),
        ] {
            let error = KeyRing::parse(&text).unwrap_err();
            assert_eq!(error, expected, "{text}");
            assert!(!format!("{error} {error:?}").contains(&good[..8]), "{error}");
        }
        let many: Vec<_> = (0..17).map(|number| format!("k{number}")).collect();
        let many: Vec<_> = many.iter().map(|id| (id.as_str(), good.as_str())).collect();
        assert_eq!(KeyRing::parse(&stored(&many)), Err(BadKeys::Count(17)));
        KeyRing::parse(&stored(&many[..16])).unwrap();
    }

    #[test]
    fn a_key_prints_as_its_name() {
        let ring = KeyRing::parse(&KeyRing::text_of_one("a", &[42; 32])).unwrap();
        assert_eq!(format!("{ring:?}"), r#"KeyRing { first: Key { id: "a", .. }, others: [] }"#);
    }
}
