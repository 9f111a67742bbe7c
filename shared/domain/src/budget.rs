//! The ceilings of a run: what it has used, what it may use, and what a person can add (C5).
//!
//! A model is asked only below every ceiling. At one, the run opens a `budget` request, and waits until
//! somebody raises the ceiling or stops the run. What a call used of which nobody knows is counted at the most that
//! it can have cost (case 54).

use serde::{Deserialize, Serialize};

use crate::{
    agent::Limits,
    ids::Millis,
    message::is_default,
    price::Cost,
    run::{OpenedRequest, Run},
    transcript,
};

/// Tokens of a prompt that are in no text of ours: what providers put around it.
const OVERHEAD_TOKENS: u64 = 2_000;
/// The most that a run may cost, and be raised by at once, in dollars.
pub const MAX_DOLLARS: f64 = 9_000.0;
/// The longest that a run may work, and be raised by at once, in milliseconds: a year.
pub const MAX_WALL_MS: u64 = 365 * 24 * 3600 * 1000;

/// Amounts of the things that a run uses up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Amounts {
    /// Model replies.
    #[serde(default, skip_serializing_if = "is_default")]
    pub turns: u32,
    /// Tokens, input and output together.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tokens: u64,
    /// Money.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cost: Cost,
    /// Time that steps work, in milliseconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wall_ms: u64,
}

impl From<&Limits> for Amounts {
    fn from(limits: &Limits) -> Self {
        Self {
            turns: limits.turns,
            tokens: limits.tokens,
            cost: Cost::of_dollars(limits.cost_usd),
            wall_ms: limits.wall_ms,
        }
    }
}

impl Amounts {
    /// Both together.
    #[must_use]
    pub fn plus(&self, more: &Self) -> Self {
        Self {
            turns: self.turns.saturating_add(more.turns),
            tokens: self.tokens.saturating_add(more.tokens),
            cost: self.cost.plus(more.cost),
            wall_ms: self.wall_ms.saturating_add(more.wall_ms),
        }
    }

    /// The smaller of both, one by one.
    #[must_use]
    pub fn min(&self, other: &Self) -> Self {
        Self {
            turns: self.turns.min(other.turns),
            tokens: self.tokens.min(other.tokens),
            cost: self.cost.min(other.cost),
            wall_ms: self.wall_ms.min(other.wall_ms),
        }
    }

    /// One of so many equal shares.
    #[must_use]
    pub fn shared(&self, among: u32) -> Self {
        let among = among.max(1);
        Self {
            turns: self.turns / among,
            tokens: self.tokens / u64::from(among),
            cost: Cost(self.cost.0 / u64::from(among)),
            wall_ms: self.wall_ms / u64::from(among),
        }
    }
}

/// What a run and those that it delegated to have used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Consumed {
    /// How much.
    pub amounts: Amounts,
    /// Whether the cost is a bound.
    #[serde(default, skip_serializing_if = "crate::message::is_false")]
    pub at_most: bool,
}

impl Consumed {
    /// One more.
    pub fn add(&mut self, other: &Self) {
        self.amounts = self.amounts.plus(&other.amounts);
        self.at_most |= other.at_most;
    }
}

/// How much a run may use and how much it has used, as a person is shown who is to raise a ceiling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Budget {
    /// The ceilings.
    pub ceilings: Amounts,
    /// What it has used.
    pub used: Amounts,
    /// Whether the cost is a bound: some of it is not known, and counted at the most that it can have been.
    #[serde(default, skip_serializing_if = "crate::message::is_false")]
    pub at_most: bool,
}

impl Budget {
    /// That of `run` at `now`.
    #[must_use]
    pub fn of(run: &Run, now: Millis) -> Self {
        let current_ms = run.driver.as_ref().map_or(0, |driver| now.since(driver.since));
        let worked_ms = run.worked_ms.saturating_add(current_ms);
        let used = Amounts {
            turns: u32::try_from(run.turns.len()).unwrap_or(u32::MAX),
            tokens: run.usage.tokens(),
            cost: run.cost.total,
            wall_ms: worked_ms,
        };
        let used = used.plus(&run.children.amounts);
        Self { ceilings: run.ceilings, used, at_most: run.cost.at_most || run.children.at_most }
    }

    /// What is left.
    #[must_use]
    pub fn left(&self) -> Amounts {
        let Self { ceilings, used, .. } = self;
        Amounts {
            turns: ceilings.turns.saturating_sub(used.turns),
            tokens: ceilings.tokens.saturating_sub(used.tokens),
            cost: Cost(ceilings.cost.0.saturating_sub(used.cost.0)),
            wall_ms: ceilings.wall_ms.saturating_sub(used.wall_ms),
        }
    }

    /// The ceilings that are reached, in words.
    #[must_use]
    pub fn reached(&self) -> Vec<String> {
        let Self { ceilings, used, at_most } = self;
        let mut reached = Vec::new();
        if used.turns >= ceilings.turns {
            reached.push(format!("the limit of {} turns is reached", ceilings.turns));
        }
        if used.tokens >= ceilings.tokens {
            reached.push(format!("the limit of {} tokens is reached", ceilings.tokens));
        }
        if used.cost >= ceilings.cost {
            let bound =
                if *at_most { ", with what is not known counted at the most that it can have cost" } else { "" };
            reached.push(format!("the limit of {} is reached{bound}", ceilings.cost));
        }
        if used.wall_ms >= ceilings.wall_ms {
            reached.push(format!("the limit of {} ms of work is reached", ceilings.wall_ms));
        }
        reached
    }

    /// The budget with more of everything.
    #[must_use]
    pub fn raised(mut self, by: &Amounts) -> Self {
        self.ceilings = self.ceilings.plus(by);
        self
    }
}

/// The first ceiling that is reached, in words, if one is: then no model is asked.
#[must_use]
pub fn exhausted(run: &Run, now: Millis) -> Option<String> {
    Budget::of(run, now).reached().into_iter().next()
}

/// The request that waits for somebody to raise a ceiling, if one does.
#[must_use]
pub fn pending(run: &Run) -> Option<&OpenedRequest> {
    run.pending().map(|(_, request)| request).find(|request| request.call.is_none())
}

/// What the model calls of a run cost so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Spent {
    /// In money.
    pub total: Cost,
    /// Whether some of it is not known, and counted at the most that it can have been.
    #[serde(default, skip_serializing_if = "crate::message::is_false")]
    pub at_most: bool,
}

impl Spent {
    /// One more call, whose cost is known.
    pub fn add(&mut self, cost: Cost) {
        self.total = self.total.plus(cost);
    }

    /// One more call, which cost this at most.
    pub fn add_at_most(&mut self, cost: Cost) {
        self.add(cost);
        self.at_most = true;
    }
}

/// The most that the model call can cost that `run` is to make next: no token is shorter than a byte of text, and
/// what the model counted of its last prompt and reply is in the next prompt.
#[must_use]
pub fn next_call_at_most(run: &Run) -> Cost {
    let model = run.model();
    let counted = run.turns.last().filter(|turn| turn.model == *model).and_then(|turn| Some((turn, turn.tokens?)));
    let prompt = match counted {
        Some((turn, tokens)) => tokens.saturating_add(transcript::tokens_after(run, turn)),
        None => transcript::prompt(run).tokens_at_most(),
    };
    run.definition.price(model).at_most(prompt.saturating_add(OVERHEAD_TOKENS))
}
