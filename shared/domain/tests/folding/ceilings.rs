//! What a run may use up (C5).

use dormouse_domain::{next::Next, price::Cost, request::RequestKind};

use super::{Story, message};

/// The ceilings, each at its edge.
#[test]
fn c5_ceilings() {
    let mut turns = Story::new("go");
    turns.start("d").reply("d", vec![]);
    for _ in 0..2 {
        assert!(matches!(turns.next(), Next::Finish(_)));
        turns.put("~", message());
        assert_eq!(turns.next(), Next::CallModel);
        turns.reply("d", vec![]);
    }
    turns.put("~", message());
    assert!(asks_for_more(&turns), "{:?}", turns.next());

    for (used, over) in [(999, false), (1_000, true)] {
        let mut story = Story::new("go");
        story.start("d");
        story.run.usage.cache_read_tokens = used;
        assert_eq!(asks_for_more(&story), over, "{used} tokens");
    }
    for (span, over) in [(3_599_999, false), (3_600_000, true)] {
        let mut story = Story::new("go");
        story.start("d");
        story.now = story.now.plus(span);
        assert_eq!(asks_for_more(&story), over, "{span} ms of work");
    }
    for (spent, over) in [(99_999_999_999_999, false), (100_000_000_000_000, true)] {
        let mut story = Story::new("go");
        story.start("d");
        story.run.cost.total = Cost(spent);
        assert_eq!(asks_for_more(&story), over, "{spent} picodollars");
    }
}

fn asks_for_more(story: &Story) -> bool {
    matches!(story.next(), Next::Rest { open, .. } if open.len() == 1 && open[0].kind == RequestKind::Budget)
}
