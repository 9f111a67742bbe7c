//! External completion: `POST /v1/completions/{token}`. The token, which the tool was given with the call, is the
//! credential; it is not logged.

use dormouse_domain::message::Content;
use dormouse_engine::{Engine, MAX_COMPLETION_BYTES};
use serde::Deserialize;

use crate::{
    body,
    call::Visit,
    problem::{Kind, Problem, Reply},
    view,
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CompletionBody {
    content: Said,
    #[serde(default)]
    is_error: bool,
}

/// What the call is said to have done: a text, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "it must be a text, or a list of {\"type\": \"text\", \"text\": …}")]
enum Said {
    Text(String),
    Blocks(Vec<Block>),
}

/// As content is stored. Images come from tools alone, which look at their bytes.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Block {
    Text { text: String },
}

pub(crate) async fn handle(engine: &Engine, visit: &Visit<'_>) -> Result<Reply, Problem> {
    let body: CompletionBody = body::parse(&visit.body)?;
    let content = match body.content {
        Said::Text(text) => vec![Content::text(text)],
        Said::Blocks(blocks) => blocks.into_iter().map(|Block::Text { text }| Content::Text { text }).collect(),
    };
    let completed = engine.complete(visit.token, content, body.is_error, visit.key.as_ref()).await;
    let completed = completed.map_err(|problem| {
        let problem = Problem::from(problem);
        if problem.kind() == Kind::TooLarge { problem.member("max_bytes", MAX_COMPLETION_BYTES) } else { problem }
    });
    Ok(Reply::ok(&view::completed(&completed?)))
}
