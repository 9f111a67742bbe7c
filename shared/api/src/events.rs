//! Following a run by long poll: `GET /v1/runs/{id}/events?after=<index>&wait_s=<0..20>` answers
//! `{items, next_cursor}` as soon as the journal has an entry after `after`, or with no items when
//! the time is up. `next_cursor` is the next call's `after`, so nothing is missed or repeated.

use std::time::Duration;

use dormouse_engine::Engine;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::{
    call::Call,
    problem::{Kind, Problem},
    query, view,
};

/// The longest wait: API Gateway cuts an integration off after 29 seconds.
const MAX_WAIT_S: u32 = 20;
/// Between two looks at the journal.
const INTERVAL: Duration = Duration::from_millis(400);
/// Entries in one answer at most.
const MAX_ENTRIES: u32 = 200;

pub(crate) async fn poll(engine: &Engine, call: &Call<'_>) -> Result<Value, Problem> {
    if wants_stream(call.header("accept").unwrap_or_default()) {
        let detail =
            "there is no event stream here; poll with Accept: application/json, and send next_cursor as `after`";
        return Err(Problem::new(Kind::NotAcceptable, detail));
    }
    let run = call.run_id()?;
    let after = call.number("after", 0, u32::MAX - 1)?;
    let wait = call.number("wait_s", 0, MAX_WAIT_S)?.unwrap_or(0);
    let until = Instant::now() + Duration::from_secs(wait.into());
    let from = after.map_or(0, |after| after + 1);
    loop {
        let page = query::entries(engine, call, &run, from, MAX_ENTRIES).await?;
        let left = until.saturating_duration_since(Instant::now());
        if !page.items.is_empty() || left.is_zero() {
            let seen = page.end.checked_sub(1);
            return Ok(view::list(page.items, seen.map(|index| index.to_string())));
        }
        sleep(INTERVAL.min(left)).await;
    }
}

/// Whether a stream is all that the client takes.
fn wants_stream(accept: &str) -> bool {
    let mut types = accept.split(',').map(|part| part.split(';').next().unwrap_or_default().trim()).peekable();
    let is_stream = |media: &str| media.eq_ignore_ascii_case("text/event-stream");
    types.peek().is_some() && types.all(is_stream)
}
