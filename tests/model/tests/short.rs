//! The short configurations: nothing is broken, and the exploration has been where it should.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by stopping")]

use std::collections::BTreeSet;

use dormouse_model::{Protocol, config, marks::Mark};
use stateright::{Checker, HasDiscoveries, Model};

#[test]
fn x1_nothing_is_broken() {
    let mut missing: Option<BTreeSet<Mark>> = None;
    for config in config::all().into_iter().filter(|config| config.size == config::Size::Short) {
        let name = config.name;
        let protocol = Protocol::new(config, None).unwrap();
        let marks = protocol.marks.clone();
        let checker = protocol.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
        println!("{name}: {} distinct states, depth {}", checker.unique_state_count(), checker.max_depth());
        let broken: Vec<_> = checker.discoveries().into_iter().collect();
        assert!(
            broken.is_empty(),
            "{name}: {:?}",
            broken.into_iter().map(|(rule, path)| (rule, path.into_actions())).collect::<Vec<_>>()
        );
        let here: BTreeSet<_> = marks.missing().into_iter().collect();
        missing = Some(missing.map_or_else(|| here.clone(), |missing| &missing & &here));
    }
    // Only a longer configuration has a step whose time runs short.
    assert_eq!(missing.unwrap(), BTreeSet::from([Mark::HandedOff]));
}
