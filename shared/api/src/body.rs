//! What clients send. A field that is not known is refused by name: a typo, or a claim that has no
//! place here such as a history with "approved" in it (case 6), is never dropped silently.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use dormouse_domain::{
    Mode,
    budget::{Amounts, MAX_DOLLARS, MAX_WALL_MS},
    decide::{Answer, Resolution},
    json,
    message::Content,
    price::Cost,
    request::{DecisionKind, RuleScope},
};
use dormouse_engine::{ForkRun, StartRun};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::problem::{Kind, Problem};

/// The most tokens that a ceiling can be raised by at once.
const MAX_RAISE_TOKENS: u64 = 1_000_000_000_000;
const MAX_LABELS: usize = 32;
const MAX_LABEL_NAME_BYTES: usize = 64;
const MAX_LABEL_BYTES: usize = 512;

/// The body as a `T`. No body at all is an empty object.
pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let text = body.trim_ascii();
    let text = if text.is_empty() { b"{}" } else { text };
    if text[0] != b'{' {
        return Err(invalid("the body must be a JSON object"));
    }
    let mut parser = serde_json::Deserializer::from_slice(text);
    let value = serde_path_to_error::deserialize(&mut parser).map_err(|error| {
        let path = error.path().to_string();
        fault(text, error.inner(), if path == "." { "" } else { json::cut(&path, 200) })
    })?;
    parser.end().map_err(|error| fault(text, &error, ""))?;
    Ok(value)
}

/// What is wrong with `text`, in `field` if that is not empty.
fn fault(text: &[u8], error: &serde_json::Error, field: &str) -> Problem {
    let mut detail = if field.is_empty() { error.to_string() } else { format!("`{field}`: {error}") };
    // serde_json's own words for a lone surrogate do not speak of one.
    let lone_surrogate =
        || std::str::from_utf8(text).is_ok_and(|text| matches!(json::well_formed(text), Cow::Owned(_)));
    if error.is_syntax() && lone_surrogate() {
        detail.push_str("; the text must be well-formed Unicode, where \\u surrogates come in pairs");
    }
    let problem = invalid(detail).member("line", error.line()).member("column", error.column());
    if field.is_empty() { problem } else { problem.member("field", field) }
}

fn invalid(detail: impl Into<String>) -> Problem {
    Problem::new(Kind::InvalidBody, detail)
}

/// `POST /v1/runs`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartBody {
    agent: String,
    /// A string only; lists of content are a later addition.
    input: String,
    #[serde(default)]
    mode: Option<Mode>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

impl StartBody {
    pub(crate) fn checked(self) -> Result<StartRun, Problem> {
        if self.input.trim().is_empty() {
            return Err(invalid("`input` is blank; say what the agent is to do").member("field", "input"));
        }
        check_metadata(&self.metadata)?;
        let input = vec![Content::text(self.input)];
        Ok(StartRun { agent: self.agent, input, mode: self.mode, metadata: self.metadata })
    }
}

/// `POST /v1/runs/{id}/fork`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkBody {
    at: u32,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    mode: Option<Mode>,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
}

impl ForkBody {
    pub(crate) fn checked(self) -> Result<ForkRun, Problem> {
        if self.message.as_ref().is_some_and(|message| message.trim().is_empty()) {
            return Err(invalid("`message` is blank; leave it out, or say something").member("field", "message"));
        }
        self.metadata.as_ref().map_or(Ok(()), check_metadata)?;
        let message = self.message.map(|text| vec![Content::text(text)]);
        Ok(ForkRun { at: self.at, message, mode: self.mode, metadata: self.metadata })
    }
}

fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), Problem> {
    let fits = |(name, value): (&String, &String)| {
        (1..=MAX_LABEL_NAME_BYTES).contains(&name.len()) && value.len() <= MAX_LABEL_BYTES
    };
    if metadata.len() <= MAX_LABELS && metadata.iter().all(fits) {
        return Ok(());
    }
    let limits = format!(
        "`metadata` takes at most {MAX_LABELS} entries, with names of 1 to {MAX_LABEL_NAME_BYTES} bytes and values of at \
         most {MAX_LABEL_BYTES} bytes"
    );
    Err(invalid(limits).member("field", "metadata"))
}

/// `POST /v1/runs/{id}/messages`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageBody {
    pub(crate) text: String,
}

/// `POST /v1/runs/{id}/cancel`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelBody {
    #[serde(default)]
    pub(crate) reason: Option<String>,
}

/// `PUT /v1/runs/{id}/mode`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModeBody {
    pub(crate) mode: Mode,
}

/// `POST /v1/runs/{id}/pause` and `resume`: nothing to say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoBody {}

/// `POST …/respond`. What each decision takes is checked against the stored request by
/// [`decide::check`](dormouse_domain::decide::check), not here.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RespondBody {
    #[serde(default)]
    decision: Option<DecisionKind>,
    #[serde(default)]
    digest: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    /// `false`, `0` and `""` are answers (case 23); only `null` is none.
    #[serde(default)]
    answer: Option<Value>,
    #[serde(default)]
    resolution: Option<Resolution>,
    #[serde(default)]
    arguments: Option<Value>,
    #[serde(default)]
    scope: Option<RuleScope>,
    #[serde(default)]
    pattern: Option<String>,
    #[serde(default)]
    by: Option<RaiseBody>,
}

/// How much more a run may use: `{turns?, tokens?, cost_usd?, wall_s?}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object {turns?, tokens?, cost_usd?, wall_s?}")]
struct RaiseBody {
    #[serde(default)]
    turns: u32,
    #[serde(default)]
    tokens: u64,
    #[serde(default)]
    cost_usd: f64,
    #[serde(default)]
    wall_s: f64,
}

impl RaiseBody {
    fn amounts(&self) -> Result<Amounts, Problem> {
        if self.tokens > MAX_RAISE_TOKENS {
            let detail = format!("`by.tokens` must be at most {MAX_RAISE_TOKENS}");
            return Err(Problem::new(Kind::InvalidAnswer, detail));
        }
        let most_wall_s = Duration::from_millis(MAX_WALL_MS).as_secs_f64();
        for (name, given, most) in [("cost_usd", self.cost_usd, MAX_DOLLARS), ("wall_s", self.wall_s, most_wall_s)] {
            if !(0.0..=most).contains(&given) {
                let detail = format!("`by.{name}` must be a number from 0 to {most}");
                return Err(Problem::new(Kind::InvalidAnswer, detail));
            }
        }
        let wall = Duration::from_secs_f64(self.wall_s);
        Ok(Amounts {
            turns: self.turns,
            tokens: self.tokens,
            cost: Cost::of_dollars(self.cost_usd),
            wall_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX),
        })
    }
}

impl RespondBody {
    /// The answer to a request that is named.
    pub(crate) fn for_request(self) -> Result<Answer, Problem> {
        let Some(decision) = self.decision else {
            let detail = "`decision` is missing; the request's `decisions` says which are on offer";
            return Err(invalid(detail).member("field", "decision"));
        };
        let by = self.by.as_ref().map(RaiseBody::amounts).transpose()?;
        let Self { digest, arguments, scope, pattern, reason, answer, resolution, .. } = self;
        Ok(Answer { decision, digest, arguments, scope, pattern, reason, answer, resolution, by })
    }

    /// The answer to the one request of a run that waits: here `{answer}` alone answers a question.
    pub(crate) fn for_run(mut self) -> Result<Answer, Problem> {
        if self.answer.is_some() {
            self.decision.get_or_insert(DecisionKind::Answer);
        }
        self.for_request()
    }
}
