use dormouse_domain::{
    message::{Content, ReplyBlock, StopReason, Usage},
    retry::FailureClass,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{build::body, parse::reply};
use crate::testing::{Talk, Turn, any_talk, call, image, model, says_what_is_left_out, text};

const OWN: &str = "openai:one";

fn request(talk: &Talk) -> Value {
    serde_json::from_str(&body(&model(OWN), &talk.whole()).unwrap()).unwrap()
}

fn answer(message: &str, finish: &str) -> String {
    format!(
        r#"{{"id":"c","choices":[{{"index":0,"message":{message},"finish_reason":"{finish}"}}],"usage":{{"prompt_tokens":1,"completion_tokens":2}}}}"#
    )
}

fn blocks(message: &str) -> Vec<ReplyBlock> {
    reply(&answer(message, "stop")).unwrap().content
}

/// The message that sends back the reply with this message.
fn sent_back(message: &str, to: &str, results: usize) -> String {
    let turn = Turn::new("go", OWN, blocks(message)).with_results(vec![(vec![Content::text("done")], false); results]);
    body(&model(to), &Talk::new("", &[], vec![turn]).whole()).unwrap()
}

#[test]
fn a_prompt_becomes_a_request() {
    let talk = Talk::new(
        "Be kind.",
        &["read"],
        vec![
            Turn::new("hello", OWN, vec![call("a", "read", r#"{"p": 1.0}"#), call("b", "read", "")]).with_results(
                vec![
                    (vec![Content::text("one"), image("image/png"), Content::text("two")], false),
                    (vec![Content::text("no")], true),
                ],
            ),
            Turn::new("and?", OWN, vec![text("x"), text("y")]),
        ],
    );
    let body = body(&model(OWN), &talk.whole()).unwrap();
    assert_eq!(
        body,
        [
            r#"{"model":"one","messages":[{"role":"system","content":"Be kind."},"#,
            r#"{"role":"user","content":"hello"},"#,
            r#"{"role":"assistant","content":null,"tool_calls":["#,
            r#"{"id":"a","type":"function","function":{"name":"read","arguments":"{\"p\": 1.0}"}},"#,
            r#"{"id":"b","type":"function","function":{"name":"read","arguments":"{}"}}]},"#,
            r#"{"role":"tool","tool_call_id":"a","content":"one\ntwo"},"#,
            r#"{"role":"tool","tool_call_id":"b","content":"[error] no"},"#,
            r#"{"role":"user","content":[{"type":"text","text":"Images in the result of the call a:"},"#,
            r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AAEC"}},{"type":"text","text":"and?"}]},"#,
            r#"{"role":"assistant","content":"x\n\ny"}],"#,
            r#""tools":[{"type":"function","function":{"name":"read","description":"Reads.","parameters":{"properties":{"a":{},"z":{}},"type":"object"}}}]}"#,
        ]
        .concat()
    );
}

#[test]
fn a_result_of_images_alone_says_so() {
    let turn = Turn::new("x", OWN, vec![call("a", "read", "{}"), call("b", "read", "{}")])
        .with_results(vec![(vec![image("image/webp")], false), (vec![image("image/tiff")], true)]);
    let request = request(&Talk::new("", &[], vec![turn]));
    assert_eq!(request["messages"][2]["content"], "(The result is the images that follow.)");
    assert_eq!(
        request["messages"][3]["content"],
        "[error] (An image of type image/tiff was left out: models cannot read it.)"
    );
    assert_eq!(request["messages"][4]["content"][1]["image_url"]["url"], "data:image/webp;base64,AAEC");
    assert!(request.get("tools").is_none());
}

#[test]
fn messages_become_blocks() {
    let opaque = |raw: &str| ReplyBlock::Opaque { raw: raw.to_owned() };
    let raw_call = r#"{"id":"a","type":"function","function":{"name":"n","arguments":"{}"},"extra_content":{"s":1}}"#;
    for (message, expected) in [
        (r#"{"role":"assistant","content":"hi","refusal":null,"annotations":[]}"#.to_owned(), vec![text("hi")]),
        (r#"{"content":null}"#.to_owned(), vec![]),
        (r#"{"content":""}"#.to_owned(), vec![]),
        (
            r#"{"content":[{"type":"text","text":"a"},{"type":"thinking","thinking":[]},{"type":"refusal","refusal":"b"}]}"#
                .to_owned(),
            vec![text("a"), opaque(r#"{"type":"thinking","thinking":[]}"#), text("b")],
        ),
        (
            r#"{"content":"x","tool_calls":[{"id":"a","type":"function","function":{"name":"n","arguments":"{\"a\": 1.0}"}}]}"#
                .to_owned(),
            vec![text("x"), call("a", "n", r#"{"a": 1.0}"#)],
        ),
        (
            r#"{"tool_calls":[{"function":{"name":"n","arguments":{"a": 1.0}}},{"id":null,"function":{"name":"m","arguments":null},"index":1}]}"#
                .to_owned(),
            vec![call("", "n", r#"{"a": 1.0}"#), call("", "m", "")],
        ),
        (r#"{"tool_calls":null,"function_call":{"name":"n","arguments":"{"}}"#.to_owned(), vec![call("", "n", "{")]),
        (
            r#"{"tool_calls":[{"id":"c","type":"custom","custom":{"name":"n"}}]}"#.to_owned(),
            vec![opaque(r#"{"id":"c","type":"custom","custom":{"name":"n"}}"#)],
        ),
        (
            format!(r#"{{"tool_calls":[{raw_call}]}}"#),
            vec![ReplyBlock::ToolCall {
                id: "a".to_owned(),
                name: "n".to_owned(),
                arguments: "{}".to_owned(),
                raw: Some(raw_call.to_owned()),
            }],
        ),
        (
            r#"{"content":"x","reasoning_content": "","annotations":[{"u":1.0}]}"#.to_owned(),
            vec![
                ReplyBlock::Reasoning { raw: r#"{"reasoning_content":""}"#.to_owned() },
                text("x"),
                opaque(r#"{"annotations":[{"u":1.0}]}"#),
            ],
        ),
    ] {
        assert_eq!(blocks(&message), expected, "{message}");
    }
}

/// What a server thought goes back to the model that thought it, and to no other; `reasoning` to
/// none.
#[test]
fn case_52_reasoning_goes_back_only_where_it_came_from() {
    let message =
        r#"{"content":"x","reasoning":"r","reasoning_details":[{"sig": "a\/b"}],"reasoning_content":"c\u0041"}"#;
    let own = sent_back(message, OWN, 0);
    assert!(
        own.contains(
            r#"{"role":"assistant","content":"x","reasoning_content":"c\u0041","reasoning_details":[{"sig": "a\/b"}]}"#
        ),
        "{own}"
    );
    assert!(!own.contains(r#""reasoning":"#));
    assert!(sent_back(message, "openai:two", 0).contains(r#"{"role":"assistant","content":"x"}"#));
    let thought = ReplyBlock::Reasoning { raw: r#"{"type":"thinking"}"#.to_owned() };
    let talk = Talk::new(
        "",
        &[],
        vec![Turn::new("one", "anthropic:x", vec![thought]), Turn::new("two", OWN, vec![text("y")])],
    );
    assert_eq!(
        request(&talk)["messages"],
        json!([{"role": "user", "content": "one\n\ntwo"}, {"role": "assistant", "content": "y"}])
    );
}

#[test]
fn b11_case_52_what_is_left_out_is_said() {
    says_what_is_left_out("anthropic:one", |talk| drop(request(talk)));
}

#[test]
fn calls_with_more_fields_are_sent_back_byte_for_byte_to_their_provider() {
    let raw = r#"{"function": {"arguments":"{\"a\":1e5}","name":"n"},"id":"a","type":"function","extra_content":{"google":{"thought_signature":"a\/b"}}}"#;
    let message = format!(r#"{{"tool_calls":[{raw}]}}"#);
    assert!(sent_back(&message, OWN, 1).contains(&format!(r#""tool_calls":[{raw}]"#)));
    let turn =
        Turn::new("go", "anthropic:x", blocks(&message)).with_results(vec![(vec![Content::text("done")], false)]);
    let other = body(&model(OWN), &Talk::new("", &[], vec![turn]).whole()).unwrap();
    assert!(other.contains(r#"{"id":"a","type":"function","function":{"name":"n","arguments":"{\"a\":1e5}"}}"#));
}

#[test]
fn case_50_arguments_that_are_no_object_replay() {
    for (arguments, sent) in
        [(r#"{"a": "cut"#, r#"{"_unparsed_arguments":"{\"a\": \"cut"}"#), ("[1]", r#"{"_unparsed_arguments":"[1]"}"#)]
    {
        let turn =
            Turn::new("x", OWN, vec![call("t", "n", arguments)]).with_results(vec![(vec![Content::text("no")], true)]);
        let request = request(&Talk::new("", &[], vec![turn]));
        assert_eq!(request["messages"][1]["tool_calls"][0]["function"]["arguments"], sent);
    }
}

#[test]
fn replies_have_reasons_and_usage() {
    let called = r#"{"tool_calls":[{"id":"a","function":{"name":"n","arguments":"{}"}}]}"#;
    let refused = r#"{"content":null,"refusal":"no"}"#;
    for (message, word, stop) in [
        (r#"{"content":"x"}"#, "stop", StopReason::EndTurn),
        (called, "stop", StopReason::ToolUse),
        (called, "tool_calls", StopReason::ToolUse),
        (called, "function_call", StopReason::ToolUse),
        (called, "length", StopReason::MaxTokens),
        (refused, "stop", StopReason::Refusal),
        (r#"{"content":""}"#, "content_filter", StopReason::Refusal),
        (r#"{"content":""}"#, "odd", StopReason::Other("odd".to_owned())),
    ] {
        assert_eq!(reply(&answer(message, word)).unwrap().stop, stop, "{message} {word}");
    }
    assert_eq!(blocks(refused), [text("no")]);
    for (usage, expected) in [
        (
            r#"{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}"#,
            Usage { input_tokens: 6, output_tokens: 2, cache_read_tokens: 4, ..Usage::default() },
        ),
        (
            r#"{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":null}"#,
            Usage { input_tokens: 1, output_tokens: 2, ..Usage::default() },
        ),
        (r#"{"completion_tokens":2}"#, Usage { output_tokens: 2, incomplete: true, ..Usage::default() }),
        ("null", Usage { incomplete: true, ..Usage::default() }),
    ] {
        let read =
            reply(&format!(r#"{{"choices":[{{"message":{{}},"finish_reason":null}}],"usage":{usage}}}"#)).unwrap();
        assert_eq!(read.usage, expected, "{usage}");
        assert_eq!(read.stop, StopReason::Other("unstated".to_owned()));
    }
}

#[test]
fn answers_that_are_no_replies_have_classes() {
    for (bad, class) in [
        ("", FailureClass::BadReply),
        ("{}", FailureClass::BadReply),
        (r#"{"choices":[]}"#, FailureClass::BadReply),
        (r#"{"choices":[{"message":7}]}"#, FailureClass::BadReply),
        (r#"{"choices":[{"message":{"content":7}}]}"#, FailureClass::BadReply),
        (r#"{"choices":[{"message":{"tool_calls":[{"function":{}}]}}]}"#, FailureClass::BadReply),
        (r#"{"error":{"message":"busy","code":503}}"#, FailureClass::Overloaded),
        (r#"{"error":{"message":"slow down","code":429}}"#, FailureClass::RateLimited),
        (r#"{"error":{"message":"what","code":"odd"}}"#, FailureClass::BadReply),
    ] {
        assert_eq!(reply(bad).unwrap_err().class, class, "{bad}");
    }
}

/// A request's words in order. Nothing ends a user message here, since it may grow at its end.
fn words(body: &str) -> String {
    let request: Value = serde_json::from_str(body).unwrap();
    let mut out = request["tools"].to_string();
    for message in request["messages"].as_array().unwrap() {
        out.push_str(&format!("\n<{}>", message["role"]));
        if message["role"] != "user" {
            out.push_str(&message.to_string());
            continue;
        }
        if let Some(parts) = message["content"].as_array() {
            let parts: Vec<_> =
                parts.iter().map(|part| part["text"].as_str().or(part["image_url"]["url"].as_str()).unwrap()).collect();
            out.push_str(&parts.join("\n\n"));
        } else {
            out.push_str(message["content"].as_str().unwrap());
        }
    }
    out
}

const RAW: &[&str] = &[r#"{"reasoning_content":""}"#, r#"{"reasoning":"x"}"#, r#"{"reasoning_details":[1.0]}"#];

proptest! {
    /// I10, and cases 45, 46 and 50: the later of two prompts begins with all that the earlier says,
    /// and every result stands between its call and what the user says next.
    #[test]
    fn a_longer_prompt_begins_with_a_shorter((talk, cut, said) in any_talk(RAW)) {
        let shorter = body(&model(OWN), &talk.prompt(cut, said)).unwrap();
        let longer = body(&model(OWN), &talk.whole()).unwrap();
        prop_assert!(words(&longer).starts_with(&words(&shorter)), "{}\n{}", shorter, longer);

        let request: Value = serde_json::from_str(&longer).unwrap();
        let mut open: Vec<&str> = Vec::new();
        let mut last = "";
        for message in request["messages"].as_array().unwrap() {
            let role = message["role"].as_str().unwrap();
            prop_assert!(role == "tool" || role != last, "two messages of {}", role);
            last = role;
            match role {
                "tool" => prop_assert_eq!(message["tool_call_id"].as_str().unwrap(), open.remove(0)),
                _ => prop_assert!(open.is_empty()),
            }
            if let Some(calls) = message["tool_calls"].as_array() {
                open = calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
                for call in calls {
                    let arguments = call["function"]["arguments"].as_str().unwrap();
                    prop_assert!(serde_json::from_str::<Value>(arguments).unwrap().is_object());
                }
            }
        }
    }

    /// Case 49: whatever escapes a reply holds, inside the string of the arguments too, it is read
    /// and can be sent back.
    #[test]
    fn case_49_lone_surrogates_are_survived(escapes in r"(\\u[dD][89a-fA-F][0-9a-f]{2}|\\\\|x|é){0,6}") {
        let doubled = escapes.replace('\\', "\\\\");
        for message in [
            format!(r#"{{"content":"{escapes}x","reasoning_content":"{escapes}"}}"#),
            format!(r#"{{"tool_calls":[{{"id":"a","function":{{"name":"n","arguments":"{escapes}"}}}}]}}"#),
            format!(r#"{{"tool_calls":[{{"id":"a","function":{{"name":"n","arguments":"{{\"a\":\"{doubled}\"}}"}}}}]}}"#),
        ] {
            let body = sent_back(&message, OWN, usize::from(message.contains("tool_calls")));
            prop_assert!(serde_json::from_str::<Value>(&body).is_ok(), "{}", body);
        }
    }
}
