//! The world that a script is played to.

use std::collections::{BTreeSet, HashMap};

use aws_lambda_events::apigw::{ApiGatewayProxyRequest, ApiGatewayProxyResponse};
use dormouse_api::{
    Function,
    identity::{GROUPS, Identity},
};
use dormouse_domain::{Caller, Definition, Millis, Principal, RunId, entry::CallResult};
use dormouse_testkit::{World, call};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::Value;

use super::script::Sent;

/// The tool whose calls another system completes.
const LATER: &str = "build";

/// What the model says in the runs that wait, a call each.
const CALLS: [(&str, &str); 4] = [
    ("deploy", r#"{"env":"staging-1","token":"hunter2"}"#),
    (
        "ask_user",
        r#"{"question":"Which?","options":[{"value":"a"},{"value":false,"cancels":true}],"allow_free_text":true}"#,
    ),
    (LATER, "{}"),
    ("release", r#"{"version":"1.2.3"}"#),
];

/// A world in which runs wait, and what names there are for what is in it.
pub(super) struct Scene {
    pub(super) world: World,
    names: Vec<(String, String)>,
    /// The run that was named last in an answer.
    newest: String,
    runs: BTreeSet<RunId>,
}

/// An answer.
pub(super) struct Answer {
    pub(super) status: i64,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

impl Scene {
    /// `$R0` to `$R3` are the runs of `ann`, `$Q…` their requests, `$D…` the digests of these; `$L0` and `$L1` are links
    /// to the first two, `$C` completes the third call, and `$N` is the run that was named last. A run that `script` does not
    /// speak of is left out: to make one takes longer than most of what is done to it.
    pub(super) async fn new(script: &str) -> Self {
        let world = World::default();
        world.tools.on(LATER, |_| CallResult::Later {});
        let mut scene = Self { world, names: Vec::new(), newest: String::new(), runs: BTreeSet::new() };
        for (number, (tool, arguments)) in CALLS.into_iter().enumerate() {
            let spoken_of = |kind| script.contains(&format!("${kind}{number}"));
            let completed = tool == LATER && script.contains("$C");
            if !completed && !["R", "Q", "D", "L"].into_iter().any(spoken_of) {
                continue;
            }
            let World { engine, models, .. } = &scene.world;
            models.reply(vec![call("c1", tool, arguments)]);
            let run = scene.world.start(Definition::clone(&crate::agent())).await;
            let by = Caller { groups: BTreeSet::from(["release".to_owned()]), ..World::user("ann") };
            engine.step(&run, scene.world.deadline()).await.expect("nothing fails in this world");
            let requests = scene.world.pending(&run).await;
            let request = requests.first().expect("each of these calls asks somebody");
            scene.names.push((format!("$R{number}"), run.to_string()));
            scene.names.push((format!("$Q{number}"), request.id.to_string()));
            scene.names.push((format!("$D{number}"), request.digest.to_string()));
            if let Ok(made) = engine.make_link(&by, &request.id, None, None).await {
                scene.names.push((format!("$L{number}"), made.token));
            }
            scene.runs.insert(run);
        }
        let handover = scene.world.tools.calls().into_iter().find_map(|made| made.handover);
        scene.names.extend(handover.map(|handover| ("$C".to_owned(), handover.token)));
        scene.world.queue.take();
        scene
    }

    /// `text` with each name replaced by what it stands for.
    pub(super) fn named(&self, text: &str) -> String {
        let named = |text: String, (name, meaning): (&str, &str)| text.replace(name, meaning);
        let names = self.names.iter().map(|(name, meaning)| (name.as_str(), meaning.as_str()));
        names.chain([("$N", self.newest.as_str())]).fold(text.to_owned(), named)
    }

    /// All runs that anybody was told of.
    pub(super) fn runs(&self) -> BTreeSet<RunId> {
        self.runs.clone()
    }

    /// Drives every run that was woken since the last time.
    pub(super) async fn step(&self) {
        for (run, _) in self.world.queue.take() {
            let stepped = self.world.engine.step(&run, self.world.deadline()).await;
            assert!(stepped.is_ok(), "{stepped:?}");
        }
    }

    /// Sends a request to the function that it is for, as a gateway does. None if no gateway would take it.
    pub(super) async fn send(&mut self, sent: &Sent<'_>) -> Option<Answer> {
        let event = event(sent)?;
        let engine = &self.world.engine;
        let path = event.path.clone().unwrap_or_default();
        let answer = Answer::of(match dormouse_api::function_for(&event.http_method, &path) {
            Some(Function::Start) => dormouse_api::start(engine, event).await,
            Some(Function::Respond) => dormouse_api::respond(engine, event).await,
            Some(Function::Control) => dormouse_api::control(engine, event).await,
            Some(Function::Query) => dormouse_api::query(engine, event).await,
            None => dormouse_api::unrouted(),
        });
        let document: Value = serde_json::from_str(&answer.text).unwrap_or_default();
        if let Some(run) = document["run_id"].as_str().and_then(|run| run.parse::<RunId>().ok()) {
            self.newest = run.to_string();
            self.runs.insert(run);
        }
        Some(answer)
    }
}

impl Answer {
    fn of(response: ApiGatewayProxyResponse) -> Self {
        let body = response.body.map(|body| body.to_vec()).unwrap_or_default();
        let text = String::from_utf8(body).expect("every answer is text");
        Self { status: response.status_code, headers: response.headers, text }
    }
}

/// The event that API Gateway makes of a request.
fn event(sent: &Sent<'_>) -> Option<ApiGatewayProxyRequest> {
    let (path, query) = sent.target.split_once('?').unwrap_or((sent.target, ""));
    let parameters = query.split('&').filter_map(|pair| pair.split_once('='));
    let parameters: HashMap<_, _> = parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let mut event = ApiGatewayProxyRequest::default();
    event.http_method = Method::from_bytes(sent.method.as_bytes()).ok()?;
    event.path = Some(path.to_owned());
    event.query_string_parameters = parameters.into();
    event.body = (!sent.body.is_empty()).then(|| sent.body.to_owned());
    event.is_base64_encoded = sent.header("encoding") == Some("base64");
    for (name, value) in &sent.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
            event.headers.insert(name, value);
        }
    }
    let subject = sent.header("as").unwrap_or("ann").to_owned();
    let mut fields = Identity {
        principal: Principal { tenant: "acme".to_owned(), subject },
        groups: Vec::new(),
        expires_at: Millis(4_000_000_000_000),
    }
    .fields();
    if let Some(groups) = sent.header("groups") {
        fields.insert(GROUPS.to_owned(), groups.into());
    }
    event.request_context.authorizer.fields = fields;
    Some(event)
}
