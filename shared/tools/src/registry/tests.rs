use dormouse_domain::{builtin::Builtin, entry::CallResult};
use serde_json::json;

use super::*;
use crate::testing::{MemoryFiles, builtin, call, text};

fn registry() -> Registry {
    Registry::new(Arc::new(MemoryFiles::with(&[("a", "text")])))
}

fn tool(schema: Value) -> ToolDef {
    let mut tool = builtin(Builtin::WorkspaceRead, Value::Null).tool;
    tool.input_schema = schema;
    tool
}

#[tokio::test]
async fn a_call_goes_where_its_tool_says() {
    let registry = registry();
    let reply = registry.call(&builtin(Builtin::WorkspaceRead, json!({"path": "a"}))).await;
    assert_eq!(text(&reply.result), ("text", false));
    let url = "http://127.0.0.1:1/".to_owned();
    let reply = registry.call(&call(Target::Http { url }, json!({}))).await;
    assert!(matches!(reply.result, CallResult::NotSent { .. }), "{:?}", reply.result);
}

#[test]
fn arguments_are_checked_against_the_schema() {
    let registry = registry();
    let read = builtin(Builtin::WorkspaceRead, Value::Null).tool;
    assert_eq!(registry.validate(&read, &json!({"path": "a", "from_line": 1})), Ok(()));
    let problem = registry.validate(&read, &json!({"path": 1, "from_line": 0, "more": true})).unwrap_err();
    for part in ["/path: 1 is not of type \"string\"", "/from_line: 0 is less than", "more"] {
        assert!(problem.contains(part), "{part} missing in {problem}");
    }
}

/// I11: what cannot be checked does not run.
#[test]
fn i11_nothing_fits_a_faulty_schema() {
    let registry = registry();
    for schema in [json!({"type": "objekt"}), json!({"$ref": "https://example.com/x.json"}), json!([])] {
        for _ in 0..2 {
            let problem = registry.validate(&tool(schema.clone()), &json!({})).unwrap_err();
            assert!(problem.starts_with("the tool cannot be used: its schema is faulty"), "{problem}");
        }
    }
}

/// Two tools of the same name in two agents are not mixed up, and memory is bounded.
#[test]
fn schemas_are_kept_by_their_text_and_bounded() {
    let registry = registry();
    for i in 0..MAX_SCHEMAS * 2 + 1 {
        let tool = tool(json!({"properties": {"n": {"const": i}}}));
        assert!(registry.validate(&tool, &json!({"n": i})).is_ok());
        assert!(registry.validate(&tool, &json!({"n": i + 1})).is_err());
        assert!(registry.checker.schemas.lock().unwrap().len() <= MAX_SCHEMAS);
    }
}
