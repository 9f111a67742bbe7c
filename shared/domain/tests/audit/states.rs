//! Where the books and the folded state part: each row is a state that was tampered with in one place.

use super::*;

/// What the auditor says of this state after these entries. It must have nothing against the untampered one.
fn found(facts: Vec<Written>, tamper: Tamper) -> Vec<&'static str> {
    let mut audit = Audit::new(run_id(), definition());
    let entries = entries(facts);
    let mut run = fold(&entries);
    entries.iter().for_each(|entry| assert_eq!(audit.entry(entry), [], "{entry:?}"));
    let at = entries.last().unwrap().at;
    assert_eq!(audit.state(&run, at), []);
    tamper(&mut run);
    audit.state(&run, at).iter().map(|violation| violation.invariant).collect()
}

/// I2, I7: the fold runs a call exactly while the books do, and knows as many attempts.
#[test]
fn calls_of_the_books_and_of_the_fold() {
    let cases: [(&str, Vec<Written>, Tamper); 3] = [
        ("it does not run", running("act"), |run| run.turns[0].calls[0].state = CallState::Ready),
        ("it has an attempt too many", waiting(), |run| run.turns[0].calls[0].attempts = 1),
        ("it has one too few", running("act"), |run| {
            run.turns[0].calls[0].attempts = 0;
            run.turns[0].calls[0].state = CallState::Running { attempt: 0 };
        }),
    ];
    for (what, facts, tamper) in cases {
        assert_eq!(found(facts, tamper), ["I2"], "{what}");
    }
}

/// A13: what is kept is what the results said, the last word on each name.
#[test]
fn a13_what_the_books_and_the_fold_keep() {
    let kept = |index: u64| {
        let mut kv = KvPatch::new();
        kv.set("page", &json!(index)).unwrap();
        ("d", Fact::CallFinished { call: CallKey::new(2, 0), attempt: 1, result: returned(), kv, used: None })
    };
    let facts = with(running("look"), [kept(3)]);
    let cases: [(&str, Tamper); 2] = [
        ("it lost what was kept", |run| run.state = State::default()),
        ("it keeps more", |run| {
            let mut kv = KvPatch::new();
            kv.set("more", &json!(1)).unwrap();
            run.state = run.state.after(&kv).unwrap();
        }),
    ];
    for (what, tamper) in cases {
        assert_eq!(found(facts.clone(), tamper), ["A13"], "{what}");
    }
}

/// A13: what is not known to have happened keeps nothing; to the fold such an entry is corrupt.
#[test]
fn a13_only_an_answer_keeps_anything() {
    let mut kv = KvPatch::new();
    kv.set("page", &json!(3)).unwrap();
    for result in [unknown(), not_sent()] {
        let fact =
            ("d", Fact::CallFinished { call: CallKey::new(2, 0), attempt: 1, result, kv: kv.clone(), used: None });
        let facts = with(running("look"), [fact]);
        assert_eq!(last(facts.clone()).iter().map(|found| found.invariant).collect::<Vec<_>>(), ["A13"]);
        let entries = entries(facts);
        let mut run = fold(&entries[..3]);
        assert!(run.apply(&entries[3]).is_err());
    }
}

/// I9: somebody looks when the conversation stops waiting, which is before the request expires; and at an
/// unfinished run that waits for nobody.
#[test]
fn i9_when_somebody_looks() {
    let mut shorter = waiting();
    let windows = Windows { wait_until: Millis(30_000), decide_by: Millis(60_000) };
    let (call, kind) = (CallKey::new(2, 0), RequestKind::Approval);
    let opened = Opened { call: Some(call), kind, windows, decisions: DecisionKind::offered(kind) };
    shorter[3] = ("d", Fact::Suspended { requests: vec![opened], until: None });
    let later: Tamper = |run| run.requests.values_mut().for_each(|request| request.windows.wait_until = Millis(40_000));
    assert_eq!(found(shorter, later), ["I9"]);
    let never: Tamper = |run| run.requests.values_mut().for_each(|request| request.windows.decide_by = Millis(90_000));
    assert_eq!(found(beside::completed(), never), ["I9"]);
    let idle = vec![run_started(), started("d"), stopped("d")];
    assert_eq!(found(idle, |run| run.paused = true), ["B8", "I9"]);
}

/// E6: the fold goes on without a call that is awaited.
#[test]
fn e6_the_fold_goes_on_without_an_awaited_call() {
    let tampered = found(waiting(), |run| {
        run.moved_on.insert(CallKey::new(2, 0));
    });
    assert!(tampered.contains(&"E6"), "{tampered:?}");
}

/// I5: a request of a cancelled run is found in its entry, and as long as it is open.
#[test]
fn i5_a_cancelled_run_has_no_open_request() {
    let facts = vec![run_started(), started("d"), replied(2, vec![("do", ask())]), cancel()];
    let entries = entries(with(facts, [suspended(RequestKind::Approval)]));
    let found = audit::journal(&run_id(), &definition(), &entries).unwrap();
    let found: Vec<_> = found.iter().map(ToString::to_string).collect();
    let expected = [
        "entry 4 breaks I5: a request of a cancelled run",
        "entry 4 breaks I5: a run that is over or cancelled has an open request",
    ];
    assert_eq!(found, expected);
}
