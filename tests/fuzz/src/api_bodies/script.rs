//! What happens, as text: a corpus that can be read.
//!
//! ```text
//! POST /v1/requests/$Q0/respond
//! as: ann
//! idempotency-key: k
//!
//! {"decision":"approve","digest":"$D0"}
//! %%
//! STEP
//! ```
//!
//! `MODEL <tool> <arguments>` is the call that the model makes next, `WAIT <ms>` moves the clock on, `STEP` drives every run
//! that was woken, `SWEEP` sweeps. Of the headers, `as` and `groups` say what the authorizer knows and `encoding: base64`
//! how the body is sent; the others are sent.

/// Parts of one script at most.
const MAX_PARTS: usize = 24;
/// The longest that the clock moves at once: a year.
const MAX_WAIT_MS: u64 = 366 * 24 * 3600 * 1000;

/// Something that happens.
pub(super) enum Part<'a> {
    Send(Sent<'a>),
    Model { tool: &'a str, arguments: &'a str },
    Wait { ms: u64 },
    Step,
    Sweep,
}

/// A request.
pub(super) struct Sent<'a> {
    pub(super) method: &'a str,
    pub(super) target: &'a str,
    pub(super) headers: Vec<(&'a str, &'a str)>,
    pub(super) body: &'a str,
}

impl Sent<'_> {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }

    /// Whether it comes from a browser, as far as a server can tell.
    pub(super) fn is_for_page(&self) -> bool {
        ["accept", "content-type"].iter().any(|name| self.header(name).is_some())
    }
}

pub(super) fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    text.split("\n%%\n").take(MAX_PARTS).filter_map(part)
}

fn part(text: &str) -> Option<Part<'_>> {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut lines = head.lines();
    let (verb, rest) = lines.next().map(|line| line.split_once(' ').unwrap_or((line, "")))?;
    Some(match verb {
        "MODEL" => {
            let (tool, arguments) = rest.split_once(' ').unwrap_or((rest, ""));
            Part::Model { tool, arguments }
        }
        "WAIT" => Part::Wait { ms: rest.parse::<u64>().ok()?.min(MAX_WAIT_MS) },
        "STEP" => Part::Step,
        "SWEEP" => Part::Sweep,
        method => {
            let headers = lines.filter_map(|line| line.split_once(": ")).collect();
            Part::Send(Sent { method, target: rest, headers, body: body.strip_suffix('\n').unwrap_or(body) })
        }
    })
}
