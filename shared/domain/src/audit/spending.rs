//! What the auditor keeps about the ceilings (C5).

use super::{Checked, ensure};
use crate::{
    agent::Definition,
    budget::{Amounts, Budget, Consumed},
    decide::Decision,
    delegate::Parent,
    message::{ModelRef, Usage},
};

/// What a run may use, and what it is known to have used: no more than the fold counts, which takes what is not
/// known at its most.
#[derive(Debug, Clone)]
pub(super) struct Spending {
    ceilings: Amounts,
    used: Amounts,
}

impl Spending {
    pub(super) fn new(definition: &Definition) -> Self {
        Self { ceilings: Amounts::from(&definition.limits), used: Amounts::default() }
    }

    /// A model replied. It was asked below every ceiling.
    pub(super) fn replied(&mut self, definition: &Definition, model: &ModelRef, usage: &Usage) -> Checked {
        let before = Budget { ceilings: self.ceilings, used: self.used, at_most: false }.reached();
        let cost = definition.price(model).of(usage);
        self.used = self.used.plus(&Amounts { turns: 1, tokens: usage.tokens(), cost, wall_ms: 0 });
        ensure(before.is_empty(), "C5", &format!("a model was asked, though {}", before.join(" and ")))
    }

    /// The run was delegated, and may use a share of what its parent may.
    pub(super) fn share(&mut self, parent: Option<&Parent>) {
        self.ceilings = parent.map_or(self.ceilings, |parent| self.ceilings.min(&parent.share));
    }

    /// A run that it delegated to has ended.
    pub(super) fn child(&mut self, used: Option<&Consumed>) {
        let amounts = used.map(|used| used.amounts).unwrap_or_default();
        self.used = self.used.plus(&Amounts { wall_ms: 0, ..amounts });
    }

    /// A person raised a ceiling.
    pub(super) fn decided(&mut self, decision: &Decision) {
        if let Decision::Raise { amount } = decision {
            self.ceilings = self.ceilings.plus(amount);
        }
    }
}
