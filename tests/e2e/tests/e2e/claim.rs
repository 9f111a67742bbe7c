//! The main claim, on the real binary: a run that waits for a person is stored and nothing else, and
//! goes on at the exact tool call, whatever happened to the process meanwhile.

use std::sync::{Arc, Mutex};

use dormouse_e2e::{
    Agents, ModelRequest, ModelServer, Process, Prompt, Tool, ToolAnswer, ToolServer, anthropic,
    assert_every_call_has_one_result, openai,
};
use serde_json::{Value, json};

/// How a provider speaks.
struct Dialect {
    model: &'static str,
    /// Replies to the first prompt, to the one after the turn's results, and to a follow-up.
    replies: Vec<String>,
    /// What must be sent back byte for byte.
    verbatim: Vec<&'static str>,
    read: fn(&str) -> Prompt,
}

/// Valid JSON that no serializer writes like this.
const THINKING: &str =
    r#"{"signature": "Eq\/3\u0041+w==" ,"type":"thinking","thinking":"a \u00e9\/\ud83d\ude00 \u007f é\t\" 1"}"#;
const REDACTED: &str = r#"{"type":"redacted_thinking","data":"\u0045m\/w=="}"#;
const CITED: &str = r#"{"type":"text","text":"I \u006cook.","citations":[{"type":"x","n":1.0,"m":1e2}]}"#;

fn claude() -> Dialect {
    let calls = [
        r#"{"type":"tool_use","id":"toolu_1","name":"look","input":{"at": "\u0061\/b", "n": 1.50}}"#,
        r#"{"type":"tool_use","id":"toolu_2","name":"deploy","input":{"service":"web","replicas":2.0,"env":"stag\u0069ng"}}"#,
        r#"{"type":"tool_use","id":"toolu_3","name":"look","input":{"at":"c"}}"#,
    ];
    let mut first = vec![THINKING, REDACTED, CITED];
    first.extend(calls);
    Dialect {
        model: "anthropic:claude-test",
        replies: vec![
            anthropic(&first),
            anthropic(&[
                r#"{"type":"thinking","thinking":"","signature":"x\/y"}"#,
                r#"{"type":"text","text":"Deployed."}"#,
            ]),
            anthropic(&[r#"{"type":"text","text":"You are welcome."}"#]),
        ],
        verbatim: vec![THINKING, REDACTED, CITED, r#"{"at": "\u0061\/b", "n": 1.50}"#],
        read: Prompt::of_anthropic,
    }
}

fn gpt() -> Dialect {
    let reasoning = r#""reasoning_content":"a \u00e9\/\ud83d\ude00\u007f""#;
    let extra = r#"{"id":"call_3","type":"function","function":{"name":"look","arguments":"{\"at\":\"c\"}"},"extra_content":{"signature":"a\/b" ,"n":1.0}}"#;
    let first = format!(
        r#"{{"role":"assistant","content":"I look.",{reasoning},"tool_calls":[{{"id":"call_1","type":"function","function":{{"name":"look","arguments":"{{\"at\": \"\\u0061\\/b\", \"n\": 1.50}}"}}}},{{"id":"call_2","type":"function","function":{{"name":"deploy","arguments":"{{\"service\":\"web\",\"replicas\":2.0,\"env\":\"staging\"}}"}}}},{extra}]}}"#
    );
    Dialect {
        model: "openai:gpt-test",
        replies: vec![
            openai(&first),
            openai(r#"{"role":"assistant","content":"Deployed."}"#),
            openai(r#"{"role":"assistant","content":"You are welcome."}"#),
        ],
        verbatim: vec![reasoning, extra, r#""{\"at\": \"\\u0061\\/b\", \"n\": 1.50}""#],
        read: Prompt::of_openai,
    }
}

#[tokio::test]
async fn a1_a3_a5_a11_b3_d9_a_killed_process_resumes_at_the_waiting_call_messages_api() {
    let model = resume_at_the_waiting_call(claude()).await;
    for request in model {
        assert_every_call_has_one_result(&request.body);
        assert_eq!(request.headers["x-api-key"], "not-a-key");
    }
}

#[tokio::test]
async fn a1_a3_a5_a11_b3_d9_a_killed_process_resumes_at_the_waiting_call_chat_completions() {
    resume_at_the_waiting_call(gpt()).await;
}

async fn resume_at_the_waiting_call(dialect: Dialect) -> Vec<ModelRequest> {
    let model = ModelServer::start(dialect.replies).await;
    let tools = ToolServer::start().await;
    let agents = Agents::new().with(
        "ops",
        dialect.model,
        &[Tool::http("look", &tools.url("look")).reads(), Tool::http("deploy", &tools.url("deploy")).asks()],
    );
    let data = tempfile::tempdir().unwrap();
    let stack = Process::start(data.path(), &agents, &model.environment()).await;

    // What the journal says at the moment at which a tool is called.
    let journals: Arc<Mutex<Vec<Vec<Value>>>> = Arc::default();
    let (api, seen) = (stack.api.clone(), Arc::clone(&journals));
    tools.serves("look", move |call| {
        let (api, seen) = (api.clone(), Arc::clone(&seen));
        async move {
            let journal = api.journal(call.body["run_id"].as_str().unwrap()).await;
            seen.lock().unwrap().push(journal);
            ToolAnswer::text(format!("looked at {}", call.body["arguments"]["at"]))
        }
    });

    let run = stack.api.start("ops", "Deploy web, please.").await;
    let request = stack.api.request_of(&run).await;
    assert_eq!(
        (&request["tool"], &request["kind"], &request["mutates"]),
        (&json!("deploy"), &json!("approval"), &json!(true))
    );
    assert_eq!(request["arguments"], json!({"service": "web", "replicas": 2, "env": "staging"}));

    // A5, B2: the reply stood before any of its tools was called, and announced both reads.
    let journals = journals.lock().unwrap().clone();
    assert_eq!(journals.len(), 2);
    for journal in &journals {
        let reply = journal.iter().find(|entry| entry["kind"] == "ModelReplied").expect("the reply is stored");
        let plans: Vec<_> = reply["calls"].as_array().unwrap().iter().map(|call| call["plan"].clone()).collect();
        assert_eq!(plans, ["start", "ask", "start"], "{reply}");
    }
    // A11: what needs nobody ran without waiting for what does.
    let looked = tools.calls_of("look");
    let mut arguments: Vec<_> = looked.iter().map(|call| call.body["arguments"]["at"].clone()).collect();
    arguments.sort_by_key(Value::to_string);
    assert_eq!(arguments, ["a/b", "c"]);
    assert_eq!(tools.calls_of("deploy").len(), 0);
    let before = stack.api.journal(&run).await;
    stack.kill();

    let stack = Process::start(data.path(), &agents, &model.environment()).await;
    assert_eq!(stack.api.journal(&run).await, before, "a run that waits is left alone");
    let inbox = stack.api.get("/v1/requests").await.expect(200);
    assert_eq!(inbox["items"], json!([request]));
    let decided = stack.api.approve(&request).await;
    assert_eq!((&decided["status"], &decided["decision"]["decision"]), (&json!("decided"), &json!("approve")));
    let done = stack.api.run_that_is(&run, "completed").await;
    assert_eq!(done["output"], "Deployed.");

    // The call ran once, with what the person saw, under the key that the call has for ever.
    let deployed = tools.calls_of("deploy");
    assert_eq!(deployed.len(), 1);
    let key = format!("{run}.{}", request["call"].as_str().unwrap());
    assert_eq!((deployed[0].key(), &deployed[0].body["execution_key"]), (key.as_str(), &json!(key)));
    assert_eq!(deployed[0].body["arguments"], request["arguments"]);
    assert_eq!(deployed[0].body["attempt"], 1);
    assert_eq!(tools.calls_of("look").len(), 2, "what was done is not done again");

    // A3: the model was asked once more, and not for the turn that it had answered.
    let asked = model.requests();
    assert_eq!(asked.len(), 2);
    let followed = stack.api.post(&format!("/v1/runs/{run}/messages"), &json!({"text": "Thanks!"})).await;
    followed.expect(200);
    stack.api.run_when(&run, "answered", |run| run["output"] == "You are welcome.").await;

    // D9, I10: each prompt begins with the one before, and holds what was received, byte for byte.
    let asked = model.requests();
    let prompts: Vec<_> = asked.iter().map(|request| (dialect.read)(&request.raw)).collect();
    assert_eq!(prompts.len(), 3);
    prompts[1].assert_continues(&prompts[0]);
    prompts[2].assert_continues(&prompts[1]);
    for part in dialect.verbatim {
        assert!(!asked[0].raw.contains(part));
        for later in &asked[1..] {
            assert_eq!(later.raw.matches(part).count(), 1, "{part}\n{}", later.raw);
        }
    }
    asked
}
