//! What tools keep for a run, over HTTP.

use dormouse_e2e::{Agents, Process, Tool, ToolAnswer, ToolServer};
use serde_json::json;

const TWO_CALLS: &str = r#"
[[replies]]
[[replies.calls]]
name = "count"

[[replies]]
[[replies.calls]]
name = "ship"

[[replies]]
text = "It says: {{result}}"
"#;

/// A13: what a web service keeps is given to the next one, by another process, after a person was waited for; and it
/// stands in the journal with the result that it came with.
#[tokio::test]
async fn a13_what_a_tool_keeps_outlives_the_process() {
    let tools = ToolServer::start().await;
    for service in ["count", "ship"] {
        tools.serves(service, async |call| {
            let count = call.body["state"]["count"].as_u64().unwrap_or(0) + 1;
            let answer = json!({"content": format!("counted {count}"), "state": {"count": count}});
            ToolAnswer::bytes("application/vnd.dormouse.result+json", answer.to_string().into_bytes())
        });
    }
    let (count, ship) = (Tool::http("count", &tools.url("count")), Tool::http("ship", &tools.url("ship")));
    let agents = Agents::new().scripted("ops", TWO_CALLS, &[count.allowed(), ship.asks()]);
    let data = tempfile::tempdir().unwrap();
    let process = Process::start(data.path(), &agents, &[]).await;
    let run = process.api.start("ops", "Count.").await;
    process.api.request_of(&run).await;
    process.kill();

    let process = Process::start(data.path(), &agents, &[]).await;
    process.api.approve(&process.api.request_of(&run).await).await;
    let done = process.api.run_that_is(&run, "completed").await;
    assert_eq!(done["output"], "It says: counted 2");
    let given: Vec<_> = tools.calls().into_iter().map(|call| call.body["state"].clone()).collect();
    assert_eq!(given, [json!({}), json!({"count": 1})]);
    let kept = process.api.entries(&run, "CallFinished").await;
    assert_eq!([&kept[0]["kv"], &kept[1]["kv"]], [&json!({"count": 1}), &json!({"count": 2})]);
}
