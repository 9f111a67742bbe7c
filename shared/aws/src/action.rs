//! One action of a write: what is done to one item, under which condition, and what it means if
//! the condition does not hold.

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    operation::put_item::builders::PutItemFluentBuilder,
    types::{AttributeValue, ConditionCheck, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update},
};
use dormouse_domain::EntryId;
use dormouse_engine::ports::WriteError;

use crate::{
    attrs::{Item, key_of, size},
    keys::{self, LP, LS, PK, SK},
};

/// Most bytes of an item.
const MAX_ITEM: usize = 400 * 1024;

/// What the item of an action is to the write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Role {
    /// An entry, with its identity.
    Entry(EntryId),
    /// The rest of a body; it stands and falls with its head.
    Part,
    /// An index that must be free.
    FreeIndex,
    /// The run item.
    Item,
    /// A request.
    Request,
    /// A workspace file, with its path.
    File(String),
    /// A standing rule.
    Rule,
    /// A receipt.
    Receipt,
    /// A definition; if it is there it is the same.
    Definition,
}

#[derive(Debug, Clone)]
enum Kind {
    Put,
    Update(&'static str),
    Check,
}

/// One action. Attribute names in its expressions are written `#name`.
#[derive(Debug, Clone)]
pub(crate) struct Action {
    /// What its item is to the write.
    pub(crate) role: Role,
    kind: Kind,
    /// The whole item of a put; of the others, its key.
    item: Item,
    condition: Option<String>,
    values: Vec<(&'static str, AttributeValue)>,
}

impl Action {
    /// Puts `item`.
    pub(crate) fn put(role: Role, item: Item, condition: Option<&str>) -> Self {
        Self { role, kind: Kind::Put, item, condition: condition.map(str::to_owned), values: vec![] }
    }

    /// Updates the item of `key`.
    pub(crate) fn update(
        role: Role,
        key: Item,
        update: &'static str,
        condition: String,
        values: Vec<(&'static str, AttributeValue)>,
    ) -> Self {
        Self { role, kind: Kind::Update(update), item: key, condition: Some(condition), values }
    }

    /// Only checks that nothing stands at `key`.
    pub(crate) fn free(role: Role, key: Item) -> Self {
        let condition = Some("attribute_not_exists(#PK)".to_owned());
        Self { role, kind: Kind::Check, item: key, condition, values: vec![] }
    }

    /// With these values in its expressions.
    pub(crate) fn with(self, values: Vec<(&'static str, AttributeValue)>) -> Self {
        Self { values, ..self }
    }

    /// The key of its item.
    pub(crate) fn key(&self) -> Item {
        key_of(&self.item)
    }

    /// Bytes that it counts for in a transaction, at least.
    pub(crate) fn size(&self) -> usize {
        size(&self.item)
            + self
                .values
                .iter()
                .map(|(name, value)| size(&Item::from([((*name).to_owned(), value.clone())])))
                .sum::<usize>()
    }

    /// Checks what DynamoDB would refuse.
    pub(crate) fn check_size(&self) -> Result<(), WriteError> {
        let text = |name| self.item.get(name).and_then(|value| value.as_s().ok()).map_or("", String::as_str);
        if !keys::fits(text(PK), text(SK)) || !keys::fits(text(LP), text(LS)) {
            let name: String = text(PK).chars().chain(text(SK).chars()).take(80).collect();
            return Err(WriteError::TooLarge(format!("the name {name}… is longer than a key can be")));
        }
        let size = size(&self.item);
        if size > MAX_ITEM {
            return Err(WriteError::TooLarge(format!("an item of {size} bytes; at most {MAX_ITEM}")));
        }
        Ok(())
    }

    /// The action as `put`, a request of its own.
    pub(crate) fn into_put(self, put: PutItemFluentBuilder) -> PutItemFluentBuilder {
        let (names, values) = (self.names(), self.values());
        put.set_item(Some(self.item))
            .set_condition_expression(self.condition)
            .set_expression_attribute_names(names)
            .set_expression_attribute_values(values)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
    }

    /// The action as part of a transaction.
    pub(crate) fn into_transact(self, table: &str) -> Result<TransactWriteItem, WriteError> {
        let unbuilt = |error| WriteError::Unavailable(format!("a write that cannot be built: {error}"));
        // Only the identity of an entry is of interest; other items can be large.
        let back = matches!(self.role, Role::Entry(_)).then_some(ReturnValuesOnConditionCheckFailure::AllOld);
        let (names, values) = (self.names(), self.values());
        let action = TransactWriteItem::builder();
        let action = match self.kind {
            Kind::Put => action.put(
                Put::builder()
                    .table_name(table)
                    .set_item(Some(self.item))
                    .set_condition_expression(self.condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .set_return_values_on_condition_check_failure(back)
                    .build()
                    .map_err(unbuilt)?,
            ),
            Kind::Update(update) => action.update(
                Update::builder()
                    .table_name(table)
                    .set_key(Some(self.item))
                    .update_expression(update)
                    .set_condition_expression(self.condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .build()
                    .map_err(unbuilt)?,
            ),
            Kind::Check => action.condition_check(
                ConditionCheck::builder()
                    .table_name(table)
                    .set_key(Some(self.item))
                    .set_condition_expression(self.condition)
                    .set_expression_attribute_names(names)
                    .build()
                    .map_err(unbuilt)?,
            ),
        };
        Ok(action.build())
    }

    fn values(&self) -> Option<Item> {
        let values: Item = self.values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        (!values.is_empty()).then_some(values)
    }

    fn names(&self) -> Option<HashMap<String, String>> {
        let update = match self.kind {
            Kind::Update(update) => update,
            Kind::Put | Kind::Check => "",
        };
        names([update, self.condition.as_deref().unwrap_or_default()].into_iter())
    }
}

/// The names that `expressions` use, for the request: many attribute names are reserved words, so
/// all are written as placeholders.
pub(crate) fn names<'a>(expressions: impl Iterator<Item = &'a str>) -> Option<HashMap<String, String>> {
    let mut names = HashMap::new();
    for expression in expressions {
        for piece in expression.split('#').skip(1) {
            let name: String = piece.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            names.insert(format!("#{name}"), name);
        }
    }
    (!names.is_empty()).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attrs::{key, s};

    #[test]
    fn names_are_those_that_the_expressions_use() {
        let names =
            names(["SET #status = :x REMOVE #LP, #LS", "#decide_by >= :now AND #status = :p"].into_iter()).unwrap();
        let mut names: Vec<_> = names.into_iter().map(|(placeholder, name)| format!("{placeholder} {name}")).collect();
        names.sort();
        assert_eq!(names, ["#LP LP", "#LS LS", "#decide_by decide_by", "#status status"]);
    }

    #[test]
    fn what_a_key_or_an_item_cannot_hold_is_too_large() {
        let put = |item| Action::put(Role::Item, item, None).check_size();
        assert!(put(key("p".repeat(2048), "s".repeat(1024))).is_ok());
        assert!(matches!(put(key("p".repeat(2049), "s")), Err(WriteError::TooLarge(_))));
        assert!(matches!(put(key("p", "é".repeat(513))), Err(WriteError::TooLarge(_))));
        let mut item = key("p", "s");
        item.insert("x".to_owned(), s("x".repeat(MAX_ITEM)));
        assert!(matches!(put(item), Err(WriteError::TooLarge(_))));
    }
}
