//! Names of things: runs, calls, requests, drivers, entries, people, digests and points in time.
//!
//! Domain code never invents a random id; it parses and prints those that come in.

use std::{collections::BTreeSet, fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A text that is not the id it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {what}")]
pub struct BadId {
    /// The kind of id that was expected.
    pub what: &'static str,
    /// What was given, cut to 80 characters.
    pub text: String,
}

impl BadId {
    fn new(what: &'static str, text: &str) -> Self {
        Self { what, text: text.chars().take(80).collect() }
    }
}

/// A point in time, or a span, in milliseconds; points count from the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// This point moved on by `span_ms`, at the end of time at most.
    #[must_use]
    pub fn plus(self, span_ms: u64) -> Self {
        Self(self.0.saturating_add(span_ms))
    }

    /// Milliseconds from `earlier` to here, 0 if it is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The name of a run: `run_` and 32 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

impl RunId {
    /// The run id made of 128 bits that the caller drew (a UUID, version 7 in production).
    #[must_use]
    pub fn from_bits(bits: u128) -> Self {
        Self(format!("run_{bits:032x}"))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RunId {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let ok = text.strip_prefix("run_").is_some_and(|hex| {
            hex.len() == 32 && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        });
        if ok { Ok(Self(text.to_owned())) } else { Err(BadId::new("run id", text)) }
    }
}

impl TryFrom<String> for RunId {
    type Error = BadId;
    fn try_from(text: String) -> Result<Self, BadId> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Splits `<entry index>.<ordinal>`; only the canonical spelling is taken (no sign, no leading zero).
fn parse_pair(what: &'static str, text: &str) -> Result<(u32, u32), BadId> {
    let bad = || BadId::new(what, text);
    let (entry, ordinal) = text.split_once('.').ok_or_else(bad)?;
    let number = |s: &str| s.parse::<u32>().ok().filter(|n| n.to_string() == s);
    Ok((number(entry).ok_or_else(bad)?, number(ordinal).ok_or_else(bad)?))
}

macro_rules! key {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name {
            /// Index of the entry that brought it into being.
            pub entry: u32,
            /// Its place among those of that entry, from 0.
            pub ordinal: u32,
        }

        impl $name {
            /// The key of the `ordinal`-th one of entry `entry`.
            #[must_use]
            pub fn new(entry: u32, ordinal: u32) -> Self {
                Self { entry, ordinal }
            }
        }

        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                parse_pair($what, text).map(|(entry, ordinal)| Self { entry, ordinal })
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadId;
            fn try_from(text: String) -> Result<Self, BadId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(key: $name) -> Self {
                key.to_string()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}.{}", self.entry, self.ordinal)
            }
        }
    };
}

key! {
    /// A tool call within a run: index of the model's reply, place in it. Unique whatever ids a
    /// model invents (A8).
    CallKey, "call key"
}
key! {
    /// A request within a run: index of the entry that opened it, place in it.
    RequestKey, "request key"
}

/// A request's public name, `<run>.<entry index>.<ordinal>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RequestId {
    /// The run it belongs to.
    pub run: RunId,
    /// Its key within the run.
    pub key: RequestKey,
}

impl FromStr for RequestId {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad = || BadId::new("request id", text);
        let (run, key) = text.split_once('.').ok_or_else(bad)?;
        Ok(Self { run: run.parse().map_err(|_| bad())?, key: key.parse().map_err(|_| bad())? })
    }
}

impl TryFrom<String> for RequestId {
    type Error = BadId;
    fn try_from(text: String) -> Result<Self, BadId> {
        text.parse()
    }
}

impl From<RequestId> for String {
    fn from(id: RequestId) -> Self {
        id.to_string()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.run, self.key)
    }
}

/// Identity of one intended write: how a writer whose reply was lost recognises its own entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryId(pub String);

/// One invocation of the step function that has claimed a run: `<host>.<invocation>`. The host part
/// is the same for all invocations of one process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DriverId(pub String);

impl DriverId {
    /// The driver `invocation` of process `host`.
    #[must_use]
    pub fn new(host: &str, invocation: &str) -> Self {
        Self(format!("{host}.{invocation}"))
    }

    /// The process that this driver lives in.
    #[must_use]
    pub fn host(&self) -> &str {
        self.0.split_once('.').map_or(self.0.as_str(), |(host, _)| host)
    }
}

/// Who acts: a subject within a tenant. Comes from the authorizer alone, never from a body.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Principal {
    /// The tenant; nothing crosses from one to another.
    pub tenant: String,
    /// The subject within the tenant, as the identity provider names it.
    pub subject: String,
}

impl Principal {
    /// The principal as part of a table key. Injective: the separators are escaped, so no pair of
    /// tenant and subject can spell another pair's key.
    #[must_use]
    pub fn key(&self) -> String {
        let escape = |s: &str| s.replace('%', "%25").replace('/', "%2F").replace('#', "%23");
        format!("{}/{}", escape(&self.tenant), escape(&self.subject))
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.subject)
    }
}

/// Who acts, and in which groups of their tenant they are, as the authorizer says. What is stored of them is
/// the principal alone: a group is left, and what was decided stays.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Caller {
    /// Who.
    pub principal: Principal,
    /// Their groups.
    pub groups: BTreeSet<String>,
}

impl From<Principal> for Caller {
    fn from(principal: Principal) -> Self {
        Self { principal, groups: BTreeSet::new() }
    }
}

/// Where a request waits: with a person, or with a group of their tenant, each member of which may decide it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Inbox {
    /// A person's.
    Person(Principal),
    /// A group's.
    Group {
        /// The tenant.
        tenant: String,
        /// The group's name.
        group: String,
    },
}

impl Inbox {
    /// The inbox as part of a table key. Injective: no subject's key has an unescaped `#` in it.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Person(principal) => principal.key(),
            Self::Group { tenant, group } => {
                let named = Principal { tenant: tenant.clone(), subject: group.clone() }.key();
                format!("#{named}")
            }
        }
    }
}

impl Caller {
    /// Everywhere that a request can wait for this caller: their own inbox first, then those of their groups.
    #[must_use]
    pub fn inboxes(&self) -> Vec<Inbox> {
        let group = |group: &String| Inbox::Group { tenant: self.principal.tenant.clone(), group: group.clone() };
        std::iter::once(Inbox::Person(self.principal.clone())).chain(self.groups.iter().map(group)).collect()
    }
}

/// A SHA-256 digest, `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

impl Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut text = String::with_capacity(71);
        text.push_str("sha256:");
        for byte in Sha256::digest(bytes) {
            text.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
            text.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
        }
        Self(text)
    }

    /// The digest as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Digest {
    type Error = BadId;
    fn try_from(text: String) -> Result<Self, BadId> {
        let ok = text.strip_prefix("sha256:").is_some_and(|hex| {
            hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        });
        if ok { Ok(Self(text)) } else { Err(BadId::new("digest", &text)) }
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_take_only_their_own_spelling() {
        let run = RunId::from_bits(0xabc);
        assert_eq!(run.to_string().parse::<RunId>(), Ok(run.clone()));
        for bad in
            ["", "run_", "run_ABC", "run_0000000000000000000000000000000g", "RUN_00000000000000000000000000000abc"]
        {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
        let request = RequestId { run, key: RequestKey::new(4, 1) };
        assert_eq!(request.to_string().parse::<RequestId>(), Ok(request.clone()));
        for bad in ["4", "4.", ".1", "04.1", "4.01", "+4.1", "4.1.2", "-1.0", "99999999999.0"] {
            assert!(bad.parse::<RequestKey>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_principal_key_cannot_spell_another() {
        let p = |tenant: &str, subject: &str| Principal { tenant: tenant.into(), subject: subject.into() }.key();
        assert_ne!(p("a/b", "c"), p("a", "b/c"));
        assert_ne!(p("a%2Fb", "c"), p("a/b", "c"));
        assert_ne!(p("a#b", "c"), p("a", "b#c"));
        assert!(!p("a#b", "c#d").contains('#'));
    }

    #[test]
    fn digest_is_the_published_sha256() {
        // FIPS 180-2, appendix B.1.
        assert_eq!(
            Digest::of(b"abc").as_str(),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
