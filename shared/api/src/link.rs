//! Approval links: making one, looking at one, deciding through one.
//!
//! Only the first takes somebody who has signed in. For the others the token in the path is the credential, and there
//! is no caller: what a link can do stands in it. Looking decides nothing, however often it is done and by whatever
//! method: mail scanners and previews follow links (case 17). A browser gets a page, whose form posts.
//!
//! The token is a secret of whoever was given it. It is not logged, no cache may keep an answer, and a page leads
//! nowhere that could learn of its address.

use dormouse_domain::{
    agent_file::duration_ms,
    decide::{Answer, Resolution},
    display::Extent,
    request::DecisionKind,
};
use dormouse_engine::{Engine, LinkMade, LinkView};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    body::{self, RespondBody},
    call::{Call, Visit},
    page,
    problem::{Kind, Problem, Reply},
    view,
};

/// `POST /v1/requests/{id}/links`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkBody {
    #[serde(default)]
    decisions: Option<Vec<DecisionKind>>,
    /// As in agent files: `90s`, `15m`, `2h`.
    #[serde(default)]
    expires_in: Option<String>,
}

pub(crate) async fn make(engine: &Engine, call: &Call<'_>) -> Result<Reply, Problem> {
    let body: LinkBody = body::parse(&call.body)?;
    let life_ms = body.expires_in.as_deref().map(|text| {
        duration_ms(text).ok_or_else(|| {
            let detail = "`expires_in` must be a span of time such as 90s, 15m or 2h";
            Problem::new(Kind::InvalidBody, detail).member("field", "expires_in")
        })
    });
    let id = call.request_id()?;
    let LinkMade { token, link } =
        engine.make_link(&call.by, &id, body.decisions.as_deref(), life_ms.transpose()?).await?;
    let made = json!({
        "link_id": link.id,
        "path": format!("/v1/links/{token}"),
        "token": token,
        "decisions": link.decisions,
        "expires_at": view::time(link.expires_at),
    });
    Ok(Reply::created(&made))
}

/// `GET /v1/links/{token}`
pub(crate) async fn show(engine: &Engine, visit: &Visit<'_>) -> Reply {
    let as_page = visit.wants_page();
    let reply = engine.link(visit.token).await.map_err(Problem::from).map(|link| {
        let seen = seen(engine, &link);
        if as_page { page::request(&link, &seen) } else { Reply::ok(&seen) }
    });
    private(reply, as_page)
}

/// `POST /v1/links/{token}`
pub(crate) async fn decide(engine: &Engine, visit: &Visit<'_>) -> Reply {
    let as_page = visit.is_form();
    private(decided(engine, visit, as_page).await, as_page)
}

async fn decided(engine: &Engine, visit: &Visit<'_>, as_page: bool) -> Result<Reply, Problem> {
    let answer = if as_page { form(&visit.body)? } else { body::parse::<RespondBody>(&visit.body)?.for_request()? };
    let responded = engine.respond_by_link(visit.token, &answer, visit.key.as_ref()).await?;
    let told = view::responded(&responded);
    Ok(if as_page { page::decided(&told) } else { Reply::ok(&told) })
}

/// The request as everywhere, with what the link can decide and until when.
fn seen(engine: &Engine, link: &LinkView) -> Value {
    let mut seen = view::request(&link.request, &link.by, engine.ports().clock.now(), Extent::Whole);
    seen["link_id"] = json!(link.link.id);
    seen["expires_at"] = view::time(link.link.expires_at);
    seen
}

/// What a browser must not do with anything that came of a link: send its address on.
fn private(reply: Result<Reply, Problem>, as_page: bool) -> Reply {
    let reply = match reply {
        Ok(reply) => reply,
        Err(problem) => {
            problem.log();
            if as_page { page::problem(&problem) } else { Reply::problem(&problem) }
        }
    };
    reply.header("referrer-policy", "no-referrer".to_owned())
}

/// The answer that the page's form gives. A field that is not known or comes twice is refused, as in a body of JSON.
fn form(body: &[u8]) -> Result<Answer, Problem> {
    let invalid =
        |name: &str, what: &str| Problem::new(Kind::InvalidBody, format!("`{name}` {what}")).member("field", name);
    let names = ["decision", "digest", "reason", "option", "answer", "resolution", "result"];
    let mut fields: [Option<String>; 7] = Default::default();
    for (name, value) in form_urlencoded::parse(body) {
        let Some(place) = names.iter().position(|known| *known == name) else {
            return Err(invalid(&name, "is not a field of this form"));
        };
        // A browser sends the line breaks of a text as CR LF.
        if fields[place].replace(value.replace("\r\n", "\n")).is_some() {
            return Err(invalid(names[place], "is there twice"));
        }
    }
    let [decision, digest, reason, option, text, resolution, result] = fields;
    let decision = decision.ok_or_else(|| invalid("decision", "is missing"))?;
    let decision = serde_json::from_value(Value::String(decision));
    let decision: DecisionKind = decision.map_err(|error| invalid("decision", &error.to_string()))?;
    let answer = match (option, text) {
        (None, text) => text.map(Value::String),
        (Some(option), None) => {
            Some(serde_json::from_str(&option).map_err(|_| invalid("option", "is not one of the options"))?)
        }
        (Some(_), Some(_)) => return Err(invalid("answer", "does not go with `option`")),
    };
    let resolution = match (resolution.as_deref(), result) {
        (None, None) => None,
        (Some("result"), Some(result)) => Some(Resolution::Result(result)),
        (Some("retry"), None) => Some(Resolution::Retry),
        (Some("abort"), None) => Some(Resolution::Abort),
        (_, _) => return Err(invalid("resolution", "is not one of this form's")),
    };
    // A box that was left empty is no reason; an answer may be empty (case 23).
    let reason = reason.filter(|reason| !reason.is_empty());
    Ok(Answer { digest, reason, answer, resolution, ..Answer::new(decision) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_says_what_a_body_says() {
        let approve = Answer::new(DecisionKind::Approve);
        let answered = |value| Answer { answer: Some(value), ..Answer::new(DecisionKind::Answer) };
        for (text, expected) in [
            ("decision=approve", approve.clone()),
            ("decision=approve&digest=sha256%3Aab", Answer { digest: Some("sha256:ab".into()), ..approve }),
            ("decision=deny&reason=", Answer::new(DecisionKind::Deny)),
            (
                "decision=deny&reason=not+now%0D%0Alater",
                Answer { reason: Some("not now\nlater".into()), ..Answer::new(DecisionKind::Deny) },
            ),
            ("decision=answer&option=%221.5.0%22", answered("1.5.0".into())),
            ("decision=answer&option=false", answered(false.into())),
            ("decision=answer&answer=", answered("".into())),
            (
                "decision=settle&resolution=result&result=done",
                Answer { resolution: Some(Resolution::Result("done".into())), ..Answer::new(DecisionKind::Settle) },
            ),
        ] {
            assert_eq!(form(text.as_bytes()).unwrap(), expected, "{text}");
        }
        for bad in [
            "",
            "decision=aprove",
            "decision=approve&decision=deny",
            "decision=approve&by=bob",
            "decision=answer&option=maybe",
            "decision=answer&option=1&answer=1",
            "decision=settle&resolution=result",
            "decision=settle&resolution=retry&result=x",
            "decision=settle&resolution=other",
        ] {
            assert_eq!(form(bad.as_bytes()).unwrap_err().kind(), Kind::InvalidBody, "{bad}");
        }
    }
}
