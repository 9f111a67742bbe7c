//! Random lives of a run, made by the production `next` and fold, with other writers and dying
//! drivers in between. At each model call the prompt must have every property that
//! `transcript` promises; after each entry the state must have those that the invariants state.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test says what is wrong by stopping"
)]

mod life;

use std::collections::BTreeSet;

use dormouse_domain::{
    Run,
    audit::{Audit, Violation},
    message::{Content, StopReason},
    transcript::{AssistantBlock, Message, UserBlock, prompt},
};
use life::Life;
use proptest::prelude::*;

/// One block of a prompt, flattened: what I10 is about.
fn blocks(run: &Run) -> Vec<String> {
    let mut blocks = Vec::new();
    for message in prompt(run).messages {
        match message {
            Message::User(parts) => blocks.extend(parts.iter().map(|part| format!("user {part:?}"))),
            Message::Assistant { model, blocks: parts } => {
                blocks.extend(parts.iter().map(|part| format!("{model} {part:?}")));
            }
        }
    }
    blocks
}

fn legal(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Cases 44 to 48.
fn check_prompt(run: &Run) {
    let prompt = prompt(run);
    assert!(matches!(prompt.messages.first(), Some(Message::User(_))), "a prompt begins with the user");
    let mut ids = BTreeSet::new();
    let mut open: Vec<String> = Vec::new();
    let mut last_was_user = false;
    // A reply that its provider paused is continued without a word from the user's side.
    let paused = run.turns.iter().any(|turn| turn.stop == StopReason::Pause);
    for message in &prompt.messages {
        match message {
            Message::Assistant { blocks, .. } => {
                assert!(open.is_empty(), "a call without a result before the next reply");
                assert!((last_was_user || paused) && !blocks.is_empty());
                last_was_user = false;
                for block in blocks {
                    if let AssistantBlock::Call { id, .. } = block {
                        assert!(legal(id) && ids.insert((*id).to_owned()), "{id:?} is illegal or twice on the wire");
                        open.push((*id).to_owned());
                    }
                }
            }
            Message::User(blocks) => {
                assert!(!last_was_user && !blocks.is_empty());
                last_was_user = true;
                let mut texts = false;
                for block in blocks {
                    match block {
                        UserBlock::Result { id, content, .. } => {
                            assert!(!texts, "a result after a text");
                            assert!(open.first().is_some_and(|first| first == id), "results in the order of the calls");
                            open.remove(0);
                            assert!(!content.is_empty() && content.iter().all(|part| !part.is_blank()));
                        }
                        UserBlock::Said(content) => {
                            texts = true;
                            assert!(!content.is_blank());
                        }
                    }
                }
                assert!(open.is_empty(), "all results of a turn stand in the next user message");
            }
        }
    }
    assert!(last_was_user || paused, "a model is asked after the user's side");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(600), ..ProptestConfig::default() })]

    /// I1 to I10 as far as they are about one journal, by the auditor's books and by what is asked.
    #[test]
    fn i1_i10_x8_case_44_case_45_case_46_random_lives(choices in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut life = Life::new(&choices);
        let mut asked: Vec<(u32, Vec<String>)> = Vec::new();
        let mut audit = Audit::new(life.run.id.clone(), life.run.definition.clone());
        prop_assert_eq!(audit.check(&life.entries[0], &life.run), []);
        while life.step() {
            if life.was_forked() {
                audit = Audit::of(life.run.id.clone(), life.run.definition.clone(), &life.entries);
                prop_assert_eq!(audit_all(&mut audit, &life), vec![], "{:#?}", life.entries);
                let fork = life.run.forks.last().unwrap().index;
                asked.retain(|(seen, _)| *seen <= fork);
            }
            if let Some(entry) = life.news() {
                prop_assert_eq!(audit.check(&entry, &life.run), [], "{:#?}", life.entries);
            }
            if life.asks_model() {
                check_prompt(&life.run);
                let now = blocks(&life.run);
                // Of a fork too: its prompts go on from those of the run that it was forked from.
                let earlier = asked.last().map(|(_, blocks)| blocks.as_slice()).unwrap_or_default();
                prop_assert!(now.starts_with(earlier), "I10: {:#?}\nthen {:#?}", earlier, now);
                asked.push((life.run.len, now));
            }
        }
        // The journal read back from its stored form folds to the same state.
        let again = life.fold_stored();
        prop_assert_eq!(&again, &life.run);
    }
}

/// What the auditor says of the whole journal, folded from its beginning.
fn audit_all(audit: &mut Audit, life: &Life) -> Vec<Violation> {
    let (first, rest) = life.entries.split_first().unwrap();
    let mut run = Run::start(life.run.id.clone(), life.run.definition.clone(), first).unwrap();
    let mut found = audit.check(first, &run);
    for entry in rest {
        run.apply(entry).unwrap();
        found.extend(audit.check(entry, &run));
    }
    assert_eq!(run, life.run);
    found
}

/// Case 47: a tool that says nothing, or only white space.
#[test]
fn case_47_blank_results_are_made_visible() {
    let run = life::one_call(vec![Content::text(" \n"), Content::text("")]);
    let shown = format!("{:?}", prompt(&run).messages);
    assert!(shown.contains("(no output)"), "{shown}");
}

/// The lives are not all alike: every kind of entry occurs in them, or the checks above say little.
#[test]
fn lives_hold_every_kind_of_entry() {
    let mut kinds: std::collections::BTreeMap<&str, u32> = std::collections::BTreeMap::new();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..400 {
        let choices = (0..400).map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        });
        let mut life = Life::new(&choices.collect::<Vec<_>>());
        while life.step() {}
        life.entries.iter().for_each(|entry| *kinds.entry(entry.fact.kind()).or_default() += 1);
    }
    let all = [
        "RunStarted",
        "DriverStarted",
        "DriverStopped",
        "ModelReplied",
        "ModelFailed",
        "CallDispatched",
        "CallFinished",
        "Suspended",
        "RequestDecided",
        "WaitExpired",
        "RequestExpired",
        "MessageAdded",
        "ModeChanged",
        "Paused",
        "Resumed",
        "CancelRequested",
        "Reopened",
        "Forked",
        "RunFinished",
    ];
    for kind in all {
        assert!(kinds.get(kind).is_some_and(|count| *count >= 5), "{kind} hardly ever happens: {kinds:?}");
    }
}
