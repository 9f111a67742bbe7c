//! A completion against a person, a cancellation and the window's end: one stands, and the other is told.

use dormouse_domain::{
    decide::{Answer, Refusal, Resolution},
    entry::FinalStatus,
    request::DecisionKind,
};
use dormouse_engine::{IdempotencyKey, Problem};

use super::*;

fn settles(text: &str) -> Answer {
    Answer { resolution: Some(Resolution::Result(text.into())), ..Answer::new(DecisionKind::Settle) }
}

/// E2: both at once, many times, whoever is first.
#[tokio::test]
async fn x7_e2_a_completion_and_a_settlement_at_once() {
    let (mut completed, mut settled) = (0, 0);
    for round in 0..20 {
        let world = world();
        let (run, request, token) = waiting(&world).await;
        let answer = settles("by hand");
        let ann = ann();
        let respond = world.engine.respond(&ann, &request.id, &answer, None);
        let (by_token, by_hand) = if round % 2 == 0 {
            tokio::join!(complete(&world, &token, "by token"), respond)
        } else {
            let (by_hand, by_token) = tokio::join!(respond, complete(&world, &token, "by token"));
            (by_token, by_hand)
        };
        match (&by_token, &by_hand) {
            (Ok(_), Err(Problem::Refused(Refusal::Gone(RequestStatus::Cancelled)))) => completed += 1,
            (Err(Problem::WrongState(what)), Ok(_)) if what.contains("a person recorded") => settled += 1,
            other => panic!("{other:?}"),
        }
        assert_eq!(step(&world, &run).await, StepReport::Finished);
        let told = last_prompt(&world);
        assert_ne!(told.contains("by token"), told.contains("by hand"), "{told}");
        audited(&world, &run).await;
    }
    assert!(completed > 0 && settled > 0, "{completed} completed, {settled} settled");
}

/// Two completions at once, the same under one key: one is written.
#[tokio::test]
async fn x7_c4_two_completions_at_once() {
    let world = world();
    let (run, _, token) = waiting(&world).await;
    let (one, two) = tokio::join!(complete(&world, &token, "one"), complete(&world, &token, "two"));
    assert_eq!(usize::from(one.is_ok()) + usize::from(two.is_ok()), 1, "{one:?} {two:?}");
    assert_eq!(results(&world, &run).len(), 2, "that it comes later, and what came");
    assert_eq!(step(&world, &run).await, StepReport::Finished);

    let (_, _, token) = waiting(&world).await;
    let key = IdempotencyKey { key: "k".into(), fingerprint: dormouse_domain::Digest::of(b"x") };
    let complete = || world.engine.complete(&token, vec![Content::text("same")], false, Some(&key));
    let (one, two) = tokio::join!(complete(), complete());
    assert_eq!(one.unwrap(), two.unwrap());
}

/// B8: a cancelled run takes no completion, and lists the call among those of which nobody knows what they did.
#[tokio::test]
async fn x7_b8_a_completion_and_a_cancellation_at_once() {
    for round in 0..10 {
        let world = world();
        let (run, _, token) = waiting(&world).await;
        let engine = world.engine.clone();
        let cancel = async { engine.cancel(&ann(), &run, None, None).await.unwrap() };
        let completed = if round % 2 == 0 {
            tokio::join!(complete(&world, &token, "no 7"), cancel).0
        } else {
            tokio::join!(cancel, complete(&world, &token, "no 7")).1
        };
        assert_eq!(step(&world, &run).await, StepReport::Finished);
        let outcome = world.view(&run).await.item.outcome.unwrap();
        assert_eq!(outcome.status, FinalStatus::Cancelled);
        match completed {
            Ok(_) => assert_eq!(outcome.unknown_calls, []),
            Err(Problem::Gone(_)) => assert_eq!(outcome.unknown_calls.len(), 1),
            Err(other) => panic!("{other:?}"),
        }
        assert!(matches!(complete(&world, &token, "again").await, Err(Problem::Gone(_))));
        audited(&world, &run).await;
    }
}

/// E1: at the request's last moment it is taken, and a moment later the expiry or it is first, and both agree.
#[tokio::test]
async fn x7_e1_a_completion_at_the_windows_end() {
    for (after_ms, sweeps_first) in [(0, false), (1, false), (1, true)] {
        let world = world();
        let (run, request, token) = waiting(&world).await;
        world.models.reply(vec![say("so be it")]);
        world.models.reply(vec![say("I see")]);
        world.clock.set(request.windows.decide_by.plus(after_ms));
        if sweeps_first {
            step(&world, &run).await;
        }
        let completed = complete(&world, &token, "no 7").await;
        assert_eq!(completed.is_ok(), !sweeps_first, "{after_ms}: {completed:?}");
        step(&world, &run).await;
        let told = last_prompt(&world);
        assert_eq!(told.contains("no 7"), !sweeps_first, "{told}");
        assert_eq!(told.contains("did not complete it in time"), sweeps_first, "{told}");
        audited(&world, &run).await;
    }
}
