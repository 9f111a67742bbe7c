//! Steps whose time runs short hand the run on.

use std::time::Duration;

use dormouse_e2e::{Agents, Network, TestStack, Tool, ToolServer};

/// Two turns with a call each, and a last word; the model takes its time.
const SCRIPT: &str = r#"
[[replies]]
delay_ms = 400
[[replies.calls]]
name = "act"
arguments = { n = 1 }

[[replies]]
delay_ms = 400
[[replies.calls]]
name = "act"
arguments = { n = 2 }

[[replies]]
delay_ms = 400
text = "Done: {{result}}"
"#;

async fn handed_on(step: Duration, timeout: &str) {
    let tools = ToolServer::start().await;
    let act = Tool::http("act", &tools.url("act")).allowed().set("timeout", &format!("{timeout:?}"));
    let agents = Agents::new().scripted("ops", SCRIPT, &[act]);
    let network = Network::new();
    let mut config = TestStack::config(network.backend(), &agents);
    config.step_timeout = step;
    let stack = TestStack::start(config).await;
    let run = stack.api.start("ops", "Act.").await;
    let done = stack.api.run_that_is(&run, "completed").await;
    assert_eq!(done["output"], "Done: done");
    assert_eq!(tools.calls().len(), 2, "no call was cut off and made again");
    let journal = stack.api.journal(&run).await;
    let drivers = journal.iter().filter(|entry| entry["kind"] == "DriverStarted").count();
    let handed: Vec<_> = journal.iter().filter(|entry| entry["kind"] == "DriverStopped").collect();
    assert!(handed.iter().all(|entry| entry["reason"] == "handed_off"), "{handed:?}");
    assert_eq!(handed.len() + 1, drivers, "each step but the last handed the run on: none was ended at its deadline");
    assert!(drivers > 1, "{journal:?}");
}

/// F3: a step never begins what does not fit its time, and the next one goes on.
#[tokio::test]
async fn f3_a_run_goes_on_over_several_short_steps() {
    handed_on(Duration::from_millis(1_000), "200ms").await;
}
