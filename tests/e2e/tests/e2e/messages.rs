//! What models and tools say, however odd, on its way to the next prompt: the real binary, asked by
//! a provider that it cannot tell from a real one.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use dormouse_e2e::{
    Agents, ModelServer, Process, Prompt, Tool, ToolAnswer, ToolServer, anthropic, assert_every_call_has_one_result,
    openai,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A process with one agent, what it talks to, and where it keeps its runs.
struct Bed {
    model: ModelServer,
    tools: ToolServer,
    agents: Agents,
    data: TempDir,
    process: Process,
}

impl Bed {
    /// `ops` has these tools that run, and `deploy`, which asks.
    async fn new(model: &str, replies: Vec<String>, tools: &[&str]) -> Self {
        let server = ToolServer::start().await;
        let mut listed = vec![Tool::http("deploy", &server.url("deploy")).asks()];
        listed.extend(tools.iter().map(|tool| Tool::http(tool, &server.url(tool)).reads()));
        let model_server = ModelServer::start(replies).await;
        let agents = Agents::new().with("ops", model, &listed);
        let data = TempDir::new().unwrap();
        let process = Process::start(data.path(), &agents, &model_server.environment()).await;
        Self { model: model_server, tools: server, agents, data, process }
    }

    /// Runs `ops` to its end; returns the prompts.
    async fn prompts(&self) -> Vec<Value> {
        let run = self.process.api.start("ops", "Go.").await;
        self.process.api.run_that_is(&run, "completed").await;
        self.model.requests().into_iter().map(|request| request.body).collect()
    }

    /// `kill -9`, and another process in its place.
    async fn restarted(self) -> Self {
        self.process.kill();
        let process = Process::start(self.data.path(), &self.agents, &self.model.environment()).await;
        Self { process, ..self }
    }
}

/// Echoes where it was asked to look.
fn echo(tools: &ToolServer) {
    tools.serves("look", |call| async move {
        // The first call is the last to answer: order on the wire is that of the calls.
        let delay = if call.body["call_id"].as_str().unwrap().ends_with(".0") { 150 } else { 0 };
        ToolAnswer::text(format!("at {}", call.body["arguments"]["at"])).after(Duration::from_millis(delay))
    });
}

fn done() -> String {
    anthropic(&[r#"{"type":"text","text":"Done."}"#])
}

fn look(id: &str, at: &str) -> String {
    format!(r#"{{"type":"tool_use"{id},"name":"look","input":{{"at":"{at}"}}}}"#)
}

/// Cases 44 to 46: ids that repeat, within a turn and across turns, that are empty, missing or illegal.
#[tokio::test]
async fn case_44_case_45_case_46_ids_of_any_kind_get_one_result_each() {
    let long = format!(r#","id":"{}""#, "x".repeat(65));
    let first =
        [r#","id":"a""#, r#","id":"a""#, r#","id":"""#, "", r#","id":null"#, r#","id":"call_3_1""#, r#","id":"b.c""#];
    let second = [r#","id":"a""#, r#","id":"call_3_1""#, &long];
    let calls = |ids: &[&str]| -> Vec<String> {
        ids.iter().enumerate().map(|(number, id)| look(id, &format!("{}.{number}", ids.len()))).collect()
    };
    let (first, second) = (calls(&first), calls(&second));
    let borrowed = |calls: &[String]| anthropic(&calls.iter().map(String::as_str).collect::<Vec<_>>());
    let replies = vec![borrowed(&first), borrowed(&second), done()];
    let bed = Bed::new("anthropic:claude-test", replies, &["look"]).await;
    echo(&bed.tools);
    let prompts = bed.prompts().await;
    assert_eq!(prompts.len(), 3);
    for prompt in &prompts {
        assert_every_call_has_one_result(prompt);
    }
    let requests = bed.model.requests();
    for pair in requests.windows(2) {
        Prompt::of_anthropic(&pair[1].raw).assert_continues(&Prompt::of_anthropic(&pair[0].raw));
    }
    // Each call has its own result.
    let messages = prompts[2]["messages"].as_array().unwrap();
    for turn in [1, 3] {
        let (asked, told) =
            (messages[turn]["content"].as_array().unwrap(), messages[turn + 1]["content"].as_array().unwrap());
        for (call, result) in asked.iter().zip(told) {
            assert_eq!(result["content"][0]["text"], format!("at {}", call["input"]["at"]), "{call}");
        }
    }
    assert_eq!(messages[1]["content"][0]["id"], "a", "an id that can be kept is kept");
    assert_eq!(bed.tools.calls().len(), first.len() + second.len());
}

#[tokio::test]
async fn case_46_ids_of_any_kind_in_chat_completions() {
    let call = |id: &str| format!(r#"{{{id}"type":"function","function":{{"name":"look","arguments":"{{}}"}}}}"#);
    let calls = [call(r#""id":"a","#), call(r#""id":"a","#), call(r#""id":"","#), call("")].join(",");
    let message = format!(r#"{{"role":"assistant","content":null,"tool_calls":[{calls}]}}"#);
    let replies = vec![openai(&message), openai(&message), openai(r#"{"role":"assistant","content":"Done."}"#)];
    let bed = Bed::new("openai:gpt-test", replies, &["look"]).await;
    let prompts = bed.prompts().await;
    let messages = prompts[2]["messages"].as_array().unwrap();
    let mut ids = Vec::new();
    for message in messages {
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        ids.extend(calls.map(|call| call["id"].as_str().unwrap().to_owned()));
    }
    let results = messages.iter().filter_map(|message| message["tool_call_id"].as_str()).map(str::to_owned);
    assert_eq!(results.collect::<Vec<_>>(), ids);
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), bed.tools.calls().len()), (8, 8));
    assert!(ids.iter().all(|id| !id.is_empty()));
}

/// Case 49: in a model's text and arguments, in a tool's text as an escape and as bytes.
#[tokio::test]
async fn case_49_lone_surrogates_are_survived() {
    let replies = vec![
        anthropic(&[
            r#"{"type":"thinking","thinking":"a \ud92c b","signature":"s"}"#,
            r#"{"type":"text","text":"\udc00 here"}"#,
            &look(r#","id":"a""#, r"\ud92c\\ud92c"),
            r#"{"type":"tool_use","id":"b","name":"escaped","input":{}}"#,
            r#"{"type":"tool_use","id":"c","name":"bytes","input":{}}"#,
        ]),
        done(),
    ];
    let bed = Bed::new("anthropic:claude-test", replies, &["look", "escaped", "bytes"]).await;
    bed.tools.answers("escaped", ToolAnswer::bytes("application/json", br#"{"name":"\ud92c"}"#.to_vec()));
    bed.tools.answers("bytes", ToolAnswer::bytes("text/plain", b"a \xed\xa0\x80 b \xff \xf0\x9f\x98\x80 c".to_vec()));
    let prompts = bed.prompts().await;
    assert_every_call_has_one_result(&prompts[1]);
    assert_eq!(bed.tools.calls_of("look")[0].body["arguments"]["at"], "\u{fffd}\\ud92c");
    let told = &prompts[1]["messages"][2]["content"];
    assert_eq!(told[1]["content"][0]["text"], r#"{"name":"\ud92c"}"#, "six characters of a text are no surrogate");
    let bytes = told[2]["content"][0]["text"].as_str().unwrap();
    assert!(bytes.starts_with("a \u{fffd}") && bytes.ends_with(" \u{fffd} 😀 c"), "{bytes}");
}

/// Case 50: the model is told, nothing runs, and the history can be sent again.
#[tokio::test]
async fn case_50_arguments_that_are_no_object_are_an_error_result() {
    let bad = [r#"{\"at\": \"cut"#, "[1]", r#"\"text\""#, "null", "{} {}", "nope"];
    let call = |(number, arguments): (usize, &&str)| {
        format!(r#"{{"id":"c{number}","type":"function","function":{{"name":"look","arguments":"{arguments}"}}}}"#)
    };
    let calls: Vec<_> = bad.iter().enumerate().map(call).collect();
    let message = format!(r#"{{"role":"assistant","content":null,"tool_calls":[{}]}}"#, calls.join(","));
    let replies = vec![openai(&message), openai(r#"{"role":"assistant","content":"Done."}"#)];
    let bed = Bed::new("openai:gpt-test", replies, &["look"]).await;
    let prompts = bed.prompts().await;
    assert_eq!(bed.tools.calls().len(), 0);
    let messages = prompts[1]["messages"].as_array().unwrap();
    let results: Vec<_> = messages.iter().filter(|message| message["role"] == "tool").collect();
    assert_eq!(results.len(), bad.len());
    assert!(results.iter().all(|result| result["content"].as_str().unwrap().starts_with("[error] Not run: ")));
    let calls = messages.iter().flat_map(|message| message["tool_calls"].as_array().into_iter().flatten());
    for call in calls {
        let arguments = call["function"]["arguments"].as_str().unwrap();
        assert!(serde_json::from_str::<Value>(arguments).unwrap().is_object(), "{arguments}");
    }
}

/// The same in the Messages API, where a compatible server may send anything as `input`.
#[tokio::test]
async fn case_50_input_that_is_no_object_is_an_error_result() {
    let calls = ["[1]", r#""text""#, "7", "null"]
        .map(|input| format!(r#"{{"type":"tool_use","id":"c{}","name":"look","input":{input}}}"#, input.len()));
    let replies = vec![anthropic(&calls.each_ref().map(String::as_str)), done()];
    let bed = Bed::new("anthropic:claude-test", replies, &["look"]).await;
    let prompts = bed.prompts().await;
    assert_every_call_has_one_result(&prompts[1]);
    assert_eq!(bed.tools.calls().len(), 0);
    for call in prompts[1]["messages"][1]["content"].as_array().unwrap() {
        assert!(call["input"].is_object(), "{call}");
    }
    for result in prompts[1]["messages"][2]["content"].as_array().unwrap() {
        assert_eq!(result["is_error"], true, "{result}");
    }
}

/// Case 41: larger than an item of the table. Stored, read back by another process, and sent on; a
/// text that is too long says where it was cut.
#[tokio::test]
async fn case_41_large_results_are_stored_and_read_back() {
    let tool = |id: &str, name: &str| format!(r#"{{"type":"tool_use","id":"{id}","name":"{name}","input":{{}}}}"#);
    let calls = [tool("a", "picture"), tool("b", "book"), tool("c", "deploy")];
    let replies = vec![anthropic(&calls.each_ref().map(String::as_str)), done()];
    let bed = Bed::new("anthropic:claude-test", replies, &["picture", "book"]).await;
    let mut picture = b"\x89PNG\r\n\x1a\n".to_vec();
    // Bytes that no compression makes smaller.
    let mut noise = dormouse_e2e::Seed::of(41);
    picture.extend((0..1 << 20).map(|_| u8::try_from(noise.below(256)).unwrap()));
    bed.tools.answers("picture", ToolAnswer::bytes("image/png", picture.clone()));
    bed.tools.answers("book", ToolAnswer::text(format!("x{}", "é".repeat(150_000))));

    let run = bed.process.api.start("ops", "Go.").await;
    bed.process.api.request_of(&run).await;
    let bed = bed.restarted().await;
    let api = &bed.process.api;
    let results = api.entries(&run, "CallFinished").await;
    let content = |call: &str| {
        let finished = results.iter().find(|entry| entry["call"].as_str().unwrap().ends_with(call)).unwrap();
        finished["result"]["content"][0].clone()
    };
    let image = json!({"type": "image", "media_type": "image/png", "data": BASE64.encode(&picture)});
    assert!(content(".0") == image, "the image is what the tool sent");
    let text = content(".1")["text"].as_str().unwrap().to_owned();
    let (shown, note) = text.rsplit_once('\n').unwrap();
    assert_eq!(shown, format!("x{}", "é".repeat((256 * 1024 - 1) / 2)));
    assert_eq!(note, format!("[cut: 300001 bytes in all, the first {} are shown]", shown.len()));

    let request = api.request_of(&run).await;
    api.respond(&request, &json!({"decision": "deny"})).await.expect(200);
    api.run_that_is(&run, "completed").await;
    let prompt = &bed.model.requests()[1].body;
    assert_every_call_has_one_result(prompt);
    let told = &prompt["messages"][2]["content"];
    let source = json!({"type": "base64", "media_type": "image/png", "data": image["data"]});
    assert!(told[0]["content"][0]["source"] == source, "the model sees the image");
    assert!(told[1]["content"][0]["text"] == text, "and the text as it was cut");
}
