//! Settings from the environment, with everything that is missing named at once.

use std::collections::BTreeMap;

/// A variable that must be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it holds, for the message when it is missing.
    pub holds: &'static str,
}

/// An environment that a function cannot start in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEnvironment {
    /// Variables are missing or blank.
    #[error("the environment is incomplete; set {}", list(.0))]
    Missing(Vec<Variable>),
    /// A variable holds something else than it should.
    #[error("{name} is {value:?}; it must be {must_be}")]
    Malformed {
        /// Its name.
        name: &'static str,
        /// What it holds.
        value: String,
        /// What it should hold.
        must_be: &'static str,
    },
}

fn list(variables: &[Variable]) -> String {
    let each = variables.iter().map(|variable| format!("{} ({})", variable.name, variable.holds));
    each.collect::<Vec<_>>().join(", ")
}

/// A process's environment.
#[derive(Debug, Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// This process's; variables that are no Unicode are left out.
    #[must_use]
    pub fn of_process() -> Self {
        let unicode = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(unicode).collect())
    }

    /// The value of `name`, if it is set and not blank.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// The values of all `variables`.
    ///
    /// # Errors
    /// [`BadEnvironment::Missing`] with all that are not there.
    pub fn require<const N: usize>(&self, variables: [Variable; N]) -> Result<[String; N], BadEnvironment> {
        let missing: Vec<_> = variables.iter().copied().filter(|variable| self.get(variable.name).is_none()).collect();
        if !missing.is_empty() {
            return Err(BadEnvironment::Missing(missing));
        }
        Ok(variables.map(|variable| self.get(variable.name).unwrap_or_default().to_owned()))
    }

    /// The value of `name` as a whole number of at least 1, or `default` if it is not set.
    ///
    /// # Errors
    /// [`BadEnvironment::Malformed`] if it is set to something else.
    pub fn number(&self, name: &'static str, default: u64) -> Result<u64, BadEnvironment> {
        let Some(value) = self.get(name) else { return Ok(default) };
        let number = value.parse().ok().filter(|number| *number > 0);
        number.ok_or_else(|| BadEnvironment::Malformed {
            name,
            value: value.to_owned(),
            must_be: "a whole number of at least 1",
        })
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(variables: [(&str, &str); N]) -> Self {
        Self(variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{QUEUE_URL, TABLE};

    #[test]
    fn everything_that_is_missing_is_named_at_once() {
        let error = Environment::from([("DORMOUSE_TABLE", "  ")]).require([TABLE, QUEUE_URL]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the environment is incomplete; set DORMOUSE_TABLE (the name of the DynamoDB table), DORMOUSE_QUEUE_URL \
             (the URL of the SQS queue)"
        );
        let one = Environment::from([("DORMOUSE_TABLE", "t")]).require([TABLE, QUEUE_URL]).unwrap_err();
        assert_eq!(one, BadEnvironment::Missing(vec![QUEUE_URL]));
    }

    #[test]
    fn values_come_in_the_order_asked_for() {
        let environment = Environment::from([("DORMOUSE_QUEUE_URL", "u"), ("DORMOUSE_TABLE", " t ")]);
        assert_eq!(environment.require([TABLE, QUEUE_URL]).unwrap(), ["t", "u"]);
    }

    #[test]
    fn a_number_is_one_or_an_error_never_the_default() {
        let environment = Environment::from([("A", "90"), ("B", "0"), ("C", "1m"), ("D", "")]);
        assert_eq!(environment.number("A", 1), Ok(90));
        assert!(environment.number("B", 1).is_err() && environment.number("C", 1).is_err());
        assert_eq!((environment.number("D", 7), environment.number("E", 7)), (Ok(7), Ok(7)));
    }
}
