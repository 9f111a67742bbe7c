//! The flight recorder.

use std::sync::Arc;

use dormouse_domain::{Run, RunId, audit, record};
use dormouse_testkit::{call, say};
use http::HeaderMap;

use crate::app::App;

/// The pages of `run`'s recording, as a client walks them.
async fn pages(app: &App, run: &str) -> Vec<String> {
    let base = format!("/v1/runs/{run}/export");
    let (mut pages, mut query) = (Vec::new(), String::new());
    loop {
        let answer = app.get("ann", &format!("{base}{query}")).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-ndjson")));
        pages.push(answer.text.clone());
        let Some(next) = rest(&answer.headers) else { return pages };
        query = next;
        assert!(pages.len() < 100);
    }
}

/// The `next` link, which is relative to the address that it was got from.
fn rest(headers: &HeaderMap) -> Option<String> {
    let link = headers.get("link")?.to_str().unwrap();
    let target = link.strip_prefix('<').and_then(|link| link.strip_suffix(">; rel=\"next\"")).unwrap();
    assert!(target.starts_with('?'), "{link}");
    Some(target.to_owned())
}

/// B12: the pages together are the journal, whole, with all that is needed to fold it.
#[tokio::test]
async fn b12_a_recording_folds_to_the_run() {
    let app = App::new();
    let large = "x\"\n".repeat(250_000);
    let mut replies: Vec<_> = (0..4).map(|_| vec![say(&large), call("c", "wipe", "{}")]).collect();
    replies.extend((0..12).map(|_| vec![call("c", "wipe", "{}")]));
    let run = app.run("ann", replies.into_iter().chain([vec![say("done")]]).collect()).await;
    let pages = pages(&app, &run).await;
    assert!(pages.len() > 1, "{} pages", pages.len());
    for page in &pages {
        assert!(serde_json::to_string(page).unwrap().len() < 6_000_000, "a function's answer has 6 MB at most");
        assert!(page.ends_with('\n') && page.len() > 1);
    }
    let recording = record::read(&pages.concat()).unwrap();
    let id: RunId = run.parse().unwrap();
    assert_eq!(recording.header.run_id, id);
    assert_eq!(recording.entries, app.world.memory.journal(&id), "entries as they are stored");
    let definition = Arc::new(recording.header.definition);
    assert_eq!(audit::journal(&id, &definition, &recording.entries).unwrap(), []);
    let mut folded = Run::start(id, definition, &recording.entries[0]).unwrap();
    recording.entries[1..].iter().for_each(|entry| folded.apply(entry).unwrap());
    assert!(folded.outcome.is_some());
}

/// It goes on by index, however far it was read before; somebody else's does not exist.
#[tokio::test]
async fn a_recording_is_its_owners_and_goes_on_by_index() {
    let app = App::new();
    let (run, _) = app.waiting("ann").await;
    let url = format!("/v1/runs/{run}/export");
    let whole = app.get("ann", &url).await.text;
    let lines: Vec<_> = whole.split_inclusive('\n').collect();
    assert!(lines.len() > 3);
    let entries = lines.len() - 2;
    for from in 1..entries {
        let rest = app.get("ann", &format!("{url}?from={from}")).await;
        assert_eq!((rest.status, rest.text), (200, lines[from + 1..].concat()), "the header is line 0");
    }
    for from in [entries, entries + 1, 1_000_000, u32::MAX as usize] {
        let none = app.get("ann", &format!("{url}?from={from}")).await;
        assert_eq!((none.status, none.text.as_str()), (200, ""), "there is nothing new");
    }
    for query in ["from=x", "from=-1", "from="] {
        app.get("ann", &format!("{url}?{query}")).await.expect_problem(400, "invalid-request");
    }
    let none = app.get("ann", "/v1/runs/run_00000000000000000000000000000009/export").await;
    let others = app.get("bob", &url).await;
    others.expect_problem(404, "not-found");
    assert_eq!(others.text, none.text);
}
