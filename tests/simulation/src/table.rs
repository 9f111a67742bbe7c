//! DynamoDB: dynoxide in memory, called in this thread, with indexes that can be behind. Every write that
//! it takes is shown to the [`Books`], in the raw.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use dynoxide::{Database, DynoxideError};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    actor,
    books::Books,
    index::Past,
    sim::{Sim, locked},
    torn::{self, Key, Torn},
    wire::Service,
};

/// The table's name.
pub(crate) const TABLE: &str = "dormouse";

/// What a consistent read says.
const CONSISTENT: &[u8] = b"\"ConsistentRead\":true";
/// Actions of a transaction, and where their items are named.
const ACTIONS: [(&str, &str); 3] = [("Put", "Item"), ("Update", "Key"), ("ConditionCheck", "Key")];

/// The table.
pub(crate) struct Table {
    sim: Arc<Sim>,
    db: Database,
    past: Mutex<Past>,
    books: Arc<Books>,
    /// Every item as it stands.
    now: Mutex<BTreeMap<Key, Value>>,
    torn: Mutex<Torn>,
    /// Tokens of transactions that were carried out: a repetition is answered, and writes nothing.
    done: Mutex<BTreeSet<String>>,
}

impl Table {
    /// A database without tables.
    pub(crate) fn new(sim: Arc<Sim>, books: Arc<Books>) -> Result<Self, DynoxideError> {
        let db = Database::memory_with_clock(Arc::new(sim.time))?;
        Ok(Self {
            sim,
            db,
            past: Mutex::default(),
            books,
            now: Mutex::default(),
            torn: Mutex::default(),
            done: Mutex::default(),
        })
    }

    fn dispatch(&self, operation: &str, body: &[u8]) -> Result<Vec<u8>, DynoxideError> {
        let db = &self.db;
        match operation {
            "BatchGetItem" => run(body, |request| db.batch_get_item(request)),
            "CreateTable" => run(body, |request| db.create_table(request)),
            "DescribeTable" => run(body, |request| db.describe_table(request)),
            "GetItem" => run(body, |request| db.get_item(request)),
            "PutItem" => run(body, |request| db.put_item(request)),
            "Query" => run(body, |request| db.query(request)),
            "TransactWriteItems" => run(body, |request| db.transact_write_items(request)),
            "UpdateItem" => run(body, |request| db.update_item(request)),
            "UpdateTimeToLive" => run(body, |request| db.update_time_to_live(request)),
            other => Err(DynoxideError::UnsupportedCapability(other.to_owned())),
        }
    }

    /// The answer to a query of an index, as it stands or stood a while ago; none for one of the table.
    fn indexed(&self, body: &[u8]) -> Option<Vec<u8>> {
        let lag_ms = if self.sim.has_faults() { self.sim.swarm.index_lag_ms } else { 0 };
        let behind_ms = if lag_ms > 0 { self.sim.dice.range(0..=lag_ms) } else { 0 };
        let now_ms = self.sim.time.elapsed_ms();
        let answer = locked(&self.past).query(now_ms.saturating_sub(behind_ms), body)?;
        if behind_ms > 0 {
            self.sim.count("index behind");
        }
        Some(answer)
    }

    /// The item of this key, as it is stored.
    fn stored(&self, key: &Value) -> Option<Value> {
        let request = json!({ "TableName": TABLE, "Key": key, "ConsistentRead": true });
        let answer = self.dispatch("GetItem", request.to_string().as_bytes()).ok()?;
        serde_json::from_slice::<Value>(&answer).ok()?.get_mut("Item").map(Value::take)
    }

    /// Enters what a write has written, and when each item of it can be seen: `tear_ms` later at most.
    fn enter(&self, operation: &str, body: &[u8], tear_ms: u64) {
        let Ok(request) = serde_json::from_slice::<Value>(body) else { return };
        let items = match operation {
            "PutItem" => vec![request["Item"].clone()],
            "UpdateItem" => self.stored(&request["Key"]).into_iter().collect(),
            _ => {
                let token = request["ClientRequestToken"].as_str().unwrap_or_default();
                if !locked(&self.done).insert(token.to_owned()) {
                    self.sim.count("transaction repeated");
                    return;
                }
                self.transacted(&request)
            }
        };
        let now_ms = self.sim.time.elapsed_ms();
        for item in &items {
            locked(&self.past).enter(now_ms, item);
            let Some(key) = torn::key(item) else { continue };
            let before = locked(&self.now).insert(key.clone(), item.clone());
            if tear_ms > 0 {
                locked(&self.torn).enter(key, before, now_ms + self.sim.dice.range(0..=tear_ms));
            }
        }
        self.books.wrote(&items);
    }

    /// An answer without what is being applied.
    fn torn(&self, body: &[u8], answer: Vec<u8>) -> Vec<u8> {
        let Ok(whole) = serde_json::from_slice::<Value>(&answer) else { return answer };
        let mut seen = whole.clone();
        locked(&self.torn).without(&serde_json::from_slice(body).unwrap_or_default(), &mut seen);
        if seen == whole {
            return answer;
        }
        self.sim.count("torn read");
        self.sim.say(format_args!("a read that sees a part of a transaction"));
        seen.to_string().into_bytes()
    }

    fn transacted(&self, request: &Value) -> Vec<Value> {
        let actions = request["TransactItems"].as_array().into_iter().flatten();
        let items = actions.filter_map(|action| {
            let (kind, named) = ACTIONS.iter().find(|(kind, _)| action.get(kind).is_some())?;
            let named = &action[kind][named];
            match *kind {
                "Put" => Some(named.clone()),
                "Update" => self.stored(named),
                _ => None,
            }
        });
        items.collect()
    }
}

fn run<Q: DeserializeOwned, A: Serialize>(
    body: &[u8],
    operation: impl FnOnce(Q) -> Result<A, DynoxideError>,
) -> Result<Vec<u8>, DynoxideError> {
    let request =
        serde_json::from_slice(body).map_err(|error| DynoxideError::ValidationException(error.to_string()))?;
    serde_json::to_vec(&operation(request)?).map_err(|error| DynoxideError::InternalServerError(error.to_string()))
}

impl Service for Table {
    fn answer(&self, operation: &str, body: &[u8], tear_ms: u64) -> (u16, Vec<u8>) {
        if operation == "Query"
            && let Some(answer) = self.indexed(body)
        {
            return (200, answer);
        }
        let reads = matches!(operation, "GetItem" | "Query" | "BatchGetItem");
        let writes = matches!(operation, "PutItem" | "UpdateItem" | "TransactWriteItems");
        if reads && !body.windows(CONSISTENT.len()).any(|window| window == CONSISTENT) {
            self.sim.accuse(format!("a read of the table that may be old: {operation}"));
        }
        let torn = !locked(&self.torn).is_over(self.sim.time.elapsed_ms());
        if torn && writes && locked(&self.torn).meets(operation, &serde_json::from_slice(body).unwrap_or_default()) {
            self.sim.count("conflict with what is being applied");
            actor::current().iter().for_each(|actor| actor.harm());
            return (400, self.conflict(operation, body).unwrap_or_default());
        }
        match self.dispatch(operation, body) {
            Ok(answer) if writes => {
                self.enter(operation, body, tear_ms);
                (200, answer)
            }
            Ok(answer) if torn && reads => (200, self.torn(body, answer)),
            Ok(answer) => (200, answer),
            Err(error) => (error.status_code(), error.to_json().into_bytes()),
        }
    }

    fn conflict(&self, operation: &str, body: &[u8]) -> Option<Vec<u8>> {
        match operation {
            "PutItem" | "UpdateItem" => {
                Some(json!({ "__type": "TransactionConflictException" }).to_string().into_bytes())
            }
            "TransactWriteItems" => {
                let request: Value = serde_json::from_slice(body).ok()?;
                let count = request["TransactItems"].as_array().map_or(0, Vec::len);
                let at = self.sim.dice.range(0..=(count as u64).saturating_sub(1)) as usize;
                let reasons: Vec<_> = (0..count)
                    .map(|place| json!({ "Code": if place == at { "TransactionConflict" } else { "None" } }))
                    .collect();
                let body = json!({ "__type": "TransactionCanceledException", "CancellationReasons": reasons });
                Some(body.to_string().into_bytes())
            }
            _ => None,
        }
    }

    fn throttled(&self) -> &'static str {
        self.sim.dice.pick(&["ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"])
    }
}
