//! Conversations and a provider for tests.

use std::{
    borrow::Cow,
    fmt::Debug,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    body::Bytes,
    http::{HeaderMap, StatusCode, Uri},
    response::IntoResponse,
};
use dormouse_domain::{
    agent::{Target, ToolDef, ToolKind},
    message::{Content, ModelRef, ReplyBlock},
    transcript::{AssistantBlock, Message, Prompt, UserBlock},
};
use proptest::prelude::*;
use serde_json::json;
use tracing::{
    Event, Metadata, Subscriber,
    field::Field,
    span::{Attributes, Id, Record},
};

/// B11: what `build` leaves out of the replies of the model `from` is said in the log: whose it was, and how much.
pub(crate) fn says_what_is_left_out(from: &str, build: impl FnOnce(&Talk)) {
    let thought = ReplyBlock::Reasoning { raw: r#"{"type":"thinking"}"#.to_owned() };
    let talk = Talk::new("", &[], vec![Turn::new("x", from, vec![thought.clone(), text("said"), thought])]);
    let lines = Arc::new(Mutex::new(Vec::new()));
    tracing::subscriber::with_default(Log(Arc::clone(&lines)), || build(&talk));
    let said = lines.lock().unwrap();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(["left out", from, "blocks: 2"].iter().all(|told| said[0].contains(told)), "{said:?}");
}

/// A log for a test to read.
struct Log(Arc<Mutex<Vec<String>>>);

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Vec::new();
        event.record(&mut |field: &Field, value: &dyn Debug| line.push(format!("{field}: {value:?}")));
        self.0.lock().unwrap().push(line.join(", "));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

pub(crate) fn model(name: &str) -> ModelRef {
    name.parse().unwrap()
}

pub(crate) fn tool(name: &str) -> ToolDef {
    ToolDef {
        name: name.to_owned(),
        description: "Reads.".to_owned(),
        kind: ToolKind::Read,
        permission: None,
        replay: dormouse_domain::agent::Replay::Safe,
        reuse_result: false,
        secret: vec![],
        always: std::collections::BTreeMap::new(),
        timeout_ms: 1,
        input_schema: json!({"type": "object", "properties": {"z": {}, "a": {}}}),
        arguments: std::collections::BTreeMap::new(),
        target: Target::Http { url: "http://localhost".to_owned() },
        later: false,
        approvers: None,
    }
}

pub(crate) fn text(text: &str) -> ReplyBlock {
    ReplyBlock::Text { text: text.to_owned(), raw: None }
}

pub(crate) fn call(id: &str, name: &str, arguments: &str) -> ReplyBlock {
    ReplyBlock::ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned(), raw: None }
}

pub(crate) fn image(media_type: &str) -> Content {
    Content::Image { media_type: media_type.to_owned(), data: "AAEC".to_owned() }
}

/// What people said, then a reply, then the results of its calls.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    pub(crate) said: Vec<Content>,
    pub(crate) from: ModelRef,
    pub(crate) blocks: Vec<ReplyBlock>,
    /// Content and `is_error`, one for each call.
    pub(crate) results: Vec<(Vec<Content>, bool)>,
}

impl Turn {
    pub(crate) fn new(said: &str, from: &str, blocks: Vec<ReplyBlock>) -> Self {
        Self { said: vec![Content::text(said)], from: model(from), blocks, results: Vec::new() }
    }

    pub(crate) fn with_results(mut self, results: Vec<(Vec<Content>, bool)>) -> Self {
        self.results = results;
        self
    }
}

/// A conversation that prompts borrow from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Talk {
    pub(crate) system: String,
    pub(crate) tools: Vec<ToolDef>,
    pub(crate) turns: Vec<Turn>,
    ids: Vec<String>,
}

impl Talk {
    /// This conversation; calls without an id, as the transcript does, get one.
    pub(crate) fn new(system: &str, tools: &[&str], turns: Vec<Turn>) -> Self {
        let mut ids = Vec::new();
        for block in turns.iter().flat_map(|turn| &turn.blocks) {
            if let ReplyBlock::ToolCall { id, .. } = block {
                ids.push(if id.is_empty() { format!("call_{}", ids.len()) } else { id.clone() });
            }
        }
        Self { system: system.to_owned(), tools: tools.iter().map(|name| tool(name)).collect(), turns, ids }
    }

    /// The prompt after `turns` turns and `said` more things said.
    pub(crate) fn prompt(&self, turns: usize, said: usize) -> Prompt<'_> {
        let mut ids = self.ids.iter();
        let mut messages = Vec::new();
        let mut user: Vec<UserBlock<'_>> = Vec::new();
        for turn in &self.turns[..turns] {
            user.extend(turn.said.iter().map(UserBlock::Said));
            messages.push(Message::User(std::mem::take(&mut user)));
            let mut results = turn.results.iter();
            let mut blocks = Vec::new();
            for block in &turn.blocks {
                if matches!(block, ReplyBlock::ToolCall { .. }) {
                    let id = ids.next().unwrap();
                    blocks.push(AssistantBlock::Call { id, block });
                    let (content, is_error) = results.next().unwrap();
                    let content = content.iter().map(Cow::Borrowed).collect();
                    user.push(UserBlock::Result { id, content, is_error: *is_error });
                } else {
                    blocks.push(AssistantBlock::Plain(block));
                }
            }
            messages.push(Message::Assistant { model: &turn.from, blocks });
        }
        if let Some(turn) = self.turns.get(turns) {
            user.extend(turn.said.iter().take(said).map(UserBlock::Said));
        }
        if !user.is_empty() {
            messages.push(Message::User(user));
        }
        Prompt { system: &self.system, tools: &self.tools, messages }
    }

    pub(crate) fn whole(&self) -> Prompt<'_> {
        self.prompt(self.turns.len(), 0)
    }
}

fn any_content() -> impl Strategy<Value = Content> {
    prop_oneof![
        4 => "[a-zé😀\"\\\\\n ]{0,8}x".prop_map(Content::text),
        1 => prop_oneof![Just("image/png"), Just("image/svg+xml")].prop_map(image),
    ]
}

fn any_block(raw: &'static [&'static str]) -> impl Strategy<Value = ReplyBlock> {
    let arguments = prop_oneof![
        Just(""),
        Just("{}"),
        Just(r#"{"a": 1.0, "b":12345678901234567890}"#),
        Just(r#"{"a": "cut"#),
        Just("[1]"),
        Just(r#"{"a":"\ud92c"}"#),
    ];
    prop_oneof![
        3 => "[a-zé\n ]{0,8}x".prop_map(|said| text(&said)),
        3 => (prop_oneof![Just("read"), Just("no such tool")], arguments).prop_map(|(name, args)| call("", name, args)),
        2 => proptest::sample::select(raw).prop_map(|raw| ReplyBlock::Reasoning { raw: raw.to_owned() }),
        1 => proptest::sample::select(raw).prop_map(|raw| ReplyBlock::Opaque { raw: raw.to_owned() }),
    ]
}

fn any_turn(raw: &'static [&'static str]) -> impl Strategy<Value = Turn> {
    let said = proptest::collection::vec(any_content(), 1..3);
    let from = prop_oneof![
        Just("anthropic:one"),
        Just("anthropic:two"),
        Just("openai:one"),
        Just("openai:two"),
        Just("scripted:one"),
    ];
    let blocks = proptest::collection::vec(any_block(raw), 1..5);
    (said, from, blocks).prop_flat_map(|(said, from, blocks)| {
        let calls = blocks.iter().filter(|block| matches!(block, ReplyBlock::ToolCall { .. })).count();
        let result = (proptest::collection::vec(any_content(), 1..3), any::<bool>());
        proptest::collection::vec(result, calls).prop_map(move |results| Turn {
            said: said.clone(),
            from: model(from),
            blocks: blocks.clone(),
            results,
        })
    })
}

/// Any conversation, and how far an earlier prompt of it reached. `raw` are texts of blocks as the
/// adapter that is tested stores them.
pub(crate) fn any_talk(raw: &'static [&'static str]) -> impl Strategy<Value = (Talk, usize, usize)> {
    let turns = proptest::collection::vec(any_turn(raw), 1..6);
    (prop_oneof![Just(""), Just("Be kind.")], turns, any::<prop::sample::Index>(), 1..3_usize).prop_map(
        |(system, turns, cut, said)| {
            let cut = cut.index(turns.len());
            (Talk::new(system, &["read", "write"], turns), cut, said)
        },
    )
}

/// What a provider was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

/// What a provider answers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) after: Duration,
}

impl Answer {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, body: body.into(), ..Self::default() }
    }
}

/// A provider on a port of its own, which always answers the same.
pub(crate) async fn provider(answer: Answer) -> (String, Arc<Mutex<Vec<Asked>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let app = axum::Router::new().fallback(move |uri: Uri, headers: HeaderMap, body: Bytes| async move {
        let body = String::from_utf8(body.to_vec()).unwrap();
        log.lock().unwrap().push(Asked { path: uri.path().to_owned(), headers, body });
        tokio::time::sleep(answer.after).await;
        let mut headers = HeaderMap::new();
        for (name, value) in answer.headers {
            headers.insert(name, value.parse().unwrap());
        }
        (StatusCode::from_u16(answer.status).unwrap(), headers, answer.body).into_response()
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (base, asked)
}
