//! Where a provider is reached, and with which key.

use std::fmt;

use dormouse_domain::retry::{Failure, FailureClass};
use reqwest::header::HeaderValue;

use crate::failure;

/// An API key, which neither prints nor logs.
#[derive(Clone)]
pub struct ApiKey(String);

impl ApiKey {
    /// This key, without the white space that pasting and files add around it.
    pub fn new(key: impl AsRef<str>) -> Self {
        Self(key.as_ref().trim().to_owned())
    }

    /// Blots the key out of what a server or the network said.
    pub(crate) fn redact(&self, mut failure: Failure) -> Failure {
        if !self.0.is_empty() {
            failure.message = failure.message.replace(&self.0, "[key]");
        }
        failure
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

/// The variables of a provider, and its public address.
pub(crate) struct Variables {
    pub(crate) base_url: &'static str,
    pub(crate) api_key: &'static str,
    pub(crate) public_base_url: &'static str,
}

/// Where a provider is reached, and with which key.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Where its API begins, without a slash at the end.
    pub base_url: String,
    /// The key, if there is one. Only the provider's public address insists on it: a server on one's
    /// own machine usually wants none.
    pub api_key: Option<ApiKey>,
}

impl Endpoint {
    /// This address, with this key.
    pub fn new(base_url: impl AsRef<str>, api_key: Option<ApiKey>) -> Self {
        Self { base_url: base_url.as_ref().trim().trim_end_matches('/').to_owned(), api_key }
    }

    /// What `lookup` says of these variables; one that is blank counts as not set.
    pub(crate) fn read(variables: &Variables, lookup: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name| lookup(name).filter(|value| !value.trim().is_empty());
        let base_url = set(variables.base_url);
        let base_url = base_url.as_deref().unwrap_or(variables.public_base_url);
        Self::new(base_url, set(variables.api_key).map(ApiKey::new))
    }

    /// The key as a header's value with `prefix` before it, `None` where the server needs none.
    ///
    /// # Errors
    /// `Auth` for a missing key, and for one that a header cannot carry.
    pub(crate) fn key_header(&self, variables: &Variables, prefix: &str) -> Result<Option<HeaderValue>, Failure> {
        let variable = variables.api_key;
        let Some(ApiKey(key)) = &self.api_key else {
            if self.base_url == variables.public_base_url {
                return Err(failure(FailureClass::Auth, format!("no API key: set {variable}")));
            }
            return Ok(None);
        };
        let mut header = HeaderValue::from_str(&format!("{prefix}{key}")).map_err(|_| {
            failure(FailureClass::Auth, format!("{variable} holds characters that no HTTP header can carry"))
        })?;
        header.set_sensitive(true);
        Ok(Some(header))
    }

    /// Blots the key out of a failure's text.
    pub(crate) fn redact(&self, failure: Failure) -> Failure {
        match &self.api_key {
            Some(key) => key.redact(failure),
            None => failure,
        }
    }
}

/// A variable of the process's environment.
pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VARIABLES: Variables =
        Variables { base_url: "X_BASE_URL", api_key: "X_API_KEY", public_base_url: "https://api.example.com" };

    fn read(vars: &[(&str, &str)]) -> Endpoint {
        Endpoint::read(&VARIABLES, |name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
    }

    #[test]
    fn variables_become_an_endpoint() {
        for (vars, base, has_key) in [
            (&[][..], "https://api.example.com", false),
            (&[("X_API_KEY", " k\n")][..], "https://api.example.com", true),
            (&[("X_API_KEY", "  "), ("X_BASE_URL", "")][..], "https://api.example.com", false),
            (&[("X_BASE_URL", "http://localhost:1/v1/")][..], "http://localhost:1/v1", false),
        ] {
            let endpoint = read(vars);
            assert_eq!((endpoint.base_url.as_str(), endpoint.api_key.is_some()), (base, has_key), "{vars:?}");
        }
    }

    #[test]
    fn a_missing_key_names_its_variable_and_only_the_public_address_insists() {
        let missing = read(&[]).key_header(&VARIABLES, "").unwrap_err();
        assert_eq!(missing.class, FailureClass::Auth);
        assert!(missing.message.contains("X_API_KEY"));
        assert_eq!(read(&[("X_BASE_URL", "http://localhost:1")]).key_header(&VARIABLES, "").unwrap(), None);
        let odd = Endpoint::new("https://x", Some(ApiKey::new("a\nb"))).key_header(&VARIABLES, "").unwrap_err();
        assert_eq!(odd.class, FailureClass::Auth);
        assert!(!odd.message.contains("a\nb"));
    }

    #[test]
    fn a_key_is_never_printed() {
        let endpoint = Endpoint::new("https://x", Some(ApiKey::new("s3cret")));
        assert!(!format!("{endpoint:?}").contains("s3cret"));
        let said = endpoint.redact(failure(FailureClass::Auth, "bad key s3cret"));
        assert_eq!(said.message, "bad key [key]");
        let header = endpoint.key_header(&VARIABLES, "Bearer ").unwrap().unwrap();
        assert!(!format!("{header:?}").contains("s3cret"));
    }
}
