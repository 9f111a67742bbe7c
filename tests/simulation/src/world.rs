//! One simulation: everything put together, run until it is quiet, and judged.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dormouse_domain::{Caller, Fact, Principal, RunId, item::standing, run::Status, token::KeyRing};
use tokio::{sync::Notify, task::JoinSet};

use crate::{
    agents::SimAgents,
    books::{Book, Books, short},
    hosts::{Clients, Host},
    ledger::Ledger,
    people::Person,
    pump,
    queue::WakeQueue,
    sanction,
    sim::{Coverage, Sim, locked},
    table::{TABLE, Table},
    time::pause,
};

/// Longest that people are about, in milliseconds.
const LONGEST_DAY_MS: u64 = 8 * 60 * 1000;
/// When everything must be quiet at the latest after the faults have ended, in milliseconds. The sweep
/// backs off up to 15 minutes, a driver that died holds its run for its step, panics back off too.
const QUIET_AFTER_MS: u64 = 60 * 60 * 1000;
/// A timer further away than this is not waited for.
const FAR_MS: u64 = 3 * 60 * 60 * 1000;
/// The most that clocks of two machines differ by: what the takeover margin allows for.
const MOST_SKEW_MS: u64 = dormouse_domain::item::TAKEOVER_MARGIN_MS;

/// What one simulation came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// What happened, line by line: the same for the same seed.
    pub trace: String,
    /// How often each kind of thing happened.
    pub coverage: Coverage,
    /// Promises that were broken.
    pub violations: Vec<String>,
    /// How much time passed, in milliseconds.
    pub simulated_ms: u64,
}

/// Everything there is.
pub(crate) struct World {
    pub(crate) sim: Arc<Sim>,
    pub(crate) queue: Arc<WakeQueue>,
    pub(crate) books: Arc<Books>,
    pub(crate) ledger: Arc<Ledger>,
    /// How long a step has.
    pub(crate) step: Duration,
    /// Machines for steps that do nothing now.
    pub(crate) idle: Mutex<Vec<Arc<Host>>>,
    /// One of them was given back.
    pub(crate) freed: Notify,
    /// Invocations that run.
    pub(crate) busy: AtomicUsize,
    /// Runs whose last step was ended at its deadline.
    pub(crate) cut_off: Mutex<BTreeSet<RunId>>,
    /// Machines for the functions behind the API.
    pub(crate) api: Vec<Arc<Host>>,
    /// The machine that sweeps.
    pub(crate) sweeper: Arc<Host>,
    pub(crate) owner: Caller,
}

/// Simulates what `seed` decides.
///
/// # Panics
/// If a simulation cannot even be set up.
#[must_use]
pub fn simulate(seed: u64) -> Outcome {
    // The SDK's backoff and the adapter's draw from this thread's generator.
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let world = World::new(seed).await;
        world.live().await;
        let simulated_ms = world.sim.time.elapsed_ms();
        let (trace, coverage, violations) = world.sim.take();
        Outcome { seed, trace, coverage, violations, simulated_ms }
    })
}

impl World {
    async fn new(seed: u64) -> Arc<Self> {
        let sim = Arc::new(Sim::new(seed));
        let agents = Arc::new(SimAgents::draw(&sim.dice).expect("agents without faults"));
        let books = Arc::new(Books::new(Arc::clone(&sim), &agents.all()));
        let ledger = Arc::new(Ledger::new(Arc::clone(&sim), Arc::clone(&books)));
        let table = Arc::new(Table::new(Arc::clone(&sim), Arc::clone(&books)).expect("a database"));
        let queue = Arc::new(WakeQueue::new(Arc::clone(&sim)));
        let clients = Clients::connect(&sim, table, Arc::clone(&queue));
        dormouse_aws::schema::create_table(&clients.dynamo, TABLE).await.expect("a table");
        let step_ms = sim.dice.pick(&[20_000, 60_000, 180_000]);
        let skewed = !sim.swarm.calm && sim.dice.chance(700);
        let keys = KeyRing::parse(&KeyRing::text_of_one("a", &[7; 32])).expect("legal keys");
        let keys = Arc::new(keys);
        let host = |name: &str| {
            let ahead_ms = if skewed { sim.dice.range(0..=MOST_SKEW_MS) } else { 0 };
            Host::new(name, ahead_ms, step_ms, &ledger, &agents, &clients, &keys)
        };
        let idle = ["step1", "step2", "step3"].map(host).to_vec();
        let api = ["api1", "api2"].map(host).to_vec();
        let sweeper = host("sweep");
        Arc::new(Self {
            queue,
            books,
            step: Duration::from_millis(step_ms),
            idle: Mutex::new(idle),
            freed: Notify::new(),
            busy: AtomicUsize::new(0),
            cut_off: Mutex::default(),
            api,
            sweeper,
            owner: Principal { tenant: "acme".to_owned(), subject: "ann".to_owned() }.into(),
            ledger,
            sim,
        })
    }

    async fn live(self: &Arc<Self>) {
        self.sim.set_faults(true);
        let mut services = JoinSet::new();
        services.spawn(pump::deliver(Arc::clone(self)));
        services.spawn(pump::sweep(Arc::clone(self)));
        let mut people = JoinSet::new();
        let day_ms = self.sim.dice.range(30_000..=LONGEST_DAY_MS);
        for number in 0..self.sim.dice.weighted(&[(5, 1), (3, 2), (1, 3)]) {
            people.spawn(Person::new(Arc::clone(self), number).live(day_ms));
        }
        while let Some(ended) = people.join_next().await {
            self.sim.ensure(ended.is_ok(), || "a person panicked".to_owned());
        }
        self.sim.set_faults(false);
        self.sim.say(format_args!("no more faults"));
        self.settle().await;
        self.judge().await;
        services.shutdown().await;
    }

    /// Waits until nothing is left to do.
    async fn settle(&self) {
        let calm_ms = self.sim.time.elapsed_ms();
        loop {
            pause(60_000).await;
            let spent_ms = self.sim.time.elapsed_ms() - calm_ms;
            if self.sim.has_failed() || self.is_quiet() {
                return;
            }
            // Nobody answers any more: each run above one that waits goes on only when that one's time is over.
            let longest = self.books.runs().iter().map(|run| self.books.family(run).len()).max();
            if spent_ms > QUIET_AFTER_MS * u64::try_from(longest.unwrap_or(1)).unwrap_or(1) {
                for run in self.books.runs() {
                    let stands = self.books.of(&run, |book| format!("{:?}", book.item));
                    self.sim.accuse(format!("D7: {} is not quiet: {stands:?}", short(&run)));
                }
                return;
            }
        }
    }

    fn is_quiet(&self) -> bool {
        let soon = self.sim.time.elapsed_ms() + FAR_MS;
        let now = self.sim.time.now();
        let at_rest = |book: &Book| standing(&book.run, now).1.is_none_or(|due_at| due_at.since(now) > FAR_MS);
        self.busy.load(Ordering::Relaxed) == 0
            && self.queue.next_visible_ms().is_none_or(|at_ms| at_ms > soon)
            && self.books.runs().iter().all(|run| self.books.of(run, at_rest).unwrap_or(true))
    }

    /// Judges what is left in the end.
    async fn judge(&self) {
        if self.sim.has_failed() {
            return;
        }
        self.ledger.settle();
        let mut waiting = 0;
        for run in self.books.runs() {
            waiting += self.books.of(&run, |book| self.judge_run(book)).unwrap_or(0);
            self.judge_family(&run);
        }
        // E11: what is offered is exactly what can be decided.
        let mut offered = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            match self.api[0].engine.inbox(&self.owner, cursor.as_deref(), 3).await {
                Ok(page) => {
                    offered.extend(page.items);
                    cursor = page.next;
                }
                Err(problem) => return self.sim.accuse(format!("E11: the inbox cannot be read: {problem:?}")),
            }
            if cursor.is_none() {
                break;
            }
        }
        self.sim.ensure(offered.len() == waiting, || format!("E11: {} offered, {waiting} wait", offered.len()));
    }

    /// Judges a run, and returns how many of its requests can be decided.
    fn judge_run(&self, book: &Book) -> usize {
        let now = self.sim.time.now();
        let id = short(&book.run.id);
        let (status, due_at) = standing(&book.run, now);
        self.sim.count(format!("status {status:?}"));
        self.sim.say(format_args!("{id} ends as {status:?} with {} entries", book.entries.len()));
        let item = book.item.as_ref();
        let as_stored = item.is_some_and(|item| (item.status, item.due_at) == (status, due_at));
        self.sim.ensure(as_stored, || format!("{id} is {status:?} {due_at:?}, its item says {item:?}"));
        let pending: Vec<_> = book.run.pending().collect();
        for (key, request) in &pending {
            let decidable = request.windows.is_decidable(now);
            self.sim.ensure(decidable, || format!("D7: {id} still waits for {key}, which nobody can decide"));
        }
        let folded = book.run.state.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
        let kept = sanction::kept(&book.entries);
        self.sim.ensure(kept == folded, || format!("A13: {id} keeps {folded:?} where {kept:?} is wanted"));
        let lost = book.entries.iter().find(|entry| sanction::lost_state(entry));
        self.sim.ensure(lost.is_none(), || format!("A13: {id} lost what was set with {lost:?}"));
        let rests = match status {
            Status::Queued | Status::Running => false,
            Status::Waiting => !pending.is_empty() || book.run.delegated().next().is_some(),
            Status::Paused | Status::Completed => true,
            Status::Failed | Status::Cancelled => pending.is_empty(),
        };
        self.sim.ensure(rests, || format!("D7: {id} is {status:?} with {} requests when all is quiet", pending.len()));
        let cancelled = book.run.cancel.is_none() || status == Status::Cancelled;
        self.sim.ensure(cancelled, || format!("B8: {id} was cancelled and is {status:?}"));
        pending.len()
    }

    /// Who waits for another run waits for one that will answer; who was delegated to by a run that was cancelled is over.
    fn judge_family(&self, run: &RunId) {
        let delegated = |book: &Book| {
            book.run
                .delegated()
                .filter(|_| !book.run.is_over())
                .map(|call| RunId::of_child(run, call.key))
                .collect::<Vec<_>>()
        };
        for child in self.books.of(run, delegated).unwrap_or_default() {
            let goes_on = self.books.of(&child, |book| book.run.outcome.is_none()).unwrap_or(false);
            self.sim.ensure(goes_on, || format!("D6: {} waits for {}, which is over", short(run), short(&child)));
        }
        let parent = self.books.of(run, |book| book.run.parent.as_ref().map(|parent| parent.run.clone())).flatten();
        let above = parent.and_then(|parent| self.books.of(&parent, |book| book.run.is_over()));
        // One that has answered and was spoken to afterwards is nobody's child any more.
        let answered = |book: &Book| book.entries.iter().any(|entry| matches!(entry.fact, Fact::RunFinished(_)));
        let goes_on = self.books.of(run, |book| book.run.outcome.is_none() && !answered(book)).unwrap_or(false);
        let orphaned = above == Some(true) && goes_on;
        self.sim.ensure(!orphaned, || format!("D6: {} goes on, and its parent is over", short(run)));
    }

    /// Gives a machine back.
    pub(crate) fn free(&self, host: Arc<Host>) {
        locked(&self.idle).push(host);
        self.freed.notify_one();
    }
}
