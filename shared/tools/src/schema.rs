//! JSON Schema: compiled without ever fetching anything, and what does not fit told to the model.

use std::fmt::Write as _;

use jsonschema::Validator;
use serde_json::Value;

use crate::bounds::shorten;

/// Most violations that are told at once.
const MAX_VIOLATIONS: usize = 5;
/// Longest text of one violation in bytes: the offending value stands in it.
const MAX_VIOLATION_BYTES: usize = 190;
/// Longest text of all violations in bytes.
const MAX_PROBLEM_BYTES: usize = 1024;

/// Compiles `schema`. A `$ref` leads to a place within it or to one of the JSON Schema drafts that
/// come with the validator: nothing is read from the network or from a disk.
///
/// # Errors
/// Why it is not a schema, in one line.
pub(crate) fn compile(schema: &Value) -> Result<Validator, String> {
    jsonschema::options().offline().build(schema).map_err(|error| {
        let place = error.instance_path().to_string();
        let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
        shorten(&format!("{place}{error}"), MAX_PROBLEM_BYTES)
    })
}

/// Checks `arguments`.
///
/// # Errors
/// Each violation on a line with its place in the arguments (a JSON Pointer), bounded in number and
/// length.
pub(crate) fn check(validator: &Validator, arguments: &Value) -> Result<(), String> {
    let mut violations = validator.iter_errors(arguments).peekable();
    if violations.peek().is_none() {
        return Ok(());
    }
    let mut problem = "the arguments do not fit the tool's schema:".to_owned();
    for violation in violations.by_ref().take(MAX_VIOLATIONS) {
        let place = violation.instance_path().to_string();
        let place = if place.is_empty() { "(top level)" } else { &place };
        let line = shorten(&format!("{place}: {violation}"), MAX_VIOLATION_BYTES);
        let _ = write!(problem, "\n{line}");
    }
    if violations.next().is_some() {
        problem.push_str("\n(and more)");
    }
    Err(shorten(&problem, MAX_PROBLEM_BYTES))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problem(schema: &Value, arguments: &Value) -> String {
        check(&compile(schema).unwrap(), arguments).unwrap_err()
    }

    #[test]
    fn each_violation_has_its_place() {
        let schema = json!({
            "type": "object",
            "properties": {"service": true, "env": {"enum": ["dev", "prod"]}, "to": {"type": "array", "items": {"type": "integer"}}},
            "required": ["service"],
            "additionalProperties": false
        });
        let problem = problem(&schema, &json!({"env": "moon", "to": [1, "x"], "extra": 1}));
        for part in [
            "/env: \"moon\" is not one of",
            "/to/1: \"x\" is not of type \"integer\"",
            "(top level): ",
            "service",
            "extra",
        ] {
            assert!(problem.contains(part), "{part} missing in {problem}");
        }
        assert!(check(&compile(&schema).unwrap(), &json!({"service": "a"})).is_ok());
    }

    #[test]
    fn at_most_five_violations_and_one_kib() {
        let schema = json!({"additionalProperties": {"type": "integer"}});
        let many: serde_json::Map<_, _> = (0..9).map(|i| (format!("k{i}"), json!("é".repeat(900)))).collect();
        let problem = problem(&schema, &Value::Object(many));
        assert_eq!(problem.lines().count(), 7, "{problem}");
        assert!(problem.ends_with("(and more)") && problem.len() <= MAX_PROBLEM_BYTES);
    }

    #[test]
    fn a_reference_to_elsewhere_is_never_followed() {
        for reference in
            ["https://example.com/s.json", "http://127.0.0.1:1/s.json", "file:///etc/hostname", "other.json"]
        {
            let nested = json!({"type": "object", "properties": {"a": {"$ref": reference}}});
            assert!(compile(&nested).is_err(), "{reference}");
        }
        let own = json!({"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}});
        assert!(problem(&own, &json!({"a": "x"})).contains("/a"));
        assert!(
            compile(&json!({"properties": {"a": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}})).is_ok()
        );
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for bad in [
            json!({"type": "objekt"}),
            json!({"pattern": "("}),
            json!({"required": "a"}),
            json!({"$ref": "#/nowhere"}),
            json!(3),
        ] {
            assert!(compile(&bad).is_err(), "{bad}");
        }
    }

    /// A schema that refers to itself without end must not take the process down.
    #[test]
    fn endless_schemas_end() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
        ] {
            let _ = compile(&schema).map(|validator| check(&validator, &json!({"a": 1})));
        }
    }

    #[test]
    fn builtin_schemas_compile() {
        for builtin in dormouse_domain::builtin::Builtin::ALL {
            assert!(compile(&builtin.input_schema()).is_ok(), "{}", builtin.name());
        }
    }
}
