//! A person who answers whatever waits, through whichever process serves, and keeps what they were
//! told.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use dormouse_domain::{
    Fact,
    decide::{Decision, Resolution},
};
use dormouse_e2e::{Answer, Api};
use serde_json::{Value, json};
use tokio::{sync::watch, time::sleep};

use super::world::{WAIT, World};

/// Between two looks at the inbox.
const PAUSE: Duration = Duration::from_millis(50);

/// A decision, by the name of its request.
type Decisions = BTreeMap<String, Value>;

pub(super) struct Person {
    world: Arc<World>,
    /// What they decided; of one whose answer never came they say the same again.
    said: Decisions,
    /// Requests that they leave for a while.
    later: BTreeMap<String, Instant>,
    /// What they were told that stands.
    stands: Decisions,
    /// Answers that never came.
    unanswered: u32,
}

impl Person {
    pub(super) fn new(world: Arc<World>) -> Self {
        Self { world, said: Decisions::new(), later: BTreeMap::new(), stands: Decisions::new(), unanswered: 0 }
    }

    /// Answers whatever waits, for ever.
    pub(super) async fn answers(&mut self, serving: watch::Receiver<Option<Api>>) {
        loop {
            let api = serving.borrow().clone();
            if let Some(api) = api {
                // A connection that breaks is what this is about.
                let _broken = self.look(&api).await;
            }
            sleep(PAUSE).await;
        }
    }

    async fn look(&mut self, api: &Api) -> reqwest::Result<()> {
        let inbox = Api::try_send(api.request("GET", "/v1/requests?limit=100")).await?;
        let inbox = inbox.expect(200);
        for request in inbox["items"].as_array().unwrap() {
            self.answer(api, request).await?;
        }
        // What was said and never confirmed may stand all the same: it is said again under its key.
        let open: Vec<_> = self.said.keys().filter(|id| !self.stands.contains_key(*id)).cloned().collect();
        for id in open {
            self.say(api, &id).await?;
        }
        Ok(())
    }

    async fn answer(&mut self, api: &Api, request: &Value) -> reqwest::Result<()> {
        let id = request["request_id"].as_str().unwrap().to_owned();
        assert!(!self.stands.contains_key(&id), "what is decided is on offer again: {request}");
        let world = &self.world;
        let delay = || if world.below(4) == 0 { 2 * WAIT } else { Duration::ZERO };
        if Instant::now() < *self.later.entry(id.clone()).or_insert_with(|| Instant::now() + delay()) {
            return Ok(());
        }
        if !self.said.contains_key(&id) {
            let decision = self.decide(request);
            self.said.insert(id.clone(), decision);
        }
        self.say(api, &id).await
    }

    async fn say(&mut self, api: &Api, id: &str) -> reqwest::Result<()> {
        let body = self.said[id].to_string();
        let request = api.request("POST", &format!("/v1/requests/{id}/respond"));
        let answer = Api::try_send(request.header("idempotency-key", id).body(body)).await;
        let Answer { status, body, .. } = answer.inspect_err(|_| self.unanswered += 1)?;
        match status {
            200 => {
                self.stands.insert(id.to_owned(), body["decision"].clone());
            }
            503 => {}
            other => panic!("{id} was answered with {other}: {body}"),
        }
        Ok(())
    }

    /// An uncertain call is settled by what the tool saw of it, mostly.
    fn decide(&self, request: &Value) -> Value {
        let luck = self.world.below(8);
        match request["kind"].as_str().unwrap() {
            "question" => json!({"decision": "answer", "answer": "yes"}),
            "approval" if luck == 0 => json!({"decision": "deny", "reason": "not today"}),
            "approval" => json!({"decision": "approve", "digest": request["digest"]}),
            "uncertain" => {
                let key = format!("{}.{}", request["run_id"].as_str().unwrap(), request["call"].as_str().unwrap());
                let resolution = match (self.world.saw(&key), luck) {
                    (_, 0) => json!("abort"),
                    (true, 1..5) => json!({"result": "the tool saw it"}),
                    // It never arrived, or they accept that it runs twice.
                    (true, _) | (false, _) => json!("retry"),
                };
                json!({"decision": "settle", "resolution": resolution, "digest": request["digest"]})
            }
            other => panic!("a request of kind {other}"),
        }
    }

    /// Each decision that was answered with 200 stands in its journal, once, as it was answered; and
    /// none stands there that was never made.
    pub(super) fn check(&self, journals: &BTreeMap<String, Vec<Fact>>) {
        let mut kinds: BTreeMap<String, u32> = BTreeMap::new();
        let mut stored = Decisions::new();
        for (run, facts) in journals {
            for fact in facts {
                let Fact::RequestDecided { request, decision, .. } = fact else { continue };
                let decision = serde_json::to_value(decision).unwrap();
                *kinds
                    .entry(decision["resolution"].as_str().unwrap_or(decision["decision"].as_str().unwrap()).to_owned())
                    .or_default() += 1;
                let earlier = stored.insert(format!("{run}.{request}"), decision);
                assert!(earlier.is_none(), "{request} of {run} is decided twice");
            }
        }
        for (id, stands) in &self.stands {
            let decision = stored.get(id).unwrap_or_else(|| panic!("the decision on {id} is lost: {stands}"));
            for (field, value) in decision.as_object().unwrap() {
                assert_eq!(&stands[field], value, "the decision on {id} was changed: {stands}");
            }
        }
        for (id, decision) in &stored {
            assert_eq!(self.said[id]["decision"], decision["decision"], "nobody decided {id} like this");
        }
        println!("{} decisions stand, {} answers never came: {kinds:?}", self.stands.len(), self.unanswered);
    }
}

/// How often a person said of each call, by its key, that it may run once more.
pub(super) fn retries(journals: &BTreeMap<String, Vec<Fact>>) -> BTreeMap<String, u32> {
    let mut retries = BTreeMap::new();
    for (run, facts) in journals {
        let mut asked = BTreeMap::new();
        for (index, fact) in (0_u32..).zip(facts) {
            if let Fact::Suspended { requests, .. } = fact {
                let calls = (0_u32..).zip(requests).filter_map(|(i, opened)| Some(((index, i), opened.call?)));
                asked.extend(calls);
            }
            if let Fact::RequestDecided {
                request, decision: Decision::Settle { resolution: Resolution::Retry }, ..
            } = fact
            {
                *retries.entry(format!("{run}.{}", asked[&(request.entry, request.ordinal)])).or_default() += 1;
            }
        }
    }
    retries
}
