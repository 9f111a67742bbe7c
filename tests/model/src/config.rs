//! The configurations: which agent, what its model says, who acts on the run, and how much goes wrong.

use dormouse_domain::{
    Definition, Mode, agent_file,
    message::{ReplyBlock, StopReason},
};

use crate::state::Bounds;

/// One bounded world.
#[derive(Debug, Clone)]
pub struct Config {
    /// Its name.
    pub name: &'static str,
    /// Whether `--short` and the tests run it too.
    pub short: bool,
    /// The tools that each reply of the model calls. After these it says that it is done.
    pub turns: &'static [&'static [&'static str]],
    /// What each person does, one thing after another.
    pub people: &'static [&'static [Intent]],
    /// Whether reading and judging are steps of their own, so that others can write in between.
    pub loads_apart: bool,
    /// Steps that are alive at once.
    pub steps: usize,
    /// What may go wrong, and how often.
    pub bounds: Bounds,
    /// Keys of the agent file, before its tools.
    pub agent: &'static str,
}

/// What a person does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Intent {
    /// Decides any one request that waits.
    Decide {
        /// The answers that this person may give.
        says: &'static [Say],
        /// The `Idempotency-Key` that goes with it.
        key: Option<u8>,
    },
    /// Cancels the run.
    Cancel,
    /// Pauses it.
    Pause,
    /// Lets it go on.
    Resume,
    /// Says something.
    Speak,
    /// Sets the mode.
    Mode(Mode),
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Say {
    /// The call runs.
    Approve,
    /// The call does not run.
    Deny,
    /// The answer to a question.
    Answer,
    /// The answer to a question that ends the run.
    Quit,
    /// The call did its work.
    Result,
    /// The call runs again.
    Retry,
    /// Nobody will know.
    Abort,
    /// An approval of other arguments than those stored.
    Forged,
    /// An approval by somebody whose request it is not.
    Stranger,
}

/// Milliseconds that a step has.
pub const STEP_MS: u64 = 180_000;
/// The tool that no reply starts, because it would not fit the step's time: it is dispatched later.
pub const SLOW: &str = "slow";

const TOOLS: &str = r#"
    [[tools]]
    name = "do"
    http = { url = "http://x" }
    [[tools]]
    name = "auto"
    permission = "allow"
    http = { url = "http://x" }
    [[tools]]
    name = "look"
    kind = "read"
    replay = "safe"
    http = { url = "http://x" }
    [[tools]]
    name = "pay"
    permission = "allow"
    replay = "idempotent"
    http = { url = "http://x" }
    [[tools]]
    name = "slow"
    kind = "read"
    replay = "safe"
    http = { url = "http://x" }
    [[tools]]
    builtin = "ask_user"
"#;

impl Config {
    /// The agent.
    ///
    /// # Errors
    /// What is wrong with its file.
    pub fn definition(&self) -> anyhow::Result<Definition> {
        let text = format!("models = [\"m:one\", \"m:two\"]\n{}\n{TOOLS}", self.agent);
        agent_file::parse(&text, "agent", STEP_MS).map_err(|faults| anyhow::anyhow!("{}: {faults:?}", self.name))
    }

    /// What the model says when it has replied `turns` times.
    #[must_use]
    pub fn reply(&self, turns: usize) -> (Vec<ReplyBlock>, StopReason) {
        let Some(calls) = self.turns.get(turns) else {
            return (vec![ReplyBlock::Text { text: "done".to_owned(), raw: None }], StopReason::EndTurn);
        };
        let call = |(ordinal, name): (usize, &&str)| ReplyBlock::ToolCall {
            id: format!("c{turns}-{ordinal}"),
            name: name.trim_start_matches('!').to_owned(),
            arguments: arguments(name).to_owned(),
            raw: None,
        };
        (calls.iter().enumerate().map(call).collect(), StopReason::ToolUse)
    }
}

/// The arguments that a tool is called with; a name that begins with `!` is called with half of them.
fn arguments(name: &str) -> &'static str {
    match name {
        "ask_user" => "{\"question\":\"well?\",\"options\":[{\"value\":\"yes\"},{\"value\":\"no\",\"cancels\":true}]}",
        _ if name.starts_with('!') => "{\"a\":",
        _ => "{}",
    }
}

const WAITS: &str = "wait = \"10m\"\ndecide_within = \"10m\"";
/// The conversation waits a minute, and a request can be decided for ten.
const MOVES_ON: &str = "wait = \"1m\"\ndecide_within = \"10m\"";
const NEXT_TURN: &str = "wait = \"1m\"\ndecide_within = \"10m\"\nlate_decision = \"next_turn\"";
const SUPERSEDES: &str = "wait = \"1m\"\ndecide_within = \"10m\"\non_message = \"supersede\"";
const DENIES: &str = "wait = \"1m\"\ndecide_within = \"10m\"\non_wait_expired = \"deny\"";
const NONE: Bounds = Bounds {
    crashes: 0,
    panics: 0,
    lost_replies: 0,
    duplicates: 0,
    ticks: 0,
    sweeps: 0,
    hand_offs: 0,
    model_failures: 0,
    unknowns: 0,
};

/// Everything that a person can say of a call that asks and of one whose outcome is not known.
const ANY: &[Say] = &[Say::Approve, Say::Deny, Say::Result, Say::Retry, Say::Abort, Say::Answer, Say::Quit];

/// All configurations.
#[must_use]
pub fn all() -> Vec<Config> {
    let base = Config {
        name: "",
        short: false,
        turns: &[&["do"]],
        people: &[],
        loads_apart: false,
        steps: 2,
        bounds: NONE,
        agent: WAITS,
    };
    vec![
        Config {
            name: "approve",
            short: true,
            loads_apart: true,
            people: &[&[Intent::Decide { says: &[Say::Approve, Say::Deny], key: None }]],
            bounds: Bounds { crashes: 1, duplicates: 1, ticks: 2, ..NONE },
            ..base.clone()
        },
        Config {
            name: "two-deciders",
            short: true,
            turns: &[&["do", "do"]],
            people: &[
                &[Intent::Decide { says: &[Say::Approve, Say::Forged], key: None }],
                &[Intent::Decide { says: &[Say::Deny, Say::Stranger], key: None }],
            ],
            bounds: Bounds { ticks: 1, ..NONE },
            ..base.clone()
        },
        Config {
            name: "double-click",
            short: true,
            people: &[
                &[Intent::Decide { says: &[Say::Approve], key: Some(1) }],
                &[Intent::Decide { says: &[Say::Approve], key: Some(1) }],
            ],
            bounds: Bounds { ticks: 1, lost_replies: 1, crashes: 1, ..NONE },
            ..base.clone()
        },
        Config {
            name: "takeover",
            short: true,
            turns: &[&["auto", "look", "pay"]],
            people: &[&[Intent::Decide { says: ANY, key: None }]],
            bounds: Bounds { duplicates: 1, ticks: 1, sweeps: 1, ..NONE },
            ..base.clone()
        },
        Config {
            name: "unknown",
            short: true,
            turns: &[&["auto", "slow"]],
            people: &[&[Intent::Decide { says: ANY, key: None }]],
            bounds: Bounds { crashes: 1, unknowns: 1, ticks: 2, sweeps: 1, ..NONE },
            ..base.clone()
        },
        Config {
            name: "control",
            short: true,
            turns: &[&["auto", "do"]],
            people: &[
                &[Intent::Cancel],
                &[Intent::Pause, Intent::Resume],
                &[Intent::Decide { says: &[Say::Approve], key: None }],
            ],
            bounds: Bounds { ticks: 1, ..NONE },
            ..base.clone()
        },
        Config {
            name: "lost-replies",
            short: true,
            turns: &[&["auto", "slow"]],
            people: &[&[Intent::Speak, Intent::Speak]],
            bounds: Bounds { lost_replies: 2, hand_offs: 1, ticks: 1, sweeps: 1, ..NONE },
            ..base.clone()
        },
        Config {
            name: "models",
            short: true,
            turns: &[&["look"]],
            people: &[&[Intent::Speak]],
            bounds: Bounds { model_failures: 3, panics: 1, ticks: 3, sweeps: 1, hand_offs: 1, ..NONE },
            ..base.clone()
        },
        Config {
            name: "question",
            short: true,
            turns: &[&["ask_user", "!do", "auto"], &["do"]],
            people: &[&[
                Intent::Decide { says: &[Say::Answer, Say::Quit], key: None },
                Intent::Decide { says: &[Say::Approve, Say::Deny], key: None },
            ]],
            bounds: Bounds { ticks: 2, sweeps: 1, ..NONE },
            ..base.clone()
        },
        Config {
            name: "modes",
            short: true,
            turns: &[&["do", "slow"]],
            people: &[
                &[Intent::Mode(Mode::Yolo), Intent::Mode(Mode::Plan)],
                &[Intent::Decide { says: &[Say::Approve], key: None }],
            ],
            bounds: Bounds { ticks: 1, crashes: 1, sweeps: 1, ..NONE },
            ..base.clone()
        },
        Config {
            name: "late",
            short: true,
            turns: &[&["do"], &["do"]],
            people: &[&[Intent::Decide { says: &[Say::Approve, Say::Deny], key: None }]],
            bounds: Bounds { ticks: 3, sweeps: 1, ..NONE },
            agent: MOVES_ON,
            ..base.clone()
        },
        Config {
            name: "late-next-turn",
            short: true,
            people: &[&[Intent::Decide { says: &[Say::Approve, Say::Deny], key: None }], &[Intent::Speak]],
            bounds: Bounds { ticks: 2, sweeps: 1, ..NONE },
            agent: NEXT_TURN,
            ..base.clone()
        },
        Config {
            name: "supersede",
            short: true,
            turns: &[&["do", "auto"]],
            people: &[&[Intent::Decide { says: ANY, key: None }], &[Intent::Speak]],
            bounds: Bounds { ticks: 2, crashes: 1, ..NONE },
            agent: SUPERSEDES,
            ..base.clone()
        },
        Config {
            name: "denies",
            short: true,
            turns: &[&["do", "ask_user"]],
            people: &[&[Intent::Decide { says: ANY, key: None }, Intent::Decide { says: ANY, key: None }]],
            bounds: Bounds { ticks: 2, sweeps: 1, ..NONE },
            agent: DENIES,
            ..base.clone()
        },
        Config {
            name: "siblings",
            short: true,
            turns: &[&["do", "do"]],
            people: &[&[
                Intent::Decide { says: &[Say::Approve], key: None },
                Intent::Decide { says: &[Say::Approve], key: None },
            ]],
            bounds: Bounds { ticks: 2, sweeps: 1, ..NONE },
            agent: MOVES_ON,
            ..base.clone()
        },
    ]
}
