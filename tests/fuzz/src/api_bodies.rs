//! The API, from whoever sends it whatever.

mod script;
mod world;

use dormouse_domain::{Entry, Fact, RunId, audit};
use dormouse_engine::ports::Store as _;
use http::header::CONTENT_TYPE;
use serde_json::Value;

use script::{Part, Sent};
use world::{Answer, Scene};

/// Takes text for a script: parts divided by lines of `%%`, each a request, as HTTP writes it, or something that happens
/// meanwhile (`script`). It is played to a new world, in which four runs wait: for approval, for an answer, for another
/// system, and for a group.
///
/// Whatever is sent is answered, and never with a 5xx. What is refused is refused by a problem document, or on a page where
/// a browser asks; anything else is what its media type says. Steps and sweeps go on, and no invariant of a journal is
/// broken by anything that anybody sent.
pub fn api_bodies(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // The clock of tokio stands still, and jumps where all that is left is to wait: a long poll takes no time.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime of one thread").block_on(async {
        let mut scene = Scene::new(text).await;
        for part in script::parts(text) {
            play(&mut scene, part).await;
        }
        for run in scene.runs() {
            holds(&scene, &run).await;
        }
    });
}

async fn play(scene: &mut Scene, part: Part<'_>) {
    let world = &scene.world;
    match part {
        Part::Model { tool, arguments } => world.models.reply(vec![dormouse_testkit::call("c", tool, arguments)]),
        Part::Wait { ms } => world.clock.advance(ms),
        Part::Step => scene.step().await,
        Part::Sweep => {
            let swept = world.engine.sweep().await;
            assert!(swept.is_ok(), "{swept:?}");
        }
        Part::Send(sent) => {
            let sent = Sent { target: &scene.named(sent.target), body: &scene.named(sent.body), ..sent };
            let page = sent.is_for_page();
            if let Some(answer) = scene.send(&sent).await {
                is_proper(&answer, page);
            }
        }
    }
}

fn is_proper(answer: &Answer, page: bool) {
    let Answer { status, headers, text } = answer;
    assert!((200..500).contains(status), "{status}: {text}");
    let media = headers.get(CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
    let json = || serde_json::from_str::<Value>(text).expect("JSON");
    match media {
        "application/json" => assert!(*status < 300 && json().is_object(), "{status}: {text}"),
        "application/x-ndjson" => assert!(*status == 200 && text.lines().all(|line| line.starts_with('{')), "{text}"),
        "text/html; charset=utf-8" => assert!(page && text.starts_with("<!doctype html>"), "{text}"),
        "application/problem+json" => {
            let document = json();
            let kind = document["type"].as_str().unwrap_or_default();
            assert!(*status >= 400 && document["status"] == *status, "{status}: {text}");
            assert!(kind.starts_with(dormouse_api::problem::TYPE_PREFIX), "{text}");
            assert!(
                ["title", "detail"].iter().all(|name| document[name].as_str().is_some_and(|said| !said.is_empty()))
            );
        }
        other => assert!(other.is_empty() && page, "{status}, {other}: {text}"),
    }
}

/// No invariant of this run's journal is broken.
async fn holds(scene: &Scene, run: &RunId) {
    let entries = scene.world.memory.journal(run);
    let Some(Entry { fact: Fact::RunStarted { definition, .. }, .. }) = entries.first() else { return };
    let stored = scene.world.memory.definition(definition).await;
    let definition = stored.ok().flatten().expect("the definition of a run is stored");
    let found = audit::journal(run, &definition, &entries);
    assert!(found.as_ref().is_ok_and(Vec::is_empty), "{found:?}");
}
