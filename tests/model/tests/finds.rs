//! A check that finds nothing could have found something: each rule is broken by a fault planted in
//! the mirrored part of the engine, and found.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by stopping")]

use dormouse_model::{Protocol, config, fault::Fault, rules::Rule};
use stateright::{Checker, HasDiscoveries, Model};

/// The rules that `fault` is seen to break first in the configuration of this name.
fn broken(fault: Option<Fault>, name: &str) -> Vec<&'static str> {
    let config = config::all().into_iter().find(|config| config.name == name).unwrap();
    let checker = Protocol::new(config, fault).unwrap().checker();
    let checker = checker.threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let mut rules: Vec<_> = checker.discoveries().into_keys().collect();
    rules.sort_unstable();
    rules
}

/// Each fault, where it is planted, and a rule that it is seen to break.
const PLANTED: [(Fault, &str, Rule); 17] = [
    (Fault::NoSecondLook, "control", Rule::I1),
    (Fault::ToolsFirst, "lost-replies", Rule::I2),
    (Fault::ResultDropped, "control", Rule::I3),
    (Fault::StopsBlindly, "two-deciders", Rule::I4),
    (Fault::WakeFirst, "two-deciders", Rule::I4),
    (Fault::RowForgotten, "control", Rule::I5),
    (Fault::DecidesBlindly, "two-deciders", Rule::I6),
    (Fault::AskIgnored, "approve", Rule::I7),
    (Fault::RunsAgain, "unknown", Rule::I2),
    (Fault::NeverAsks, "unknown", Rule::I8),
    (Fault::NoDueTime, "approve", Rule::I9),
    (Fault::WrongSeen, "lost-replies", Rule::I10),
    (Fault::HopesForTheBest, "double-click", Rule::I11),
    (Fault::IgnoresPause, "control", Rule::B8),
    (Fault::Spends, "ceiling", Rule::C5),
    (Fault::Impatient, "siblings", Rule::Late),
    (Fault::SilentSweep, "approve", Rule::Rest),
];

#[test]
fn x1_planted_faults_are_found() {
    for (fault, name, rule) in PLANTED {
        let rules = broken(Some(fault), name);
        assert!(rules.contains(&rule.name()), "{fault:?} in {name} breaks {rules:?}");
    }
}

/// A rule that nothing breaks proves nothing.
#[test]
fn x1_each_rule_is_broken_by_a_fault() {
    for rule in Rule::ALL {
        assert!(PLANTED.iter().any(|(_, _, broken)| *broken == rule), "{rule:?}");
    }
}
