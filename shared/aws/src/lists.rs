//! What is found by index: runs of an owner, requests in an inbox, runs that are due. The listing
//! index holds keys only, so that a request's arguments are not stored twice; its pages are read
//! from the table, consistently, before anything is shown.

use std::collections::BTreeMap;

use dormouse_domain::{
    Millis, Principal,
    item::RunItem,
    request::{Request, RequestStatus},
};
use dormouse_engine::ports::{Due, Page, StoreError};

use crate::{
    action::names,
    attrs::{Item, key_of, n, s, text},
    cursor::{self, List},
    failure::unread,
    keys::{self, DUE_SHARDS, LS},
    request_row, run_row,
    run_row::{DUE_AT, WAKES},
    schema::{DUE_INDEX, LISTING_INDEX},
    table::{MAX_BATCH, Table, place},
};

/// A page of the listing index, as the items stand in the table now.
async fn listed(
    table: &Table,
    list: List,
    lp: &str,
    cursor: Option<&str>,
    limit: u32,
) -> Result<Page<Item>, StoreError> {
    let start = cursor.map(|cursor| cursor::decode(list, lp, cursor)).transpose()?;
    if !keys::fits(lp, "") {
        return Ok(Page { items: vec![], next: None });
    }
    let condition = "#LP = :lp";
    let query = table.client.query().table_name(&table.name).index_name(LISTING_INDEX);
    let query =
        query.key_condition_expression(condition).set_expression_attribute_names(names([condition].into_iter()));
    let query = query.expression_attribute_values(":lp", s(lp)).set_exclusive_start_key(start);
    let limit = limit.clamp(1, MAX_BATCH as u32) as i32;
    let page = query.scan_index_forward(list == List::Inbox).limit(limit).send().await.map_err(unread)?;

    let order = page.items.unwrap_or_default();
    let now = table.batch(order.iter().map(key_of).collect()).await?;
    let mut now: BTreeMap<_, _> = now.into_iter().map(|item| (place(&item), item)).collect();
    let next = page.last_evaluated_key.map(|key| Ok(cursor::encode(lp, text(&key, LS)?))).transpose()?;
    Ok(Page { items: order.iter().filter_map(|item| now.remove(&place(item))).collect(), next })
}

/// Runs of `owner`, last changed first.
pub(crate) async fn runs(
    table: &Table,
    owner: &Principal,
    cursor: Option<&str>,
    limit: u32,
) -> Result<Page<RunItem>, StoreError> {
    let page = listed(table, List::Runs, &keys::runs_lp(owner), cursor, limit).await?;
    let items: Result<Vec<RunItem>, _> = page.items.iter().map(run_row::decode).collect();
    Ok(Page { items: items?.into_iter().filter(|run| run.owner == *owner).collect(), next: page.next })
}

/// Requests in `owner`'s inbox that can be decided at `now`, oldest first (E11).
pub(crate) async fn inbox(
    table: &Table,
    owner: &Principal,
    cursor: Option<&str>,
    limit: u32,
    now: Millis,
) -> Result<Page<Request>, StoreError> {
    let page = listed(table, List::Inbox, &keys::inbox_lp(owner), cursor, limit).await?;
    let items: Result<Vec<Request>, _> = page.items.iter().map(request_row::decode).collect();
    let open = |request: &Request| {
        request.status == RequestStatus::Pending && request.windows.is_decidable(now) && request.inbox == *owner
    };
    Ok(Page { items: items?.into_iter().filter(open).collect(), next: page.next })
}

/// Runs of `shard` that are due at `now`, longest overdue first.
pub(crate) async fn due(table: &Table, shard: u32, now: Millis, limit: u32) -> Result<Vec<Due>, StoreError> {
    if shard >= DUE_SHARDS || limit == 0 {
        return Ok(vec![]);
    }
    let condition = "#DP = :dp AND #DA <= :now";
    let query = table.client.query().table_name(&table.name).index_name(DUE_INDEX);
    let query =
        query.key_condition_expression(condition).set_expression_attribute_names(names([condition].into_iter()));
    let query = query.expression_attribute_values(":dp", s(keys::due_dp(shard)));
    let query = query.expression_attribute_values(":now", n(now.0));
    let page = query.limit(i32::try_from(limit).unwrap_or(i32::MAX)).send().await.map_err(unread)?;
    page.items.unwrap_or_default().iter().map(run_row::decode_due).collect()
}

/// Moves a run's `due_at` on and counts a wake, if it still is where `due` says.
///
/// A call whose reply was lost is repeated by the SDK and then finds its own work; that is a
/// success, or the wake would not be sent.
pub(crate) async fn postpone(table: &Table, due: &Due, to: Millis) -> Result<bool, StoreError> {
    let update = "SET #due_at = :to, #DA = :to, #wakes = #wakes + :one";
    let condition = "#due_at = :from";
    let call = table.client.update_item().table_name(&table.name).set_key(Some(run_row::run_key(&due.run)));
    let call = call.update_expression(update).condition_expression(condition);
    let call = call.set_expression_attribute_names(names([update, condition].into_iter()));
    let call = call.expression_attribute_values(":to", n(to.0)).expression_attribute_values(":from", n(due.due_at.0));
    let call = call.expression_attribute_values(":one", n(1));
    let back = aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure::AllOld;
    let Err(error) = call.return_values_on_condition_check_failure(back).send().await else { return Ok(true) };
    if let Some(aws_sdk_dynamodb::operation::update_item::UpdateItemError::ConditionalCheckFailedException(failed)) =
        error.as_service_error()
    {
        let has = |name, value| failed.item().and_then(|item| item.get(name)) == Some(&value);
        return Ok(has(DUE_AT, n(to.0)) && has(WAKES, n(due.wakes.saturating_add(1))));
    }
    Err(unread(error))
}
