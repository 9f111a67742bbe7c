use dormouse_domain::{
    message::{Content, ReplyBlock, StopReason, Usage},
    retry::FailureClass,
};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{build::body, parse::reply};
use crate::testing::{Talk, Turn, any_talk, call, image, model, says_what_is_left_out, text};

const OWN: &str = "anthropic:one";
const MARKER: &str = r#","cache_control":{"type":"ephemeral"}"#;

fn request(talk: &Talk) -> Value {
    serde_json::from_str(&body(&model(OWN), &talk.whole()).unwrap()).unwrap()
}

fn answer(content: &str) -> String {
    format!(
        r#"{{"id":"m","type":"message","content":[{content}],"stop_reason":"end_turn","usage":{{"input_tokens":1,"output_tokens":2}}}}"#
    )
}

fn blocks(content: &str) -> Vec<ReplyBlock> {
    reply(&answer(content)).unwrap().content
}

/// The request that sends back the reply with this content.
fn sent_back(content: &str, results: usize) -> String {
    let turn = Turn::new("go", OWN, blocks(content)).with_results(vec![(vec![Content::text("done")], false); results]);
    body(&model(OWN), &Talk::new("", &[], vec![turn]).whole()).unwrap()
}

#[test]
fn a_prompt_becomes_a_request() {
    let talk = Talk::new(
        "Be kind.",
        &["read", "write"],
        vec![
            Turn::new("hello", OWN, vec![text("hi"), call("a", "read", r#"{"p": 1}"#), call("b", "read", "")])
                .with_results(vec![
                    (vec![Content::text("one"), image("image/png")], false),
                    (vec![Content::text("no")], true),
                ]),
            Turn::new("and?", OWN, vec![text("bye")]),
        ],
    );
    let body = body(&model(OWN), &talk.prompt(1, 1)).unwrap();
    let schema = r#"{"properties":{"a":{},"z":{}},"type":"object"}"#;
    let marker = r#""cache_control":{"type":"ephemeral"}"#;
    assert_eq!(
        body,
        [
            r#"{"model":"one","max_tokens":16384,"#,
            &format!(r#""system":[{{"type":"text","text":"Be kind.",{marker}}}],"#),
            &format!(r#""tools":[{{"name":"read","description":"Reads.","input_schema":{schema}}},"#),
            &format!(r#"{{"name":"write","description":"Reads.","input_schema":{schema}}}],"#),
            &format!(r#""messages":[{{"role":"user","content":[{{"type":"text","text":"hello",{marker}}}]}},"#),
            r#"{"role":"assistant","content":[{"type":"text","text":"hi"},"#,
            r#"{"type":"tool_use","id":"a","name":"read","input":{"p": 1}},"#,
            r#"{"type":"tool_use","id":"b","name":"read","input":{}}]},"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"one"},"#,
            r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAEC"}}]},"#,
            r#"{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"no"}],"is_error":true},"#,
            &format!(r#"{{"type":"text","text":"and?",{marker}}}]}}]}}"#),
        ]
        .concat()
    );
}

#[test]
fn images_that_cannot_be_read_and_failures_with_images_are_told_in_words() {
    let turn = Turn::new("x", OWN, vec![call("a", "read", "{}"), call("b", "read", "{}")])
        .with_results(vec![(vec![image("image/svg+xml")], false), (vec![image("image/gif")], true)]);
    let results = &request(&Talk::new("", &[], vec![turn]))["messages"][2]["content"];
    assert_eq!(
        results[0]["content"][0]["text"],
        "(An image of type image/svg+xml was left out: models cannot read it.)"
    );
    assert_eq!(results[1]["content"][0], json!({"type": "text", "text": "[error]"}));
    assert!(results[1].get("is_error").is_none());
}

#[test]
fn without_a_system_prompt_the_last_tool_is_marked() {
    let request = request(&Talk::new(" ", &["read", "write"], vec![Turn::new("x", OWN, vec![text("y")])]));
    assert!(request.get("system").is_none());
    assert!(request["tools"][0].get("cache_control").is_none());
    assert_eq!(request["tools"][1]["cache_control"], json!({"type": "ephemeral"}));
}

/// Case 51: a thinking block with an empty text goes back byte for byte, odd spelling included.
#[test]
fn case_51_thinking_is_sent_back_byte_for_byte() {
    for raw in [
        r#"{"type":"thinking","thinking":"","signature":"EqQB=="}"#,
        "{ \"signature\" : \"Eq\\/\\u00e9\\ud83d\\ude00==\",\n\t\"thinking\":\"\\u0041\" ,\"type\":\"thinking\", \"n\": 1.0e+05 }",
        r#"{"type":"redacted_thinking","data":"EmwKAhgB"}"#,
    ] {
        assert_eq!(blocks(raw), [ReplyBlock::Reasoning { raw: raw.to_owned() }]);
        assert!(sent_back(raw, 0).contains(&format!(r#""content":[{raw}]"#)), "{raw}");
    }
}

#[test]
fn blocks_of_unknown_kinds_and_with_more_fields_are_sent_back_byte_for_byte() {
    for (raw, results) in [
        (r#"{"type":"server_tool_use","id":"s", "name":"web_search","input":{"q":"é"}}"#, 0),
        (r#"{"type":"text","text":"x","citations":[{"cited_text":"y"}]}"#, 0),
        (r#"{"type":"tool_use","id":"t","name":"read","input":{ "a": 1.0 },"caller":{"type":"direct"}}"#, 1),
    ] {
        assert!(sent_back(raw, results).contains(&format!(r#""content":[{raw}]"#)), "{raw}");
    }
}

#[test]
fn raw_is_kept_only_where_a_block_holds_more_than_our_form() {
    for (raw, kept) in [
        (r#"{"type":"text","text":"x"}"#, false),
        (r#"{"citations":null,"type":"text","text":"x"}"#, false),
        (r#"{"type":"text","text":"x","citations":[]}"#, true),
        (r#"{"type":"tool_use","id":"t","name":"n","input":{}}"#, false),
        (r#"{"type":"tool_use","id":"t","name":"n","input":{},"caller":null}"#, true),
    ] {
        let is_kept = match blocks(raw).remove(0) {
            ReplyBlock::Text { raw, .. } | ReplyBlock::ToolCall { raw, .. } => raw.is_some(),
            ReplyBlock::Reasoning { .. } | ReplyBlock::Opaque { .. } => panic!("{raw}"),
        };
        assert_eq!(is_kept, kept, "{raw}");
    }
}

#[test]
fn numbers_of_a_call_keep_their_spelling() {
    let input = r#"{"a":1.0, "b":1e5,"c":12345678901234567890,"d":-0.0,"e":0.1000}"#;
    let raw = format!(r#"{{"type":"tool_use","id":"t","name":"n","input":{input}}}"#);
    assert_eq!(blocks(&raw), [call("t", "n", input)]);
    assert!(sent_back(&raw, 1).contains(&format!(r#""input":{input}}}"#)));
}

/// A call that stands under another id on the wire is built anew: its own JSON names the other.
#[test]
fn case_46_a_call_under_another_id_is_built_anew() {
    let raw = r#"{"type":"tool_use","id":"","name":"n","input":{},"caller":{"type":"direct"}}"#;
    let body = sent_back(raw, 1);
    assert!(body.contains(r#"{"type":"tool_use","id":"call_0","name":"n","input":{}}"#), "{body}");
    assert!(!body.contains("caller"));
}

#[test]
fn case_50_arguments_that_are_no_object_replay() {
    for (arguments, input) in [
        (r#"{"a": "cut"#, json!({"_unparsed_arguments": r#"{"a": "cut"#})),
        ("[1, 2]", json!({"_unparsed_arguments": "[1, 2]"})),
        (r#""text""#, json!({"_unparsed_arguments": r#""text""#})),
        ("", json!({})),
    ] {
        let turn = Turn::new("x", "openai:two", vec![call("t", "n", arguments)])
            .with_results(vec![(vec![Content::text("no")], true)]);
        let request = request(&Talk::new("", &[], vec![turn]));
        assert_eq!(request["messages"][1]["content"][0]["input"], input, "{arguments}");
    }
}

/// Case 52: what another model thought is left out; its texts and calls stay. A reply of which
/// nothing stays goes, and what the user said before and after it becomes one message.
#[test]
fn case_52_reasoning_of_other_models_is_left_out() {
    let thought =
        ReplyBlock::Reasoning { raw: r#"{"type":"thinking","thinking":"secret","signature":"s"}"#.to_owned() };
    let opaque = ReplyBlock::Opaque { raw: r#"{"type":"web_search_tool_result"}"#.to_owned() };
    let raw_text = ReplyBlock::Text { text: "said".to_owned(), raw: Some(r#"{"type":"text","extra":1}"#.to_owned()) };
    for (from, expected) in [
        (
            OWN,
            json!([{"type":"thinking","thinking":"secret","signature":"s"}, {"type":"web_search_tool_result"}, {"type":"text","extra":1}]),
        ),
        ("anthropic:two", json!([{"type":"web_search_tool_result"}, {"type":"text","extra":1}])),
        ("openai:one", json!([{"type":"text","text":"said"}])),
    ] {
        let turn = Turn::new("x", from, vec![thought.clone(), opaque.clone(), raw_text.clone()]);
        assert_eq!(request(&Talk::new("", &[], vec![turn]))["messages"][1]["content"], expected, "{from}");
    }
    let talk =
        Talk::new("", &[], vec![Turn::new("one", "openai:x", vec![thought]), Turn::new("two", OWN, vec![text("y")])]);
    let request = request(&talk);
    let users = request["messages"][0]["content"].as_array().unwrap();
    assert_eq!(users.iter().map(|block| block["text"].as_str().unwrap()).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(request["messages"].as_array().unwrap().len(), 2);
}

#[test]
fn b11_case_52_what_is_left_out_is_said() {
    says_what_is_left_out("openai:one", |talk| drop(request(talk)));
}

#[test]
fn replies_have_reasons_and_usage() {
    for (word, stop) in [
        (r#""end_turn""#, StopReason::EndTurn),
        (r#""tool_use""#, StopReason::ToolUse),
        (r#""max_tokens""#, StopReason::MaxTokens),
        (r#""refusal""#, StopReason::Refusal),
        (r#""pause_turn""#, StopReason::Pause),
        (r#""stop_sequence""#, StopReason::Other("stop_sequence".to_owned())),
        ("null", StopReason::Other("unstated".to_owned())),
    ] {
        let read = reply(&format!(r#"{{"content":[],"stop_reason":{word}}}"#)).unwrap();
        assert_eq!(read.stop, stop);
        assert_eq!(read.usage, Usage { incomplete: true, ..Usage::default() });
    }
    let full =
        r#"{"input_tokens":1,"output_tokens":2,"cache_creation_input_tokens":3,"cache_read_input_tokens":4,"x":5}"#;
    for (usage, expected) in [
        (
            full,
            Usage { input_tokens: 1, output_tokens: 2, cache_read_tokens: 4, cache_write_tokens: 3, incomplete: false },
        ),
        (
            r#"{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":null}"#,
            Usage { input_tokens: 1, output_tokens: 2, ..Usage::default() },
        ),
        (r#"{"input_tokens":1}"#, Usage { input_tokens: 1, incomplete: true, ..Usage::default() }),
        (r#"{"input_tokens":-1}"#, Usage { incomplete: true, ..Usage::default() }),
        ("7", Usage { incomplete: true, ..Usage::default() }),
    ] {
        assert_eq!(reply(&format!(r#"{{"content":[],"usage":{usage}}}"#)).unwrap().usage, expected, "{usage}");
    }
}

#[test]
fn answers_that_are_no_replies_are_bad() {
    for bad in [
        "",
        "<html>",
        "{}",
        r#"{"content":"text"}"#,
        r#"{"content":[1]}"#,
        r#"{"content":[{"text":"no type"}]}"#,
        r#"{"content":[{"type":"text"}]}"#,
        r#"{"content":[{"type":"text","text":7}]}"#,
        r#"{"content":[{"type":"tool_use","id":"t","input":{}}]}"#,
        r#"{"content":[{"type":"text","text":"cut"#,
    ] {
        assert_eq!(reply(bad).unwrap_err().class, FailureClass::BadReply, "{bad}");
    }
}

#[test]
fn a_stored_block_that_is_no_json_is_refused() {
    let turn = Turn::new("x", OWN, vec![ReplyBlock::Opaque { raw: "{".to_owned() }]);
    let refused = body(&model(OWN), &Talk::new("", &[], vec![turn]).whole()).unwrap_err();
    assert_eq!(refused.class, FailureClass::Rejected);
}

#[derive(Deserialize)]
struct Sent<'a> {
    #[serde(borrow)]
    system: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Vec<SentMessage<'a>>,
}

#[derive(Deserialize)]
struct SentMessage<'a> {
    role: &'a str,
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
}

/// The bytes of every block of a request, in order.
fn flat(body: &str) -> Vec<(String, String)> {
    let sent: Sent<'_> = serde_json::from_str(body).unwrap();
    let text = |raw: Option<&RawValue>| raw.map_or_else(String::new, |raw| raw.get().to_owned());
    let mut out = vec![("system".to_owned(), text(sent.system)), ("tools".to_owned(), text(sent.tools))];
    for message in sent.messages {
        out.extend(message.content.into_iter().map(|block| (message.role.to_owned(), block.get().to_owned())));
    }
    out
}

const RAW: &[&str] = &[
    r#"{"type":"thinking","thinking":"","signature":"EqQB=="}"#,
    "{ \"type\":\"thinking\",\n\"thinking\":\"\\u0041\", \"signature\":\"a\\/b\"}",
    r#"{"type":"server_tool_use","id":"s","input":{"n":1.0}}"#,
];

proptest! {
    /// I10, and cases 45, 46, 50, 53: of any two prompts of a conversation, the later begins with
    /// the very bytes of the earlier, markers aside; and markers are few.
    #[test]
    fn case_53_a_longer_prompt_begins_with_the_bytes_of_a_shorter((talk, cut, said) in any_talk(RAW)) {
        let (shorter, longer) = (talk.prompt(cut, said), talk.whole());
        let shorter = body(&model(OWN), &shorter).unwrap();
        let longer = body(&model(OWN), &longer).unwrap();
        for body in [&shorter, &longer] {
            prop_assert!(body.matches(MARKER).count() <= 4, "{}", body);
            prop_assert!(serde_json::from_str::<Value>(body).is_ok(), "{}", body);
        }
        let (shorter, longer) = (flat(&shorter.replace(MARKER, "")), flat(&longer.replace(MARKER, "")));
        prop_assert!(longer.starts_with(&shorter), "{:?}\n{:?}", shorter, longer);
    }

    /// Case 49: whatever escapes a reply holds, it is read, and what is sent back is Unicode.
    #[test]
    fn case_49_lone_surrogates_are_survived(escapes in r"(\\u[dD][89a-fA-F][0-9a-f]{2}|\\\\|x|é){0,6}") {
        for block in [
            format!(r#"{{"type":"text","text":"{escapes}x"}}"#),
            format!(r#"{{"type":"tool_use","id":"t","name":"n","input":{{"a":"{escapes}"}}}}"#),
            format!(r#"{{"type":"thinking","thinking":"{escapes}","signature":"s"}}"#),
            format!(r#"{{"type":"new","data":"{escapes}"}}"#),
        ] {
            let body = sent_back(&block, usize::from(block.contains("tool_use")));
            prop_assert!(serde_json::from_str::<Value>(&body).is_ok(), "{}", body);
        }
    }

    /// Whatever fields a block has, what is sent back means the same as what was received.
    #[test]
    fn blocks_are_sent_back_as_they_came(
        kind in prop_oneof![Just("text"), Just("tool_use"), Just("thinking"), Just("else")],
        extra in proptest::option::of(prop_oneof![Just(r#""x":1.50"#), Just(r#""citations":null"#)]),
        said in "[a-zé]{1,5}",
    ) {
        let extra = extra.map(|field| format!(",{field}")).unwrap_or_default();
        let raw = format!(r#"{{"text":"{said}","id":"t","name":"{}","type":"{kind}","input":{{"a":1.0}}{extra}}}"#, "n");
        let body: Value = serde_json::from_str(&sent_back(&raw, usize::from(kind == "tool_use"))).unwrap();
        let received: Value = serde_json::from_str(&raw).unwrap();
        prop_assert_eq!(&body["messages"][1]["content"][0], &received);
    }
}
