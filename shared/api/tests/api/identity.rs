//! Who calls: from the authorizer's fields alone.

use dormouse_api::identity::Identity;
use dormouse_domain::{Millis, Principal};
use http::Method;
use serde_json::{Value, json};

use crate::app::{App, event, with_header};

const LATER: u64 = 4_000_000_000;

async fn list_as(fields: Value) -> crate::app::Answer {
    let mut event = event("ann", Method::GET, "/v1/runs", "");
    event.request_context.authorizer.fields = serde_json::from_value(fields).unwrap();
    App::new().send(event).await
}

#[tokio::test]
async fn complete_fields_are_taken_as_numbers_or_strings() {
    for fields in [
        json!({ "tenant": "acme", "sub": "ann", "groups": "[\"ops\"]", "exp": LATER }),
        json!({ "tenant": "acme", "sub": "ann", "groups": "[]", "exp": LATER.to_string() }),
        json!({ "tenant": "acme", "sub": "ann", "exp": "4.0E9", "principalId": "x", "integrationLatency": 3 }),
    ] {
        list_as(fields).await.expect(200);
    }
}

#[tokio::test]
async fn whatever_is_missing_or_odd_is_nobody() {
    for fields in [
        json!({}),
        json!({ "sub": "ann", "exp": LATER }),
        json!({ "tenant": "acme", "exp": LATER }),
        json!({ "tenant": "acme", "sub": "ann" }),
        json!({ "tenant": "", "sub": "ann", "exp": LATER }),
        json!({ "tenant": "acme", "sub": " ", "exp": LATER }),
        json!({ "tenant": "acme", "sub": "an\nn", "exp": LATER }),
        json!({ "tenant": "acme", "sub": "a".repeat(257), "exp": LATER }),
        json!({ "tenant": "acme", "sub": 7, "exp": LATER }),
        json!({ "tenant": "acme", "sub": "ann", "exp": "soon" }),
        json!({ "tenant": "acme", "sub": "ann", "exp": "NaN" }),
        json!({ "tenant": "acme", "sub": "ann", "exp": "inf" }),
        json!({ "tenant": "acme", "sub": "ann", "exp": -1 }),
        json!({ "tenant": "acme", "sub": "ann", "exp": null }),
        json!({ "tenant": "acme", "sub": "ann", "exp": LATER, "groups": "ops" }),
        json!({ "tenant": "acme", "sub": "ann", "exp": LATER, "groups": ["ops"] }),
    ] {
        let answer = list_as(fields.clone()).await;
        answer.expect_problem(401, "unauthenticated");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{fields}");
    }
}

/// RFC 7519, section 4.1.4: at `exp` it is over. API Gateway caches the authorizer's answer.
#[tokio::test]
async fn a_token_ends_at_its_exp() {
    // The clock stands at 1_700_000_000 s.
    for (exp, status) in [("1700000000", 401), ("1700000000.5", 200), ("1700000001", 200), ("1699999999", 401)] {
        assert_eq!(list_as(json!({ "tenant": "acme", "sub": "ann", "exp": exp })).await.status, status, "{exp}");
    }
}

#[tokio::test]
async fn no_body_and_no_header_says_who_calls() {
    let app = App::new();
    let mut stranger = event("x", Method::POST, "/v1/runs", r#"{"agent":"ops","input":"go"}"#);
    stranger.request_context.authorizer.fields.clear();
    for name in ["authorization", "x-dev-user", "x-user", "tenant", "sub"] {
        stranger = with_header(stranger, name, "acme/ann");
    }
    app.send(stranger).await.expect_problem(401, "unauthenticated");

    for field in ["owner", "by", "tenant", "sub", "user"] {
        let body = json!({ "agent": "ops", "input": "go", field: "acme/bob" });
        let document = app.post("ann", "/v1/runs", body).await.expect_problem(400, "invalid-body");
        assert!(document["detail"].as_str().unwrap().contains(field), "{document}");
    }
}

#[test]
fn what_an_authorizer_writes_is_what_is_read() {
    let identity = Identity {
        principal: Principal { tenant: "acme".to_owned(), subject: "auth0|ann".to_owned() },
        groups: vec!["ops".to_owned(), "a\"b".to_owned()],
        expires_at: Millis(1_800_000_000_000),
    };
    let mut event = event("x", Method::GET, "/v1/runs", "");
    event.request_context.authorizer.fields = identity.fields();
    assert_eq!(Identity::read(&event, Millis(0)), Ok(identity));
}
