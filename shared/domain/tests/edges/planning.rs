//! What is planned for a reply's calls, and how many people are asked at once.

use dormouse_domain::next::MAX_OPEN_REQUESTS;

use super::*;

/// Requests that can be open beside a conversation that goes on.
const MAX_BESIDE: usize = 48;

/// `n` calls of `do`, no two the same.
fn calls(n: usize, mark: &str) -> Vec<ReplyBlock> {
    (0..n).map(|i| call("do", &format!("{{\"{mark}\":{i}}}"))).collect()
}

fn plans(story: &Story, content: &[ReplyBlock]) -> Vec<Plan> {
    plan::plan_reply(&story.run, content, &StopReason::EndTurn, story.run.len, &Anything)
}

fn asked(plans: &[Plan]) -> usize {
    plans.iter().filter(|plan| matches!(plan, Plan::Ask { .. })).count()
}

/// E6: where the conversation goes on without an answer, 48 calls at most are asked about, those that wait
/// beside it included; one that finds no room says so. Where it waits, calls wait their turn.
#[test]
fn e6_calls_find_room_beside_the_conversation() {
    let mut story = Story::new();
    let many = plans(&story, &calls(MAX_BESIDE + 2, "a"));
    assert_eq!(asked(&many), MAX_BESIDE);
    for plan in &many[MAX_BESIDE..] {
        let Plan::Invalid { problem } = plan else { panic!("{plan:?}") };
        assert!(problem.starts_with("48 requests of this run wait for people already"), "{problem}");
    }
    let questions = vec![call("ask_user", r#"{"question":"q"}"#); MAX_BESIDE + 1];
    assert_eq!(plans(&story, &questions).iter().filter(|plan| **plan == Plan::Question).count(), MAX_BESIDE);
    // What needs nobody needs no room.
    let mut content = calls(MAX_BESIDE, "a");
    content.push(call("look", "{}"));
    assert_eq!(plans(&story, &content).last(), Some(&Plan::Start { rule: None }));

    story.reply(calls(10, "a")).suspend();
    story.go_on();
    assert_eq!(asked(&plans(&story, &calls(MAX_BESIDE, "b"))), MAX_BESIDE - 10);

    let waits = Story::of(&AGENT.replace("wait = \"1m\"", "wait = \"10m\""));
    assert_eq!(asked(&plans(&waits, &calls(MAX_OPEN_REQUESTS + 2, "a"))), MAX_OPEN_REQUESTS + 2);
}

/// One suspension opens 64 requests at most, and no more arguments than a transaction holds: a mebibyte,
/// or one request whose arguments are longer.
#[test]
fn a_suspension_opens_what_a_transaction_holds() {
    const AGENT_THAT_WAITS: &str = r#"
        models = ["a:one"]
        [[tools]]
        name = "do"
        http = { url = "http://x" }
    "#;
    let opened = |content: Vec<ReplyBlock>| {
        let mut story = Story::of(AGENT_THAT_WAITS);
        let first = story.reply(content).suspend().len();
        story.drive();
        let Next::Rest { open, .. } = story.next() else { panic!("{:?}", story.next()) };
        (first, open.len())
    };
    // Blanks count as they were received, though they are not part of what would run.
    let of_bytes = |bytes: usize| call("do", &format!("{{{}}}", " ".repeat(bytes - 2)));
    let (quarter, mebibyte) = (256 * 1024, 1024 * 1024);
    for (what, content, expected) in [
        ("64 at once", calls(MAX_OPEN_REQUESTS + 2, "a"), (MAX_OPEN_REQUESTS, 0)),
        ("a mebibyte", vec![of_bytes(quarter); 4], (4, 0)),
        ("a mebibyte, and one more", vec![of_bytes(quarter); 5], (4, 1)),
        ("a byte more than a mebibyte", vec![of_bytes(quarter + 1); 4], (3, 1)),
        ("one longer than that", vec![of_bytes(mebibyte + 1), of_bytes(2)], (1, 1)),
        ("one longer than that, after another", vec![of_bytes(2), of_bytes(mebibyte)], (1, 1)),
        ("one longer than that, after one without text", vec![call("do", ""), of_bytes(mebibyte)], (1, 1)),
    ] {
        assert_eq!(opened(content), expected, "{what}");
    }
}

/// Arguments have 256 KiB at most, that many included, of what would run.
#[test]
fn how_long_arguments_may_be() {
    let of_bytes = |bytes: usize| format!("{{\"x\":\"{}\"}}", "y".repeat(bytes - 8));
    assert!(plan::arguments(&of_bytes(262_144)).is_ok());
    let refused = plan::arguments(&of_bytes(262_145)).unwrap_err();
    assert_eq!(refused, "the arguments have 262145 bytes; at most 262144 are taken");
    assert!(plan::arguments(&format!("{}   ", of_bytes(262_144))).is_ok());
}

/// B8: what may run waits while the run is paused or is being cancelled.
#[test]
fn b8_nothing_starts_with_a_reply_to_a_run_that_is_held() {
    let look = [call("look", "{}")];
    let mut story = Story::new();
    assert_eq!(plans(&story, &look), [Plan::Start { rule: None }]);
    let mut cancelled = story.clone();
    cancelled.put(Fact::CancelRequested { by: me(), reason: None });
    assert_eq!(plans(&cancelled, &look), [Plan::Allow { rule: None }]);
    story.put(Fact::Paused { by: me() });
    assert_eq!(plans(&story, &look), [Plan::Allow { rule: None }]);
    story.put(Fact::Resumed { by: me() });
    assert_eq!(plans(&story, &look), [Plan::Start { rule: None }]);
}

/// A change of mode gives another verdict to calls that neither ran nor were asked about, and decides
/// no open request and no question.
#[test]
fn what_a_change_of_mode_plans_anew() {
    let question = call("ask_user", r#"{"question":"q"}"#);
    let mut story = Story::new();
    story.put(Fact::Paused { by: me() });
    story.reply(vec![call("look", "{}"), call("do", "{}"), call("put", "{}"), question]);
    let keys = story.keys();
    let planned = |run: &Run, mode| {
        let plans = plan::replan(run, mode, Rules::none()).into_iter();
        plans.map(|change| (change.call, format!("{:?}", change.plan))).collect::<Vec<_>>()
    };
    let kinds = |mode| {
        let planned = planned(&story.run, mode);
        assert_eq!(planned.iter().map(|(call, _)| *call).collect::<Vec<_>>(), keys[..3]);
        planned.into_iter().map(|(_, plan)| plan.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(Mode::Plan), ["Allow", "Deny", "Deny"]);
    assert_eq!(kinds(Mode::Normal), ["Allow", "Ask", "Allow"]);
    assert_eq!(kinds(Mode::Yolo), ["Allow", "Allow", "Allow"]);

    let mut asked = Story::new();
    asked.reply(vec![call("do", "{}")]);
    let request = asked.request();
    assert_eq!(plan::replan(&asked.run, Mode::Yolo, Rules::none()), [], "it waits");
    asked.decide(&request, Decision::Approve);
    assert_eq!(plan::replan(&asked.run, Mode::Plan, Rules::none()), [], "a person said yes");
}
