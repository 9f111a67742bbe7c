//! What models cost: a table of prices, frozen with each run, and the sums that follow from it.
//!
//! Money is counted in whole picodollars, so that any number of tokens at any listed price adds up without
//! rounding. What is not known is counted at the most that it can have been (case 54): a model that no table
//! names at the price of [`unknown`](Price::HIGHEST), a call of which nobody knows what it used as the longest
//! prompt and reply that it can have had.

use std::{collections::BTreeMap, fmt, iter::Sum, sync::OnceLock};

use serde::{Deserialize, Serialize};

use crate::{
    agent_file,
    json::MAX_WHOLE,
    message::{ModelRef, Usage},
};

/// US dollars, in picodollars (10⁻¹² of one).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cost(pub u64);

/// Picodollars of a dollar.
const PICO: f64 = 1e12;
/// The largest amount of money that is told apart from "more": 9,007 dollars.
const MOST: u64 = MAX_WHOLE;

impl Cost {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// This many dollars; at most about 9,007, and nothing for what is no amount.
    #[must_use]
    pub fn of_dollars(dollars: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a cast of a float saturates, and MOST bounds it"
        )]
        let pico = (dollars * PICO).round() as u64;
        Self(pico.min(MOST))
    }

    /// In dollars.
    #[must_use]
    pub fn dollars(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "exact up to MOST, which bounds every sum")]
        let pico = self.0 as f64;
        pico / PICO
    }

    /// Both together, at most about 9,007 dollars.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0).min(MOST))
    }

    fn times(self, tokens: u64) -> Self {
        Self(self.0.saturating_mul(tokens).min(MOST))
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::ZERO, Self::plus)
    }
}

/// `$0.42`: at least two decimals, and as many more as a small amount needs to be seen.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = if self.0 == 0 || self.0 >= 10_000_000_000 { 2 } else { 6 };
        write!(f, "${:.decimals$}", self.dollars())
    }
}

/// What a model costs, for each token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Price {
    /// Of input.
    pub input: Cost,
    /// Of output, reasoning included.
    pub output: Cost,
    /// Of input that is read from the provider's cache.
    pub cache_read: Cost,
    /// Of input that is written to it.
    pub cache_write: Cost,
    /// Tokens that one reply has at most.
    pub max_output: u64,
}

impl Price {
    /// Nothing.
    pub const FREE: Self =
        Self { input: Cost::ZERO, output: Cost::ZERO, cache_read: Cost::ZERO, cache_write: Cost::ZERO, max_output: 0 };

    /// What each token of a model counts for whose price is not known.
    pub const HIGHEST: Self = Self {
        input: Cost(15_000_000),
        output: Cost(75_000_000),
        cache_read: Cost(15_000_000),
        cache_write: Cost(18_750_000),
        max_output: 32_768,
    };

    /// What `usage` costs.
    #[must_use]
    pub fn of(&self, usage: &Usage) -> Cost {
        [
            self.input.times(usage.input_tokens),
            self.output.times(usage.output_tokens),
            self.cache_read.times(usage.cache_read_tokens),
            self.cache_write.times(usage.cache_write_tokens),
        ]
        .into_iter()
        .sum()
    }

    /// The most that a call can cost whose prompt has at most `prompt` tokens.
    #[must_use]
    pub fn at_most(&self, prompt: u64) -> Cost {
        let input = self.input.max(self.cache_read).max(self.cache_write);
        input.times(prompt).plus(self.output.times(self.max_output))
    }
}

/// The price of a model, as a run froze it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelPrice {
    /// The model.
    pub model: ModelRef,
    /// What it costs.
    #[serde(flatten)]
    pub price: Price,
    /// Whether no table names it, so that this is the price of one that is not known.
    #[serde(default, skip_serializing_if = "crate::message::is_false")]
    pub unknown: bool,
}

/// Prices by name of the model; a name that ends in `*` is for all that begin so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prices {
    /// That of a model that is not named.
    pub(crate) unknown: Price,
    /// Those that are.
    pub(crate) models: BTreeMap<String, Price>,
}

impl Prices {
    /// Those that this release ships.
    #[must_use]
    pub fn builtin() -> &'static Self {
        static BUILTIN: OnceLock<Prices> = OnceLock::new();
        let highest = Self { unknown: Price::HIGHEST, models: BTreeMap::new() };
        // A test reads the table: were it broken after all, every model would cost as much as the dearest.
        BUILTIN.get_or_init(|| agent_file::parse_prices(include_str!("builtin.toml"), &highest).unwrap_or(highest))
    }

    /// What `model` costs: the price of its own name, else that of the longest beginning of it.
    #[must_use]
    pub fn of(&self, model: &ModelRef) -> ModelPrice {
        let name = model.to_string();
        let beginnings = self.models.iter().filter_map(|(pattern, price)| {
            let beginning = pattern.strip_suffix('*').filter(|beginning| name.starts_with(beginning))?;
            Some((beginning.len(), price))
        });
        let longest = beginnings.max_by_key(|(length, _)| *length).map(|(_, price)| price);
        let named = self.models.get(&name).or(longest);
        ModelPrice { model: model.clone(), price: *named.unwrap_or(&self.unknown), unknown: named.is_none() }
    }
}

#[cfg(test)]
mod tests;
