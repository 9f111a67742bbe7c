//! Who calls. Taken from the authorizer's fields in the request context alone, which no client can
//! write: a body or a header that names somebody is never looked at.

use std::collections::HashMap;

use aws_lambda_events::apigw::ApiGatewayProxyRequest;
use dormouse_domain::{Caller, Millis, Principal};
use serde_json::Value;

use crate::problem::{Kind, Problem};

/// The authorizer's field that holds the tenant, a string.
pub const TENANT: &str = "tenant";
/// The authorizer's field that holds the subject within the tenant, a string.
pub const SUBJECT: &str = "sub";
/// The authorizer's field that holds the groups: one string, a JSON array of strings, because a
/// context value of API Gateway can't be a list. May be missing.
pub const GROUPS: &str = "groups";
/// The authorizer's field that holds when the token ends, in seconds since the epoch: a number, or
/// the string that API Gateway makes of it. API Gateway caches an authorizer's answer beyond that
/// moment, so every function looks at it again.
pub const EXPIRES: &str = "exp";

/// Longest tenant, subject or group, in bytes: they become parts of table keys.
const NAME_BYTES: usize = 256;

/// Who calls, as the authorizer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The person or program.
    pub principal: Principal,
    /// Groups of theirs.
    pub groups: Vec<String>,
    /// The first moment at which this no longer holds (RFC 7519, section 4.1.4).
    pub expires_at: Millis,
}

impl Identity {
    /// The authorizer fields that say this: what [`read`](Self::read) reads. For authorizers, and
    /// for hosts that stand in for one.
    #[must_use]
    pub fn fields(&self) -> HashMap<String, Value> {
        let groups = Value::from(self.groups.clone()).to_string();
        let exp = self.expires_at.0.div_euclid(1000).to_string();
        let fields = [
            (TENANT, self.principal.tenant.clone()),
            (SUBJECT, self.principal.subject.clone()),
            (GROUPS, groups),
            (EXPIRES, exp),
        ];
        fields.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
    }

    /// Who calls, for the engine.
    #[must_use]
    pub fn caller(self) -> Caller {
        Caller { principal: self.principal, groups: self.groups.into_iter().collect() }
    }

    /// Who makes `request`, at `now`.
    ///
    /// # Errors
    /// [`Kind::Unauthenticated`] if a field is missing or malformed, or the time is over (I11: what
    /// is not known is not allowed).
    pub fn read(request: &ApiGatewayProxyRequest, now: Millis) -> Result<Self, Problem> {
        let fields = &request.request_context.authorizer.fields;
        let name = |field| name(fields, field).ok_or_else(|| unauthenticated(field));
        let principal = Principal { tenant: name(TENANT)?, subject: name(SUBJECT)? };
        let groups = groups(fields.get(GROUPS)).ok_or_else(|| unauthenticated(GROUPS))?;
        let expires_at = expiry(fields.get(EXPIRES)).ok_or_else(|| unauthenticated(EXPIRES))?;
        if now >= expires_at {
            return Err(refused("the token has expired; sign in again"));
        }
        Ok(Self { principal, groups, expires_at })
    }
}

fn name(fields: &HashMap<String, Value>, field: &str) -> Option<String> {
    let text = fields.get(field)?.as_str()?;
    is_legal(text).then(|| text.to_owned())
}

fn is_legal(name: &str) -> bool {
    !name.trim().is_empty() && name.len() <= NAME_BYTES && !name.chars().any(char::is_control)
}

fn groups(value: Option<&Value>) -> Option<Vec<String>> {
    match value {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(value) => {
            let groups: Vec<String> = serde_json::from_str(value.as_str()?).ok()?;
            groups.iter().all(|group| is_legal(group)).then_some(groups)
        }
    }
}

fn expiry(value: Option<&Value>) -> Option<Millis> {
    let value = value?;
    let seconds = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
    let legal = seconds.is_finite() && seconds >= 0.0;
    legal.then_some(Millis((seconds * 1000.0) as u64))
}

/// The missing field goes to the log: the client cannot do anything about it.
fn unauthenticated(field: &str) -> Problem {
    tracing::warn!(field, "the authorizer's field is missing or malformed");
    refused("it is not known who you are; send a valid token")
}

fn refused(detail: &str) -> Problem {
    Problem::new(Kind::Unauthenticated, detail).header("www-authenticate", "Bearer".to_owned())
}
