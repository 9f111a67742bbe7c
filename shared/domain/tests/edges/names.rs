//! Names of things, as they are spelt and read back.

use dormouse_domain::{
    Digest, RequestId,
    message::ModelRef,
    request::{DecisionKind, RequestStatus},
};
use serde_json::json;

use super::*;

/// A name is stored as its text, and nothing but that text is read as it.
#[test]
fn names_are_stored_as_their_text() {
    let run = RunId::from_bits(0xabc);
    let text = "run_00000000000000000000000000000abc";
    let id = RequestId { run: run.clone(), key: RequestKey::new(4, 1) };
    assert_eq!(serde_json::to_value(&run).unwrap(), json!(text));
    assert_eq!(serde_json::to_value(&id).unwrap(), json!(format!("{text}.4.1")));
    assert_eq!(serde_json::from_value::<RequestId>(json!(format!("{text}.4.1"))).unwrap(), id);
    assert_eq!(serde_json::to_value(CallKey::new(2, 0)).unwrap(), json!("2.0"));
    let digest = Digest::of(b"x");
    assert_eq!(serde_json::to_value(&digest).unwrap(), json!(digest.as_str()));
    let read = |text: &str| Digest::try_from(text.to_owned());
    assert_eq!(read(digest.as_str()), Ok(digest.clone()));
    let hex = digest.as_str().strip_prefix("sha256:").unwrap();
    for bad in ["", "sha256:", hex] {
        assert!(read(bad).is_err(), "{bad}");
    }
    for (what, hex) in
        [("short", hex[1..].to_owned()), ("long", format!("{hex}0")), ("not hexadecimal", hex[1..].to_owned() + "g")]
    {
        assert!(read(&format!("sha256:{hex}")).is_err(), "{what}");
    }
}

/// One process knows its own drivers by the host in their names: those of an earlier one are gone.
#[test]
fn d7_a_driver_names_its_process() {
    assert_eq!(DriverId::new("h1", "7").0, "h1.7");
    for (driver, host) in [("h1.7", "h1"), ("h1.7.8", "h1"), ("h1", "h1"), (".7", "")] {
        assert_eq!(DriverId(driver.to_owned()).host(), host, "{driver}");
    }
}

#[test]
fn a_principal_is_shown_with_its_tenant() {
    assert_eq!(me().to_string(), "t/s");
}

/// A model is `provider:name`, both of them given; a name can hold further colons.
#[test]
fn models_have_a_provider_and_a_name() {
    let read = |text: &str| text.parse::<ModelRef>().ok();
    let model = |provider: &str, name: &str| Some(ModelRef { provider: provider.into(), name: name.into() });
    for (text, expected) in [
        ("a:b", model("a", "b")),
        ("bedrock:anthropic.claude-v1:0", model("bedrock", "anthropic.claude-v1:0")),
        ("", None),
        (":", None),
        ("a:", None),
        (":b", None),
        ("a", None),
    ] {
        assert_eq!(read(text), expected, "{text}");
        assert_eq!(serde_json::from_value::<ModelRef>(json!(text)).ok(), expected, "{text}");
        if let Some(model) = expected {
            assert_eq!((model.to_string(), serde_json::to_value(&model).unwrap()), (text.to_owned(), json!(text)));
        }
    }
}

/// The words that clients read, one for each thing, as it is stored.
#[test]
fn words_are_those_that_are_stored() {
    use RequestStatus as S;
    for (stop, word) in [
        (StopReason::EndTurn, "end_turn"),
        (StopReason::ToolUse, "tool_use"),
        (StopReason::MaxTokens, "max_tokens"),
        (StopReason::Refusal, "refusal"),
        (StopReason::Pause, "pause"),
    ] {
        assert_eq!((stop.as_str(), serde_json::to_value(&stop).unwrap()), (word, json!(word)));
    }
    assert_eq!(StopReason::Other("sensitive".into()).as_str(), "sensitive");
    for (status, word) in
        [(S::Pending, "pending"), (S::Decided, "decided"), (S::Expired, "expired"), (S::Cancelled, "cancelled")]
    {
        assert_eq!((status.as_str(), serde_json::to_value(status).unwrap()), (word, json!(word)));
    }
    use DecisionKind as D;
    for (kind, word) in [
        (D::Approve, "approve"),
        (D::Deny, "deny"),
        (D::Edit, "edit"),
        (D::Always, "always"),
        (D::Answer, "answer"),
        (D::Settle, "settle"),
        (D::Raise, "raise"),
        (D::Stop, "stop"),
    ] {
        assert_eq!((kind.as_str(), serde_json::to_value(kind).unwrap()), (word, json!(word)));
    }
}
