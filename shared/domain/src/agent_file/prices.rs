//! The table of prices: `prices.toml`, in dollars per million tokens.

use toml::{Table, Value as Toml};

use super::{Fault, Reader, number, read_table};
use crate::price::{Cost, Price, Prices};

/// The dearest that a million tokens can be, in dollars.
const MAX_DOLLARS: f64 = 100_000.0;
/// The most tokens that a reply can have.
const MAX_OUTPUT: i64 = 10_000_000;

/// Reads the table of prices `text`, which corrects and extends `base`.
///
/// # Errors
/// Every fault of the file.
pub fn parse_prices(text: &str, base: &Prices) -> Result<Prices, Vec<Fault>> {
    let table = read_table(text)?;
    let mut reader = Reader { faults: Vec::new() };
    let prices = reader.prices(&table, base);
    if reader.faults.is_empty() { Ok(prices) } else { Err(reader.faults) }
}

impl Reader {
    fn prices(&mut self, table: &Table, base: &Prices) -> Prices {
        let mut prices = base.clone();
        self.known_keys(table, "", &["unknown", "models"]);
        match table.get("unknown") {
            None => {}
            Some(Toml::Table(unknown)) => prices.unknown = self.price(unknown, "unknown.", base.unknown.max_output),
            Some(_) => self.fault("unknown", "must be a table: { input = 15.0, output = 75.0 }"),
        }
        let models = match table.get("models") {
            None => return prices,
            Some(Toml::Table(models)) => models,
            Some(_) => {
                self.fault("models", "must be a table of tables: [models.\"provider:model\"]");
                return prices;
            }
        };
        for (name, price) in models {
            let place = format!("models.{name:?}");
            if !name.split_once(':').is_some_and(|(provider, model)| !provider.is_empty() && !model.is_empty()) {
                self.fault(&place, "is no name of a model; write \"provider:model\", or its beginning and a *");
            }
            if let Toml::Table(price) = price {
                let price = self.price(price, &format!("{place}."), prices.unknown.max_output);
                prices.models.insert(name.clone(), price);
            } else {
                self.fault(place, "must be a table: { input = 3.0, output = 15.0 }");
            }
        }
        prices
    }

    fn price(&mut self, table: &Table, prefix: &str, max_output: u64) -> Price {
        self.known_keys(table, prefix, &["input", "output", "cache_read", "cache_write", "max_output"]);
        let mut required = |key: &str| {
            let price = self.per_token(table, prefix, key);
            if !table.contains_key(key) {
                self.fault(format!("{prefix}{key}"), "required: dollars per million tokens; 0.0 for none");
            }
            price.unwrap_or_default()
        };
        let (input, output) = (required("input"), required("output"));
        let own_output = table.get("max_output").map(|value| {
            let tokens = value.as_integer().filter(|tokens| (1..=MAX_OUTPUT).contains(tokens));
            let tokens = tokens.and_then(|tokens| u64::try_from(tokens).ok());
            if tokens.is_none() {
                self.fault(format!("{prefix}max_output"), format!("must be a whole number from 1 to {MAX_OUTPUT}"));
            }
            tokens.unwrap_or(max_output)
        });
        Price {
            input,
            output,
            cache_read: self.per_token(table, prefix, "cache_read").unwrap_or(input),
            cache_write: self.per_token(table, prefix, "cache_write").unwrap_or(input),
            max_output: own_output.unwrap_or(max_output),
        }
    }

    /// A price in dollars per million tokens, as that of one.
    fn per_token(&mut self, table: &Table, prefix: &str, key: &str) -> Option<Cost> {
        let dollars = number(table.get(key)?).filter(|dollars| (0.0..=MAX_DOLLARS).contains(dollars));
        if dollars.is_none() {
            self.fault(format!("{prefix}{key}"), format!("must be a number of dollars from 0 to {MAX_DOLLARS}"));
        }
        dollars.map(|dollars| Cost::of_dollars(dollars / 1e6))
    }
}
