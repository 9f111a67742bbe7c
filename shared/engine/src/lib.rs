//! The engine: ports to the world, the one loop that drives a run, and the writers beside it. It
//! knows no AWS.
//!
//! The driver ([`Engine::step`]) and everybody else ([`Engine::respond`], [`Engine::cancel`], …)
//! append to the same journal under the same rule: who wins the index wins the race. What the
//! machine owns, what to do next, is in `dormouse-domain`; what the host owns, doing it, is here.
//!
//! Read in this order: [`ports`], `journal` (loading and folding), `amend` (writers that are not
//! drivers), `respond`, `link`, `complete`, `control`, `start`, `fork`, `delegate`, then `step` and below it `drive`, `calls`, `stop`.

mod amend;
mod complete;
mod control;
mod delegate;
mod error;
mod fork;
mod journal;
mod link;
mod modes;
pub mod ports;
mod query;
mod respond;
mod rules;
mod start;
mod step;
mod sweep;

use std::sync::Arc;

pub use amend::IdempotencyKey;
pub use complete::{Completed, MAX_COMPLETION_BYTES};
pub use control::Changed;
pub use error::Problem;
pub use fork::ForkRun;
pub use link::{LinkMade, LinkView};
pub use query::RunView;
pub use respond::Responded;
pub use rules::RulesOf;
pub use start::{StartRun, Started};
pub use step::{StepError, StepReport};
pub use sweep::Swept;

use dormouse_domain::{DriverId, EntryId};

/// The ports, put together.
#[derive(Clone)]
pub struct Ports {
    /// The store.
    pub store: Arc<dyn ports::Store>,
    /// The queue.
    pub queue: Arc<dyn ports::Queue>,
    /// The models.
    pub models: Arc<dyn ports::Models>,
    /// The tools.
    pub tools: Arc<dyn ports::Tools>,
    /// The agents that can be started.
    pub agents: Arc<dyn ports::Agents>,
    /// The time.
    pub clock: Arc<dyn ports::Clock>,
    /// New names.
    pub ids: Arc<dyn ports::Ids>,
    /// The keys that tokens are signed with.
    pub keys: Arc<dyn ports::Keys>,
}

/// What a host sets.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Name of this process among all that drive runs; part of each driver's id.
    pub host: String,
    /// Whether this process is the only one, ever: then a driver of any other process is known to
    /// be gone, and its runs are taken over at once.
    pub sole_host: bool,
    /// How long before its deadline a step must have written its stop entry, in milliseconds.
    pub stop_margin_ms: u64,
    /// Time that a model call must have before it is started, in milliseconds.
    pub model_needs_ms: u64,
    /// The longest that a model call may take, in milliseconds.
    pub model_timeout_ms: u64,
    /// The longest timeout that a tool can have, in milliseconds: a call of it, its dispatch and the
    /// stop entry must fit one step.
    pub max_tool_timeout_ms: u64,
}

impl Settings {
    /// The settings of a host of this name whose steps have `step_ms`. Of three minutes, five seconds
    /// are kept for stopping, and a model call begins with no less than thirty; a shorter step keeps
    /// the same shares.
    #[must_use]
    pub fn new(host: String, step_ms: u64) -> Self {
        let stop_margin_ms = (step_ms / 36).min(5_000);
        Self {
            host,
            sole_host: false,
            stop_margin_ms,
            model_needs_ms: (step_ms / 6).min(30_000),
            model_timeout_ms: (step_ms / 6 * 5).min(150_000),
            max_tool_timeout_ms: step_ms.saturating_sub(2 * stop_margin_ms),
        }
    }
}

/// The engine over its ports. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    ports: Ports,
    settings: Arc<Settings>,
}

impl Engine {
    /// The engine over these ports.
    #[must_use]
    pub fn new(ports: Ports, settings: Settings) -> Self {
        Self { ports, settings: Arc::new(settings) }
    }

    /// The ports.
    #[must_use]
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    fn entry_id(&self) -> EntryId {
        EntryId(format!("{:032x}", self.ports.ids.fresh()))
    }

    fn driver_id(&self) -> DriverId {
        DriverId::new(&self.settings.host, &format!("{:032x}", self.ports.ids.fresh()))
    }
}
