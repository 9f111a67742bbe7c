//! Requests as items. The body is what was asked and never changes; status and decision are
//! attributes, so that deciding is one conditional update (I6).

use dormouse_domain::{
    Digest, Inbox, Millis, RequestId,
    request::{Request, RequestStatus, Settled},
};
use dormouse_engine::ports::{StoreError, WriteError};
use serde_json::{Map, Value};

use crate::{
    action::{Action, Role},
    attrs::{Item, corrupt, key, n, optional_text, s, size, text},
    body, keys,
    keys::{LP, LS},
};

const STATUS: &str = "status";
const DECISION: &str = "decision";

/// Most bytes of a row when it is opened: what is left of an item's 400 KB is for the decision.
const MAX_OPEN: usize = 290 * 1024;

/// Most bytes of a stored decision: what a person may write (16 KiB), each byte escaped to six.
const MAX_DECISION: usize = 100 * 1024;

pub(crate) fn request_key(id: &RequestId) -> Item {
    key(keys::run_pk(&id.run), keys::request_sk(id.key))
}

fn encode(request: &Request) -> Result<Item, WriteError> {
    let unencodable =
        |error: String| WriteError::Unavailable(format!("request {} cannot be encoded: {error}", request.id));
    let Value::Object(mut fields) = serde_json::to_value(request).map_err(|error| unencodable(error.to_string()))?
    else {
        return Err(unencodable("not an object".to_owned()));
    };
    fields.remove(STATUS);
    fields.remove(DECISION);
    let Some(Value::String(kind)) = fields.get("kind").cloned() else {
        return Err(unencodable("its kind is not a string".to_owned()));
    };
    let mut item = request_key(&request.id);
    body::put(&mut item, "the request", Value::Object(fields).to_string())?;
    item.insert("kind".to_owned(), s(kind));
    item.insert(STATUS.to_owned(), s(request.status.as_str()));
    item.insert("decide_by".to_owned(), n(request.windows.decide_by.0));
    item.insert("inbox".to_owned(), s(request.inbox().key()));
    if let Some(barred) = request.barred() {
        item.insert("barred".to_owned(), s(barred.key()));
    }
    item.insert("digest".to_owned(), s(request.digest.as_str()));
    if request.status == RequestStatus::Pending {
        item.insert(LP.to_owned(), s(keys::inbox_lp(&request.inbox())));
        item.insert(LS.to_owned(), s(keys::inbox_ls(request.opened_at, &request.id)));
    }
    if let Some(settled) = &request.decision {
        item.insert(DECISION.to_owned(), s(settled_text(settled)?));
    }
    match size(&item) {
        bytes if bytes > MAX_OPEN => Err(WriteError::TooLarge(format!(
            "request {} has {bytes} bytes, at most {MAX_OPEN} can be stored",
            request.id
        ))),
        _ => Ok(item),
    }
}

fn settled_text(settled: &Settled) -> Result<String, WriteError> {
    let text = serde_json::to_string(settled)
        .map_err(|error| WriteError::Unavailable(format!("a decision cannot be encoded: {error}")))?;
    if text.len() > MAX_DECISION {
        return Err(WriteError::TooLarge(format!("the decision has {} bytes, at most {MAX_DECISION}", text.len())));
    }
    Ok(text)
}

pub(crate) fn decode(item: &Item) -> Result<Request, StoreError> {
    let mut fields: Map<String, Value> =
        serde_json::from_str(&body::get(item)?).map_err(|error| corrupt(item, error))?;
    fields.insert(STATUS.to_owned(), text(item, STATUS)?.into());
    if let Some(settled) = optional_text(item, DECISION)? {
        fields.insert(DECISION.to_owned(), serde_json::from_str(settled).map_err(|error| corrupt(item, error))?);
    }
    serde_json::from_value(Value::Object(fields)).map_err(|error| corrupt(item, error))
}

/// Opens `request`.
pub(crate) fn open(request: &Request) -> Result<Action, WriteError> {
    Ok(Action::put(Role::Request, encode(request)?, Some("attribute_not_exists(#PK)")))
}

/// Decides a request, under the condition of I6.
pub(crate) fn decide(
    id: &RequestId,
    inbox: &Inbox,
    settled: &Settled,
    digest: Option<&Digest>,
    now: Millis,
) -> Result<Action, WriteError> {
    let mut condition = "#status = :pending AND #decide_by >= :now AND #inbox = :inbox \
                         AND (attribute_not_exists(#barred) OR #barred <> :by)"
        .to_owned();
    let mut values = vec![
        (":pending", s(RequestStatus::Pending.as_str())),
        (":now", n(now.0)),
        (":inbox", s(inbox.key())),
        (":by", s(settled.by.key())),
        (":decided", s(RequestStatus::Decided.as_str())),
        (":decision", s(settled_text(settled)?)),
    ];
    if let Some(digest) = digest {
        condition.push_str(" AND #digest = :digest");
        values.push((":digest", s(digest.as_str())));
    }
    let update = "SET #status = :decided, #decision = :decision REMOVE #LP, #LS";
    Ok(Action::update(Role::Request, request_key(id), update, condition, values))
}

/// Closes a request undecided.
pub(crate) fn close(id: &RequestId, status: RequestStatus) -> Action {
    let values = vec![(":pending", s(RequestStatus::Pending.as_str())), (":closed", s(status.as_str()))];
    let update = "SET #status = :closed REMOVE #LP, #LS";
    Action::update(Role::Request, request_key(id), update, "#status = :pending".to_owned(), values)
}
