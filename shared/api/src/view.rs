//! What clients read: the shapes of runs, requests, decisions and entries. Times are RFC 3339 in UTC
//! with milliseconds; people are `{tenant, subject}` everywhere; a field that does not apply is left
//! out rather than null.

use std::time::Duration;

use dormouse_domain::{
    Caller, Definition, Entry, Fact, Millis,
    budget::{Amounts, Budget},
    decide::Decision,
    display::{self, Extent},
    item::RunItem,
    policy::{Covered, Scope, StandingRule},
    request::{Request, RequestStatus, Settled},
};
use dormouse_engine::{Changed, Completed, Responded, RunView, Started};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A point in time as clients read it, `2026-01-31T08:00:00.000Z`.
pub(crate) fn time(at: Millis) -> Value {
    let ms = i64::try_from(at.0).unwrap_or(i64::MAX);
    let time = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX);
    format!("{time:.3}").into()
}

/// `value` as JSON; null if serde refuses it, which none of the domain's types gives cause for.
fn plain<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn put(object: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        object.insert(name.to_owned(), value);
    }
}

/// `{items, next_cursor?}`
pub(crate) fn list(items: Vec<Value>, next_cursor: Option<String>) -> Value {
    let mut list = Map::from_iter([("items".to_owned(), Value::Array(items))]);
    put(&mut list, "next_cursor", next_cursor.map(Value::String));
    Value::Object(list)
}

/// A run as lists show it: without `requests` and `output`.
pub(crate) fn run_in_list(item: &RunItem) -> Value {
    Value::Object(run_fields(item))
}

/// A run.
pub(crate) fn run(view: &RunView, by: &Caller, now: Millis) -> Value {
    let mut run = run_fields(&view.item);
    let requests = view.pending.iter().map(|pending| request(pending, by, now, Extent::Listed)).collect();
    run.insert("requests".into(), Value::Array(requests));
    put(&mut run, "output", view.output.clone().map(Value::String));
    Value::Object(run)
}

fn run_fields(item: &RunItem) -> Map<String, Value> {
    let mut run = Map::new();
    let fields = [
        ("run_id", plain(&item.run_id)),
        ("owner", plain(&item.owner)),
        ("agent", item.agent.clone().into()),
        ("title", item.title.clone().into()),
        ("status", plain(&item.status)),
        ("mode", plain(&item.mode)),
        ("metadata", plain(&item.metadata)),
        ("turns", item.turns.into()),
        ("usage", usage(item)),
        ("pending", item.pending.into()),
        ("repeats", plain(&item.repeats)),
        ("created_at", time(item.created_at)),
        ("updated_at", time(item.updated_at)),
    ];
    run.extend(fields.map(|(name, value)| (name.to_owned(), value)));
    put(&mut run, "delegated_by", item.parent.as_ref().map(plain));
    put(&mut run, "forked_from", item.forks.last().map(plain));
    put(&mut run, "outcome", item.outcome.as_ref().map(plain));
    run
}

/// Tokens, and the dollars that they cost.
fn usage(item: &RunItem) -> Value {
    let mut usage = plain(&item.usage);
    usage["cost_usd"] = item.cost.total.dollars().into();
    if item.cost.at_most {
        usage["cost_at_most"] = true.into();
    }
    usage
}

/// What a run may use and has used.
fn budget(budget: &Budget) -> Value {
    json!({ "ceilings": amounts(&budget.ceilings), "used": used(&budget.used, budget.at_most) })
}

/// Amounts, of which the cost is a bound if it is one `at_most`.
fn used(used: &Amounts, at_most: bool) -> Value {
    let mut view = amounts(used);
    if at_most {
        view["cost_at_most"] = true.into();
    }
    view
}

/// `{turns, tokens, cost_usd, wall_s}`
fn amounts(amounts: &Amounts) -> Value {
    json!({
        "turns": amounts.turns,
        "tokens": amounts.tokens,
        "cost_usd": amounts.cost.dollars(),
        "wall_s": Duration::from_millis(amounts.wall_ms).as_secs_f64(),
    })
}

/// A request at `now`, as `by` sees it. One whose time is over is shown as expired, also in the moments before
/// that is written, and only a pending one offers decisions, to who may decide it (E11).
pub(crate) fn request(request: &Request, by: &Caller, now: Millis, extent: Extent) -> Value {
    let status = match request.status {
        RequestStatus::Pending if !request.windows.is_decidable(now) => RequestStatus::Expired,
        RequestStatus::Pending | RequestStatus::Decided | RequestStatus::Expired | RequestStatus::Cancelled => {
            request.status
        }
    };
    let open = status == RequestStatus::Pending && request.is_for(by);
    let decisions = if open { plain(&request.decisions) } else { json!([]) };
    let shown = display::request(request, extent);
    let mut view = Map::new();
    let fields = [
        ("request_id", plain(&request.id)),
        ("run_id", plain(&request.id.run)),
        ("kind", plain(&request.kind)),
        ("status", status.as_str().into()),
        ("summary", shown.summary.into()),
        ("digest", plain(&request.digest)),
        ("mutates", request.mutates.into()),
        ("decisions", decisions),
        ("reasons", shown.reasons.into()),
        ("agents", shown.agents.into()),
        ("owner", plain(&request.owner)),
        ("repeats", plain(&request.repeats)),
        ("opened_at", time(request.opened_at)),
        ("wait_until", time(request.windows.wait_until)),
        ("decide_by", time(request.windows.decide_by)),
    ];
    view.extend(fields.map(|(name, value)| (name.to_owned(), value)));
    if request.call.is_some() {
        view.insert("arguments".into(), shown.arguments);
    }
    put(&mut view, "call", request.call.as_ref().map(plain));
    put(&mut view, "tool", shown.tool.map(Value::String));
    put(&mut view, "budget", request.budget.as_ref().map(budget));
    if let Some(question) = &request.question {
        view.insert("options".into(), plain(&shown.options));
        view.insert("allow_free_text".into(), question.allow_free_text.into());
    }
    put(&mut view, "always", request.always.as_ref().filter(|_| open).map(plain));
    put(&mut view, "approvers", request.approvers.as_ref().map(plain));
    put(&mut view, "question", shown.question.map(Value::String));
    put(&mut view, "preview", shown.preview.as_ref().map(plain));
    put(&mut view, "warnings", Some(shown.warnings).filter(|warnings| !warnings.is_empty()).map(Value::from));
    put(&mut view, "cut", shown.cut.then_some(true.into()));
    let decided = request.decision.as_ref().map(|settled| {
        let mut view = decision(settled);
        if let Decision::Edit { arguments } = &settled.decision {
            view["arguments"] = display::arguments(arguments, &request.secret);
        }
        view
    });
    put(&mut view, "decision", decided);
    Value::Object(view)
}

/// A decision that stands: `{decision, by, at, …}`. Changed arguments are in the view of the request alone,
/// which knows what of them is secret.
pub(crate) fn decision(settled: &Settled) -> Value {
    let mut view = plain(settled);
    if let Some(fields) = view.as_object_mut() {
        fields.remove("arguments");
    }
    raised(&mut view, &settled.decision);
    if let Some(at) = view.get_mut("at") {
        *at = time(settled.at);
    }
    view
}

/// How much more a run may use stands in clients' units.
fn raised(view: &mut Value, decision: &Decision) {
    let Decision::Raise { amount } = decision else { return };
    if let Some(fields) = view.as_object_mut() {
        fields.remove("amount");
        fields.insert("raised".to_owned(), amounts(amount));
    }
}

/// A standing rule: what it lets run, for whom, who made it from which request, and that it was revoked.
pub(crate) fn rule(rule: &StandingRule) -> Value {
    let mut view = Map::new();
    let fields = [
        ("rule_id", rule.id.clone().into()),
        ("agent", rule.agent.clone().into()),
        ("tool", rule.tool.clone().into()),
        ("about", rule.about.clone().into()),
        ("request_id", plain(&rule.from)),
        ("by", plain(&rule.by)),
        ("at", time(rule.at)),
    ];
    view.extend(fields.map(|(name, value)| (name.to_owned(), value)));
    let (scope, of) = match &rule.scope {
        Scope::Run(run) => ("run", Some(("run_id", plain(run)))),
        Scope::Owner(owner) => ("owner", Some(("owner", plain(owner)))),
        Scope::Agent(_) => ("agent", None),
    };
    view.insert("scope".into(), scope.into());
    if let Some((name, value)) = of {
        view.insert(name.into(), value);
    }
    // Without a pattern it is for exactly the arguments that the request shows.
    if let Covered::Pattern(pattern) = &rule.what {
        view.insert("pattern".into(), plain(pattern));
    }
    if let Some(revoked) = &rule.revoked {
        view.insert("revoked".into(), json!({ "by": revoked.by, "at": time(revoked.at) }));
    }
    Value::Object(view)
}

/// What a decision led to.
pub(crate) fn responded(responded: &Responded) -> Value {
    json!({
        "request_id": responded.request_id,
        "status": responded.status,
        "decision": decision(&responded.decision),
        "run": { "run_id": responded.run_id, "status": responded.run_status },
        "note": responded.decision.decision.note(),
    })
}

/// A call that was completed.
pub(crate) fn completed(completed: &Completed) -> Value {
    json!({
        "call_id": completed.call_id,
        "run": { "run_id": completed.run_id, "status": completed.run_status },
    })
}

/// A run that was started.
pub(crate) fn started(started: &Started) -> Value {
    plain(started)
}

/// What a change led to.
pub(crate) fn changed(changed: &Changed) -> Value {
    plain(changed)
}

/// An entry of the journal of `run`, a run of `agent`: [`Entry::view`] with times as everywhere, and
/// with the public name of each request it speaks of, in a fork that of the run which opened it.
pub(crate) fn entry(run: &RunItem, agent: &Definition, entry: &Entry) -> Value {
    let named = |key: &str| key.parse().map_or_else(|_| key.to_owned(), |key| run.request_id(key).to_string());
    let mut view = entry.view(agent);
    for name in ["at", "until", "retry_at"] {
        retime(&mut view, name);
    }
    in_clients_units(&mut view, &entry.fact);
    if let Some(key) = view.get("request").and_then(Value::as_str) {
        view["request_id"] = named(key).into();
    }
    let requests = view.get_mut("requests").and_then(Value::as_array_mut);
    for (ordinal, request) in requests.into_iter().flatten().enumerate() {
        match request {
            // Suspended opens requests, named by their place.
            Value::Object(opened) => {
                opened.insert("request_id".into(), named(&format!("{}.{ordinal}", entry.index)).into());
                if let Some(windows) = opened.get_mut("windows") {
                    retime(windows, "wait_until");
                    retime(windows, "decide_by");
                }
            }
            // RequestExpired names requests by their keys.
            Value::String(key) => *key = named(key),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {}
        }
    }
    view
}

/// Amounts of what runs use up stand in clients' units.
fn in_clients_units(view: &mut Value, fact: &Fact) {
    if let Fact::RequestDecided { decision, .. } = fact {
        raised(&mut view["decision"], decision);
    }
    if let Fact::RunStarted { parent: Some(parent), .. } = fact {
        view["parent"]["share"] = amounts(&parent.share);
    }
    if let Fact::CallFinished { used: Some(used), .. } = fact {
        view["used"] = self::used(&used.amounts, used.at_most);
    }
}

fn retime(object: &mut Value, name: &str) {
    if let Some(field) = object.get_mut(name)
        && let Some(at) = field.as_u64()
    {
        *field = time(Millis(at));
    }
}
