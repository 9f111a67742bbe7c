//! Forks: good ones, and rows that break one promise each.

use super::*;

fn other() -> RunId {
    RunId::from_bits(99)
}

fn fork(last: u32, calls: Vec<Plan>) -> Fact {
    let calls = (0..).zip(calls).map(|(ordinal, plan)| Replanned { call: CallKey::new(2, ordinal), plan }).collect();
    Fact::Forked { from: run_id(), last, by: me(), mode: Mode::Normal, metadata: BTreeMap::new(), calls }
}

/// What the auditor says of the last of these entries, as the journal of a fork. It must have nothing against the
/// others.
fn last_of_fork(facts: Vec<Written>) -> Vec<&'static str> {
    let entries = entries(facts);
    let mut audit = Audit::of(other(), definition(), &entries);
    let (last, earlier) = entries.split_last().unwrap();
    for entry in earlier {
        assert_eq!(audit.entry(entry), [], "{entry:?}");
    }
    audit.entry(last).iter().map(|violation| violation.invariant).collect()
}

/// Approved, and not run.
fn approved() -> Vec<Written> {
    with(waiting(), [decided(3, Decision::Approve, Some("do"))])
}

#[test]
fn x8_forks() {
    let own = |fact: Fact| ("~", fact);
    let asked_again = |plan| with(approved(), [own(fork(4, vec![plan]))]);
    let by_bob = || {
        let (from, by) = (run_id(), Principal { subject: "bob".into(), ..me() });
        Fact::Forked { from, last: 2, by, mode: Mode::Normal, metadata: BTreeMap::new(), calls: vec![] }
    };
    let rows: Vec<(&str, &[&str], Vec<Written>)> = vec![
        ("an approved call asks again", &[], asked_again(ask())),
        ("it is forbidden by now", &[], asked_again(Plan::Deny { because: "x".into() })),
        ("an approved call keeps its approval", &["X8"], asked_again(ALLOW)),
        ("it starts with the fork", &["X8"], asked_again(START)),
        ("it becomes a question", &["X8"], asked_again(Plan::Question)),
        ("nothing is said of it", &["X8"], with(approved(), [own(fork(4, vec![]))])),
        ("more is said than there is", &["I2"], with(approved(), [own(fork(4, vec![ask(), ask()]))])),
        ("an announced call gets a plan", &["X8"], with(running("act"), [own(fork(2, vec![ask()]))])),
        ("an announced call may have run", &[], with(running("act"), [own(fork(2, vec![]))])),
        ("it names another entry", &["X8"], with(running("act"), [own(fork(1, vec![]))])),
        ("a driver forks", &["X8"], with(running("act"), [("d", fork(2, vec![]))])),
        ("somebody else does", &["A16"], with(running("act"), [own(by_bob())])),
        ("it was cancelled", &["X8"], with(running("act"), [cancel(), own(fork(3, vec![]))])),
        (
            "it had failed",
            &["I4"],
            with(
                running("look"),
                [("d", finished(1, returned())), ("d", over(FinalStatus::Failed)), own(fork(4, vec![]))],
            ),
        ),
        // What follows.
        (
            "a manual call that was announced there runs here unasked",
            &["I8"],
            with(running("act"), [own(fork(2, vec![])), started("d3"), ("d3", dispatched(2))]),
        ),
        (
            "an idempotent one does",
            &["I8"],
            with(running("put"), [own(fork(2, vec![])), started("d3"), ("d3", dispatched(2))]),
        ),
        (
            "a safe one does, and may",
            &[],
            with(running("look"), [own(fork(2, vec![])), started("d3"), ("d3", dispatched(2))]),
        ),
        (
            "the approval of the other run lets it run",
            &["I7"],
            with(asked_again(ask()), [started("d3"), ("d3", dispatched(1))]),
        ),
        (
            "a request of the other run is decided here",
            &["I6"],
            with(waiting(), [own(fork(3, vec![ask()])), decided(3, Decision::Deny { reason: None }, None)]),
        ),
        (
            "a driver of the other run writes on",
            &["I1"],
            with(running("act"), [own(fork(2, vec![])), ("d", finished(1, returned()))]),
        ),
    ];
    for (what, expected, facts) in rows {
        let found = last_of_fork(facts);
        assert_eq!(found.first(), expected.first(), "{what}: {found:?}");
    }
}

/// X8: decisions of the copy are over the other run's name; a fork where nothing was copied is none, nor is one of
/// itself.
#[test]
fn x8_a_fork_stands_where_a_copy_ends() {
    let facts = with(approved(), [("~", fork(4, vec![ask()]))]);
    let entries = entries(facts);
    let mut unaware = Audit::new(other(), definition());
    let found: Vec<_> = entries.iter().flat_map(|entry| unaware.entry(entry)).collect();
    let found: Vec<_> = found.iter().map(|violation| (violation.index, violation.invariant)).collect();
    assert_eq!(found, [(4, "I6"), (5, "X8")]);
    let mut itself = Audit::of(run_id(), definition(), &entries);
    let found: Vec<_> = entries.iter().flat_map(|entry| itself.entry(entry)).collect();
    assert_eq!(found.iter().map(|violation| violation.invariant).collect::<Vec<_>>(), ["X8"]);
}

/// X8: the fold refuses what the auditor refuses.
#[test]
fn x8_the_fold_refuses_wrong_forks() {
    let rows: Vec<(&str, Vec<Written>)> = vec![
        ("it starts with the fork", with(approved(), [("~", fork(4, vec![START]))])),
        ("nothing is said of an open call", with(approved(), [("~", fork(4, vec![]))])),
        ("more is said than there is", with(approved(), [("~", fork(4, vec![ask(), ask()]))])),
        ("an announced call gets a plan", with(running("act"), [("~", fork(2, vec![ask()]))])),
        ("it names another entry", with(running("act"), [("~", fork(1, vec![]))])),
        ("it was cancelled", with(running("act"), [cancel(), ("~", fork(3, vec![]))])),
    ];
    for (what, facts) in rows {
        let entries = entries(facts);
        let (last, earlier) = entries.split_last().unwrap();
        let mut run = Run::start(other(), definition(), &earlier[0]).unwrap();
        earlier[1..].iter().for_each(|entry| run.apply(entry).unwrap());
        assert!(run.apply(last).is_err(), "{what}");
    }
}

/// X8: where the books and the fold of a fork part.
#[test]
fn x8_books_and_fold_of_a_fork() {
    let cases: [(&str, Vec<Written>, Tamper, &str); 4] = [
        (
            "an idempotent call that was announced is ready",
            with(running("put"), [("~", fork(2, vec![]))]),
            |run| run.turns[0].calls[0].state = CallState::Ready,
            "I8",
        ),
        (
            "an approved call is ready",
            with(approved(), [("~", fork(4, vec![ask()]))]),
            |run| run.turns[0].calls[0].state = CallState::Ready,
            "I7",
        ),
        (
            "a manual call that was announced runs",
            with(running("act"), [("~", fork(2, vec![]))]),
            |run| run.turns[0].calls[0].state = CallState::Running { attempt: 1 },
            "I2",
        ),
        (
            "a request of the copy still waits",
            with(waiting(), [("~", fork(3, vec![ask()]))]),
            |run| run.requests.values_mut().for_each(|request| request.status = RequestStatus::Pending),
            "I5",
        ),
    ];
    for (what, facts, tamper, expected) in cases {
        let entries = entries(facts);
        let mut audit = Audit::of(other(), definition(), &entries);
        let mut run = Run::start(other(), definition(), &entries[0]).unwrap();
        entries[1..].iter().for_each(|entry| run.apply(entry).unwrap());
        entries.iter().for_each(|entry| assert_eq!(audit.entry(entry), [], "{entry:?}"));
        let at = entries.last().unwrap().at;
        assert_eq!(audit.state(&run, at), [], "{what}");
        tamper(&mut run);
        let found: Vec<_> = audit.state(&run, at).iter().map(|violation| violation.invariant).collect();
        assert_eq!(found.first().copied().unwrap_or_default(), expected, "{what}: {found:?}");
    }
}
