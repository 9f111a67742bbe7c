//! The people: they start runs, answer what they are asked in every good and bad way, and meddle.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use dormouse_domain::{
    Mode, RequestId, RunId,
    budget::Amounts,
    decide::{Answer, Resolution},
    message::Content,
    price::Cost,
    request::{DecisionKind, Request, RequestKind, RequestStatus, RuleScope},
};
use dormouse_engine::{Changed, Engine, RulesOf, StartRun, ports::Clock};
use tokio::task::JoinSet;

use crate::{
    client::{self, TRIES},
    dice::Dice,
    hosts::Host,
    ledger::{Sent, Told},
    sim::locked,
    time::pause,
    world::World,
};

/// How somebody answers a request.
#[derive(Debug, Clone, Copy)]
enum Manner {
    Once,
    /// Twice at once, under one key.
    DoubleClick,
    /// Twice at once, without a key.
    Twice,
    /// Two people at once, differently.
    Race,
    /// At the very last moment.
    AtTheEdge,
    /// A millisecond later.
    JustLate,
    /// When the conversation has gone on.
    AfterTheWait,
    /// When it can no longer be decided.
    TooLate,
    /// With the digest of something else.
    WrongDigest,
    Never,
}

/// Somebody with one run.
pub(crate) struct Person {
    world: Arc<World>,
    number: u64,
    words: u64,
}

impl Person {
    /// Somebody.
    pub(crate) fn new(world: Arc<World>, number: u64) -> Self {
        Self { world, number, words: 0 }
    }

    /// Words that nobody else says.
    fn words(&mut self, what: &str) -> String {
        self.words += 1;
        format!("{what} {}.{}", self.number, self.words)
    }

    /// Is about for `day_ms`.
    pub(crate) async fn live(mut self, day_ms: u64) {
        let world = Arc::clone(&self.world);
        let until_ms = world.sim.time.elapsed_ms() + day_ms;
        pause(world.sim.dice.range(0..=5_000)).await;
        let Some(run) = self.start().await else { return };
        let mut seen: BTreeSet<RequestId> = BTreeSet::new();
        let mut answering = JoinSet::new();
        let mut known = 0;
        while world.sim.time.elapsed_ms() < until_ms && !world.sim.has_failed() {
            pause(world.sim.dice.range(100..=20_000)).await;
            // Who has seen it all has no reason to look; some do.
            let family = world.books.family(&run);
            let entries = family.iter().filter_map(|run| world.books.of(run, |book| book.entries.len())).sum();
            if std::mem::replace(&mut known, entries) == entries && world.sim.dice.chance(950) {
                continue;
            }
            for request in self.look(&run).await {
                if seen.insert(request.id.clone()) {
                    let text = self.words("because");
                    answering.spawn(answer(Arc::clone(&world), request, text));
                }
            }
            if world.sim.dice.chance(250) {
                let whom = self.one_of(&world.books.family(&run));
                self.meddle(&whom).await;
            }
        }
        while let Some(ended) = answering.join_next().await {
            world.sim.ensure(ended.is_ok(), || "somebody who answers panicked".to_owned());
            if world.sim.time.elapsed_ms() > until_ms + 60_000 {
                break;
            }
        }
    }

    fn one_of(&self, family: &[RunId]) -> RunId {
        let runs: Vec<_> = family.iter().collect();
        self.world.sim.dice.pick(&runs).clone()
    }

    /// What waits in the run and in those that it delegated to: in the inbox, or in a look at one of them.
    async fn look(&self, run: &RunId) -> Vec<Request> {
        let world = &self.world;
        let family = world.books.family(run);
        let (host, by, of) = (world.api_host(), world.owner.clone(), self.one_of(&family));
        if world.sim.dice.chance(500) {
            let ask = |engine: Engine| async move { engine.inbox(&by, None, 20).await };
            let Told::Done(page) = world.ask(&host, "inbox", ask).await else {
                return Vec::new();
            };
            return page.items.into_iter().filter(|request| family.contains(&request.id.run)).collect();
        }
        let view = world.ask(&host, "look", |engine| async move { engine.run_view(&by, &of).await }).await;
        if let Told::Refused(why) = &view {
            world.sim.accuse(format!("a run that was started: {why}"));
        }
        if let Told::Done(view) = view { view.pending } else { Vec::new() }
    }

    /// Starts a run, again under the same key if it is not known whether it was.
    async fn start(&mut self) -> Option<RunId> {
        let world = Arc::clone(&self.world);
        let label = self.words("job");
        let keyed = world.sim.dice.chance(700);
        let mut told = Vec::new();
        for _ in 0..TRIES {
            let start = StartRun {
                agent: world.sim.dice.pick(&["one", "two"]).to_owned(),
                input: vec![Content::text(label.clone())],
                mode: None,
                metadata: BTreeMap::new(),
            };
            let (by, key) = (world.owner.clone(), keyed.then(|| client::key(&label, &label)));
            let started = world
                .ask(&world.api_host(), "start", |engine| async move {
                    engine.start(&by, start, key.as_ref()).await.map(|started| started.run_id)
                })
                .await;
            let again = keyed && matches!(started, Told::Unknown | Told::Nothing) || started == Told::NotNow;
            told.push(started);
            if !again {
                break;
            }
        }
        let run = told.iter().find_map(|told| if let Told::Done(run) = told { Some(run.clone()) } else { None });
        locked(&world.ledger.sent).push(Sent { run: None, text: label, keyed, told });
        run
    }

    async fn meddle(&mut self, run: &RunId) {
        let world = Arc::clone(&self.world);
        match world.sim.dice.weighted(&[(3, 0), (2, 1), (3, 2), (1, 3), (2, 4), (2, 5)]) {
            0 => self.say(run).await,
            1 => drop(self.change(run, "pause").await),
            2 => drop(self.change(run, "resume").await),
            3 => drop(self.change(run, "cancel").await),
            5 => self.revoke(run).await,
            _ => drop(self.change(run, "mode").await),
        }
    }

    /// Takes back what they allowed for good, in this run or in all of theirs.
    async fn revoke(&self, run: &RunId) {
        let world = &self.world;
        let of = if world.sim.dice.chance(500) { RulesOf::Owner(None) } else { RulesOf::Run(run.clone()) };
        let (host, by) = (world.api_host(), world.owner.clone());
        let listed = world.ask(&host, "rules", |engine| async move { engine.rules(&by, &of).await }).await;
        let Told::Done(rules) = listed else { return };
        for rule in rules.into_iter().filter(|rule| rule.revoked.is_none()) {
            let (by, id) = (world.owner.clone(), rule.id);
            let revoke = |engine: Engine| async move { engine.revoke(&by, &id).await };
            if let Told::Done(_) = world.ask(&host, "revoke", revoke).await {
                world.sim.count("revokes a rule");
            }
        }
    }

    async fn say(&mut self, run: &RunId) {
        let world = Arc::clone(&self.world);
        let text = self.words("hear me");
        let keyed = world.sim.dice.chance(700);
        let mut told = Vec::new();
        for _ in 0..TRIES {
            let (by, of, content) = (world.owner.clone(), run.clone(), vec![Content::text(text.clone())]);
            let key = keyed.then(|| client::key(&text, &text));
            let said = world
                .ask(&world.api_host(), "say", |engine| async move {
                    engine.add_message(&by, &of, content, key.as_ref()).await.map(|changed| changed.run_id)
                })
                .await;
            let again = keyed && matches!(said, Told::Unknown | Told::Nothing | Told::Done(_)) || said == Told::NotNow;
            told.push(said);
            if !again {
                break;
            }
        }
        locked(&world.ledger.sent).push(Sent { run: Some(run.clone()), text, keyed, told });
    }

    async fn change(&self, run: &RunId, what: &'static str) -> Told<Changed> {
        let world = &self.world;
        let (by, of) = (world.owner.clone(), run.clone());
        let mode = world.sim.dice.pick(&[Mode::Plan, Mode::Normal, Mode::AutoEdit, Mode::Yolo]);
        let host = world.api_host();
        let told = world.ask(&host, what, move |engine| async move {
            match what {
                "pause" => engine.pause(&by, &of, None).await,
                "resume" => engine.resume(&by, &of, None).await,
                "cancel" => engine.cancel(&by, &of, None, None).await,
                _ => engine.set_mode(&by, &of, mode, None).await,
            }
        });
        told.await
    }
}

/// Answers `request` in some manner; `text` is said nowhere else.
async fn answer(world: Arc<World>, request: Request, text: String) {
    use Manner::{AfterTheWait, AtTheEdge, DoubleClick, JustLate, Never, Once, Race, TooLate, Twice, WrongDigest};
    let dice = &world.sim.dice;
    let manner = dice.weighted(&[
        (8, Once),
        (3, DoubleClick),
        (2, Twice),
        (4, Race),
        (3, AtTheEdge),
        (3, JustLate),
        (4, AfterTheWait),
        (1, TooLate),
        (1, WrongDigest),
        (2, Never),
    ]);
    world.sim.count(format!("manner {manner:?}"));
    let host = world.api_host();
    let (first, second) = (given(&world, &request, &text), given(&world, &request, &format!("{text} again")));
    match manner {
        Never => return,
        Once | DoubleClick | Twice | Race | WrongDigest => pause(dice.range(0..=10_000)).await,
        AfterTheWait => wait_until(&world, request.windows.wait_until.0 + dice.range(1..=10_000)).await,
        TooLate => wait_until(&world, request.windows.decide_by.0 + dice.range(1..=10_000)).await,
        AtTheEdge => wait_until(&world, request.windows.decide_by.0.saturating_sub(host.clock.ahead_ms)).await,
        JustLate => wait_until(&world, request.windows.decide_by.0.saturating_sub(host.clock.ahead_ms) + 1).await,
    }
    let id = &request.id;
    match manner {
        DoubleClick => {
            let key = client::key(&text, &text);
            let (one, other) = tokio::join!(
                world.answer(&host, id, &first, Some(&key)),
                world.answer(&world.api[0], id, &first, Some(&key)),
            );
            let same = !matches!((&one, &other), (Told::Done(one), Told::Done(other)) if one != other);
            world.sim.ensure(same, || "C4: the same write under one key has two answers".to_owned());
        }
        Twice => {
            tokio::join!(world.answer(&host, id, &first, None), world.answer(&world.api[1], id, &first, None),);
        }
        Race => {
            tokio::join!(world.answer(&host, id, &first, None), world.answer(&world.api[0], id, &second, None),);
        }
        AtTheEdge | JustLate => at_the_edge(&world, &host, &request, &first).await,
        WrongDigest => {
            let wrong = Answer { digest: Some(format!("sha256:{}", "0".repeat(64))), ..first.clone() };
            let told = world.answer(&host, id, &wrong, None).await;
            world.sim.ensure(!matches!(told, Told::Done(_)), || "E2: a wrong digest was taken".to_owned());
            Box::pin(world.trespass(id.run.clone(), id.clone(), first.clone())).await;
        }
        Once | AfterTheWait | TooLate | Never => Box::pin(insist(&world, id, &first, &text)).await,
    }
}

/// Answers, and repeats it under the same key for as long as nothing is known.
async fn insist(world: &Arc<World>, id: &RequestId, answer: &Answer, text: &str) {
    let key = world.sim.dice.chance(700).then(|| client::key(text, text));
    let mut done = None;
    for _ in 0..TRIES {
        let told = world.answer(&world.api_host(), id, answer, key.as_ref()).await;
        if let Told::Done(responded) = &told {
            let first = done.get_or_insert_with(|| responded.clone());
            world.sim.ensure(first == responded, || "C4: the same write under one key has two answers".to_owned());
        }
        // Case 25: who knows nothing repeats it, and so may who knows.
        let again = match told {
            Told::NotNow | Told::Unknown | Told::Nothing => true,
            Told::Done(_) => key.is_some() && world.sim.dice.chance(300),
            Told::AlreadyDecided(_) | Told::Gone(_) | Told::Refused(_) => false,
        };
        if !again {
            break;
        }
    }
    if let Some(key) = key.filter(|_| done.is_some() && world.sim.dice.chance(200)) {
        world.sim.count("key reused");
        let other = client::key(&key.key, "something else");
        let told = world.answer(&world.api_host(), id, answer, Some(&other)).await;
        world.sim.ensure(!matches!(told, Told::Done(_)), || "C4: a key was taken for another write".to_owned());
    }
}

/// Answers at this very moment: no time passes on the way. The edge is inclusive (E1).
async fn at_the_edge(world: &Arc<World>, host: &Arc<Host>, request: &Request, answer: &Answer) {
    let began = host.clock.now();
    let in_time = began <= request.windows.decide_by;
    let stands = |world: &World| {
        let id = &request.id;
        let stands = world.books.of(&id.run, |book| (book.entries.len(), book.rows.get(&id.key).map(|row| row.status)));
        stands.filter(|(_, status)| *status == Some(RequestStatus::Pending))
    };
    let before = stands(world);
    let actor = host.invocation(true);
    let told = world.answer_as(host, Arc::clone(&actor), &request.id, answer, None).await;
    if before.is_none() || actor.is_harmed() {
        return;
    }
    world.sim.count(if in_time { "answered at the edge" } else { "answered just late" });
    if matches!(told, Told::Done(_)) {
        return world.sim.ensure(in_time, || format!("E1: {} was taken late", request.id));
    }
    // Nobody else wrote, so it was time alone that it was refused for.
    let refused = in_time && stands(world) == before;
    world.sim.ensure(!refused, || format!("E1: {} was refused at its edge: {told:?}", request.id));
}

async fn wait_until(world: &World, at: u64) {
    pause(at.saturating_sub(world.sim.time.now().0).min(20 * 60_000)).await;
}

/// How much more somebody lets a run use: what it lacks, and a little.
fn more(dice: &Dice, request: &Request) -> Amounts {
    let few = Amounts { turns: u32::try_from(dice.range(0..=3)).unwrap_or(1), ..Amounts::default() };
    let Some(budget) = request.budget else { return few };
    let missing = Amounts {
        turns: (budget.used.turns + 1).saturating_sub(budget.ceilings.turns),
        tokens: (budget.used.tokens + 1_000).saturating_sub(budget.ceilings.tokens),
        cost: Cost(budget.used.cost.0.saturating_sub(budget.ceilings.cost.0)).plus(Cost::of_dollars(1.0)),
        wall_ms: (budget.used.wall_ms + 60_000).saturating_sub(budget.ceilings.wall_ms),
    };
    missing.plus(&few)
}

/// An answer to `request` by chance.
fn given(world: &World, request: &Request, text: &str) -> Answer {
    let dice = &world.sim.dice;
    let blank = |decision| Answer { digest: Some(request.digest.to_string()), ..Answer::new(decision) };
    match request.kind {
        RequestKind::Question => {
            let options = request.question.as_ref().map(|question| question.options.as_slice()).unwrap_or_default();
            let value = match options.is_empty() {
                true => text.into(),
                false => options[usize::try_from(dice.range(0..=options.len() as u64 - 1)).unwrap_or(0)].value.clone(),
            };
            Answer { answer: Some(value), ..blank(DecisionKind::Answer) }
        }
        RequestKind::Uncertain | RequestKind::External => {
            let resolution = match dice.range(0..=2) {
                0 => Resolution::Result(text.to_owned()),
                1 => Resolution::Retry,
                _ => Resolution::Abort,
            };
            Answer { resolution: Some(resolution), ..blank(DecisionKind::Settle) }
        }
        RequestKind::Budget => match dice.range(0..=9) {
            0..=6 => Answer { by: Some(more(dice, request)), ..blank(DecisionKind::Raise) },
            _ => blank(DecisionKind::Stop),
        },
        RequestKind::Approval => match dice.range(0..=99) {
            0..55 => blank(DecisionKind::Approve),
            55..65 => {
                let n = dice.range(0..=3);
                Answer { arguments: Some(serde_json::json!({ "n": n })), ..blank(DecisionKind::Edit) }
            }
            65..75 if request.decisions.contains(&DecisionKind::Always) => {
                let scope = Some(dice.pick(&[RuleScope::Run, RuleScope::Owner]));
                Answer { scope, ..blank(DecisionKind::Always) }
            }
            _ => Answer { reason: Some(text.to_owned()), ..blank(DecisionKind::Deny) },
        },
    }
}
