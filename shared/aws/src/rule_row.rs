//! Standing rules as items, each in the partition of its scope. The body is the rule as it was made; that it
//! was revoked is an attribute, so that revoking is one conditional update.

use aws_sdk_dynamodb::{operation::update_item::UpdateItemError, types::ReturnValuesOnConditionCheckFailure::AllOld};
use dormouse_domain::policy::{Revoked, Scope, StandingRule};
use dormouse_engine::ports::{StoreError, WriteError};

use crate::{
    action::{Action, Role, names},
    attrs::{Item, corrupt, key, optional_text, s},
    body,
    failure::unread,
    keys::{self, RULES},
    table::Table,
};

const REVOKED: &str = "revoked";

fn rule_key(tenant: &str, scope: &Scope, id: &str) -> Item {
    key(keys::rules_pk(tenant, scope), keys::rule_sk(id))
}

/// Stores a rule, which must be new.
pub(crate) fn store(rule: &StandingRule) -> Result<Action, WriteError> {
    let unencodable = |error: serde_json::Error| WriteError::Unavailable(format!("a rule cannot be encoded: {error}"));
    let made = StandingRule { revoked: None, ..rule.clone() };
    let mut item = rule_key(&rule.tenant, &rule.scope, &rule.id);
    body::put(&mut item, "the rule", serde_json::to_string(&made).map_err(unencodable)?)?;
    Ok(Action::put(Role::Rule, item, Some("attribute_not_exists(#PK)")))
}

fn decode(item: &Item) -> Result<StandingRule, StoreError> {
    let mut rule: StandingRule = serde_json::from_str(&body::get(item)?).map_err(|error| corrupt(item, error))?;
    if let Some(revoked) = optional_text(item, REVOKED)? {
        rule.revoked = Some(serde_json::from_str(revoked).map_err(|error| corrupt(item, error))?);
    }
    Ok(rule)
}

/// The rules of a scope, oldest first.
pub(crate) async fn list(table: &Table, tenant: &str, scope: &Scope) -> Result<Vec<StandingRule>, StoreError> {
    let pk = keys::rules_pk(tenant, scope);
    if !keys::fits(&pk, "") {
        return Ok(vec![]);
    }
    let rows = table.range(&pk, (RULES.to_owned(), format!("{RULES}~"))).await?;
    let mut rules = rows.iter().map(decode).collect::<Result<Vec<_>, _>>()?;
    rules.sort_by(|one, other| (one.at, &one.id).cmp(&(other.at, &other.id)));
    Ok(rules)
}

/// Revokes a rule that is there and is not revoked. A call whose reply was lost is repeated by the SDK and then
/// finds its own work: that is a success.
pub(crate) async fn revoke(
    table: &Table,
    tenant: &str,
    scope: &Scope,
    id: &str,
    revoked: &Revoked,
) -> Result<bool, StoreError> {
    let text = serde_json::to_string(revoked).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    let update = "SET #revoked = :revoked";
    let condition = "attribute_exists(#PK) AND attribute_not_exists(#revoked)";
    let call = table.client.update_item().table_name(&table.name).set_key(Some(rule_key(tenant, scope, id)));
    let call = call.update_expression(update).condition_expression(condition);
    let call = call.set_expression_attribute_names(names([update, condition].into_iter()));
    let call = call.expression_attribute_values(":revoked", s(text.as_str()));
    let Err(error) = call.return_values_on_condition_check_failure(AllOld).send().await else { return Ok(true) };
    if let Some(UpdateItemError::ConditionalCheckFailedException(failed)) = error.as_service_error() {
        return Ok(failed.item().and_then(|item| item.get(REVOKED)) == Some(&s(text)));
    }
    Err(unread(error))
}
