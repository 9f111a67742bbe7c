//! A journal as the model keeps it: folded by the production code, with a history of its own beside,
//! from which the rules are judged without asking the fold.

use std::hash::{Hash, Hasher};

use dormouse_domain::{Entry, Run};

use crate::{
    history::History,
    rules::{Broken, Rule},
    shared::{Memo, Shared, hash_of},
};

/// A folded journal. A reader that is behind holds an earlier one; what it then reads brings it to the
/// present one, whatever it held, because there is one journal and the fold is a function. So the
/// entries themselves need not be kept.
#[derive(Debug, Clone)]
pub struct Journal {
    /// What the fold makes of it.
    pub run: Run,
    /// What the rules need of it.
    pub history: History,
}

impl Hash for Journal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_run(&self.run, state);
        self.history.hash(state);
    }
}

/// What tells two folded runs apart. Left out is what nothing in the model's bounds depends on: names
/// that are the same in all states, and counters that only feed ceilings far out of reach.
fn hash_run<H: Hasher>(run: &Run, state: &mut H) {
    let Run {
        id: _,
        definition: _,
        definition_digest: _,
        owner: _,
        agent: _,
        mode,
        metadata: _,
        created_at: _,
        updated_at: _,
        len,
        turns,
        messages,
        requests,
        driver,
        paused,
        cancel,
        outcome,
        usage: _,
        worked_ms: _,
        trouble,
        deaths,
        wire_ids: _,
    } = run;
    (mode, len, turns, messages, requests).hash(state);
    driver.as_ref().map(|driver| (&driver.id, driver.until)).hash(state);
    (paused, cancel, outcome, trouble, deaths).hash(state);
}

/// Journals that were folded before, so that each is folded once.
pub type Folded = Memo<(Shared<Journal>, Broken)>;

impl Journal {
    /// A journal of one entry.
    #[must_use]
    pub fn new(run: Run) -> Self {
        Self { run, history: History::default() }
    }
}

/// `before` with `entry` after it, and the rules that this breaks. If the fold refuses the entry, I1 is
/// broken and `before` is all there is.
pub fn follow(folded: &Folded, before: &Shared<Journal>, entry: &Entry) -> (Shared<Journal>, Broken) {
    folded.get((before.hash64(), hash_of(entry)), || {
        let mut broken = Broken::default();
        let mut run = before.run.clone();
        let history = before.history.after(&before.run, entry, &mut broken);
        if run.apply(entry).is_err() {
            broken.unless(false, Rule::I1);
            return (before.clone(), broken);
        }
        let history = history.folded(&before.run, &run, entry, &mut broken);
        (Shared::new(Journal { run, history }), broken)
    })
}
