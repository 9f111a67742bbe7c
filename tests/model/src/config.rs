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
    /// Who runs it.
    pub size: Size,
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

/// How much there is of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// The tests run it too, and `--short`.
    Short,
    /// Run unless asked otherwise.
    Full,
    /// Run if it is asked for by its name: it takes memory that not every machine has.
    Huge,
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
    /// The call runs with other arguments.
    Edit,
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
    /// The run may have one more turn.
    Raise,
    /// The run ends at its ceiling.
    Stop,
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
        let text = format!("models = [\"scripted:one\", \"scripted:two\"]\n{}\n{TOOLS}", self.agent);
        agent_file::parse(&text, "agent", STEP_MS).map_err(|faults| anyhow::anyhow!("{}: {faults:?}", self.name))
    }

    /// Its row in `docs/model.md`.
    #[must_use]
    pub fn row(&self) -> String {
        let Bounds { crashes, panics, lost_replies, duplicates, ticks, sweeps, hand_offs, model_failures, unknowns } =
            self.bounds;
        let mut other = Vec::new();
        other.extend((hand_offs > 0).then(|| format!("{hand_offs} hand-offs")));
        other.extend((model_failures > 0).then(|| format!("{model_failures} failed model calls")));
        other.extend((unknowns > 0).then(|| format!("{unknowns} calls unheard of or refused")));
        other.extend(self.loads_apart.then(|| "apart".to_owned()));
        other.extend((self.agent != WAITS).then(|| self.agent.replace('\n', ", ").replace('"', "")));
        let turns: Vec<_> = self.turns.iter().map(|calls| calls.join(" ")).collect();
        let people: Vec<_> = self.people.iter().map(|intents| say(intents)).collect();
        let name = match self.size {
            Size::Short => format!("**{}**", self.name),
            Size::Full => self.name.to_owned(),
            Size::Huge => format!("*{}*", self.name),
        };
        format!(
            "| {name} | {} | {} | {crashes}, {panics} | {lost_replies} | {duplicates} | {ticks} | {sweeps} | {} |",
            turns.join("; "),
            people.join("; "),
            other.join("; ")
        )
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

/// What a person does, in words.
fn say(intents: &[Intent]) -> String {
    let words = intents.iter().map(|intent| match intent {
        Intent::Decide { says, .. } if *says == ANY => "decide anyhow".to_owned(),
        Intent::Decide { says, .. } => {
            let says: Vec<_> = says.iter().map(|say| format!("{say:?}").to_lowercase()).collect();
            says.join(" or ")
        }
        Intent::Cancel | Intent::Pause | Intent::Resume | Intent::Speak => format!("{intent:?}").to_lowercase(),
        Intent::Mode(mode) => format!("mode {mode}"),
    });
    words.collect::<Vec<_>>().join(", then ")
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
const ONE_TURN: &str = "wait = \"10m\"\ndecide_within = \"10m\"\n[limits]\nturns = 1";
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

/// What a person can say of a ceiling, and of what comes after it.
const CEILING: &[Say] = &[Say::Raise, Say::Stop, Say::Approve, Say::Deny];

/// Decides some request by one of these.
macro_rules! decide {
    ($says:expr) => {
        Intent::Decide { says: $says, key: None }
    };
}

/// All configurations, the small ones first.
#[must_use]
pub fn all() -> Vec<Config> {
    let base = Config {
        name: "",
        size: Size::Full,
        turns: &[&["do"]],
        people: &[],
        loads_apart: false,
        steps: 2,
        bounds: NONE,
        agent: WAITS,
    };
    let mut all = people(&base);
    all.extend(failures(&base));
    all.extend(windows(&base));
    all.extend(wide(&base));
    all
}

/// People who get in each other's way.
fn people(base: &Config) -> Vec<Config> {
    vec![
        Config {
            name: "approve",
            people: &[&[decide!(&[Say::Approve, Say::Deny])]],
            loads_apart: true,
            bounds: Bounds { crashes: 1, duplicates: 1, ticks: 2, ..NONE },
            ..base.clone()
        },
        Config {
            name: "two-deciders",
            size: Size::Short,
            turns: &[&["do", "do"]],
            people: &[&[decide!(&[Say::Approve, Say::Forged])], &[decide!(&[Say::Deny, Say::Stranger])]],
            loads_apart: true,
            bounds: Bounds { ticks: 1, ..NONE },
            ..base.clone()
        },
        Config {
            name: "double-click",
            size: Size::Short,
            people: &[
                &[Intent::Decide { says: &[Say::Approve], key: Some(1) }],
                &[Intent::Decide { says: &[Say::Approve], key: Some(1) }],
            ],
            loads_apart: true,
            bounds: Bounds { ticks: 1, lost_replies: 1, crashes: 1, ..NONE },
            ..base.clone()
        },
        Config {
            name: "edit",
            size: Size::Short,
            turns: &[&["do"]],
            people: &[&[decide!(&[Say::Edit, Say::Retry])], &[decide!(&[Say::Approve, Say::Edit])]],
            loads_apart: true,
            bounds: Bounds { crashes: 1, ..NONE },
            ..base.clone()
        },
        Config {
            name: "control",
            turns: &[&["auto", "do"]],
            people: &[&[Intent::Cancel], &[Intent::Pause, Intent::Resume], &[decide!(&[Say::Approve])]],
            bounds: Bounds { ticks: 1, ..NONE },
            ..base.clone()
        },
        Config {
            name: "pause",
            size: Size::Short,
            turns: &[&["auto", "do"]],
            people: &[&[Intent::Pause, Intent::Resume], &[decide!(&[Say::Approve])]],
            ..base.clone()
        },
        Config {
            name: "ceiling",
            size: Size::Short,
            turns: &[&["do"]],
            people: &[&[decide!(CEILING), decide!(CEILING)], &[decide!(&[Say::Raise, Say::Stop])]],
            bounds: Bounds { ticks: 1, ..NONE },
            agent: ONE_TURN,
            ..base.clone()
        },
        Config {
            name: "question",
            size: Size::Short,
            turns: &[&["ask_user", "!do", "auto"], &["do"]],
            people: &[&[decide!(&[Say::Answer, Say::Quit]), decide!(&[Say::Approve, Say::Deny])]],
            bounds: Bounds { ticks: 1, sweeps: 1, ..NONE },
            ..base.clone()
        },
        Config {
            name: "modes",
            turns: &[&["do", "slow"]],
            people: &[&[Intent::Mode(Mode::Yolo), Intent::Mode(Mode::Plan)], &[decide!(&[Say::Approve])]],
            bounds: Bounds { ticks: 1, crashes: 1, ..NONE },
            ..base.clone()
        },
    ]
}

/// Steps that die, are overtaken, or hear nothing.
fn failures(base: &Config) -> Vec<Config> {
    vec![
        Config {
            name: "takeover",
            turns: &[&["auto", "look", "pay"]],
            people: &[&[decide!(ANY)]],
            bounds: Bounds { crashes: 1, duplicates: 1, ticks: 1, sweeps: 1, ..NONE },
            ..base.clone()
        },
        Config {
            name: "unknown",
            turns: &[&["auto", "slow"]],
            people: &[&[decide!(ANY)]],
            bounds: Bounds { crashes: 1, unknowns: 1, ticks: 2, sweeps: 1, ..NONE },
            ..base.clone()
        },
        Config {
            name: "three-times",
            size: Size::Short,
            turns: &[&["look", "pay"]],
            people: &[&[decide!(ANY), decide!(ANY)]],
            bounds: Bounds { unknowns: 4, ticks: 1, ..NONE },
            ..base.clone()
        },
        Config {
            name: "lost-replies",
            turns: &[&["auto", "slow"]],
            people: &[&[Intent::Speak]],
            bounds: Bounds { lost_replies: 2, hand_offs: 1, ticks: 1, sweeps: 1, ..NONE },
            ..base.clone()
        },
        Config {
            name: "models",
            size: Size::Short,
            turns: &[],
            people: &[&[Intent::Speak]],
            bounds: Bounds { model_failures: 1, panics: 1, ticks: 2, ..NONE },
            ..base.clone()
        },
        Config {
            name: "fallback",
            turns: &[],
            people: &[&[Intent::Speak]],
            bounds: Bounds { model_failures: 3, ticks: 1, sweeps: 1, ..NONE },
            ..base.clone()
        },
        Config {
            name: "panics",
            size: Size::Short,
            turns: &[&["auto"]],
            people: &[&[decide!(ANY)], &[Intent::Cancel]],
            bounds: Bounds { panics: 2, crashes: 1, ticks: 2, ..NONE },
            ..base.clone()
        },
    ]
}

/// A conversation that does not wait.
fn windows(base: &Config) -> Vec<Config> {
    let base = &Config { agent: MOVES_ON, ..base.clone() };
    vec![
        Config {
            name: "late",
            size: Size::Short,
            turns: &[&["do"], &["do"]],
            people: &[&[decide!(&[Say::Approve, Say::Deny])]],
            bounds: Bounds { ticks: 2, ..NONE },
            ..base.clone()
        },
        Config {
            name: "late-next-turn",
            people: &[&[decide!(&[Say::Approve, Say::Deny])], &[Intent::Speak]],
            bounds: Bounds { ticks: 2, ..NONE },
            agent: NEXT_TURN,
            ..base.clone()
        },
        Config {
            name: "late-quit",
            turns: &[&["ask_user", "do"]],
            people: &[&[decide!(&[Say::Quit])], &[Intent::Cancel], &[decide!(&[Say::Approve])]],
            bounds: Bounds { ticks: 2, ..NONE },
            ..base.clone()
        },
        Config {
            name: "supersede",
            size: Size::Short,
            turns: &[&["do", "auto"]],
            people: &[&[decide!(ANY)], &[Intent::Speak]],
            bounds: Bounds { ticks: 1, crashes: 1, ..NONE },
            agent: SUPERSEDES,
            ..base.clone()
        },
        Config {
            name: "denies",
            turns: &[&["do", "ask_user"]],
            people: &[&[decide!(ANY), decide!(ANY)]],
            bounds: Bounds { ticks: 2, sweeps: 1, ..NONE },
            agent: DENIES,
            ..base.clone()
        },
        Config {
            name: "siblings",
            turns: &[&["do", "do"]],
            people: &[&[decide!(&[Say::Approve]), decide!(&[Say::Approve])]],
            bounds: Bounds { ticks: 2, ..NONE },
            ..base.clone()
        },
    ]
}

/// More of everything at once.
fn wide(base: &Config) -> Vec<Config> {
    vec![
        Config {
            name: "wide",
            turns: &[&["do", "auto"]],
            people: &[&[decide!(ANY)], &[decide!(&[Say::Approve, Say::Deny])], &[Intent::Cancel]],
            bounds: Bounds { crashes: 1, duplicates: 1, ticks: 2, ..NONE },
            ..base.clone()
        },
        Config {
            name: "three-steps",
            turns: &[&["auto", "do"]],
            people: &[&[decide!(&[Say::Approve, Say::Retry])]],
            steps: 3,
            bounds: Bounds { duplicates: 2, ticks: 2, ..NONE },
            ..base.clone()
        },
        Config {
            name: "wide-late",
            turns: &[&["do"]],
            people: &[&[decide!(&[Say::Approve, Say::Deny])], &[decide!(&[Say::Approve])]],
            bounds: Bounds { crashes: 1, duplicates: 1, ticks: 2, ..NONE },
            agent: MOVES_ON,
            ..base.clone()
        },
        Config {
            name: "huge-late",
            size: Size::Huge,
            turns: &[&["do"], &["do"]],
            people: &[&[decide!(&[Say::Approve, Say::Deny])], &[decide!(&[Say::Approve])]],
            bounds: Bounds { crashes: 1, duplicates: 1, ticks: 2, ..NONE },
            agent: MOVES_ON,
            ..base.clone()
        },
    ]
}
