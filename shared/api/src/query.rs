//! Reading.

use aws_lambda_events::apigw::ApiGatewayProxyRequest;
use dormouse_domain::{Entry, RunId, display::Extent};
use dormouse_engine::{Engine, Problem as Cause, RulesOf};
use serde_json::Value;

use crate::{
    call::Call,
    events, export,
    problem::{Kind, Problem, Reply},
    routes::{self, Endpoint, Query},
    view,
};

/// Items of a list, unless the client says how many.
const DEFAULT_LIMIT: u32 = 50;
/// Runs or requests in a page at most.
const MAX_LIMIT: u32 = 100;
/// Entries in a page at most.
const MAX_ENTRIES: u32 = 200;
/// Entries read from the store at once: few, because one can have 3 MiB.
const ENTRIES_AT_ONCE: u32 = 25;
/// A page of entries ends with the entry that goes beyond this, in bytes. A function's answer has 6
/// MB at most, and quotes in it are escaped once more.
const PAGE_BYTES: usize = 1_500_000;

pub(crate) async fn handle(engine: &Engine, request: &ApiGatewayProxyRequest) -> Result<Reply, Problem> {
    let (endpoint, id) = routes::find(request)?;
    let Endpoint::Query(what) = endpoint else { return Err(routes::elsewhere(endpoint)) };
    let call = Call::read(engine, request, id)?;
    let body = match what {
        Query::Runs => runs(engine, &call).await?,
        Query::Run => {
            let view = engine.run_view(&call.by, &call.run_id()?).await?;
            view::run(&view, &call.by, engine.ports().clock.now())
        }
        Query::Journal => journal(engine, &call).await?,
        Query::Export => return export::page(engine, &call).await,
        Query::Events => events::poll(engine, &call).await?,
        Query::Requests => requests(engine, &call).await?,
        Query::Request => {
            let request = engine.request(&call.by, &call.request_id()?).await?;
            view::request(&request, &call.by, engine.ports().clock.now(), Extent::Whole)
        }
        Query::Rules => {
            let rules = engine.rules(&call.by, &rules_of(&call)?).await?;
            view::list(rules.iter().map(view::rule).collect(), None)
        }
    };
    Ok(Reply::ok(&body))
}

/// Whose rules: `?run=`, `?agent=` or `?owner=`, one of them at most; the caller's own without.
fn rules_of(call: &Call<'_>) -> Result<RulesOf, Problem> {
    match (call.parameter("run"), call.parameter("agent"), call.parameter("owner")) {
        (None, None, owner) => Ok(RulesOf::Owner(owner.map(str::to_owned))),
        (Some(run), None, None) => Ok(RulesOf::Run(run.parse().map_err(|_| Cause::NotFound("run"))?)),
        (None, Some(agent), None) => Ok(RulesOf::Agent(agent.to_owned())),
        _ => Err(Problem::new(Kind::InvalidRequest, "give one of `run`, `agent` and `owner` at most")),
    }
}

async fn runs(engine: &Engine, call: &Call<'_>) -> Result<Value, Problem> {
    let limit = call.number("limit", 1, MAX_LIMIT)?.unwrap_or(DEFAULT_LIMIT);
    let page = engine.runs(&call.by, call.parameter("cursor"), limit).await.map_err(reading)?;
    Ok(view::list(page.items.iter().map(view::run_in_list).collect(), page.next))
}

async fn requests(engine: &Engine, call: &Call<'_>) -> Result<Value, Problem> {
    let limit = call.number("limit", 1, MAX_LIMIT)?.unwrap_or(DEFAULT_LIMIT);
    let cursor = call.parameter("cursor");
    let page = match call.parameter("group") {
        None => engine.inbox(&call.by, cursor, limit).await,
        Some(group) => engine.group_inbox(&call.by, group, cursor, limit).await,
    };
    let page = page.map_err(reading)?;
    let now = engine.ports().clock.now();
    Ok(view::list(
        page.items.iter().map(|request| view::request(request, &call.by, now, Extent::Listed)).collect(),
        page.next,
    ))
}

async fn journal(engine: &Engine, call: &Call<'_>) -> Result<Value, Problem> {
    let run = call.run_id()?;
    let limit = call.number("limit", 1, MAX_ENTRIES)?.unwrap_or(DEFAULT_LIMIT);
    let from = match call.parameter("cursor") {
        None => 0,
        Some(cursor) => cursor.parse().map_err(|_| {
            Problem::new(Kind::InvalidRequest, "the cursor is not one of this list's; start without one")
        })?,
    };
    let page = entries(engine, call, &run, from, limit).await?;
    Ok(view::list(page.items, page.more.then(|| page.end.to_string())))
}

/// Entries as clients read them.
pub(crate) struct Entries {
    pub(crate) items: Vec<Value>,
    /// Index of the first entry that is not among them.
    pub(crate) end: u32,
    /// Whether it exists.
    pub(crate) more: bool,
}

/// Entries from index `from`: at most `limit`, and not many more bytes than [`PAGE_BYTES`], but at
/// least one if there is one.
pub(crate) async fn entries(
    engine: &Engine,
    call: &Call<'_>,
    run: &RunId,
    from: u32,
    limit: u32,
) -> Result<Entries, Problem> {
    let mut page = Entries { items: Vec::new(), end: from, more: false };
    let mut bytes = 0;
    // What it declares secret is in no view of the journal.
    let (known, agent) = engine.known(&call.by, run).await?;
    loop {
        let read: Vec<Entry> = engine.more_entries(run, page.end, ENTRIES_AT_ONCE).await?;
        let last = read.len() < ENTRIES_AT_ONCE as usize;
        for entry in read {
            if page.items.len() >= limit as usize || bytes > PAGE_BYTES {
                page.more = true;
                return Ok(page);
            }
            let item = view::entry(&known, &agent, &entry);
            bytes += item.to_string().len();
            page.items.push(item);
            page.end = entry.index + 1;
        }
        if last {
            return Ok(page);
        }
    }
}

/// A read has no body, so what is invalid about it is its query.
fn reading(cause: Cause) -> Problem {
    match cause {
        Cause::Invalid(detail) => Problem::new(Kind::InvalidRequest, detail),
        Cause::NotFound(_)
        | Cause::UnknownAgent { .. }
        | Cause::WrongState(_)
        | Cause::NotEntitled { .. }
        | Cause::Refused(_)
        | Cause::KeyReused
        | Cause::TooLarge(_)
        | Cause::Gone(_)
        | Cause::NotSetUp(_)
        | Cause::Unavailable(_)
        | Cause::Unknown(_)
        | Cause::Corrupt(_) => cause.into(),
    }
}
