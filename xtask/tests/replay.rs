//! `cargo xtask replay` on what a whole stack recorded.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test says what is wrong by stopping")]

use std::{io::Write as _, process::Command};

use dormouse_e2e::{Agents, TestStack, Tool, ToolAnswer, ToolServer};

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

/// The recording of a run with a call that was lost and retried by a person who had approved it.
async fn recorded() -> String {
    let tools = ToolServer::start().await;
    let agents = Agents::new().scripted(
        "ops",
        SCRIPT,
        &[Tool::http("look", &tools.url("look")).reads(), Tool::http("deploy", &tools.url("deploy")).asks()],
    );
    let kept = br#"{"content":"seen","state":{"page":3}}"#.to_vec();
    tools.answers("look", ToolAnswer::bytes("application/vnd.dormouse.result+json", kept));
    tools.answers("deploy", ToolAnswer::Drop);
    let stack = TestStack::in_memory(&agents).await;
    let run = stack.api.start("ops", "Deploy web.").await;
    stack.api.approve(&stack.api.request_of(&run).await).await;
    let is_uncertain = |view: &serde_json::Value| view["requests"][0]["kind"] == "uncertain";
    let view = stack.api.run_when(&run, "uncertain", is_uncertain).await;
    tools.answers("deploy", ToolAnswer::text("deployed"));
    let request = &view["requests"][0];
    let retry = serde_json::json!({"decision": "settle", "resolution": "retry", "digest": request["digest"]});
    stack.api.respond(request, &retry).await.expect(200);
    stack.api.run_that_is(&run, "completed").await;
    stack.api.recording(&run).await
}

/// Whether a replay of `recording` is content, what it printed, and what it complained of.
fn replay(recording: &str) -> (bool, String, String) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(recording.as_bytes()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).arg("replay").arg(file.path()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

fn cut_between_lines(recording: &str) -> String {
    let lines: Vec<_> = recording.split_inclusive('\n').collect();
    lines[..lines.len() - 3].concat()
}

/// `recording` without the `nth` entry of this kind, with a last line that agrees, as somebody would who wants
/// it unnoticed.
fn without(recording: &str, kind: &str, nth: usize) -> String {
    let is_of_kind = format!("\"kind\":\"{kind}\"");
    let place = recording.lines().enumerate().filter(|(_, line)| line.contains(&is_of_kind)).nth(nth).unwrap().0;
    let mut lines: Vec<_> = recording.lines().map(str::to_owned).collect();
    lines.remove(place);
    let entries = lines.len() - 2;
    *lines.last_mut().unwrap() = format!("{{\"entries\":{entries}}}");
    lines.into_iter().map(|line| line + "\n").collect()
}

/// The same, with the indexes of later lines moved down.
fn forged_without(recording: &str, kind: &str, nth: usize) -> String {
    let cut = without(recording, kind, nth);
    let renumbered = cut.split_inclusive('\n').enumerate().map(|(number, line)| match number.checked_sub(1) {
        Some(index) if line.starts_with("{\"index\"") => {
            format!("{{\"index\":{index}{}", &line[line.find(',').unwrap()..])
        }
        Some(_) | None => line.to_owned(),
    });
    renumbered.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn b12_a_recording_replays_and_a_doctored_one_is_caught() {
    let recording = recorded().await;
    let (clean, shown, complaint) = replay(&recording);
    assert!(clean, "{shown}{complaint}");
    for told in [
        "RunStarted",
        "queued; next: ask the model",
        "call 2.0 look: Running { attempt: 1 }",
        "kept for the run: page = 3",
        "approval of call 2.1: waits until",
        "uncertain of call 2.1",
        "next: start 2.1",
        "completed; next: rest; never due",
        "and each invariant holds",
    ] {
        assert!(shown.contains(told), "{told:?} is not in\n{shown}");
    }

    let digest_at = recording.find("\"digest\":\"sha256:").unwrap() + 17;
    let other_digest = {
        let mut text = recording.clone();
        let other = if &text[digest_at..=digest_at] == "0" { "1" } else { "0" };
        text.replace_range(digest_at..=digest_at, other);
        text
    };
    for (what, doctored, told) in [
        ("cut within a line", recording[..recording.len() - 9].to_owned(), "the file is cut off there"),
        ("cut between lines", cut_between_lines(&recording), "the last line is missing"),
        ("without its header", recording.split_once('\n').unwrap().1.to_owned(), "line 1 is not the header"),
        ("with a hole", without(&recording, "CallFinished", 0), "breaks I1: it stands where"),
        ("without the approval", forged_without(&recording, "RequestDecided", 0), "breaks I7"),
        ("without the retry", forged_without(&recording, "RequestDecided", 1), "breaks I8"),
        ("without the claim", forged_without(&recording, "DriverStarted", 0), "breaks I1"),
        ("without a result", forged_without(&recording, "CallFinished", 0), "is corrupt at entry"),
        ("another digest", other_digest, "breaks I6: the digest is not that of the call's arguments"),
        ("another agent", recording.replacen("\"replay\":\"manual\"", "\"replay\":\"safe\"", 1), "breaks I10"),
        ("another fact", recording.replace("RequestDecided", "RequestIgnored"), "RequestIgnored"),
    ] {
        let (clean, shown, complaint) = replay(&doctored);
        assert!(!clean, "{what}\n{shown}");
        assert!(complaint.contains(told), "{what}: {complaint}");
    }
}
