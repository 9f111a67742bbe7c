//! Writes of which the network loses one half: the caller cannot know whether they landed.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use dormouse_e2e::{Agents, Fate, Network, Tool, ToolServer};

use crate::counting::quiet_stack;

const SCRIPT: &str = r#"
[[replies]]
[[replies.calls]]
name = "look"
[[replies.calls]]
name = "deploy"
arguments = { service = "web" }

[[replies]]
text = "It says: {{result:deploy}}"
"#;

/// A run from its start to its end, in which write number `unlucky` meets `fate`. Returns the kinds
/// of its entries and the number of its writes.
async fn life(unlucky: usize, fate: Fate) -> (Vec<String>, usize) {
    let tools = ToolServer::start().await;
    let agents = Agents::new().scripted(
        "ops",
        SCRIPT,
        &[Tool::http("look", &tools.url("look")).reads(), Tool::http("deploy", &tools.url("deploy")).asks()],
    );
    let network = Network::new();
    // A sweep in between could wake the run a second time: the loser of that claim is one write more.
    let stack = quiet_stack(&agents, &network).await;
    let writes = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&writes);
    network.dynamo.judged_by(move |operation| {
        let write = ["PutItem", "TransactWriteItems"].contains(&operation);
        if write && counter.fetch_add(1, Ordering::SeqCst) == unlucky { fate } else { Fate::Answered }
    });
    // Each of these is answered as if nothing had happened.
    let run = stack.api.start("ops", "Deploy.").await;
    let request = stack.api.request_of(&run).await;
    let decided = stack.api.approve(&request).await;
    assert_eq!(decided["status"], "decided");
    let done = stack.api.run_that_is(&run, "completed").await;
    assert_eq!(done["output"], "It says: done");
    for tool in ["look", "deploy"] {
        assert_eq!(tools.calls_of(tool).len(), 1, "{tool} after write {unlucky} met {fate:?}");
    }
    let kinds = stack.api.journal(&run).await.iter().map(|entry| entry["kind"].as_str().unwrap().to_owned()).collect();
    (kinds, writes.load(Ordering::SeqCst))
}

/// The same life whichever write is unlucky.
async fn lives(fate: Fate) {
    let (kinds, writes) = life(usize::MAX, Fate::Answered).await;
    assert!(writes >= 12, "{writes} writes");
    for unlucky in 0..writes {
        let (met, written) = life(unlucky, fate).await;
        assert_eq!(met, kinds, "after write {unlucky} met {fate:?}");
        assert!((writes..=writes + 1).contains(&written), "{written} writes after write {unlucky} met {fate:?}");
    }
}

/// B13, case 38: it landed, and its reply was lost. It is recognised as ours.
#[tokio::test]
async fn b13_case_38_a_write_that_landed_unnoticed_is_recognised() {
    lives(Fate::ReplyLost).await;
}

/// B13: it may have landed, and did not. It is made once more.
#[tokio::test]
async fn b13_case_38_a_write_that_never_arrived_is_made_again() {
    lives(Fate::RequestLost).await;
}
