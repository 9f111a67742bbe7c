//! What must hold, and the record of what did not.

/// What must hold. The first eleven are the invariants of `ARCHITECTURE.md`; I12, that `next` and the
/// fold are functions, is what the whole model rests on: it remembers their answers. What is about one
/// journal is judged by the domain's auditor, the rest here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Rule {
    /// One journal: whoever writes entry *n* knows all before it, and each entry can follow.
    I1,
    /// Nothing happens outside before the entry that announces it.
    I2,
    /// A result is kept, is that of the latest attempt, and is never produced again.
    I3,
    /// A driver stops by an entry, and knows all before it; a wake dropped meanwhile is no loss.
    I4,
    /// The rows say what the journal says.
    I5,
    /// A request is decided once, in time, by one who may, and whoever is told so was told the truth.
    I6,
    /// What runs is allowed or approved, with the very arguments.
    I7,
    /// What a manual tool may have done is not done again unless a person says so.
    I8,
    /// What wants something has a time at which the sweep finds it; what wants nothing has none.
    I9,
    /// A prompt begins with every earlier one.
    I10,
    /// Unknown is never yes.
    I11,
    /// No model is asked at a ceiling.
    C5,
    /// Pause starts nothing, cancel is final.
    B8,
    /// What comes after the conversation went on takes effect, and the model is told of it once (E1, E6
    /// to E9).
    Late,
    /// If nothing fails any more, a run ends, or rests with each of its requests decidable.
    Rest,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::I1,
        Self::I2,
        Self::I3,
        Self::I4,
        Self::I5,
        Self::I6,
        Self::I7,
        Self::I8,
        Self::I9,
        Self::I10,
        Self::I11,
        Self::C5,
        Self::B8,
        Self::Late,
        Self::Rest,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::I1 => "I1",
            Self::I2 => "I2",
            Self::I3 => "I3",
            Self::I4 => "I4",
            Self::I5 => "I5",
            Self::I6 => "I6",
            Self::I7 => "I7",
            Self::I8 => "I8",
            Self::I9 => "I9",
            Self::I10 => "I10",
            Self::I11 => "I11",
            Self::C5 => "C5",
            Self::B8 => "B8",
            Self::Late => "E6 to E9",
            Self::Rest => "rest",
        }
    }

    /// The rule that the auditor calls by this name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self::ALL.into_iter().find(|rule| rule.name() == name).unwrap_or(Self::Late)
    }
}

/// The rules that were broken on the way to a state. Only ever grows, so that the checker sees at a
/// state what happened on the step to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Broken(u16);

impl Broken {
    /// Records that `rule` is broken unless `holds`.
    pub fn unless(&mut self, holds: bool, rule: Rule) {
        if !holds {
            self.0 |= 1 << rule as u8;
        }
    }

    /// Adds what `other` records.
    pub fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Whether `rule` is broken.
    #[must_use]
    pub fn has(self, rule: Rule) -> bool {
        self.0 & (1 << rule as u8) != 0
    }

    /// Whether any rule is.
    #[must_use]
    pub fn any(self) -> bool {
        self.0 != 0
    }
}
