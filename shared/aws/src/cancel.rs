//! Reading why a transaction was cancelled. Its reasons stand in the order of its actions.

use aws_sdk_dynamodb::types::CancellationReason;
use dormouse_engine::ports::WriteError;

use crate::{action::Role, attrs::Item, entry_item::ENTRY_ID, failure::Attempt};

/// The codes with which an action says that the transaction met another, or too little capacity.
const CONTENTION: [&str; 3] = ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"];

/// What it means that the condition on the item of `role` does not hold, where `item` stands.
pub(crate) fn broken(role: &Role, item: Option<&Item>) -> Attempt {
    let stands = item.and_then(|item| item.get(ENTRY_ID)).and_then(|id| id.as_s().ok());
    Attempt::Refused(match role {
        Role::Entry(id) if stands == Some(&id.0) => return Attempt::Landed,
        Role::Definition => return Attempt::Landed,
        Role::Receipt => WriteError::ReceiptExists,
        // A rule has the name of its request, so one that is there was made by the decision that stands.
        Role::Request | Role::Rule => WriteError::RequestCondition,
        Role::Entry(_) | Role::FreeIndex => WriteError::LostIndex,
        Role::Item => WriteError::ItemCondition,
        Role::File(path) => WriteError::FileChanged { path: path.clone() },
        Role::Part => WriteError::Unavailable("a part has no condition that could break".to_owned()),
    })
}

/// Which reason counts if there are several. The entry's identity comes before all, in [`judge`].
fn rank(role: &Role) -> u8 {
    match role {
        Role::Receipt => 0,
        Role::Request | Role::Rule => 1,
        Role::Entry(_) | Role::FreeIndex => 2,
        Role::Item => 3,
        Role::File(_) => 4,
        Role::Definition | Role::Part => 5,
    }
}

/// What `reasons` say about a transaction whose actions have these roles. It wrote nothing; but if
/// one of its entries is in the table, then an earlier attempt wrote all of it.
pub(crate) fn judge(roles: &[Role], reasons: &[CancellationReason]) -> Attempt {
    let code = |reason: &CancellationReason| reason.code().unwrap_or("None").to_owned();
    let mut worst: Option<(u8, Attempt)> = None;
    for (role, reason) in roles.iter().zip(reasons) {
        if code(reason) != "ConditionalCheckFailed" {
            continue;
        }
        let attempt = broken(role, reason.item());
        if matches!(attempt, Attempt::Landed) {
            return attempt;
        }
        if worst.as_ref().is_none_or(|(least, _)| rank(role) < *least) {
            worst = Some((rank(role), attempt));
        }
    }
    if let Some((_, attempt)) = worst {
        return attempt;
    }
    match reasons
        .iter()
        .find(|reason| !["None", CONTENTION[0], CONTENTION[1], CONTENTION[2]].contains(&code(reason).as_str()))
    {
        Some(other) => Attempt::NotWritten {
            error: WriteError::Unavailable(format!("{}: {}", code(other), other.message().unwrap_or_default())),
            again: false,
        },
        None => Attempt::NotWritten { error: WriteError::Contention, again: true },
    }
}

#[cfg(test)]
mod tests {
    use dormouse_domain::EntryId;

    use super::*;
    use crate::attrs::{key, s};

    fn reason(code: &str) -> CancellationReason {
        CancellationReason::builder().code(code).build()
    }

    fn failed_with(entry_id: &str) -> CancellationReason {
        let mut item = key("RUN#x", "J#0000000001");
        item.insert(ENTRY_ID.to_owned(), s(entry_id));
        CancellationReason::builder().code("ConditionalCheckFailed").set_item(Some(item)).build()
    }

    fn roles() -> Vec<Role> {
        vec![Role::Entry(EntryId("e1".into())), Role::Item, Role::Request, Role::File("a".into()), Role::Receipt]
    }

    fn verdict(reasons: &[CancellationReason]) -> String {
        match judge(&roles(), reasons) {
            Attempt::Landed => "landed".to_owned(),
            Attempt::Refused(error) => format!("refused {error:?}"),
            Attempt::NotWritten { error, again } => format!("not written {error:?} {again}"),
            Attempt::Unclear(_) => "unclear".to_owned(),
        }
    }

    #[test]
    fn the_reason_that_counts_is_the_one_the_caller_can_act_on() {
        let none = || reason("None");
        let failed = || reason("ConditionalCheckFailed");
        for (reasons, expected) in [
            ([failed_with("e1"), none(), failed(), none(), failed()], "landed"),
            ([failed_with("e2"), failed(), failed(), failed(), failed()], "refused ReceiptExists"),
            ([failed_with("e2"), failed(), failed(), failed(), none()], "refused RequestCondition"),
            ([failed_with("e2"), failed(), none(), failed(), none()], "refused LostIndex"),
            ([failed(), none(), none(), none(), none()], "refused LostIndex"),
            ([none(), failed(), none(), failed(), none()], "refused ItemCondition"),
            ([none(), none(), none(), failed(), none()], "refused FileChanged { path: \"a\" }"),
            ([reason("TransactionConflict"), none(), failed(), none(), none()], "refused RequestCondition"),
            ([reason("TransactionConflict"), none(), none(), none(), none()], "not written Contention true"),
            ([none(), none(), none(), none(), reason("ThrottlingError")], "not written Contention true"),
            (
                [none(), none(), none(), none(), reason("ValidationError")],
                "not written Unavailable(\"ValidationError: \") false",
            ),
        ] {
            assert_eq!(verdict(&reasons), expected);
        }
        assert_eq!(verdict(&[]), "not written Contention true");
    }
}
