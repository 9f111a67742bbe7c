//! A client of the HTTP interface, as thin as one can be.

use std::net::SocketAddr;

use reqwest::{
    Method, RequestBuilder,
    header::{CONTENT_TYPE, HeaderMap},
};
use serde_json::{Value, json};

use crate::wait::eventually;

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, `null` if it is no JSON.
    pub body: Value,
}

impl Answer {
    /// The body of an answer that has this status.
    ///
    /// # Panics
    /// If it has another.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }

    /// The body of a problem document of this kind.
    ///
    /// # Panics
    /// If it is anything else, or not whole.
    #[track_caller]
    pub fn problem(self, status: u16, kind: &str) -> Value {
        let media_type = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        assert_eq!(media_type, "application/problem+json", "{} {}", self.status, self.body);
        let (told, detail) = (&self.body["type"], &self.body["detail"]);
        assert!(told.as_str().is_some_and(|told| told.ends_with(&format!(":{kind}"))), "not {kind}: {}", self.body);
        assert!(detail.as_str().is_some_and(|detail| !detail.trim().is_empty()), "no detail: {}", self.body);
        assert!(self.body["title"].is_string(), "no title: {}", self.body);
        assert_eq!((self.status, &self.body["status"]), (status, &json!(status)), "{}", self.body);
        self.body
    }
}

/// Somebody who talks to a stack.
#[derive(Debug, Clone)]
pub struct Api {
    http: reqwest::Client,
    base: String,
    user: String,
}

impl Api {
    /// A client of the stack at `address`, as `shop/ann`.
    pub fn new(address: SocketAddr) -> Self {
        // It speaks plain HTTP: reading the system's certificates would take longer than a start.
        let builder = reqwest::Client::builder().http1_only().no_proxy().tls_certs_only([]);
        let http = builder.build().expect("an HTTP client");
        Self { http, base: format!("http://{address}"), user: "shop/ann".to_owned() }
    }

    /// The same client as somebody else, `<tenant>/<user>`.
    #[must_use]
    pub fn by(&self, user: &str) -> Self {
        Self { user: user.to_owned(), ..self.clone() }
    }

    /// A request, to be sent by [`send`](Self::send).
    pub fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        self.http.request(method, format!("{}{path}", self.base)).header("x-dev-user", &self.user)
    }

    /// Sends a request; an error if the connection fails.
    ///
    /// # Errors
    /// If no whole answer comes.
    pub async fn try_send(request: RequestBuilder) -> reqwest::Result<Answer> {
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response.bytes().await?;
        Ok(Answer { status, headers, body: serde_json::from_slice(&body).unwrap_or_default() })
    }

    /// Sends a request.
    ///
    /// # Panics
    /// If no whole answer comes.
    pub async fn send(request: RequestBuilder) -> Answer {
        Self::try_send(request).await.expect("an answer")
    }

    /// `GET path`.
    pub async fn get(&self, path: &str) -> Answer {
        Self::send(self.request("GET", path)).await
    }

    /// `POST path` with this body.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        Self::send(self.request("POST", path).body(body.to_string())).await
    }

    /// `POST path` with this body and this `Idempotency-Key`.
    pub async fn post_with_key(&self, path: &str, key: &str, body: &Value) -> Answer {
        Self::send(self.request("POST", path).header("idempotency-key", key).body(body.to_string())).await
    }

    /// Starts a run of `agent`; returns its name.
    pub async fn start(&self, agent: &str, input: &str) -> String {
        let started = self.post("/v1/runs", &json!({"agent": agent, "input": input})).await.expect(202);
        started["run_id"].as_str().expect("a run's name").to_owned()
    }

    /// The run.
    pub async fn run(&self, run: &str) -> Value {
        self.get(&format!("/v1/runs/{run}")).await.expect(200)
    }

    /// The run, as soon as it has this status.
    pub async fn run_that_is(&self, run: &str, status: &str) -> Value {
        self.run_when(run, status, |view| view["status"] == status).await
    }

    /// The run, as soon as `is` says so; `what` names it in a failure.
    pub async fn run_when(&self, run: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let what = format!("the run {run} that is {what}");
        let found = eventually(&what, async || {
            last = self.run(run).await;
            is(&last).then(|| last.clone())
        });
        found.await
    }

    /// The one request that `run` waits for, as soon as it does.
    pub async fn request_of(&self, run: &str) -> Value {
        let view = self.run_that_is(run, "waiting").await;
        let requests = view["requests"].as_array().expect("a list of requests");
        assert_eq!(requests.len(), 1, "{view}");
        requests[0].clone()
    }

    /// The whole journal of `run`, page by page.
    pub async fn journal(&self, run: &str) -> Vec<Value> {
        let (mut entries, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.get(&format!("/v1/runs/{run}/journal?limit=200{cursor}")).await.expect(200);
            entries.extend(page["items"].as_array().expect("a list of entries").iter().cloned());
            let Some(next) = page["next_cursor"].as_str() else { return entries };
            cursor = format!("&cursor={next}");
        }
    }

    /// The recording of `run`, page by page.
    pub async fn recording(&self, run: &str) -> String {
        let (mut recording, mut query) = (String::new(), String::new());
        loop {
            let request = self.request("GET", &format!("/v1/runs/{run}/export{query}"));
            let response = request.send().await.expect("an answer");
            assert_eq!(response.status(), 200);
            let link = response.headers().get("link").map(|link| link.to_str().expect("text").to_owned());
            recording.push_str(&response.text().await.expect("a whole answer"));
            let Some(link) = link else { return recording };
            let next = link.strip_prefix('<').and_then(|link| link.strip_suffix(">; rel=\"next\""));
            query = next.expect("a link to the rest").to_owned();
        }
    }

    /// The entries of `run` of one kind.
    pub async fn entries(&self, run: &str, kind: &str) -> Vec<Value> {
        let mut entries = self.journal(run).await;
        entries.retain(|entry| entry["kind"] == kind);
        entries
    }

    /// Answers `request`.
    pub async fn respond(&self, request: &Value, body: &Value) -> Answer {
        self.post(&respond_path(request), body).await
    }

    /// Approves `request`, as it was shown.
    pub async fn approve(&self, request: &Value) -> Value {
        let body = json!({"decision": "approve", "digest": request["digest"]});
        self.respond(request, &body).await.expect(200)
    }
}

/// Where `request` is answered.
fn respond_path(request: &Value) -> String {
    format!("/v1/requests/{}/respond", request["request_id"].as_str().expect("a request's name"))
}
