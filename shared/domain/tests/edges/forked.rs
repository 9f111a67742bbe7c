//! What a model reads in a fork of what came before it (I10, X8).

use dormouse_domain::transcript;

use super::*;

/// The story's fork after its last entry, under another name.
fn fork(story: &Story) -> Story {
    let entries = story.entries.clone();
    let mut run = Run::start(RunId::from_bits(8), story.run.definition.clone(), &entries[0]).unwrap();
    entries[1..].iter().for_each(|entry| run.apply(entry).unwrap());
    let calls = plan::fork(&run, run.mode, Rules::none());
    let (from, last, mode) = (story.run.id.clone(), run.len - 1, run.mode);
    let mut fork = Story { run, entries, now: story.now, drivers: 50 };
    fork.put_by(Fact::Forked { from, last, by: me(), mode, metadata: BTreeMap::new(), calls }, None);
    fork
}

fn prompt(run: &Run) -> Vec<String> {
    transcript::prompt(run).messages.iter().map(|message| format!("{message:?}")).collect()
}

/// E6, E7, I10, X8: a call that the conversation went on without, the news of another, and a call that joined one are
/// told as they were told there, under the name of the run that asked.
#[test]
fn i10_x8_what_was_told_is_told_again() {
    let mut story = Story::new();
    story.reply(vec![call("do", r#"{"a":1}"#), call("do", r#"{"a":2}"#)]);
    let Next::Rest { open, .. } = story.next() else { panic!("{:?}", story.next()) };
    let refused = request::build(&story.run, story.run.len, 0, &open[0], story.now).unwrap();
    story.suspend();
    story.go_on();
    story.decide(&refused, Decision::Deny { reason: Some("no".into()) });
    story.reply_to(story.run.len - 1, vec![call("do", r#"{"a":2}"#)]);
    let there = prompt(&story.run);
    let shown = there.join("\n");
    assert!(shown.contains("News of request run_") && shown.contains("Pending, not confirmed: this call has not run"));
    assert!(shown.contains("you made this call before"), "{shown}");

    let mut of = fork(&story);
    assert_eq!(prompt(&of.run), there);
    // What is asked here is asked under the fork's own name, beside the conversation as before.
    of.drive();
    let Next::Rest { open, .. } = of.next() else { panic!("{:?}", of.next()) };
    let asked = request::build(&of.run, of.run.len, 0, &open[0], of.now).unwrap();
    assert_eq!((&asked.id.run, asked.arguments), (&of.run.id, serde_json::json!({"a": 2})));
    let keys = of.suspend();
    assert!(of.run.requests[&keys[0]].moved_on);
    // Its news names the request that the model was told of.
    of.put(Fact::RequestDecided {
        request: keys[0],
        decision: Decision::Deny { reason: None },
        by: me(),
        digest: None,
        via: None,
    });
    let told = prompt(&of.run);
    assert_eq!(told[..there.len() - 1], there[..there.len() - 1]);
    let news = told.last().unwrap();
    assert!(news.contains(&format!("News of request {}.", story.run.id)), "{news}");
    assert!(!told.concat().contains(of.run.id.as_str()), "{told:?}");
}
