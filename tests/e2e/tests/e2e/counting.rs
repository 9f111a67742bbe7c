//! What a run costs, counted where the AWS SDK hands a request to the network. The numbers are
//! exact: one more request is a bill, so it is a decision and not an accident.

use std::time::Duration;

use dormouse_e2e::{Agents, Network, TestStack, Tool, ToolServer, Wire, eventually};

const TURNS: &str = r#"
[[replies]]
[[replies.calls]]
name = "act"
arguments = { n = 1 }

[[replies]]
[[replies.calls]]
name = "act"
arguments = { n = 2 }

[[replies]]
text = "Done."
"#;

const GATED: &str = r#"
[[replies]]
[[replies.calls]]
name = "deploy"

[[replies]]
text = "Done."
"#;

/// A stack whose sweep comes once, at its start, and nothing else asks the table by itself.
pub(crate) async fn quiet_stack(agents: &Agents, network: &Network) -> TestStack {
    let mut config = TestStack::config(network.backend(), agents);
    config.sweep_every = Duration::from_secs(3600);
    let stack = TestStack::start(config).await;
    let swept = |seen: &[String]| seen.iter().filter(|operation| *operation == "Query(due)").count();
    // Once to find orphans, once to sweep, each in all shards.
    eventually("the first sweep", async || (swept(&network.dynamo.seen()) >= 32).then_some(())).await;
    network.dynamo.take();
    network.sqs.take();
    stack
}

/// Waits until a step has acknowledged its message: then everything it did is seen.
async fn step_ended(sqs: &Wire) {
    eventually("the end of a step", async || sqs.seen().iter().any(|seen| seen == "DeleteMessage").then_some(())).await;
}

/// What SQS was asked, without the long polls that go on all the time.
fn sent(sqs: &Wire) -> Vec<String> {
    let mut seen = sqs.take();
    seen.retain(|operation| operation != "ReceiveMessage");
    seen
}

/// X3: a turn with one allowed tool is two conditional puts, and no transaction stands between the
/// claim and the end.
#[tokio::test]
async fn x3_a_tool_turn_costs_two_conditional_puts() {
    let tools = ToolServer::start().await;
    let agents = Agents::new().scripted("ops", TURNS, &[Tool::http("act", &tools.url("act")).allowed()]);
    let network = Network::new();
    let stack = quiet_stack(&agents, &network).await;

    let run = stack.api.start("ops", "Act.").await;
    step_ended(&network.sqs).await;
    let start = ["PutItem", "TransactWriteItems"]; // the agent's definition, once for all runs; the run
    let claim = ["Query", "TransactWriteItems"]; // the journal; the claim
    let turn = ["PutItem", "PutItem"]; // the reply with its intent; the result
    let end = ["PutItem", "TransactWriteItems"]; // the last reply; the end
    assert_eq!(network.dynamo.take(), [&start[..], &claim, &turn, &turn, &end].concat());
    assert_eq!(sent(&network.sqs), ["SendMessage", "DeleteMessage"]);
    assert_eq!(stack.api.run(&run).await["status"], "completed");
    assert_eq!(tools.calls().len(), 2);
}

/// What a wait for a person costs: one transaction to suspend, one to decide, and nothing between.
#[tokio::test]
async fn x3_a_suspension_and_a_decision_cost_one_transaction_each() {
    let tools = ToolServer::start().await;
    let agents = Agents::new().scripted("ops", GATED, &[Tool::http("deploy", &tools.url("deploy")).asks()]);
    let network = Network::new();
    let stack = quiet_stack(&agents, &network).await;

    let run = stack.api.start("ops", "Deploy.").await;
    step_ended(&network.sqs).await;
    let start = ["PutItem", "TransactWriteItems"];
    let claim = ["Query", "TransactWriteItems"];
    let standing = ["Query", "Query", "Query"]; // what people allowed for good: in this run, for this owner, this agent
    let suspend = [&standing[..], &["PutItem", "TransactWriteItems"]].concat(); // the reply; the suspension
    assert_eq!(network.dynamo.take(), [&start[..], &claim, &suspend].concat());
    assert_eq!(sent(&network.sqs), ["SendMessage", "DeleteMessage"]);

    let request = stack.api.request_of(&run).await;
    network.dynamo.take();
    stack.api.approve(&request).await;
    step_ended(&network.sqs).await;
    let decide = ["Query", "GetItem", "TransactWriteItems"]; // the journal; the request; the decision
    let call = ["PutItem", "PutItem"]; // the dispatch; the result
    let end = ["PutItem", "TransactWriteItems"];
    assert_eq!(network.dynamo.take(), [&decide[..], &claim, &call, &end].concat());
    assert_eq!(sent(&network.sqs), ["SendMessage", "DeleteMessage"]);
    assert_eq!(stack.api.run(&run).await["status"], "completed");
    network.dynamo.take();

    // A second run of the agent finds its definition stored.
    stack.api.start("ops", "Deploy.").await;
    step_ended(&network.sqs).await;
    assert_eq!(network.dynamo.take(), [&start[1..], &claim, &suspend].concat());
}

/// A read costs what it shows.
#[tokio::test]
async fn a15_reading_costs_in_proportion_to_what_is_read() {
    let tools = ToolServer::start().await;
    let agents = Agents::new().scripted("ops", GATED, &[Tool::http("deploy", &tools.url("deploy")).asks()]);
    let network = Network::new();
    let stack = quiet_stack(&agents, &network).await;
    let run = stack.api.start("ops", "Deploy.").await;
    let request = stack.api.request_of(&run).await;
    step_ended(&network.sqs).await;
    let request = format!("/v1/requests/{}", request["request_id"].as_str().unwrap());
    network.dynamo.take();
    for (path, cost) in [
        (format!("/v1/runs/{run}"), &["Query", "Query"][..]), // run and requests; the last reply
        (format!("/v1/runs/{run}/journal"), &["GetItem", "Query"]),
        (request, &["GetItem"]),
        ("/v1/requests".to_owned(), &["Query(listing)", "BatchGetItem"]),
        ("/v1/runs".to_owned(), &["Query(listing)", "BatchGetItem"]),
    ] {
        stack.api.get(&path).await.expect(200);
        assert_eq!(network.dynamo.take(), cost, "{path}");
    }
}
