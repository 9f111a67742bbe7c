//! Making a write, and settling what became of it.
//!
//! The SDK's own retries are off for writes. With them a caller sees the last attempt's error only,
//! and a refused connection after a timeout would read as "nothing was written" although the first
//! attempt may have landed. Here each attempt is judged; once one is unclear, only the table can
//! say what holds: the entry at the index is ours, or another's, or it stays unclear (B13).
//!
//! Repeating is safe because each attempt is the same write: the same entry under the same
//! condition, or the same transaction under the same token, within seconds (case 39).

use std::time::Duration;

use dormouse_domain::EntryId;
use dormouse_engine::ports::WriteError;
use sha2::{Digest as _, Sha256};
use tokio::time::{sleep, timeout};

use crate::{
    action::{Action, Role},
    attrs::Item,
    connect::ATTEMPT_TIMEOUT,
    entry_item::ENTRY_ID,
    failure::Attempt,
    table::Table,
};

/// Most actions of a transaction.
const MAX_ACTIONS: usize = 100;

/// Most bytes of all items of a transaction.
const MAX_TRANSACTION: usize = 4_000_000;

/// How often a write is attempted that was not written for a passing reason.
const ATTEMPTS: u32 = 4;

/// How many unclear attempts are made: each, and each look at the table after it, can take the whole
/// attempt timeout, so that a write takes at most some 13 seconds.
const UNCLEAR_ATTEMPTS: usize = 2;

/// The client request token for the write that `id` names: 32 of the 36 characters allowed. What
/// the id is for is part of it, so that an entry and a commit of the same name don't meet.
pub(crate) fn token(purpose: &str, id: &str) -> String {
    let digest = Sha256::digest(format!("{purpose}\n{id}").as_bytes());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// A write: one conditional put if it has one action, else one transaction.
#[derive(Debug)]
pub(crate) struct Write {
    token: String,
    actions: Vec<Action>,
    transact: bool,
}

/// Who stands at the first index of a write.
enum Standing {
    Ours,
    Another,
    Free,
    Unknown,
}

impl Write {
    /// The write of `actions`.
    ///
    /// # Errors
    /// [`WriteError::TooLarge`].
    pub(crate) fn new(token: String, actions: Vec<Action>) -> Result<Self, WriteError> {
        let size: usize = actions.iter().map(Action::size).sum();
        if actions.len() > MAX_ACTIONS {
            return Err(WriteError::TooLarge(format!("{} items in one write; at most {MAX_ACTIONS}", actions.len())));
        }
        if size > MAX_TRANSACTION {
            return Err(WriteError::TooLarge(format!("{size} bytes in one write; at most {MAX_TRANSACTION}")));
        }
        actions.iter().try_for_each(Action::check_size)?;
        let transact = actions.len() > 1;
        Ok(Self { token, actions, transact })
    }

    /// As a transaction in any case.
    pub(crate) fn in_transaction(self) -> Self {
        Self { transact: true, ..self }
    }

    /// Makes it.
    pub(crate) async fn make(&self, table: &Table) -> Result<(), WriteError> {
        let mut unclear: Vec<String> = Vec::new();
        let mut last = WriteError::Contention;
        for number in 0..ATTEMPTS {
            if number > 0 {
                sleep(pause(number)).await;
            }
            match self.attempt(table).await {
                Attempt::Landed => return Ok(()),
                Attempt::Refused(error) => return Err(error),
                Attempt::NotWritten { error, again } => {
                    last = error;
                    if !again {
                        break;
                    }
                }
                Attempt::Unclear(why) => {
                    tracing::warn!(%why, number, "a write whose outcome is unclear");
                    unclear.push(why);
                    if unclear.len() >= UNCLEAR_ATTEMPTS {
                        break;
                    }
                    match self.standing(table).await {
                        Standing::Ours => return Ok(()),
                        Standing::Another => return Err(WriteError::LostIndex),
                        Standing::Free | Standing::Unknown => {}
                    }
                }
            }
        }
        if unclear.is_empty() {
            return Err(last);
        }
        // An attempt that seemed lost can have landed since, or another's write can have ruled it out.
        match self.standing(table).await {
            Standing::Ours => Ok(()),
            Standing::Another => Err(WriteError::LostIndex),
            Standing::Free | Standing::Unknown => Err(WriteError::Ambiguous(unclear.join("; "))),
        }
    }

    async fn attempt(&self, table: &Table) -> Attempt {
        match self.actions.as_slice() {
            [] => Attempt::Landed,
            [one] if !self.transact => table.put(one.clone()).await,
            all => table.transact(&self.token, all.to_vec()).await,
        }
    }

    /// The first entry that this writes.
    fn identity(&self) -> Option<(Item, &EntryId)> {
        self.actions.iter().find_map(|action| match &action.role {
            Role::Entry(id) => Some((action.key(), id)),
            Role::Part
            | Role::FreeIndex
            | Role::Item
            | Role::Request
            | Role::File(_)
            | Role::Rule
            | Role::Receipt
            | Role::Definition => None,
        })
    }

    async fn standing(&self, table: &Table) -> Standing {
        let Some((key, ours)) = self.identity() else { return Standing::Unknown };
        match timeout(ATTEMPT_TIMEOUT, table.get_only(key, &[ENTRY_ID])).await {
            Ok(Ok(None)) => Standing::Free,
            Ok(Ok(Some(item))) if item.get(ENTRY_ID).and_then(|id| id.as_s().ok()) == Some(&ours.0) => Standing::Ours,
            Ok(Ok(Some(_))) => Standing::Another,
            Ok(Err(_)) | Err(_) => Standing::Unknown,
        }
    }
}

/// How long to wait before attempt `number`: 20, 80, 320 ms, of which up to half is left out, so
/// that writers that met do not meet again.
pub(crate) fn pause(number: u32) -> Duration {
    let full = 20_u64 << (2 * number.clamp(1, 5) - 2);
    Duration::from_millis(full - fastrand::u64(..full / 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attrs::{key, s};

    #[test]
    fn tokens_fit_and_keep_purposes_apart() {
        assert_eq!(token("commit", "e1").len(), 32);
        assert_eq!(token("commit", "e1"), token("commit", "e1"));
        assert_ne!(token("commit", "e1"), token("append", "e1"));
        assert_ne!(token("commit", "e1"), token("commit", "e2"));
    }

    #[test]
    fn pauses_grow_and_stay_within_their_bounds() {
        for (number, least, most) in [(1, 10, 20), (2, 40, 80), (3, 160, 320)] {
            let pause = u64::try_from(pause(number).as_millis()).unwrap();
            assert!((least..=most).contains(&pause), "{number}: {pause}");
        }
    }

    #[test]
    fn what_no_transaction_holds_is_too_large() {
        let put = |bytes: usize| {
            let mut item = key("p", "s");
            item.insert("x".to_owned(), s("x".repeat(bytes)));
            Action::put(Role::Part, item, None)
        };
        assert!(Write::new(String::new(), vec![put(1); 100]).is_ok());
        assert!(matches!(Write::new(String::new(), vec![put(1); 101]), Err(WriteError::TooLarge(_))));
        assert!(matches!(Write::new(String::new(), vec![put(390_000); 11]), Err(WriteError::TooLarge(_))));
    }
}
