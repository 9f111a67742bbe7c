//! What single entries make of a run: table tests of the fold, `next` and the item, where random
//! journals would hardly look.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by stopping")]

mod ceilings;

use std::{collections::BTreeMap, sync::Arc};

use dormouse_domain::{
    CallKey, Definition, DriverId, Entry, EntryId, Fact, Millis, Mode, Next, Principal, RequestKey, Run, RunId,
    agent_file,
    decide::Decision,
    entry::{CallResult, Dispatched, DriverStop, FinalStatus, Opened, Outcome},
    item::{Claim, RunItem, TAKEOVER_MARGIN_MS, claim, postponed, standing, wake_at},
    kv::KvPatch,
    message::{Content, ModelRef, ReplyBlock, StopReason, Usage},
    next,
    plan::{self, Plan},
    request::{DecisionKind, RequestKind},
    retry::{self, Failure, FailureClass},
    run::{CallState, Status},
    windows::Windows,
};

const AGENT: &str = r#"
    models = ["a:one", "b:two"]
    reply_within = "1h"
    [limits]
    turns = 3
    tokens = 1000
    cost_usd = 100
    wall = "1h"
    [[tools]]
    name = "do"
    permission = "allow"
    http = { url = "http://x" }
"#;

/// A run that grows by facts, a second apart.
struct Story {
    run: Run,
    now: Millis,
}

impl Story {
    fn new(input: &str) -> Self {
        let definition = Arc::new(definition());
        let fact = Fact::RunStarted {
            owner: me(),
            agent: "a".into(),
            definition: definition.digest().unwrap(),
            mode: Mode::Normal,
            input: vec![Content::text(input)],
            metadata: BTreeMap::new(),
            parent: None,
        };
        let entry = Entry { index: 0, entry_id: EntryId("e0".into()), at: Millis(1_000), driver: None, fact };
        Self { run: Run::start(RunId::from_bits(7), definition, &entry).unwrap(), now: Millis(1_000) }
    }

    /// The entry that `driver` would write next; `~` is no driver.
    fn entry(&self, driver: &str, fact: Fact) -> Entry {
        let index = self.run.len;
        let driver = (driver != "~").then(|| DriverId(driver.to_owned()));
        Entry { index, entry_id: EntryId(format!("e{index}")), at: self.now, driver, fact }
    }

    fn put(&mut self, driver: &str, fact: Fact) -> &mut Self {
        self.now = self.now.plus(1_000);
        let entry = self.entry(driver, fact);
        self.run.apply(&entry).unwrap();
        self
    }

    fn refuses(&self, driver: &str, fact: Fact) -> bool {
        self.run.clone().apply(&self.entry(driver, fact)).is_err()
    }

    fn start(&mut self, driver: &str) -> &mut Self {
        let until = self.now.plus(180_000);
        self.put(driver, Fact::DriverStarted { until })
    }

    fn reply(&mut self, driver: &str, calls: Vec<Plan>) -> &mut Self {
        let seen = self.run.len;
        let block =
            |_: &Plan| ReplyBlock::ToolCall { id: "c".into(), name: "do".into(), arguments: "{}".into(), raw: None };
        let content = calls.iter().map(block).collect();
        let usage = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() };
        let model = self.run.model().clone();
        self.put(driver, Fact::ModelReplied { model, content, stop: StopReason::ToolUse, usage, seen, calls })
    }

    fn next(&self) -> Next {
        next(&self.run, self.now)
    }

    fn status(&self) -> Status {
        standing(&self.run, self.now).0
    }
}

fn definition() -> Definition {
    agent_file::parse(AGENT, "a", 600_000).unwrap()
}

fn me() -> Principal {
    Principal { tenant: "t".into(), subject: "s".into() }
}

fn crashed() -> Fact {
    Fact::DriverStopped { stop: DriverStop::Crashed { message: "x".into() } }
}

fn ended(status: FinalStatus) -> Fact {
    Fact::RunFinished(Outcome { status, why: "x".into(), by: None, unknown_calls: vec![] })
}

fn message() -> Fact {
    Fact::MessageAdded { by: me(), content: vec![Content::text("hm")], supersedes: false }
}

fn failure(class: FailureClass, retry_after_ms: Option<u64>) -> Failure {
    Failure { retry_after_ms, ..Failure::new(class, "no") }
}

fn overloaded(story: &Story) -> Fact {
    retry::after(&story.run, &failure(FailureClass::Overloaded, None), story.now, story.now)
}

/// D7: five panics without progress end a run, saying where; what is done in between starts the count
/// anew.
#[test]
fn d7_panics_are_counted_until_something_happens() {
    let mut story = Story::new("go");
    for n in 0..4 {
        story.start(&format!("d{n}")).put(&format!("d{n}"), crashed());
        assert!(!matches!(story.next(), Next::Finish(_)), "after {} panics", n + 1);
    }
    assert_eq!((story.run.deaths.panics, story.run.deaths.unexplained), (4, 0));
    let mut busy = Story { run: story.run.clone(), now: story.now };
    busy.put("~", message());
    busy.start("e").put("e", crashed());
    assert_eq!(busy.run.deaths.panics, 1);

    story.start("d4").put("d4", crashed());
    let Next::Finish(outcome) = story.next() else { panic!("{:?}", story.next()) };
    assert_eq!(outcome.status, FinalStatus::Failed);
    assert_eq!(outcome.why, "the step crashed 5 times in a row after entry 10");
}

/// Panics back off: 1 s, 4 s, 16 s, 64 s.
#[test]
fn panics_back_off() {
    let mut story = Story::new("go");
    for (n, span) in [(0, 1_000), (1, 4_000), (2, 16_000), (3, 64_000)] {
        story.start(&format!("d{n}")).put(&format!("d{n}"), crashed());
        let until = Some(story.now.plus(span));
        assert_eq!(story.next(), Next::Rest { open: vec![], until });
        assert_eq!(standing(&story.run, story.now).1, until);
        story.now = story.now.plus(span);
        assert_eq!(story.next(), Next::CallModel, "from that moment on");
    }
}

/// D7: ten unexplained deaths end a run if they took ten minutes, not before.
#[test]
fn d7_deaths_are_counted_and_timed() {
    let mut story = Story::new("go");
    for n in 0..11 {
        story.start(&format!("d{n}"));
    }
    assert_eq!(story.run.deaths.unexplained, 10);
    let first = story.run.deaths.since.unwrap();
    assert_eq!(story.next(), Next::CallModel);
    story.now = first.plus(10 * 60 * 1_000 - 1);
    assert_eq!(story.next(), Next::CallModel);
    story.now = first.plus(10 * 60 * 1_000);
    let Next::Finish(outcome) = story.next() else { panic!("{:?}", story.next()) };
    assert_eq!(outcome.why, "the step died 10 times in a row after entry 11");
    assert_eq!(next(&Story::new("go").run, Millis(u64::MAX)), Next::CallModel, "no death, however long it was ago");
}

/// B9: what a model was asked when its driver died is not known to have cost nothing; a driver that
/// died while a call ran, or while it served a run that had ended, had asked no model.
#[test]
fn b9_interrupted_model_calls_spoil_the_count() {
    let mut asked = Story::new("go");
    asked.start("d").start("e");
    assert!(asked.run.usage.incomplete);
    let mut crash = Story::new("go");
    crash.start("d").put("d", crashed());
    assert!(crash.run.usage.incomplete);
    let mut running = Story::new("go");
    running.start("d").reply("d", vec![Plan::Start { rule: None }]).start("e");
    assert!(!running.run.usage.incomplete);
    assert!(matches!(running.run.turns[0].calls[0].state, CallState::Unknown { attempt: 1, .. }));
    let mut over = Story::new("go");
    over.start("d").reply("d", vec![]).put("d", ended(FinalStatus::Completed)).start("e").start("f");
    assert!(!over.run.usage.incomplete);
}

/// The time that drivers held the run: of a dead one, up to its deadline at most.
#[test]
fn work_is_timed() {
    let mut story = Story::new("go");
    story.start("d").put("d", Fact::DriverStopped { stop: DriverStop::HandedOff });
    assert_eq!(story.run.worked_ms, 1_000);
    story.start("e");
    story.now = story.now.plus(1_000_000);
    story.start("f");
    assert_eq!(story.run.worked_ms, 1_000 + 179_000);
}

/// What only the holder writes.
#[test]
fn facts_of_drivers_are_the_holders() {
    let mut story = Story::new("go");
    assert!(story.refuses("d", crashed()) && story.refuses("~", crashed()));
    story.start("d");
    assert!(story.refuses("e", crashed()) && story.refuses("~", crashed()) && !story.refuses("d", crashed()));
    assert!(story.refuses("e", ended(FinalStatus::Failed)) && !story.refuses("~", ended(FinalStatus::Cancelled)));
    assert!(story.refuses("~", Fact::Reopened {}) && story.refuses("d", Fact::Reopened {}));
}

/// Case 16: what a person refused, let run out or replaced by a message has no way left to run: neither a
/// dispatch nor a result is taken for it, no change of mode and no second decision brings it back.
#[test]
fn case_16_a_rejected_call_is_never_run() {
    let deny = Decision::Deny { reason: None };
    for how in ["denied", "expired", "superseded", "cancelled"] {
        let mut story = Story::new("go");
        story.start("d").reply("d", vec![Plan::Ask { reason: "x".into(), floor: false }]);
        let call = CallKey::new(story.run.len - 1, 0);
        let windows = Windows { wait_until: Millis(u64::MAX - 1), decide_by: Millis(u64::MAX - 1) };
        let (kind, decisions) = (RequestKind::Approval, DecisionKind::offered(RequestKind::Approval));
        let opened = Opened { call: Some(call), kind, windows, decisions };
        story.put("d", Fact::Suspended { requests: vec![opened], until: None });
        let request = RequestKey::new(story.run.len - 1, 0);
        let decided = |decision| Fact::RequestDecided { request, decision, by: me(), digest: None, via: None };
        match how {
            "denied" => story.put("~", decided(deny.clone())).start("e"),
            "expired" => story.start("e").put("e", Fact::RequestExpired { requests: vec![request] }),
            "superseded" => {
                let content = vec![Content::text("no")];
                story.put("~", Fact::MessageAdded { by: me(), content, supersedes: true }).start("e")
            }
            _ => story.start("e").put("~", Fact::CancelRequested { by: me(), reason: None }),
        };
        assert!(matches!(story.run.turns[0].calls[0].state, CallState::Done(_)), "{how}");
        assert!(story.refuses("~", decided(Decision::Approve)), "{how}");
        assert_eq!(plan::replan(&story.run, Mode::Yolo, plan::Rules::none()), [], "{how}");
        assert!(!matches!(story.next(), Next::Dispatch(_)), "{how}");
        for attempt in [0, 1, 2] {
            let calls = vec![Dispatched { call, attempt }];
            assert!(story.refuses("e", Fact::CallDispatched { calls }), "{how}, attempt {attempt}");
            let result = CallResult::Returned { content: vec![], is_error: false };
            assert!(
                story.refuses("e", Fact::CallFinished { call, attempt, result, kv: KvPatch::new(), used: None }),
                "{how}, attempt {attempt}"
            );
        }
    }
}

/// A run ends once; one that completed can still fail, by what it has left to run.
#[test]
fn ends() {
    use FinalStatus::{Cancelled, Completed, Failed};
    for (first, second, taken) in [
        (Completed, Completed, false),
        (Completed, Cancelled, false),
        (Completed, Failed, true),
        (Failed, Failed, false),
        (Failed, Completed, false),
        (Cancelled, Failed, false),
    ] {
        let mut story = Story::new("go");
        story.start("d").reply("d", vec![]).put("d", ended(first));
        assert_eq!(!story.refuses("~", ended(second)), taken, "{first:?} then {second:?}");
        assert_eq!(!story.refuses("e", Fact::DriverStarted { until: Millis(0) }), first == Completed, "{first:?}");
        assert_eq!((story.run.is_over(), story.run.has_completed()), (first != Completed, first == Completed));
    }
}

/// B10, B11: attempts, pauses and the time that a model has are counted by the journal; a model that is
/// given up is not asked again for the next reply.
#[test]
fn b10_b11_failures_of_a_model() {
    let mut story = Story::new("go");
    story.start("d");
    let mut pauses = Vec::new();
    for _ in 0..4 {
        let fact = overloaded(&story);
        story.put("d", fact);
        let retry_at = story.run.trouble.retry_at.unwrap();
        pauses.push(retry_at.since(story.now) + 1_000);
        assert_eq!(story.next(), Next::Rest { open: vec![], until: Some(retry_at) });
        story.now = retry_at;
        assert_eq!(story.next(), Next::CallModel);
    }
    assert_eq!(pauses, [2_000, 8_000, 32_000, 128_000]);
    assert_eq!((story.run.trouble.attempts, story.run.trouble.model), (4, 0));
    let fact = overloaded(&story);
    story.put("d", fact);
    assert_eq!((story.run.trouble.attempts, story.run.trouble.model, story.run.trouble.since), (0, 1, None));
    assert_eq!(story.run.model().to_string(), "b:two");
    assert!(story.run.usage.incomplete);
    story.reply("d", vec![Plan::Start { rule: None }]);
    assert_eq!((story.run.trouble.model, story.run.trouble.attempts), (1, 0));
    // A follow-up after the end begins with the first model again.
    let result = CallResult::Returned { content: vec![], is_error: false };
    story.put(
        "d",
        Fact::CallFinished {
            call: CallKey::new(story.run.len - 1, 0),
            attempt: 1,
            result,
            kv: KvPatch::new(),
            used: None,
        },
    );
    story.reply("d", vec![]).put("d", ended(FinalStatus::Completed)).put("~", message());
    assert_eq!(story.run.trouble.model, 0);
}

/// What follows a failure, by its class and by what the provider asks for.
#[test]
fn b11_what_follows_a_failure() {
    const HOUR: u64 = 3_600_000;
    let what = |models: &[&str], class: FailureClass, asks_ms: Option<u64>| {
        let mut story = Story::new("go");
        let mut definition = definition();
        definition.reply_within_ms = 48 * HOUR;
        definition.models = models.iter().map(|model| model.parse::<ModelRef>().unwrap()).collect();
        story.run.definition = Arc::new(definition);
        let fact = retry::after(&story.run, &failure(class, asks_ms), story.now, story.now);
        let Fact::ModelFailed { retry_at, next_model, attempt: 1, .. } = fact else { panic!("{fact:?}") };
        (retry_at.map(|at| at.since(story.now)), next_model)
    };
    let (one, two) = (["a:one"], ["a:one", "b:two"]);
    for class in [
        FailureClass::Overloaded,
        FailureClass::RateLimited,
        FailureClass::Network,
        FailureClass::Server,
        FailureClass::BadReply,
    ] {
        assert!(class.is_retryable());
        assert_eq!(what(&two, class, None), (Some(2_000), 0));
    }
    for class in [FailureClass::Rejected, FailureClass::Auth] {
        assert!(!class.is_retryable());
        assert_eq!(what(&two, class, None), (Some(0), 1), "the next model, at once");
        assert_eq!(what(&one, class, None), (None, 0), "the end");
    }
    let limited = FailureClass::RateLimited;
    assert_eq!(what(&two, limited, Some(15 * 60 * 1_000)), (Some(15 * 60 * 1_000), 0));
    assert_eq!(what(&two, limited, Some(15 * 60 * 1_000 + 1)), (Some(0), 1));
    assert_eq!(what(&one, limited, Some(24 * HOUR)), (Some(24 * HOUR), 0));
    assert_eq!(what(&one, limited, Some(24 * HOUR + 1)), (None, 0));
}

/// B10: the time for a reply is inclusive at its edge, and over for a pause that would end after it.
#[test]
fn b10_the_time_for_a_reply() {
    let mut story = Story::new("go");
    story.start("d");
    let began = story.now;
    let after = |now: Millis| {
        let fact = retry::after(&story.run, &failure(FailureClass::Server, None), began, now);
        let Fact::ModelFailed { waited_ms, next_model, .. } = fact else { panic!("{fact:?}") };
        (waited_ms, next_model)
    };
    let hour = 3_600_000;
    assert_eq!(after(began.plus(hour - 2_000)), (hour - 2_000, 0));
    assert_eq!(after(began.plus(hour - 1_999)), (hour - 1_999, 1));
    assert_eq!(retry::patience_ms(&story.run, began.plus(hour)), hour, "it was not asked yet");
    story.run.trouble.since = Some(began);
    for (waited, left) in [(0, hour), (1, hour - 1), (hour - 1_001, 1_001), (hour, 1_000), (2 * hour, 1_000)] {
        assert_eq!(retry::patience_ms(&story.run, began.plus(waited)), left, "after {waited} ms");
    }
}

/// What clients see of where a run stands.
#[test]
fn statuses() {
    let mut story = Story::new("go");
    assert_eq!(story.status(), Status::Queued);
    story.put("~", Fact::Paused { by: me() });
    assert_eq!((story.status(), standing(&story.run, story.now).1), (Status::Paused, None));
    story.put("~", Fact::Resumed { by: me() }).start("d");
    assert_eq!(story.status(), Status::Running);
    let windows = Windows { wait_until: Millis(50_000), decide_by: Millis(60_000) };
    let (kind, decisions) = (RequestKind::Approval, DecisionKind::offered(RequestKind::Approval));
    story.reply("d", vec![Plan::Ask { reason: "x".into(), floor: false }]);
    let call = CallKey::new(story.run.len - 1, 0);
    let opened = Opened { call: Some(call), kind, windows, decisions };
    story.put("d", Fact::Suspended { requests: vec![opened], until: None });
    let request = RequestKey::new(story.run.len - 1, 0);
    assert_eq!((story.status(), standing(&story.run, story.now).1), (Status::Waiting, Some(Millis(50_001))));
    story.put("~", Fact::Paused { by: me() });
    assert_eq!(story.status(), Status::Paused);
    story.put("~", Fact::CancelRequested { by: me(), reason: None });
    assert_eq!(story.status(), Status::Queued, "it is to be ended, paused or not");
    assert!(!story.run.requests.contains_key(&RequestKey::new(99, 0)) && story.run.requests.contains_key(&request));
}

/// Between two tries a run is due at the next one, unless it is paused: then nothing would be tried.
#[test]
fn b8_a_paused_run_does_not_wait_for_its_next_try() {
    let mut story = Story::new("go");
    story.start("d").put("d", crashed());
    let died = story.run.updated_at;
    assert_eq!(standing(&story.run, died), (Status::Queued, Some(died.plus(1_000))));
    let mut story = Story::new("go");
    story.start("d").put("~", Fact::Paused { by: me() }).put("d", crashed());
    assert_eq!(standing(&story.run, story.run.updated_at), (Status::Paused, None));
}

/// The item's title is the first line of the input, cut at a character.
#[test]
fn titles() {
    let title = |input: &str| RunItem::of(&Story::new(input).run, Millis(0)).title;
    assert_eq!(title("  deploy the shop\nand then rest"), "deploy the shop");
    assert_eq!(title(&"é".repeat(100)), "é".repeat(60));
}

/// A run is taken over once its driver's time and the margin are over, or at once if it is known to be
/// dead; one that wants nothing is left alone.
#[test]
fn d7_who_may_take_a_run() {
    let mut story = Story::new("go");
    assert_eq!(claim(&story.run, story.now, false), Claim::Take);
    story.start("d");
    let until = story.run.driver.as_ref().unwrap().until;
    let free = until.plus(TAKEOVER_MARGIN_MS);
    assert_eq!(claim(&story.run, Millis(free.0 - 1), false), Claim::Busy);
    assert_eq!(claim(&story.run, free, false), Claim::Take);
    assert_eq!(claim(&story.run, story.now, true), Claim::Take);
    assert_eq!(wake_at(&story.run, story.now), None, "whoever holds it sees what is written");
    story.put("d", ended(FinalStatus::Failed));
    assert_eq!(claim(&story.run, story.now, false), Claim::Idle);
}

/// The sweep comes again after half a minute, then later and later, and at least every quarter of an hour.
#[test]
fn the_sweep_backs_off() {
    let spans = [0, 1, 2, 4, 5, 30].map(|wakes| postponed(Millis(7), wakes).0 - 7);
    assert_eq!(spans, [30_000, 60_000, 120_000, 480_000, 900_000, 900_000]);
}

/// A refusal that came late and was handed to the same call made again is not told a second time (E9).
#[test]
fn e9_what_was_handed_on_is_not_told_again() {
    let mut story = Story::new("go");
    story.start("d").reply("d", vec![Plan::Ask { reason: "x".into(), floor: false }]);
    let call = CallKey::new(story.run.len - 1, 0);
    let windows = Windows { wait_until: Millis(10_000), decide_by: Millis(60_000) };
    let (kind, decisions) = (RequestKind::Approval, DecisionKind::offered(RequestKind::Approval));
    let opened = Opened { call: Some(call), kind, windows, decisions };
    story.put("d", Fact::Suspended { requests: vec![opened], until: None });
    let request = RequestKey::new(story.run.len - 1, 0);
    story.now = Millis(11_000);
    story.start("e").put("e", Fact::WaitExpired { requests: vec![request] });
    let seen = story.run.len;
    let decision = Decision::Deny { reason: None };
    story.put("~", Fact::RequestDecided { request, decision, by: me(), digest: None, via: None });
    let untold = |run: &Run| run.messages.iter().filter(|message| message.late.is_some()).count();
    assert_eq!(untold(&story.run), 1);
    let block = ReplyBlock::ToolCall { id: "c".into(), name: "do".into(), arguments: "{}".into(), raw: None };
    let (model, content, usage) = (story.run.model().clone(), vec![block], Usage::default());
    let calls = vec![Plan::Known { call }];
    story.put("e", Fact::ModelReplied { model, content, stop: StopReason::ToolUse, usage, seen, calls });
    assert_eq!(untold(&story.run), 0);
}
