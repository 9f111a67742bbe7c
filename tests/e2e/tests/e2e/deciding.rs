//! Decisions that are odd, repeated, or lose their wake.

use dormouse_e2e::{Agents, Fate, Network, TestStack, Tool, ToolServer};
use serde_json::{Value, json};

const GATED: &str = r#"
[[replies]]
[[replies.calls]]
name = "deploy"
arguments = { service = "web" }

[[replies]]
text = "It says: {{result}}"
"#;

fn asker(question: &str) -> Agents {
    let script = format!(
        "[[replies]]\n[[replies.calls]]\nname = \"ask_user\"\narguments = {question}\n\n[[replies]]\ntext = \"It says: {{{{result}}}}\"\n"
    );
    Agents::new().scripted("asker", &script, &[Tool::builtin("ask_user")])
}

/// D3, case 23: they are answers, on offer or free, each the very value that was sent.
#[tokio::test]
async fn d3_case_23_false_and_zero_and_nothing_are_answers() {
    let offered = r#"{ question = "Which?", options = [{ value = false }, { value = 0 }, { value = "" }] }"#;
    for question in [offered, r#"{ question = "What?" }"#] {
        let agents = asker(question);
        let stack = TestStack::in_memory(&agents).await;
        for (answer, told) in [(json!(false), "false"), (json!(0), "0"), (json!(""), "(the person answered \"\")")] {
            let run = stack.api.start("asker", "Ask.").await;
            let request = stack.api.request_of(&run).await;
            if request["allow_free_text"] == false {
                // What only looks alike is not on offer.
                for other in [json!("false"), json!("0"), json!(" "), json!(true)] {
                    let other = json!({"decision": "answer", "answer": other});
                    stack.api.respond(&request, &other).await.problem(400, "invalid-answer");
                }
            }
            let decided =
                stack.api.respond(&request, &json!({"decision": "answer", "answer": answer})).await.expect(200);
            assert_eq!(decided["decision"]["answer"], answer);
            let done = stack.api.run_that_is(&run, "completed").await;
            assert_eq!(done["output"], format!("It says: {told}"));
        }
        // The short form, for the one question of a run.
        let run = stack.api.start("asker", "Ask.").await;
        stack.api.request_of(&run).await;
        stack.api.post(&format!("/v1/runs/{run}/respond"), &json!({"answer": false})).await.expect(200);
        stack.api.run_that_is(&run, "completed").await;
    }
}

/// A stack whose network is seen, and a run on it that waits for an approval.
struct Waiting {
    tools: ToolServer,
    _agents: Agents,
    network: Network,
    stack: TestStack,
    run: String,
    request: Value,
}

impl Waiting {
    async fn new() -> Self {
        let tools = ToolServer::start().await;
        let agents = Agents::new().scripted("ops", GATED, &[Tool::http("deploy", &tools.url("deploy")).asks()]);
        let network = Network::new();
        let stack = TestStack::start(TestStack::config(network.backend(), &agents)).await;
        let run = stack.api.start("ops", "Deploy.").await;
        let request = stack.api.request_of(&run).await;
        Self { tools, _agents: agents, network, stack, run, request }
    }

    fn approve(&self) -> Value {
        json!({"decision": "approve", "digest": self.request["digest"]})
    }

    fn sent(&self) -> usize {
        self.network.sqs.seen().iter().filter(|operation| *operation == "SendMessage").count()
    }
}

/// C4, case 25: the same write under the same key is the same answer, and wakes again.
#[tokio::test]
async fn c4_case_25_a_decision_can_be_repeated_under_its_key() {
    let waiting = Waiting::new().await;
    let api = &waiting.stack.api;
    let by_name = format!("/v1/requests/{}/respond", waiting.request["request_id"].as_str().unwrap());
    let by_run = format!("/v1/runs/{}/respond", waiting.run);
    let body = waiting.approve();

    let sent = waiting.sent();
    let first = api.post_with_key(&by_name, "k1", &body).await.expect(200);
    assert_eq!(waiting.sent(), sent + 1);
    for _ in 0..3 {
        assert_eq!(api.post_with_key(&by_name, "k1", &body).await.expect(200), first);
    }
    assert_eq!(waiting.sent(), sent + 4, "each repetition wakes the run: its first wake may be what was lost");
    let done = api.run_that_is(&waiting.run, "completed").await;
    assert_eq!(api.post_with_key(&by_name, "k1", &body).await.expect(200), first, "also when the run is over");

    for (path, body) in [
        (&by_name, json!({"decision": "deny"})),
        (&by_name, json!({"decision": "approve", "digest": waiting.request["digest"], "reason": null})),
        (&by_run, body.clone()),
    ] {
        api.post_with_key(path, "k1", &body).await.problem(422, "key-reused");
    }
    let other_key = api.post_with_key(&by_name, "k2", &body).await.problem(409, "already-decided");
    assert_eq!(other_key["decision"], first["decision"]);
    // Keys are a person's own.
    api.by("shop/bob").post_with_key(&by_name, "k1", &body).await.problem(404, "not-found");

    assert_eq!(api.entries(&waiting.run, "RequestDecided").await.len(), 1);
    assert_eq!(api.run(&waiting.run).await, done);
    assert_eq!(waiting.tools.calls().len(), 1);
}

#[tokio::test]
async fn case_25_starts_and_changes_can_be_repeated_under_their_keys() {
    let waiting = Waiting::new().await;
    let api = &waiting.stack.api;
    let body = json!({"agent": "ops", "input": "Deploy again."});
    let first = api.post_with_key("/v1/runs", "start", &body).await.expect(202);
    assert_eq!(api.post_with_key("/v1/runs", "start", &body).await.expect(202), first);
    let other = json!({"agent": "ops", "input": "Deploy something else."});
    api.post_with_key("/v1/runs", "start", &other).await.problem(422, "key-reused");
    assert_eq!(api.get("/v1/runs").await.expect(200)["items"].as_array().unwrap().len(), 2);

    let messages = format!("/v1/runs/{}/messages", waiting.run);
    for _ in 0..3 {
        api.post_with_key(&messages, "say", &json!({"text": "Hurry."})).await.expect(200);
    }
    api.post_with_key(&messages, "say", &json!({"text": "Wait."})).await.problem(422, "key-reused");
    assert_eq!(api.entries(&waiting.run, "MessageAdded").await.len(), 1);
}

/// D8, case 26: the decision is stored, its wake message is not sent; the sweep wakes the run.
#[tokio::test]
async fn d8_case_26_a_lost_wake_is_repaired_by_the_sweep() {
    let waiting = Waiting::new().await;
    waiting.network.sqs.judged_by(|operation| match operation {
        "SendMessage" => Fate::RequestLost,
        _ => Fate::Answered,
    });
    waiting.stack.api.approve(&waiting.request).await;
    waiting.stack.api.run_that_is(&waiting.run, "completed").await;
    assert_eq!(waiting.tools.calls().len(), 1);
    let swept = waiting.network.sqs.seen().iter().any(|operation| operation == "SendMessageBatch");
    assert!(swept, "nothing but the sweep sends batches");
}
