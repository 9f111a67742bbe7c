//! Values that many states have in common: kept once, told apart by a hash that is computed once.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
};

/// A value behind a pointer. Two of them are equal if their 64-bit hashes are, as two states are to the
/// checker; the hash is the same in every run of the program.
#[derive(Debug)]
pub struct Shared<T> {
    hash: u64,
    value: Arc<T>,
}

impl<T: Hash> Shared<T> {
    /// Shares `value`.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self { hash: hash_of(&value), value: Arc::new(value) }
    }
}

impl<T> Shared<T> {
    /// The hash of the value.
    #[must_use]
    pub fn hash64(&self) -> u64 {
        self.hash
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self { hash: self.hash, value: self.value.clone() }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

impl<T> Eq for Shared<T> {}

impl<T> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// A hash that does not change from one run of the program to the next.
pub fn hash_of<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

const SHARDS: usize = 64;

/// Answers that were worked out before. The question must say everything that the answer depends on.
#[derive(Debug)]
pub struct Memo<V> {
    shards: Vec<Mutex<HashMap<(u64, u64), V>>>,
}

impl<V: Clone> Memo<V> {
    /// Nothing worked out yet.
    #[must_use]
    pub fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::new(HashMap::new())).collect() }
    }

    /// The answer to `question`, worked out by `answer` if it is new.
    pub fn get(&self, question: (u64, u64), answer: impl FnOnce() -> V) -> V {
        let shard = &self.shards[usize::try_from((question.0 ^ question.1) % SHARDS as u64).unwrap_or(0)];
        if let Some(known) = shard.lock().unwrap_or_else(PoisonError::into_inner).get(&question) {
            return known.clone();
        }
        let fresh = answer();
        shard.lock().unwrap_or_else(PoisonError::into_inner).insert(question, fresh.clone());
        fresh
    }
}

impl<V: Clone> Default for Memo<V> {
    fn default() -> Self {
        Self::new()
    }
}
