//! A client of a whole API in memory.

use aws_lambda_events::apigw::{ApiGatewayProxyRequest, ApiGatewayProxyResponse};
use dormouse_api::{Function, identity::Identity};
use dormouse_domain::{Millis, Principal, RunId, message::ReplyBlock};
use dormouse_testkit::{World, agent, call, say};
use http::{HeaderMap, Method};
use serde_json::{Value, json};

pub(crate) const AGENT: &str = r#"
    models = ["scripted:x"]
    max_mode = "auto_edit"
    [[tools]]
    name = "deploy"
    http = { url = "http://tools/deploy" }
    [[tools]]
    name = "wipe"
    permission = "allow"
    http = { url = "http://tools/wipe" }
    [[tools]]
    builtin = "ask_user"
"#;

/// The answer to a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: i64,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn of(response: ApiGatewayProxyResponse) -> Self {
        let body = response.body.expect("every response has a body");
        let text = String::from_utf8(body.to_vec()).unwrap();
        Self { status: response.status_code, headers: response.headers, text }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The body, of an answer that must have this status.
    #[track_caller]
    pub(crate) fn expect(&self, status: i64) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json()
    }

    /// The document, of an answer that must be this problem.
    #[track_caller]
    pub(crate) fn expect_problem(&self, status: i64, kind: &str) -> Value {
        let document = self.expect(status);
        assert_eq!(document["type"], format!("urn:dormouse:problem:{kind}"));
        assert_eq!(document["status"], status);
        assert!(document["title"].is_string(), "{document}");
        assert!(!document["detail"].as_str().unwrap().is_empty(), "{document}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(self.header("cache-control"), Some("no-store"));
        document
    }
}

/// The event of this call by `user` of tenant `acme`, as API Gateway makes it.
pub(crate) fn event(user: &str, method: Method, url: &str, body: &str) -> ApiGatewayProxyRequest {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let parameters = query.split('&').filter_map(|pair| pair.split_once('='));
    let parameters: std::collections::HashMap<String, String> =
        parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let mut event = ApiGatewayProxyRequest::default();
    event.http_method = method;
    event.path = Some(path.to_owned());
    event.query_string_parameters = parameters.into();
    event.body = (!body.is_empty()).then(|| body.to_owned());
    event.request_context.authorizer.fields = Identity {
        principal: Principal { tenant: "acme".to_owned(), subject: user.to_owned() },
        groups: vec![],
        expires_at: Millis(4_000_000_000_000),
    }
    .fields();
    event
}

pub(crate) fn with_header(
    mut event: ApiGatewayProxyRequest,
    name: &'static str,
    value: &str,
) -> ApiGatewayProxyRequest {
    event.headers.insert(name, value.parse().unwrap());
    event
}

/// The API, with one agent, `ops`.
pub(crate) struct App {
    pub(crate) world: World,
}

impl App {
    pub(crate) fn new() -> Self {
        let world = World::default();
        world.agents.add(agent("ops", AGENT));
        Self { world }
    }

    /// Sends an event to the function that it is for, as a gateway does.
    pub(crate) async fn send(&self, event: ApiGatewayProxyRequest) -> Answer {
        let engine = &self.world.engine;
        let path = event.path.clone().unwrap_or_default();
        Answer::of(match dormouse_api::function_for(&event.http_method, &path) {
            Some(Function::Start) => dormouse_api::start(engine, event).await,
            Some(Function::Respond) => dormouse_api::respond(engine, event).await,
            Some(Function::Control) => dormouse_api::control(engine, event).await,
            Some(Function::Query) => dormouse_api::query(engine, event).await,
            None => dormouse_api::unrouted(),
        })
    }

    pub(crate) async fn get(&self, user: &str, url: &str) -> Answer {
        self.send(event(user, Method::GET, url, "")).await
    }

    pub(crate) async fn post(&self, user: &str, url: &str, body: Value) -> Answer {
        self.send(event(user, Method::POST, url, &body.to_string())).await
    }

    /// Starts a run of `user`'s and lets the model reply `replies` one after the other. The run's id.
    pub(crate) async fn run(&self, user: &str, replies: Vec<Vec<ReplyBlock>>) -> String {
        for reply in replies {
            self.world.models.reply(reply);
        }
        let started = self.post(user, "/v1/runs", json!({ "agent": "ops", "input": "go" })).await.expect(202);
        let run = started["run_id"].as_str().unwrap().to_owned();
        self.step(&run).await;
        run
    }

    pub(crate) async fn step(&self, run: &str) {
        let run: RunId = run.parse().unwrap();
        self.world.engine.step(&run, self.world.deadline()).await.unwrap();
    }

    /// A run of `user`'s that waits for approval of one `deploy`, and the request as it is shown.
    pub(crate) async fn waiting(&self, user: &str) -> (String, Value) {
        let run = self.run(user, vec![vec![call("c1", "deploy", r#"{"env":"test"}"#)]]).await;
        let view = self.get(user, &format!("/v1/runs/{run}")).await.expect(200);
        (run, view["requests"][0].clone())
    }

    /// A run of `user`'s that waits for an answer to a question with these arguments, and the request.
    pub(crate) async fn asking(&self, user: &str, arguments: Value) -> (String, Value) {
        let replies = vec![vec![call("q1", "ask_user", &arguments.to_string())], vec![say("thanks")]];
        let run = self.run(user, replies).await;
        let view = self.get(user, &format!("/v1/runs/{run}")).await.expect(200);
        (run, view["requests"][0].clone())
    }

    /// Puts an entry into the run's journal that no journal can have there.
    pub(crate) async fn corrupt(&self, run: &str) {
        use dormouse_engine::ports::Store;
        let run: RunId = run.parse().unwrap();
        let journal = self.world.memory.journal(&run);
        let index = u32::try_from(journal.len()).unwrap();
        let entry = dormouse_domain::Entry {
            index,
            entry_id: dormouse_domain::EntryId(format!("odd-{index}")),
            ..journal[0].clone()
        };
        self.world.memory.append(&run, &entry).await.unwrap();
    }
}

/// What approves `request` as it was shown.
pub(crate) fn approval(request: &Value) -> Value {
    json!({ "decision": "approve", "digest": request["digest"] })
}

/// Where `request` is answered.
pub(crate) fn respond_url(request: &Value) -> String {
    format!("/v1/requests/{}/respond", request["request_id"].as_str().unwrap())
}
