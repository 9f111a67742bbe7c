//! `cargo xtask model [--short] [configuration]`: explores the configurations, one line for each.

use std::{process::ExitCode, time::Instant};

use dormouse_model::{
    Protocol, START,
    config::{self, Config, Size},
};
use stateright::{Checker, HasDiscoveries, Model};

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let short = arguments.iter().any(|argument| argument == "--short");
    let wanted = arguments.iter().find(|argument| *argument != "--short");
    let asked_for = |config: &Config| match (wanted, config.size) {
        (Some(wanted), _) => config.name == wanted,
        (None, Size::Short) => true,
        (None, Size::Full) => !short,
        (None, Size::Huge) => false,
    };
    let configs: Vec<_> = config::all().into_iter().filter(asked_for).collect();
    anyhow::ensure!(!configs.is_empty(), "there is no such configuration; they are: {}", names());
    let mut sound = true;
    for config in configs {
        sound &= explore(config)?;
    }
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn names() -> String {
    config::all().iter().map(|config| config.name).collect::<Vec<_>>().join(", ")
}

/// Explores one configuration. Whether nothing is broken.
fn explore(config: Config) -> anyhow::Result<bool> {
    let began = Instant::now();
    let name = config.name;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let checker = Protocol::new(config, None)?.checker().threads(threads);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let (states, depth, took) = (checker.unique_state_count(), checker.max_depth(), began.elapsed().as_secs());
    println!("{name}: {states} distinct states, depth {depth} ({took} s)");
    let broken = checker.discoveries();
    for (rule, path) in &broken {
        println!("{name}: {rule} is broken, after:");
        let mut entries = 0;
        for (state, action) in path.clone().into_vec() {
            let journal = &state.store.journal;
            if journal.run.len > entries {
                entries = journal.run.len;
                println!("  entry {}: {}", entries - 1, journal.last);
            }
            if let Some(action) = action {
                println!("  {:>8} ms  {action:?}", state.now.since(START));
            }
        }
    }
    Ok(broken.is_empty())
}
