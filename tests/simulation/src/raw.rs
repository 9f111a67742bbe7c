//! Reading the raw items of the table, without the adapter's code.

use base64::Engine as _;
use dormouse_domain::{DriverId, Entry, EntryId, Fact, Millis, RunId, item::RunItem, request::Request};
use serde_json::{Map, Value};

/// What an item is.
#[derive(Debug)]
pub(crate) enum Raw {
    /// An entry of a run.
    Entry(RunId, Box<Entry>),
    /// A run's item.
    Run(Box<RunItem>),
    /// A request's row.
    Request(Box<Request>),
    /// Something else.
    Other,
}

fn maybe_text<'a>(item: &'a Value, name: &str) -> Option<&'a str> {
    item[name]["S"].as_str()
}

fn text<'a>(item: &'a Value, name: &str) -> Result<&'a str, String> {
    maybe_text(item, name).ok_or_else(|| format!("no text {name} in {item}"))
}

fn maybe_number(item: &Value, name: &str) -> Option<u64> {
    item[name]["N"].as_str()?.parse().ok()
}

fn body(item: &Value) -> Result<String, String> {
    if let Some(plain) = item["body"]["S"].as_str() {
        return Ok(plain.to_owned());
    }
    let packed = item["body"]["B"].as_str().ok_or_else(|| format!("no body in {item}"))?;
    let packed = base64::engine::general_purpose::STANDARD.decode(packed).map_err(|error| error.to_string())?;
    let unpacked = zstd::decode_all(packed.as_slice()).map_err(|error| error.to_string())?;
    String::from_utf8(unpacked).map_err(|error| error.to_string())
}

fn fields(item: &Value) -> Result<Map<String, Value>, String> {
    serde_json::from_str(&body(item)?).map_err(|error| error.to_string())
}

/// Reads an item.
pub(crate) fn read(item: &Value) -> Result<Raw, String> {
    let (pk, sk) = (text(item, "PK")?, text(item, "SK")?);
    let Some(run) = pk.strip_prefix("RUN#") else { return Ok(Raw::Other) };
    let run: RunId = run.parse().map_err(|_| format!("{run} is no run"))?;
    if let Some(index) = sk.strip_prefix("J#") {
        let index = index.parse().map_err(|_| format!("{sk} is no index"))?;
        return entry(item, index).map(|entry| Raw::Entry(run, Box::new(entry)));
    }
    let mut fields = fields(item)?;
    fields.insert("status".to_owned(), text(item, "status")?.into());
    if sk == "RUN" {
        for name in ["wakes", "updated_at", "due_at"] {
            if let Some(value) = maybe_number(item, name) {
                fields.insert(name.to_owned(), value.into());
            }
        }
        let run: RunItem = serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())?;
        let indexed = maybe_number(item, "DA").map(Millis);
        return match indexed == run.due_at {
            true => Ok(Raw::Run(Box::new(run))),
            false => Err(format!("{pk}: the due index says {indexed:?}, the item {:?}", run.due_at)),
        };
    }
    if let Some(decision) = maybe_text(item, "decision") {
        fields.insert("decision".to_owned(), serde_json::from_str(decision).map_err(|error| error.to_string())?);
    }
    let listed = item.get("LP").is_some();
    let request: Request = serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())?;
    let pending = request.status == dormouse_domain::request::RequestStatus::Pending;
    match listed == pending {
        true => Ok(Raw::Request(Box::new(request))),
        false => Err(format!("{}: listed: {listed}, pending: {pending} (E11)", request.id)),
    }
}

fn entry(item: &Value, index: u32) -> Result<Entry, String> {
    let fact = Fact::decode(text(item, "kind")?, &body(item)?).map_err(|error| error.to_string())?;
    Ok(Entry {
        index,
        entry_id: EntryId(text(item, "entry_id")?.to_owned()),
        at: Millis(maybe_number(item, "at").ok_or("an entry without a time")?),
        driver: maybe_text(item, "driver").map(|driver| DriverId(driver.to_owned())),
        fact,
    })
}
