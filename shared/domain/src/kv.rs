//! Key-value state that a run's tools keep: names to JSON values (A13).
//!
//! A result carries a [`KvPatch`]; the fold applies the patches in the order of the journal, so of calls that ran at
//! once the one whose result was stored last has the last word on a name. The state is data: no model is ever
//! sent it, and nothing here reads what it means.
//!
//! What cannot be stored is refused when it is set, each time with a [`KvError`] that says what to do. A patch can
//! be sound and still not fit beside what is there already: [`State::after`] then refuses all of it.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor},
};
use serde_json::Value;

use crate::json::{self, CanonicalError};

/// Longest name, in bytes.
pub const MAX_NAME_BYTES: usize = 128;
/// Largest value, in bytes of canonical JSON.
pub const MAX_VALUE_BYTES: usize = 16 * 1024;
/// Names of one run at most.
pub const MAX_NAMES: usize = 128;
/// Largest state of one run, in bytes: those of its names and of its values in canonical JSON.
pub const MAX_STATE_BYTES: usize = 64 * 1024;
/// How deep arrays and objects may stand in one another.
pub const MAX_DEPTH: usize = 32;

/// Why something is not kept. Each message says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// The name is none.
    #[error(
        "{name:?} is not a name; a name has 1 to {MAX_NAME_BYTES} characters, each a letter of a to z or A to Z, a digit, \
         or one of _ . : / -"
    )]
    BadName {
        /// The name, cut.
        name: String,
    },
    /// The name stands twice in one patch.
    #[error("the name {name:?} stands twice; set each name once")]
    Twice {
        /// The name.
        name: String,
    },
    /// The value is too large.
    #[error(
        "the value of {name:?} has {bytes} bytes; at most {MAX_VALUE_BYTES} are kept, so keep a reference to it instead"
    )]
    TooLarge {
        /// The name.
        name: String,
        /// The value's size.
        bytes: usize,
    },
    /// The value is nested too deep.
    #[error("the value of {name:?} is nested deeper than {MAX_DEPTH} levels; make it flatter, or keep it as text")]
    TooDeep {
        /// The name.
        name: String,
    },
    /// The value has no canonical form.
    #[error("the value of {name:?} cannot be kept: {source}")]
    NotCanonical {
        /// The name.
        name: String,
        /// Why.
        source: CanonicalError,
    },
    /// There would be too many names.
    #[error("the run would keep {names} names; at most {MAX_NAMES} are kept, so remove some (set them to null)")]
    TooMany {
        /// How many there would be.
        names: usize,
    },
    /// All of it would be too large.
    #[error(
        "the run's state would have {bytes} bytes; at most {MAX_STATE_BYTES} are kept, so remove names (set them to \
         null) or keep references to large values"
    )]
    Full {
        /// How many there would be.
        bytes: usize,
    },
}

/// Changes of a run's state: values that are set, names that are removed. All of it can be stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(transparent)]
pub struct KvPatch(BTreeMap<String, Value>);

impl KvPatch {
    /// No change.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names that it changes, with their new values; null: the name is removed.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Sets `name`; null removes it. What is kept is the value's canonical form.
    ///
    /// # Errors
    /// [`KvError`] if it cannot be stored; the patch is then as it was.
    pub fn set(&mut self, name: &str, value: &Value) -> Result<(), KvError> {
        let kept = keepable(name, value)?;
        self.0.insert(name.to_owned(), kept);
        Ok(())
    }

    /// Removes `name`.
    ///
    /// # Errors
    /// [`KvError::BadName`].
    pub fn remove(&mut self, name: &str) -> Result<(), KvError> {
        self.set(name, &Value::Null)
    }
}

/// `value` as it is kept under `name`.
fn keepable(name: &str, value: &Value) -> Result<Value, KvError> {
    let named = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:/-".contains(&byte);
    if !(1..=MAX_NAME_BYTES).contains(&name.len()) || !name.bytes().all(named) {
        return Err(KvError::BadName { name: json::cut(name, MAX_NAME_BYTES).to_owned() });
    }
    let name = name.to_owned();
    if !is_within(value, MAX_DEPTH) {
        return Err(KvError::TooDeep { name });
    }
    let refused = |source| KvError::NotCanonical { name: name.clone(), source };
    let text = json::canonical(value).map_err(refused)?;
    if text.len() > MAX_VALUE_BYTES {
        return Err(KvError::TooLarge { name, bytes: text.len() });
    }
    serde_json::from_str(&text).map_err(|error| refused(CanonicalError::Other(error.to_string())))
}

/// Whether arrays and objects stand at most `levels` deep in `value`.
fn is_within(value: &Value, levels: usize) -> bool {
    let inner = levels.checked_sub(1);
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        Value::Array(items) => inner.is_some_and(|inner| items.iter().all(|item| is_within(item, inner))),
        Value::Object(map) => inner.is_some_and(|inner| map.values().all(|item| is_within(item, inner))),
    }
}

/// Read with the same checks as it is made, so that what comes from outside is refused when it comes.
impl<'de> Deserialize<'de> for KvPatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = KvPatch;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of names and values")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<KvPatch, A::Error> {
                let mut patch = KvPatch::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    if patch.0.contains_key(&name) {
                        return Err(serde::de::Error::custom(KvError::Twice { name }));
                    }
                    patch.set(&name, &value).map_err(serde::de::Error::custom)?;
                }
                Ok(patch)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// A run's state: what its tools have set and not removed since.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(transparent)]
pub struct State(BTreeMap<String, Value>);

impl State {
    /// What is kept under `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Whether nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All names and what is kept under them, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The state after `patch`, all of it or nothing.
    ///
    /// # Errors
    /// [`KvError::TooMany`] or [`KvError::Full`]: it does not fit beside what is there.
    pub fn after(&self, patch: &KvPatch) -> Result<Self, KvError> {
        let mut after = self.clone();
        for (name, value) in &patch.0 {
            if value.is_null() {
                after.0.remove(name);
            } else {
                after.0.insert(name.clone(), value.clone());
            }
        }
        if after.0.len() > MAX_NAMES {
            return Err(KvError::TooMany { names: after.0.len() });
        }
        let bytes = after.0.iter().try_fold(0, |bytes, (name, value)| {
            let text = json::canonical(value).map_err(|source| KvError::NotCanonical { name: name.clone(), source })?;
            Ok::<usize, KvError>(bytes + name.len() + text.len())
        })?;
        if bytes > MAX_STATE_BYTES {
            return Err(KvError::Full { bytes });
        }
        Ok(after)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn patch(entries: &[(&str, Value)]) -> KvPatch {
        let mut patch = KvPatch::new();
        entries.iter().for_each(|(name, value)| patch.set(name, value).unwrap());
        patch
    }

    /// A text whose canonical JSON has this many bytes.
    fn text_of(bytes: usize) -> Value {
        Value::String("x".repeat(bytes - 2))
    }

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!(1), |value, _| json!([value]))
    }

    /// A13: refused when it is set, by name, and never stored in part.
    #[test]
    fn a13_what_cannot_be_stored_is_refused_when_it_is_set() {
        let long = "n".repeat(MAX_NAME_BYTES + 1);
        for name in ["", " ", "a b", "é", "a\n", "a#b", long.as_str()] {
            let refused = KvPatch::new().set(name, &json!(1));
            assert!(matches!(refused, Err(KvError::BadName { .. })), "{name:?}: {refused:?}");
            assert!(matches!(KvPatch::new().remove(name), Err(KvError::BadName { .. })), "{name:?}");
        }
        let mut patch = patch(&[("a", json!(1))]);
        let before = patch.clone();
        assert_eq!(
            patch.set("a", &text_of(MAX_VALUE_BYTES + 1)),
            Err(KvError::TooLarge { name: "a".into(), bytes: MAX_VALUE_BYTES + 1 })
        );
        assert_eq!(patch.set("a", &nested(MAX_DEPTH + 1)), Err(KvError::TooDeep { name: "a".into() }));
        let number: Value = serde_json::from_str("9007199254740993").unwrap();
        assert!(matches!(patch.set("a", &json!([number])), Err(KvError::NotCanonical { .. })));
        assert_eq!(patch, before);
    }

    /// A13: exactly at each bound it is kept, in canonical form; `false`, `0` and `""` are values.
    #[test]
    fn a13_what_is_at_the_bounds_is_kept() {
        let longest = "n".repeat(MAX_NAME_BYTES);
        let patch = patch(&[
            (longest.as_str(), json!(1.0)),
            ("a.b:c/d-e_F0", text_of(MAX_VALUE_BYTES)),
            ("deep", nested(MAX_DEPTH)),
            ("false", json!(false)),
            ("zero", json!(0)),
            ("empty", json!("")),
        ]);
        let state = State::default().after(&patch).unwrap();
        assert_eq!(state.iter().count(), 6);
        assert_eq!(state.get(&longest), Some(&json!(1)), "canonical");
        assert_eq!(state.get("zero"), Some(&json!(0)));
        let text = serde_json::to_string(&patch).unwrap();
        assert_eq!(serde_json::from_str::<KvPatch>(&text).unwrap(), patch);
    }

    /// A13: what would break a bound of the whole is refused as a whole; what makes room in the same patch counts.
    #[test]
    fn a13_a_patch_that_does_not_fit_changes_nothing() {
        let mut state = State::default();
        for name in ["a", "b", "c"] {
            state = state.after(&patch(&[(name, text_of(MAX_VALUE_BYTES))])).unwrap();
        }
        let last = MAX_STATE_BYTES - 3 * (MAX_VALUE_BYTES + 1) - 1;
        let full = state.after(&patch(&[("d", text_of(last))])).unwrap();
        assert_eq!(state.after(&patch(&[("d", text_of(last + 1))])), Err(KvError::Full { bytes: MAX_STATE_BYTES + 1 }));
        assert!(full.after(&patch(&[("e", json!(1))])).is_err());
        assert!(full.after(&patch(&[("e", json!(1)), ("d", Value::Null)])).is_ok());
        let names: Vec<_> = (0..MAX_NAMES).map(|n| n.to_string()).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), json!(1))).collect();
        let many = State::default().after(&patch(&many)).unwrap();
        assert_eq!(many.after(&patch(&[("x", json!(1))])), Err(KvError::TooMany { names: MAX_NAMES + 1 }));
        assert!(many.after(&patch(&[("x", json!(1)), ("0", Value::Null)])).is_ok());
    }

    #[test]
    fn a_patch_from_outside_is_checked_as_it_is_read() {
        for (text, told) in [
            (r#"{"a b":1}"#, "is not a name"),
            (r#"{"a":1,"a":2}"#, "stands twice"),
            (r#"{"a":1e300}"#, "cannot be kept exactly"),
            ("[]", "an object of names and values"),
        ] {
            let error = serde_json::from_str::<KvPatch>(text).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    proptest! {
        /// The last word on a name counts, and a removed name is as one that was never set.
        #[test]
        fn patches_apply_in_order(sets in proptest::collection::vec((0_u8..4, proptest::option::of(0_u8..4)), 0..20)) {
            let mut expected: BTreeMap<String, Value> = BTreeMap::new();
            let mut state = State::default();
            for (name, value) in sets {
                let name = name.to_string();
                let value = value.map_or(Value::Null, Value::from);
                state = state.after(&patch(&[(name.as_str(), value.clone())])).unwrap();
                expected.insert(name, value);
            }
            expected.retain(|_, value| !value.is_null());
            prop_assert_eq!(state.0, expected);
        }
    }
}
