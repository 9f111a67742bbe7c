//! The keys of the table. Prefixes tell the kinds of items apart, for policies too; numbers are
//! padded so that text order is number order.

use dormouse_domain::{Digest, Inbox, Millis, Principal, RequestId, RequestKey, RunId, policy::Scope};
use sha2::{Digest as _, Sha256};

/// Partition key.
pub(crate) const PK: &str = "PK";
/// Sort key.
pub(crate) const SK: &str = "SK";
/// Partition key of the listing index.
pub(crate) const LP: &str = "LP";
/// Sort key of the listing index.
pub(crate) const LS: &str = "LS";
/// Partition key of the due index.
pub(crate) const DP: &str = "DP";
/// Sort key of the due index, a number.
pub(crate) const DA: &str = "DA";

/// How many shards the due index has.
pub(crate) const DUE_SHARDS: u32 = 16;

/// Longest partition key that DynamoDB takes, in bytes.
const MAX_PK: usize = 2048;
/// Longest sort key that DynamoDB takes, in bytes.
const MAX_SK: usize = 1024;

/// Sort key of a run's item.
pub(crate) const RUN_SK: &str = "RUN";
/// Sort key of a definition.
pub(crate) const DEFINITION_SK: &str = "D";
/// Sort key of a receipt.
pub(crate) const RECEIPT_SK: &str = "K";
/// Beginning of the sort keys of requests.
pub(crate) const REQUESTS: &str = "Q#";
/// Beginning of the sort keys of standing rules.
pub(crate) const RULES: &str = "S#";
/// Beginning of the sort keys of files.
pub(crate) const FILES: &str = "F#";

pub(crate) fn run_pk(run: &RunId) -> String {
    format!("RUN#{run}")
}

/// The run whose partition this is.
pub(crate) fn run_of(pk: &str) -> Option<RunId> {
    pk.strip_prefix("RUN#")?.parse().ok()
}

pub(crate) fn entry_sk(index: u32) -> String {
    format!("J#{index:010}")
}

/// The index in the sort key of an entry.
pub(crate) fn entry_index(sk: &str) -> Option<u32> {
    sk.strip_prefix("J#").filter(|digits| digits.len() == 10)?.parse().ok()
}

/// The sort keys between which the entries from `from` to `to` and their parts lie; `~` sorts after
/// all that they consist of.
pub(crate) fn entry_range(from: u32, to: Option<u32>) -> (String, String) {
    (entry_sk(from), to.map_or_else(|| "J#~".to_owned(), |to| format!("{}#~", entry_sk(to))))
}

/// The sort key of part `number`, from 1, of the body whose head has sort key `head`.
pub(crate) fn part_sk(head: &str, number: usize) -> String {
    format!("{head}#{number:02}")
}

pub(crate) fn request_sk(key: RequestKey) -> String {
    format!("{REQUESTS}{:010}.{:05}", key.entry, key.ordinal)
}

pub(crate) fn definition_pk(digest: &Digest) -> String {
    format!("DEF#{digest}")
}

/// Injective although a client chooses `key`: an owner's key contains no `#`.
pub(crate) fn receipt_pk(owner: &Principal, key: &str) -> String {
    format!("IDEM#{}#{key}", owner.key())
}

/// Injective: neither a tenant's nor a name's key has a `#` in it.
pub(crate) fn rules_pk(tenant: &str, scope: &Scope) -> String {
    let key = |subject: &str| Principal { tenant: tenant.to_owned(), subject: subject.to_owned() }.key();
    match scope {
        Scope::Run(run) => format!("RULES#{}#run", key(run.as_str())),
        Scope::Owner(owner) => format!("RULES#{}#owner", key(&owner.subject)),
        Scope::Agent(agent) => format!("RULES#{}#agent", key(agent)),
    }
}

pub(crate) fn rule_sk(id: &str) -> String {
    format!("{RULES}{id}")
}

pub(crate) fn workspace_pk(workspace: &str) -> String {
    format!("WS#{workspace}")
}

pub(crate) fn file_sk(path: &str) -> String {
    format!("{FILES}{path}")
}

pub(crate) fn runs_lp(owner: &Principal) -> String {
    format!("RUNS#{}", owner.key())
}

pub(crate) fn runs_ls(updated_at: Millis, run: &RunId) -> String {
    format!("{:015}#{run}", updated_at.0)
}

pub(crate) fn inbox_lp(inbox: &Inbox) -> String {
    format!("INBOX#{}", inbox.key())
}

pub(crate) fn inbox_ls(opened_at: Millis, request: &RequestId) -> String {
    format!("{:015}#{request}", opened_at.0)
}

pub(crate) fn due_dp(shard: u32) -> String {
    format!("DUE#{shard}")
}

/// The due shard of a run: the same in every release, so a hash that is specified.
pub(crate) fn shard(run: &RunId) -> u32 {
    u32::from(Sha256::digest(run.as_str().as_bytes())[0]) % DUE_SHARDS
}

/// Whether DynamoDB can hold an item under this key.
pub(crate) fn fits(pk: &str, sk: &str) -> bool {
    pk.len() <= MAX_PK && sk.len() <= MAX_SK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_order_is_number_order() {
        let sorted =
            [entry_sk(9), part_sk(&entry_sk(9), 1), part_sk(&entry_sk(9), 10), entry_sk(10), entry_sk(u32::MAX)];
        assert!(sorted.is_sorted());
        assert!(request_sk(RequestKey::new(9, 10)) < request_sk(RequestKey::new(10, 9)));
        let run = RunId::from_bits(1);
        assert!(runs_ls(Millis(999), &run) < runs_ls(Millis(1_000), &run));
    }

    #[test]
    fn a_range_of_entries_has_their_parts_and_nothing_else() {
        let (from, to) = entry_range(3, Some(4));
        let within = |sk: &str| from.as_str() <= sk && sk <= to.as_str();
        assert!(within(&entry_sk(3)) && within(&part_sk(&entry_sk(4), 8)));
        assert!(!within(&part_sk(&entry_sk(2), 1)) && !within(&entry_sk(5)));
        let (_, end) = entry_range(0, None);
        assert!(part_sk(&entry_sk(u32::MAX), 9) < end && end.as_str() < REQUESTS && end.as_str() < RUN_SK);
    }

    #[test]
    fn entry_keys_are_read_back_and_parts_are_no_entries() {
        assert_eq!(entry_index(&entry_sk(42)), Some(42));
        for other in ["J#42", "J#0000000042#01", "RUN", "J#00000000xx"] {
            assert_eq!(entry_index(other), None, "{other}");
        }
    }

    #[test]
    fn requests_and_the_run_item_are_one_range() {
        assert!(REQUESTS < request_sk(RequestKey::new(0, 0)).as_str());
        assert!(request_sk(RequestKey::new(u32::MAX, 99_999)).as_str() < RUN_SK);
    }

    /// The shard of a run is stored in its item: it must never change.
    #[test]
    fn shards_are_stable_and_all_used() {
        assert_eq!(shard(&RunId::from_bits(0)), 5);
        let used: std::collections::BTreeSet<u32> = (0..500).map(|n| shard(&RunId::from_bits(n))).collect();
        assert_eq!(used.len(), DUE_SHARDS as usize);
    }

    #[test]
    fn a_receipt_key_cannot_reach_into_another_owners() {
        let owner = |tenant: &str, subject: &str| Principal { tenant: tenant.into(), subject: subject.into() };
        assert_ne!(receipt_pk(&owner("t", "a"), "b#k"), receipt_pk(&owner("t", "a#b"), "k"));
    }
}
