//! What goes wrong in a simulation, and how often. Each seed switches some kinds off altogether: faults
//! that hide each other are so met alone too (swarm testing).

use crate::dice::Dice;

/// What becomes of one HTTP request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is answered.
    Answered,
    /// The connection breaks before the service sees it.
    RequestLost,
    /// It is carried out; the connection breaks before the reply.
    ReplyLost,
    /// The service never sees it, and no reply ever comes.
    NeverArrives,
    /// It is carried out, and no reply ever comes.
    NoReply,
    /// No reply comes, and it is carried out seconds later.
    CarriedOutLate,
    /// It is applied item by item, and answered when it is done.
    AppliedSlowly,
    /// The service says "slow down".
    Throttled,
    /// The service fails before it does anything.
    Failed,
    /// The service says that it failed, after it did it.
    FailedAfter,
    /// The service says that another write was under way. dynoxide never does.
    Conflict,
    /// The caller's process dies before the request leaves.
    DiesBefore,
    /// The caller's process dies after the request was carried out.
    DiesAfter,
}

impl Fate {
    /// Of a thousand calls, how many meet it at most, unless all is harsher.
    fn most(self) -> u64 {
        match self {
            Self::DiesBefore | Self::DiesAfter => 20,
            Self::AppliedSlowly => 200,
            Self::Answered
            | Self::RequestLost
            | Self::ReplyLost
            | Self::NeverArrives
            | Self::NoReply
            | Self::CarriedOutLate
            | Self::Throttled
            | Self::Failed
            | Self::FailedAfter
            | Self::Conflict => 60,
        }
    }

    /// The fates that are faults.
    pub(crate) const FAULTS: [Self; 12] = [
        Self::RequestLost,
        Self::ReplyLost,
        Self::NeverArrives,
        Self::NoReply,
        Self::CarriedOutLate,
        Self::AppliedSlowly,
        Self::Throttled,
        Self::Failed,
        Self::FailedAfter,
        Self::Conflict,
        Self::DiesBefore,
        Self::DiesAfter,
    ];
}

/// How one seed goes wrong; the weights are per mille.
#[derive(Debug)]
pub(crate) struct Swarm {
    /// Nothing goes wrong but what goes wrong by itself.
    pub(crate) calm: bool,
    /// For each fault of the network, out of as many requests.
    network: Vec<(u64, Fate)>,
    /// When no service answers, in milliseconds.
    outage_ms: Option<(u64, u64)>,
    /// Longest way to a service or back, in milliseconds.
    pub(crate) latency_ms: u64,
    /// How far an index can be behind its table, in milliseconds; 0: never.
    pub(crate) index_lag_ms: u64,
    /// Messages that are taken and never delivered.
    pub(crate) message_lost: u64,
    /// Messages that are delivered twice.
    pub(crate) message_doubled: u64,
    /// Messages that are delivered up to a minute late.
    pub(crate) message_late: u64,
    /// Calls of tools that return an error.
    pub(crate) tool_fails: u64,
    /// Calls of tools that are known not to have been made.
    pub(crate) tool_not_sent: u64,
    /// Calls of tools of which it is not known what they did.
    pub(crate) tool_unknown: u64,
    /// Calls of tools that never return.
    pub(crate) tool_hangs: u64,
    /// Calls of tools that panic.
    pub(crate) tool_panics: u64,
    /// Calls of tools in whose midst the process dies.
    pub(crate) tool_dies: u64,
    /// Model calls that fail.
    pub(crate) model_fails: u64,
    /// Model calls that panic, and with them the step.
    pub(crate) model_panics: u64,
    /// Model calls in whose midst the process dies.
    pub(crate) model_dies: u64,
    /// Whether the sweep stands still for the first minutes.
    pub(crate) sweep_stands: bool,
}

impl Swarm {
    /// The swarm of a seed.
    pub(crate) fn draw(dice: &Dice) -> Self {
        // One seed in eight.
        let calm = dice.chance(125);
        // Half of the kinds are off, and of the rest some seeds are full.
        let harsh = dice.pick(&[1, 1, 2, 4]);
        let weight = |most: u64| if calm || dice.chance(500) { 0 } else { dice.range(1..=most * harsh / 2) };
        let network = Fate::FAULTS.map(|fate| (weight(fate.most()), fate));
        Self {
            calm,
            network: network.into_iter().filter(|(weight, _)| *weight > 0).collect(),
            outage_ms: (!calm && dice.chance(150)).then(|| {
                let from = dice.range(1_000..=90_000);
                (from, from + dice.range(5_000..=90_000))
            }),
            latency_ms: dice.pick(&[2, 10, 10, 40, 150]),
            index_lag_ms: if calm || dice.chance(500) { 0 } else { dice.pick(&[50, 1_000, 10_000]) },
            message_lost: weight(250),
            message_doubled: weight(250),
            message_late: weight(250),
            tool_fails: weight(150),
            tool_not_sent: weight(150),
            tool_unknown: weight(450),
            tool_hangs: weight(100),
            tool_panics: weight(60),
            tool_dies: weight(100),
            model_fails: weight(200),
            model_panics: weight(60),
            model_dies: weight(60),
            sweep_stands: !calm && dice.chance(300),
        }
    }

    /// What becomes of a request at `now_ms`.
    pub(crate) fn fate(&self, dice: &Dice, now_ms: u64) -> Fate {
        if self.outage_ms.is_some_and(|(from, to)| (from..to).contains(&now_ms)) {
            return dice.pick(&[Fate::Failed, Fate::Failed, Fate::RequestLost, Fate::NeverArrives]);
        }
        let mut roll = dice.range(0..=999);
        for (weight, fate) in &self.network {
            match roll.checked_sub(*weight) {
                Some(rest) => roll = rest,
                None => return *fate,
            }
        }
        Fate::Answered
    }
}
