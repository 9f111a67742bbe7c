//! Tokens: what lets somebody in who has not signed in, for one purpose and for a while.
//!
//! A token is stateless. It says what it is good for, and it is signed (HMAC-SHA256, RFC 2104) with a key that only
//! the deployment has, so nothing is stored for it and no list of tokens can be stolen from the table. Its text is
//!
//! ```text
//! <purpose and version>.<key id>.<claims, base64url>.<signature, base64url>
//! ```
//!
//! and the signature is over all that stands before its dot, as text. No part can hold a dot, so the text comes apart
//! in one way only, and nothing can move from one part to the next (case 7). The claims are what `serde_json` makes of
//! a tuple, and reading them gives the tuple back: an encoding that can be undone is injective. Base64 is read
//! strictly: no padding, no spare bits, so each token has exactly one text. The first part names the purpose, so what
//! was signed for one purpose verifies for no other, although the keys are the same.
//!
//! Nothing of a token is looked at before its signature is, but for the name of the key.

mod completion;
mod keys;
mod link;

use std::fmt;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::Sha256;

pub use completion::Completion;
pub use keys::{BadKeys, Key, KeyRing, MIN_SECRET_BYTES};
pub use link::{DEFAULT_LINK_MS, Link, Unlinked, shareable};

/// Longest text of a token, in bytes. It stands in a URL: API Gateway takes about 8 KiB of those.
pub const MAX_TOKEN_BYTES: usize = 4_096;

/// The name of a token, by which a decision says through which it came. No secret: it lets nobody in.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenId(Box<str>);

impl TokenId {
    /// The name made of 128 bits that the caller drew.
    #[must_use]
    pub fn from_bits(bits: u128) -> Self {
        Self(format!("{bits:032x}").into())
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a token is for. The text is part of what is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To decide a request.
    Link,
    /// To finish a call that another system completes.
    Completion,
}

impl Purpose {
    /// The first part of such tokens: the purpose, and the version of what they claim.
    fn mark(self) -> &'static str {
        match self {
            Self::Link => "link1",
            Self::Completion => "done1",
        }
    }
}

/// What a token of one purpose claims.
pub trait Claims: Serialize + DeserializeOwned {
    /// The purpose.
    const PURPOSE: Purpose;
}

/// Claims that make a token longer than [`MAX_TOKEN_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("what the token is to say takes more than {MAX_TOKEN_BYTES} bytes")]
pub struct TooLong;

impl KeyRing {
    /// The token that says `claims`, signed with the first key.
    ///
    /// # Errors
    /// [`TooLong`].
    pub fn sign<T: Claims>(&self, claims: &T) -> Result<String, TooLong> {
        let key = self.signing();
        let claims = serde_json::to_vec(claims).map_err(|_| TooLong)?;
        let signed = format!("{}.{}.{}", T::PURPOSE.mark(), key.id(), BASE64_URL_SAFE_NO_PAD.encode(claims));
        let signature = mac(key, &signed).ok_or(TooLong)?.finalize().into_bytes();
        let token = format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature));
        if token.len() > MAX_TOKEN_BYTES { Err(TooLong) } else { Ok(token) }
    }

    /// What `token` claims, if one of the keys signed it for this purpose. Why not, is nobody's business: whoever
    /// holds a token that is none learns nothing by trying.
    #[must_use]
    pub fn open<T: Claims>(&self, token: &str) -> Option<T> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (mark, rest) = signed.split_once('.')?;
        let (key, claims) = rest.split_once('.')?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        // In constant time, and before anything of it is believed.
        mac(self.key(key)?, signed)?.verify_slice(&signature).ok()?;
        if mark != T::PURPOSE.mark() {
            return None;
        }
        serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }
}

/// A MAC of any key length can be made; the type does not say so.
fn mac(key: &Key, signed: &str) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.secret()).ok()?;
    mac.update(signed.as_bytes());
    Some(mac)
}
