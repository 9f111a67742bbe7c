//! `cargo xtask model [--short] [configuration]`: explores the configurations, one line for each.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use dormouse_model::{Protocol, config};
use stateright::{Checker, HasDiscoveries, Model};

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let short = arguments.iter().any(|argument| argument == "--short");
    let wanted = arguments.iter().find(|argument| !argument.starts_with('-'));
    let configs: Vec<_> = config::all()
        .into_iter()
        .filter(|config| wanted.is_none_or(|wanted| config.name == wanted) && (config.short || !short))
        .collect();
    anyhow::ensure!(!configs.is_empty(), "there is no such configuration");
    let mut code = ExitCode::SUCCESS;
    for config in configs {
        if !explore(config)? {
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

fn explore(config: config::Config) -> anyhow::Result<bool> {
    let began = Instant::now();
    let name = config.name;
    let protocol = Protocol::new(config, None)?;
    let marks = protocol.marks.clone();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let checker = protocol.checker().threads(threads).finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_bfs().join();
    let took = Duration::from_secs_f64(began.elapsed().as_secs_f64());
    println!(
        "{name}: {} distinct states, depth {} ({:.1} s, {} steps)",
        checker.unique_state_count(),
        checker.max_depth(),
        took.as_secs_f64(),
        checker.state_count()
    );
    println!("  journals {}", checker.model().journals());
    let missing = marks.missing();
    println!("  not met: {missing:?}");
    let found = checker.discoveries();
    for (rule, path) in &found {
        println!("  {rule} is broken:");
        for (state, action) in path.clone().into_vec() {
            let run = &state.store.journal.run;
            println!("    {} entries, {:?}; then {action:?}", run.len, run.outcome);
        }
    }
    Ok(found.is_empty())
}
