//! Faults that can be planted in the part of the engine that the model mirrors, to show that a check
//! which finds nothing could have found something.

/// A planted fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A writer that lost its index takes the next one without reading what stands there.
    NoSecondLook,
    /// Tools are started before the reply that announces them is stored.
    ToolsFirst,
    /// A driver whose result lost its index forgets the result.
    ResultDropped,
    /// A stop entry is written whatever else was.
    StopsBlindly,
    /// The wake message is sent before what it is about is written.
    WakeFirst,
    /// A request's row is not closed with it.
    RowForgotten,
    /// A decision is written whatever else was decided.
    DecidesBlindly,
    /// A call that policy asks about is started as if it were allowed.
    AskIgnored,
    /// A driver that takes a run over runs again what ran.
    RunsAgain,
    /// A call of which it is not known what it did is made again, and nobody asked.
    NeverAsks,
    /// A driver does not look whether the run is paused.
    IgnoresPause,
    /// A driver asks the model whatever the run has used.
    Spends,
    /// A driver that has nothing to do goes on without waiting for the person.
    Impatient,
    /// The sweep moves `due_at` on and sends nothing.
    SilentSweep,
    /// A suspension leaves no time at which to look again.
    NoDueTime,
    /// A reply is stored as if its model had been asked when the run was claimed.
    WrongSeen,
    /// Whoever does not hear whether the decision was stored is told that it was.
    HopesForTheBest,
}
