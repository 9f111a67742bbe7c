//! The page of an approval link: what is asked, and forms to decide it. No script, nothing from elsewhere.
//!
//! Every text that comes of a run is escaped in one place, [`Html::text`], after it was made for eyes by
//! [`display`](dormouse_domain::display); the policy forbids whatever would come along all the same.

use dormouse_domain::{
    Principal,
    display::{self, Extent, text},
    request::DecisionKind,
};
use dormouse_engine::LinkView;
use serde_json::Value;

use crate::problem::{Problem, Reply};

/// Longest text of a decision that is shown again, in bytes.
const TEXT_BYTES: usize = 4 * 1024;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;margin:0;background:#f6f6f4;color:#1b1b1b}\
main{max-width:46rem;margin:2rem auto;padding:1.5rem 2rem;background:#fff;border:1px solid #ddd}\
h1{font-size:1.25rem}pre,.said{white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:isolate}\
pre{background:#f6f6f4;padding:.75rem;font:14px/1.45 ui-monospace,monospace}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1rem}dt{color:#666}dd{margin:0}\
form{margin:.75rem 0;padding:.75rem;border:1px solid #ddd}textarea{display:block;width:100%;box-sizing:border-box}\
button{font:inherit;padding:.4rem 1rem;margin:.4rem .4rem 0 0}.warn{border-left:4px solid #b40;padding-left:.75rem}";

/// The digest of [`STYLE`], as a policy names it.
const STYLE_DIGEST: &str = "sha256-8Cx43NtFwoHdLb/s8P/8W3fRdyPBpzrK4LBLYP8Jxd8=";

/// Markup. Text gets into it as text only.
#[derive(Debug, Default)]
struct Html(String);

impl Html {
    fn markup(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// `text`, escaped for an element's content and for an attribute in quotes alike.
    fn text(&mut self, text: &str) -> &mut Self {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                c => self.0.push(c),
            }
        }
        self
    }

    fn said(&mut self, text: &str) -> &mut Self {
        self.markup("<p class=\"said\">").text(text).markup("</p>")
    }

    fn hidden(&mut self, name: &'static str, value: &str) -> &mut Self {
        self.markup("<input type=\"hidden\" name=\"").markup(name).markup("\" value=\"").text(value).markup("\">")
    }

    fn fact(&mut self, name: &'static str, value: &str) -> &mut Self {
        if value.is_empty() {
            return self;
        }
        self.markup("<dt>").markup(name).markup("</dt><dd class=\"said\">").text(value).markup("</dd>")
    }

    /// The whole page, as an answer.
    fn page(self, status: u16, title: &'static str) -> Reply {
        let Self(inner) = self;
        let mut page = Self::default();
        page.markup("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">")
            .markup("<meta name=\"viewport\" content=\"width=device-width\"><meta name=\"robots\" content=\"noindex\">")
            .markup("<title>")
            .markup(title)
            .markup("</title><style>")
            .markup(STYLE)
            .markup("</style></head><body><main><h1>")
            .markup(title)
            .markup("</h1>");
        page.0.push_str(&inner);
        page.markup("</main></body></html>");
        let policy = format!(
            "default-src 'none'; style-src '{STYLE_DIGEST}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        );
        Reply::page(status, page.0).header("content-security-policy", policy)
    }
}

/// A request that a link shows; `seen` is its view, in which every text is made for eyes.
pub(crate) fn request(link: &LinkView, seen: &Value) -> Reply {
    let mut html = Html::default();
    let field = |name: &str| seen[name].as_str().unwrap_or_default();
    html.said(field("question").trim()).markup("<p class=\"said\"><strong>").text(field("summary"));
    html.markup("</strong></p>");
    for warning in texts(&seen["warnings"]) {
        html.markup("<p class=\"warn said\">").text(warning).markup("</p>");
    }
    html.markup("<dl>").fact("Tool", field("tool")).fact("Why it asks", &texts(&seen["reasons"]).join("\n"));
    html.fact("Agent", &texts(&seen["agents"]).join(" → ")).fact("Run of", &person(&seen["owner"]));
    html.fact("Can be decided until", field("decide_by")).fact("This link is good until", field("expires_at"));
    html.fact("Request", field("request_id")).fact("Digest", field("digest")).markup("</dl>");
    if seen["budget"].is_object() {
        let budget = serde_json::to_string_pretty(&seen["budget"]).unwrap_or_default();
        html.markup("<h2>What the run may use, and has used</h2><pre>").text(&budget).markup("</pre>");
    } else if seen["question"].is_null() {
        let arguments = serde_json::to_string_pretty(&seen["arguments"]).unwrap_or_default();
        html.markup("<h2>Arguments</h2><pre>").text(&arguments).markup("</pre>");
    }
    if let Some(preview) = seen["preview"]["text"].as_str() {
        html.markup("<h2>Change</h2><pre>").text(preview).markup("</pre>");
    }
    let title = match field("status") {
        "pending" => {
            html.markup("<p>It is decided once, in the name of ").text(&name(&link.link.issuer));
            html.markup(", who made this link. Opening this page decides nothing.</p>");
            texts(&seen["decisions"]).into_iter().for_each(|decision| form(&mut html, link, decision));
            "A decision is asked for"
        }
        "decided" => {
            decision(&mut html, &seen["decision"]);
            "Already decided"
        }
        "expired" => "No longer open: nobody decided in time",
        _ => "No longer open: withdrawn",
    };
    html.page(200, title)
}

/// What a decision through a link led to.
pub(crate) fn decided(told: &Value) -> Reply {
    let mut html = Html::default();
    decision(&mut html, &told["decision"]);
    html.said(told["note"].as_str().unwrap_or_default());
    html.page(200, "Decided")
}

/// A problem.
pub(crate) fn problem(problem: &Problem) -> Reply {
    let document = problem.document();
    let mut html = Html::default();
    html.said(document["detail"].as_str().unwrap_or_default());
    if document["decision"].is_object() {
        decision(&mut html, &document["decision"]);
    }
    html.page(problem.kind().status(), problem.kind().title())
}

/// A decision that stands: what, by whom, when, by what way.
fn decision(html: &mut Html, decision: &Value) {
    let field = |name: &str| text::block(decision[name].as_str().unwrap_or_default(), TEXT_BYTES);
    html.markup("<dl>").fact("Decision", &field("decision")).fact("Reason", &field("reason"));
    for (label, name) in [("Answer", "answer"), ("Resolution", "resolution"), ("Raised by", "raised")] {
        let value = match &decision[name] {
            Value::Null => String::new(),
            Value::String(said) => format!("\u{201c}{said}\u{201d}"),
            other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => other.to_string(),
        };
        html.fact(label, &text::block(&value, TEXT_BYTES));
    }
    html.fact("By", &person(&decision["by"])).fact("At", &field("at"));
    html.fact("Through", if decision["via"].is_object() { "a link" } else { "" }).markup("</dl>");
}

/// The form of one decision that is on offer.
fn form(html: &mut Html, link: &LinkView, kind: &str) {
    let begin = |html: &mut Html| {
        html.markup("<form method=\"post\">").hidden("decision", kind).hidden("digest", link.link.digest.as_str());
    };
    begin(html);
    if kind == DecisionKind::Approve.as_str() {
        html.markup("<button>Approve, exactly as shown</button>");
    } else if kind == DecisionKind::Deny.as_str() {
        html.markup(
            "<label>Reason, for the agent (may be empty)<textarea name=\"reason\" rows=\"2\"></textarea></label>",
        );
        html.markup("<button>Deny</button>");
    } else if kind == DecisionKind::Answer.as_str() {
        let question = link.request.question.as_ref();
        let shown = display::request(&link.request, Extent::Whole);
        for option in &shown.options {
            html.markup("<button name=\"option\" value=\"").text(&option.value.to_string()).markup("\">");
            html.text(option.label.as_deref().unwrap_or_default());
            html.markup(if option.cancels { " (ends the run)</button>" } else { "</button>" });
        }
        if question.is_some_and(|question| question.allow_free_text) {
            html.markup("</form>");
            begin(html);
            html.markup("<label>Answer<textarea name=\"answer\" rows=\"3\"></textarea></label><button>Answer</button>");
        }
    } else if kind == DecisionKind::Settle.as_str() {
        html.markup("<button name=\"resolution\" value=\"retry\">Run it again, though it may have run</button>");
        html.markup("<button name=\"resolution\" value=\"abort\">Leave it: nobody knows what it did</button></form>");
        begin(html);
        html.hidden("resolution", "result");
        html.markup("<label>I know what it did<textarea name=\"result\" rows=\"3\"></textarea></label>");
        html.markup("<button>Record this result</button>");
    } else if kind == DecisionKind::Stop.as_str() {
        html.markup("<button>Stop (ends the run)</button>");
    } else {
        html.markup("<button>").text(kind).markup("</button>");
    }
    html.markup("</form>");
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// `{tenant, subject}` as a line. The identity provider chose the names.
fn person(person: &Value) -> String {
    let part = |name: &str| person[name].as_str().unwrap_or_default();
    text::line(&format!("{}/{}", part("tenant"), part("subject")), TEXT_BYTES)
}

fn name(principal: &Principal) -> String {
    text::line(&principal.to_string(), TEXT_BYTES)
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    use sha2::Digest as _;

    use super::*;

    #[test]
    fn the_policy_names_the_style_that_there_is() {
        let digest = BASE64_STANDARD.encode(sha2::Sha256::digest(STYLE));
        assert_eq!(STYLE_DIGEST, format!("sha256-{digest}"));
    }

    #[test]
    fn text_stays_text() {
        let mut html = Html::default();
        html.text("</p><script>x</script>\"'&");
        assert_eq!(html.0, "&lt;/p&gt;&lt;script&gt;x&lt;/script&gt;&quot;&#39;&amp;");
    }
}
