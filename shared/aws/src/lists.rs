//! What is found by index: runs of an owner, requests in an inbox, runs that are due. The listing
//! index holds keys only, so that a request's arguments are not stored twice; its pages are read
//! from the table, consistently, before anything is shown.

use std::collections::BTreeMap;

use dormouse_domain::{
    Inbox, Millis, Principal,
    item::RunItem,
    request::{Request, RequestStatus},
};
use dormouse_engine::ports::{Due, Page, StoreError};
use futures::{StreamExt, TryStreamExt, stream};

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

/// How many partitions of the listing index are read at once.
const AT_ONCE: usize = 8;

/// A page of the listing index, as the items stand in the table now. Of several partitions the page is what
/// comes first in all of them: they have one order, that of [`LS`], in which a cursor is a place.
async fn listed(
    table: &Table,
    list: List,
    partitions: &[String],
    cursor: Option<&str>,
    limit: u32,
) -> Result<Page<Item>, StoreError> {
    let name = cursor::name(partitions);
    let after = cursor.map(|cursor| cursor::decode(list, &name, cursor)).transpose()?;
    let limit = limit.clamp(1, MAX_BATCH as u32) as usize;
    let mut reads = Vec::with_capacity(partitions.len());
    for lp in partitions {
        if keys::fits(lp, "") {
            reads.push(partition(table, list, lp, after.as_deref(), limit));
        }
    }
    // One more of each than the page holds: so what it holds comes first, and it is known whether there is more.
    let parts: Vec<Vec<(String, Item)>> = stream::iter(reads).buffered(AT_ONCE).try_collect().await?;
    let mut order: Vec<_> = parts.into_iter().flatten().collect();
    order.sort_by(|(one, _), (other, _)| if list == List::Inbox { one.cmp(other) } else { other.cmp(one) });
    let more = order.len() > limit;
    order.truncate(limit);
    let now = table.batch(order.iter().map(|(_, item)| key_of(item)).collect()).await?;
    let mut now: BTreeMap<_, _> = now.into_iter().map(|item| (place(&item), item)).collect();
    let next = order.last().filter(|_| more).map(|(last, _)| cursor::encode(&name, last));
    Ok(Page { items: order.iter().filter_map(|(_, item)| now.remove(&place(item))).collect(), next })
}

/// One more than `limit` of one partition, with their places.
async fn partition(
    table: &Table,
    list: List,
    lp: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<(String, Item)>, StoreError> {
    let condition = match (after, list) {
        (None, _) => "#LP = :lp",
        (Some(_), List::Inbox) => "#LP = :lp AND #LS > :after",
        (Some(_), List::Runs) => "#LP = :lp AND #LS < :after",
    };
    let query = table.client.query().table_name(&table.name).index_name(LISTING_INDEX);
    let query =
        query.key_condition_expression(condition).set_expression_attribute_names(names([condition].into_iter()));
    let query = query.expression_attribute_values(":lp", s(lp));
    let query = match after {
        Some(after) => query.expression_attribute_values(":after", s(after)),
        None => query,
    };
    let limit = i32::try_from(limit + 1).unwrap_or(i32::MAX);
    let page = query.scan_index_forward(list == List::Inbox).limit(limit).send().await.map_err(unread)?;
    let items = page.items.unwrap_or_default().into_iter().map(|item| Ok((text(&item, LS)?.to_owned(), item)));
    items.collect()
}

/// Runs of `owner`, last changed first.
pub(crate) async fn runs(
    table: &Table,
    owner: &Principal,
    cursor: Option<&str>,
    limit: u32,
) -> Result<Page<RunItem>, StoreError> {
    let page = listed(table, List::Runs, &[keys::runs_lp(owner)], cursor, limit).await?;
    let items: Result<Vec<RunItem>, _> = page.items.iter().map(run_row::decode).collect();
    Ok(Page { items: items?.into_iter().filter(|run| run.owner == *owner).collect(), next: page.next })
}

/// Requests in these inboxes that can be decided at `now`, oldest first (E11).
pub(crate) async fn inbox(
    table: &Table,
    inboxes: &[Inbox],
    cursor: Option<&str>,
    limit: u32,
    now: Millis,
) -> Result<Page<Request>, StoreError> {
    let partitions: Vec<_> = inboxes.iter().map(keys::inbox_lp).collect();
    let page = listed(table, List::Inbox, &partitions, cursor, limit).await?;
    let items: Result<Vec<Request>, _> = page.items.iter().map(request_row::decode).collect();
    let open = |request: &Request| {
        let waits = request.status == RequestStatus::Pending && request.windows.is_decidable(now);
        waits && inboxes.contains(&request.inbox())
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
