//! The walk through the demo agent, with what the README types.

use dormouse_e2e::{Agents, Process};
use serde_json::{Value, json};

const README: &str = include_str!("../../../../README.md");

/// What the README posts, in order: path and body, the shell's quotes taken off.
fn posts() -> Vec<(String, String)> {
    let commands = README.split("curl -s localhost:8787").skip(1);
    let posts = commands.filter_map(|command| {
        let (path, rest) = command.split_once(" -d ")?;
        let simple = !path.contains(char::is_whitespace);
        let body = match rest.strip_prefix('\'') {
            Some(single) => single.split('\'').next()?.to_owned(),
            None => rest.strip_prefix('"')?.replace("\\\"", "\0").split('"').next()?.replace('\0', "\""),
        };
        simple.then(|| (path.to_owned(), body))
    });
    posts.collect()
}

async fn post(process: &Process, (path, body): &(String, String), names: &[(&str, &str)]) -> Value {
    let fill = |text: &str| names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value));
    let request = process.api.request("POST", &fill(path)).body(fill(body));
    dormouse_e2e::Api::send(request).await.body
}

#[tokio::test]
async fn f6_the_walk_of_the_readme() {
    let posts = posts();
    let [start, answer, approve] = posts.as_slice() else { panic!("not the walk that this test knows: {posts:?}") };
    let (agents, data) = (Agents::that_come_along(), tempfile::tempdir().unwrap());
    let process = Process::start(data.path(), &agents, &[]).await;

    let started = post(&process, start, &[]).await;
    let run = started["run_id"].as_str().expect("a run was started").to_owned();
    let question = process.api.request_of(&run).await;
    assert_eq!(question["kind"], "question");
    assert!(question["options"].as_array().unwrap().len() > 1, "{question}");
    let other = json!({"answer": "9.9.9"});
    process.api.post(&format!("/v1/runs/{run}/respond"), &other).await.problem(400, "invalid-answer");
    let answered = post(&process, answer, &[("$RUN", &run)]).await;
    assert_eq!(answered["decision"]["decision"], "answer", "{answered}");
    let view = process.api.run_when(&run, "waiting for approval", |run| run["requests"][0]["kind"] == "approval").await;
    process.kill();

    let process = Process::start(data.path(), &agents, &[]).await;
    // As the README greps it: the first digest of the view is the one to approve.
    let view_now = process.api.run(&run).await;
    assert_eq!(view_now, view);
    let text = view_now.to_string();
    let digest = text.split('"').find(|part| part.starts_with("sha256:")).expect("a digest");
    let approved = post(&process, approve, &[("$RUN", &run), ("$DIGEST", digest)]).await;
    assert_eq!(approved["decision"]["decision"], "approve", "{approved}");
    let done = process.api.run_that_is(&run, "completed").await;
    assert!(done["output"].as_str().unwrap().contains("1.5.0"), "{done}");
    let again = post(&process, approve, &[("$RUN", &run), ("$DIGEST", digest)]).await;
    assert_eq!((&again["status"], &again["decision"]), (&json!(409), &approved["decision"]));
}

/// D4: an option that cancels ends the run at once, without the model.
#[tokio::test]
async fn d4_the_demo_can_be_stopped_at_its_question() {
    let (agents, data) = (Agents::that_come_along(), tempfile::tempdir().unwrap());
    let process = Process::start(data.path(), &agents, &[]).await;
    let run = process.api.start("release", "cut the next release").await;
    let question = process.api.request_of(&run).await;
    let before = process.api.entries(&run, "ModelReplied").await;
    let stop = json!({"decision": "answer", "answer": "none"});
    let stopped = process.api.respond(&question, &stop).await.expect(200);
    assert_eq!(stopped["run"]["status"], "cancelled", "in the same transaction");
    assert_eq!(process.api.entries(&run, "ModelReplied").await, before);
    assert_eq!(process.api.run(&run).await["outcome"]["by"], json!({"tenant": "shop", "subject": "ann"}));
}
