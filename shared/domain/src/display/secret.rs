//! Arguments that nobody is shown.
//!
//! The agent file declares them by path: `password`, `headers.authorization`, `users.*.token`, where
//! `*` is each element of a list or member of an object. A path is read widely: names match whatever
//! their case, as HTTP's do, and where the arguments do not have the form that the path supposes, what
//! stands in its way is masked whole (I11).

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Map, Value};

use super::value;
use crate::agent::Definition;

/// What stands in the place of a secret, whatever its value.
pub const MASK: &str = "(secret, not shown)";

/// What stands in the place of a problem with arguments, which may quote a secret.
pub(crate) const PROBLEM: &str =
    "the arguments do not fit the tool's schema; what is wrong is not shown, because they hold a secret";

/// What stands for each element of a list and each member of an object.
const EACH: &str = "*";

/// `arguments` with the values at these paths masked.
#[must_use]
pub fn mask<'a>(arguments: &'a Value, paths: &[String]) -> Cow<'a, Value> {
    let mut masked = Cow::Borrowed(arguments);
    for path in paths {
        cover(masked.to_mut(), path);
    }
    masked
}

fn cover(value: &mut Value, path: &str) {
    let (head, tail) = match path.split_once('.') {
        Some((head, tail)) => (head, Some(tail)),
        None => (path, None),
    };
    let hide = |value: &mut Value| match tail {
        Some(tail) => cover(value, tail),
        None => *value = MASK.into(),
    };
    match value {
        Value::Object(members) => {
            members
                .iter_mut()
                .filter(|(name, _)| head == EACH || name.eq_ignore_ascii_case(head))
                .for_each(|(_, member)| hide(member));
        }
        Value::Array(items) if head == EACH => items.iter_mut().for_each(hide),
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => *value = MASK.into(),
    }
}

/// Whether a value in the argument `path` (keys joined by dots) may be masked by one of these paths, told by the
/// first of its names alone.
pub(crate) fn may_cover(paths: &[String], path: &str) -> bool {
    let first = |path: &'_ str| path.split('.').next().unwrap_or_default().to_ascii_lowercase();
    paths.iter().any(|secret| first(secret) == EACH || first(secret) == first(path))
}

/// The paths that go for a call of the tool `name`: its own, or all of the agent's if it has no such
/// tool, because a name with a slip in it comes with the same arguments.
pub(crate) fn paths(agent: &Definition, name: &str) -> Vec<String> {
    match agent.tool(name) {
        Some(tool) => tool.secret.clone(),
        None => agent.tools.iter().flat_map(|tool| tool.secret.clone()).collect(),
    }
}

/// What is wrong with `path`, given the tool's schema: a name that the schema neither has nor allows is
/// a slip, and would leave the secret in the open.
pub(crate) fn fault(path: &str, schema: &Value) -> Option<String> {
    let mut at = Some(schema);
    for name in path.split('.') {
        if name.is_empty() {
            return Some(format!(
                "{path:?} is no path; write names with dots between them, such as headers.authorization"
            ));
        }
        let Some(schema) = at else { continue };
        at = match step(schema, name) {
            Ok(next) => next,
            Err(known) if known.is_empty() => {
                return Some(format!("{path:?}: nothing of that name is in input_schema, which allows no others"));
            }
            Err(known) => {
                return Some(format!(
                    "{path:?}: {name:?} is not in input_schema, which allows only {}",
                    known.join(", ")
                ));
            }
        };
    }
    None
}

/// The schema of what `name` names in a value of this schema: none where it does not say.
fn step<'a>(schema: &'a Value, name: &str) -> Result<Option<&'a Value>, Vec<&'a str>> {
    let says = |keyword: &str| schema.get(keyword);
    if name == EACH {
        return Ok(says("items").filter(|items| items.is_object()));
    }
    if says("type").and_then(Value::as_str).is_some_and(|kind| kind != "object") {
        return Err(Vec::new());
    }
    let properties = says("properties").and_then(Value::as_object);
    if let Some((_, next)) = properties.into_iter().flatten().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        return Ok(Some(next));
    }
    let closed = says("additionalProperties") == Some(&Value::Bool(false)) && says("patternProperties").is_none();
    if closed { Err(properties.into_iter().flatten().map(|(known, _)| known.as_str()).collect()) } else { Ok(None) }
}

/// The arguments that a person means who was shown `stored` as [`super::arguments`] shows them and sent
/// back `edited`: what they left as it was shown is what is stored.
///
/// # Errors
/// If a mask stands where no secret is stored, so that nobody can say what it means.
pub fn restore(stored: &Value, edited: &Value, paths: &[String]) -> Result<Value, String> {
    let shown = value::arguments(stored, paths);
    let meant = put_back(stored, &shown, edited);
    if holds_mask(&meant) && !holds_mask(stored) {
        return Err(format!("{MASK:?} stands where nothing secret is stored; send the value itself, or leave it out"));
    }
    Ok(meant)
}

fn put_back(stored: &Value, shown: &Value, edited: &Value) -> Value {
    if edited == shown {
        return stored.clone();
    }
    match (stored, shown, edited) {
        (Value::Object(stored), Value::Object(shown), Value::Object(edited)) => {
            let names: BTreeMap<String, &String> = stored.keys().map(|name| (value::key(name), name)).collect();
            let members = edited.iter().map(|(name, edited)| match (names.get(name), shown.get(name)) {
                (Some(own), Some(shown)) => ((*own).clone(), put_back(&stored[own.as_str()], shown, edited)),
                (_, _) => (name.clone(), edited.clone()),
            });
            Value::Object(members.collect::<Map<_, _>>())
        }
        // With an element more or less, nobody can say which is which.
        (Value::Array(stored), Value::Array(shown), Value::Array(edited)) if stored.len() == edited.len() => stored
            .iter()
            .zip(shown)
            .zip(edited)
            .map(|((stored, shown), edited)| put_back(stored, shown, edited))
            .collect(),
        (_, _, _) => edited.clone(),
    }
}

fn holds_mask(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text == MASK,
        Value::Array(items) => items.iter().any(holds_mask),
        Value::Object(members) => members.values().any(holds_mask),
    }
}
