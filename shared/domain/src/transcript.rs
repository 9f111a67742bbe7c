//! The message list that a model reads: a pure function of the journal.
//!
//! What holds for every journal, each a property test: every call has exactly one result; all
//! results of a turn stand in the single next user message, before any text; text that arrived
//! while the model was thinking comes after that turn's results; there is no blank text block; ids
//! are unique and legal; and a later prompt begins with every earlier one (I10).

use std::{borrow::Cow, collections::BTreeSet};

use serde_json::Value;

use crate::{
    agent::ToolDef,
    display::secret,
    ids::{CallKey, RequestId, RequestKey},
    json,
    message::{Content, ModelRef, ReplyBlock},
    request::RequestKind,
    run::{Call, CallState, Ending, Run, Turn},
};

/// What a model is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt<'a> {
    /// The system prompt, possibly empty.
    pub system: &'a str,
    /// The tools.
    pub tools: &'a [ToolDef],
    /// The conversation; it begins with a user message.
    pub messages: Vec<Message<'a>>,
}

/// A message.
#[derive(Debug, Clone, PartialEq)]
pub enum Message<'a> {
    /// Results and what people said.
    User(Vec<UserBlock<'a>>),
    /// A reply.
    Assistant {
        /// The model whose reply it is; `raw` parts mean something to its provider only.
        model: &'a ModelRef,
        /// The reply's blocks.
        blocks: Vec<AssistantBlock<'a>>,
    },
}

/// A block of a user message.
#[derive(Debug, Clone, PartialEq)]
pub enum UserBlock<'a> {
    /// The result of a call.
    Result {
        /// The call's id on the wire.
        id: &'a str,
        /// The result, never empty, never blank.
        content: Vec<Cow<'a, Content>>,
        /// Whether it is a failure.
        is_error: bool,
    },
    /// What a person said, or how a call ended that the conversation went on without; never blank.
    Said(&'a Content),
}

/// A block of a reply.
#[derive(Debug, Clone, PartialEq)]
pub enum AssistantBlock<'a> {
    /// A call, under its id on the wire.
    Call {
        /// The id: the model's own where `block` has the same.
        id: &'a str,
        /// The call's block, a [`ReplyBlock::ToolCall`].
        block: &'a ReplyBlock,
    },
    /// Anything else.
    Plain(&'a ReplyBlock),
}

/// The prompt that the journal so far makes.
#[must_use]
pub fn prompt(run: &Run) -> Prompt<'_> {
    let mut messages = Vec::with_capacity(run.turns.len() * 2 + 1);
    let mut said = run.messages.iter().peekable();
    let mut user: Vec<UserBlock<'_>> = Vec::new();
    for turn in &run.turns {
        while let Some(message) = said.next_if(|message| message.index < turn.seen) {
            user.extend(message.content.iter().filter(|content| !content.is_blank()).map(UserBlock::Said));
        }
        let blocks = assistant(turn);
        if blocks.is_empty() {
            continue; // a reply without content leaves nothing to replay: the user's side goes on
        }
        if !user.is_empty() {
            messages.push(Message::User(std::mem::take(&mut user)));
        }
        messages.push(Message::Assistant { model: &turn.model, blocks });
        user.extend(turn.calls.iter().map(|call| result(run, call)));
    }
    for message in said {
        user.extend(message.content.iter().filter(|content| !content.is_blank()).map(UserBlock::Said));
    }
    if !user.is_empty() {
        messages.push(Message::User(user));
    }
    Prompt { system: &run.definition.system, tools: &run.definition.tools, messages }
}

impl Prompt<'_> {
    /// The most tokens that it can have: no token is shorter than a byte of text.
    #[must_use]
    pub fn tokens_at_most(&self) -> u64 {
        let tools = self
            .tools
            .iter()
            .map(|tool| tool.name.len() + tool.description.len() + tool.input_schema.to_string().len());
        let messages = self.messages.iter().map(|message| match message {
            Message::User(blocks) => blocks.iter().map(UserBlock::bytes).sum(),
            Message::Assistant { blocks, .. } => blocks.iter().map(AssistantBlock::bytes).sum::<usize>(),
        });
        count(self.system.len() + tools.sum::<usize>() + messages.sum::<usize>())
    }
}

/// The most tokens that what the user's side says after `turn`, the last one of `run`, can have.
pub(crate) fn tokens_after(run: &Run, turn: &Turn) -> u64 {
    let results = turn.calls.iter().map(|call| result(run, call).bytes());
    let said = run.messages.iter().filter(|message| message.index >= turn.seen);
    let said = said.flat_map(|message| &message.content).map(most);
    count(results.sum::<usize>() + said.sum::<usize>())
}

fn count(tokens: usize) -> u64 {
    u64::try_from(tokens).unwrap_or(u64::MAX)
}

/// What an image counts for at least: providers count its size in pixels, and scale down what is larger.
const IMAGE_TOKENS: usize = 5_000;

fn most(content: &Content) -> usize {
    match content {
        Content::Text { text } => text.len(),
        Content::Image { data, .. } => data.len().max(IMAGE_TOKENS),
    }
}

impl UserBlock<'_> {
    fn bytes(&self) -> usize {
        match self {
            Self::Result { id, content, .. } => id.len() + content.iter().map(|part| most(part)).sum::<usize>(),
            Self::Said(content) => most(content),
        }
    }
}

impl AssistantBlock<'_> {
    fn bytes(&self) -> usize {
        match self {
            Self::Call { block, .. } | Self::Plain(block) => block.bytes(),
        }
    }
}

fn assistant(turn: &Turn) -> Vec<AssistantBlock<'_>> {
    let mut calls = turn.calls.iter();
    let blocks = turn.content.iter().filter_map(|block| match block {
        ReplyBlock::Text { text, .. } if text.trim().is_empty() => None,
        ReplyBlock::ToolCall { .. } => calls.next().map(|call| AssistantBlock::Call { id: &call.wire_id, block }),
        ReplyBlock::Text { .. } | ReplyBlock::Reasoning { .. } | ReplyBlock::Opaque { .. } => {
            Some(AssistantBlock::Plain(block))
        }
    });
    blocks.collect()
}

/// What stands for a result that says nothing (case 47).
const NO_OUTPUT: &str = "(no output)";

fn result<'a>(run: &'a Run, call: &'a Call) -> UserBlock<'a> {
    let (content, is_error) = match &call.state {
        // Whatever became of it later, this is what the model was told here, and is told again.
        _ if call.moved_on.is_some() => (vec![text(pending(run, call.moved_on))], true),
        CallState::Done(Ending::Joined { request }) => (vec![text(joined(run, *request))], true),
        CallState::Done(ending) => told(run, call, ending),
        // `next` asks no model while a call is open, so nobody reads this; it names the truth anyway.
        CallState::Ready
        | CallState::Asking(_)
        | CallState::Pending { .. }
        | CallState::Running { .. }
        | CallState::Delegated { .. }
        | CallState::Unknown { .. } => (vec![text("This call has no result yet.".to_owned())], true),
    };
    UserBlock::Result { id: &call.wire_id, content, is_error }
}

/// What a model reads of a call that the conversation went on without (E6).
fn pending(run: &Run, request: Option<RequestKey>) -> String {
    let kind = request.and_then(|key| run.requests.get(&key)).map(|request| request.kind);
    let what = match kind {
        Some(RequestKind::Question) => "nobody has answered this question yet",
        Some(RequestKind::Uncertain) => {
            "it is not known whether this call has run, and the person who was asked has not said yet"
        }
        Some(RequestKind::External) => "another system has taken this call, and has not completed it yet",
        Some(RequestKind::Approval | RequestKind::Budget) | None => {
            "this call has not run, and nobody has said yet whether it may"
        }
    };
    // Named as when it was told first, also where a fork goes on with it.
    let owner = request.map_or(&run.id, |key| run.writer(key.entry));
    let request = request.map(|key| run.request_id(key).to_string()).unwrap_or_default();
    format!(
        "Pending, not confirmed: {what} (run {owner}, request {request}). Go on without it; you will be told if that \
         changes."
    )
}

/// What a model reads of a call that joined an earlier one. That one may wait, have been approved, or have
/// run without anybody knowing what it did: this holds for all of them, and so at any later time too.
fn joined(run: &Run, request: RequestKey) -> String {
    let RequestId { run, key } = run.request_id(request);
    format!(
        "Pending, not confirmed: you made this call before, and what becomes of it is not known yet (run {run}, request \
         {run}.{key}); this one adds nothing to it. Do not ask again. Go on without it; you will be told if that changes."
    )
}

/// The message that tells a model how a call ended that it went on without (E7): which request and
/// call, that it is news, and then what any other result says.
pub(crate) fn late(run: &Run, call: &Call) -> Vec<Content> {
    let CallState::Done(ending) = &call.state else { return Vec::new() };
    let request = call.moved_on.map(|key| run.request_id(key).to_string()).unwrap_or_default();
    let made = call.asked_arguments(run).map_or_else(|_| call.tool.clone(), |value| made(&call.tool, &value));
    let (content, is_error) = told(run, call, ending);
    let failed = if is_error && matches!(ending, Ending::Returned { .. }) { " It failed." } else { "" };
    let head = format!("News of request {request}, which was pending before: {made}.{failed} Its result now:");
    std::iter::once(Content::Text { text: head }).chain(content.into_iter().map(Cow::into_owned)).collect()
}

/// Longest form of a call in the news of it, in bytes.
const MADE_BYTES: usize = 300;

/// One line that tells a model which call this was. What people see of a call is made elsewhere: this is
/// part of a prompt, so it stays as it is from one release to the next (I10).
fn made(tool: &str, arguments: &Value) -> String {
    let inner = match arguments.as_object() {
        Some(map) => map.iter().map(|(key, value)| format!("{key}: {value}")).collect::<Vec<_>>().join(", "),
        None => arguments.to_string(),
    };
    let line = format!("{tool}({inner})").replace(char::is_control, "\u{fffd}");
    if line.len() <= MADE_BYTES { line } else { format!("{}…", json::cut(&line, MADE_BYTES)) }
}

fn text<'a>(text: String) -> Cow<'a, Content> {
    Cow::Owned(Content::Text { text })
}

/// What a model reads of how `call` ended: where a person changed its arguments, that comes first, so that
/// it does not take the result for that of the call it made.
fn told<'a>(run: &Run, call: &'a Call, ending: &'a Ending) -> (Vec<Cow<'a, Content>>, bool) {
    let (mut content, is_error) = ending_content(ending);
    if let Some(arguments) = &call.edited {
        // A secret that the person put in is between them and the tool.
        let paths = run.definition.tool(&call.tool).map_or(&[][..], |tool| &tool.secret);
        let arguments = secret::mask(arguments, paths);
        let edited = format!("A person changed the arguments of this call and approved it with these: {arguments}");
        content.insert(0, text(edited));
    }
    (content, is_error)
}

/// What a model reads of how a call ended, and whether it is a failure. A call that was not run
/// says so in one line, and why (C7).
fn ending_content(ending: &Ending) -> (Vec<Cow<'_, Content>>, bool) {
    let line = match ending {
        Ending::Returned { content, is_error } => {
            let shown: Vec<_> = content.iter().filter(|part| !part.is_blank()).map(Cow::Borrowed).collect();
            let shown = if shown.is_empty() { vec![text(NO_OUTPUT.to_owned())] } else { shown };
            return (shown, *is_error);
        }
        Ending::Answered { answer } => {
            let answer = answer.as_str().map_or_else(|| answer.to_string(), str::to_owned);
            let shown = if answer.trim().is_empty() { format!("(the person answered {answer:?})") } else { answer };
            return (vec![text(shown)], false);
        }
        Ending::Settled { result } => {
            let shown = if result.trim().is_empty() { NO_OUTPUT } else { result };
            return (vec![text(format!("A person recorded this result: {shown}"))], false);
        }
        Ending::NotSent { why } => format!("Not run: the tool could not be reached ({why})."),
        Ending::Denied { because } => format!("Not run: refused by policy; {because}."),
        Ending::Invalid { problem } => format!("Not run: {problem}"),
        Ending::Declined { reason: Some(reason) } if !reason.trim().is_empty() => {
            format!("Not run: a person declined this call and said: {reason}")
        }
        Ending::Declined { .. } => "Not run: a person declined this call.".to_owned(),
        Ending::Expired { kind: RequestKind::Question } => "Not answered: nobody answered in time.".to_owned(),
        Ending::Expired { kind: RequestKind::Uncertain } => {
            "Outcome unknown: the call may have run, and nobody said in time what it did.".to_owned()
        }
        Ending::Expired { kind: RequestKind::External } => {
            "Outcome unknown: another system had taken the call, and did not complete it in time.".to_owned()
        }
        Ending::Expired { kind: RequestKind::Approval | RequestKind::Budget } => {
            "Not run: the request for approval expired.".to_owned()
        }
        Ending::Abandoned => "Outcome unknown: the call may have run; a person chose to leave it.".to_owned(),
        Ending::GaveUp { why } => format!("Outcome unknown after the last attempt: {why}."),
        Ending::Joined { .. } => "Pending, not confirmed: the same call waits already.".to_owned(),
        Ending::Superseded => "Not run: the person sent a message instead of deciding.".to_owned(),
        // The model of a cancelled run is not asked again: one that reads this belongs to a run that ended
        // in another way, and went on.
        Ending::Cancelled => "Not run: the run ended before anybody decided.".to_owned(),
    };
    (vec![text(line)], true)
}

/// The id under which a call stands on the wire: the model's own if it is unique in the run and
/// legal for every provider (`[a-zA-Z0-9_-]{1,64}`), else one of ours (cases 46 and 48).
pub(crate) fn wire_id(given: &str, key: CallKey, taken: &BTreeSet<String>) -> String {
    let legal =
        (1..=64).contains(&given.len()) && given.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if legal && !taken.contains(given) {
        return given.to_owned();
    }
    let mut id = format!("call_{}_{}", key.entry, key.ordinal);
    while taken.contains(&id) {
        id.push('x');
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cases 46 and 48: ids that are empty, taken, too long or illegal somewhere are mapped; all
    /// others stay the model's own, so that they are sent back as they came.
    #[test]
    fn case_46_case_48_wire_ids() {
        let taken: BTreeSet<String> = ["used", "call_3_0"].map(str::to_owned).into();
        let key = CallKey::new(3, 0);
        let longest = "a".repeat(64);
        for own in ["toolu_01A-b", "x", &longest] {
            assert_eq!(wire_id(own, key, &taken), own);
        }
        for foreign in ["", "used", "a.b", "a b", "é", "functions.f:0", &"a".repeat(65)] {
            assert_eq!(wire_id(foreign, key, &taken), "call_3_0x", "{foreign:?}");
            assert_eq!(wire_id(foreign, CallKey::new(3, 1), &taken), "call_3_1", "{foreign:?}");
        }
    }
}
