//! Fuzz targets: what must hold for whatever bytes come in from outside, or back from the store.
//!
//! Each target is a function of its bytes and of nothing else, which stops the process when something does not hold. So
//! libFuzzer runs it (`fuzz/`, by `cargo xtask fuzz`), and the tests of this package replay the kept corpus on it with
//! nothing but the pinned toolchain. How it is run and what it found: `docs/fuzzing.md`.

#![allow(clippy::expect_used, reason = "a target says what is wrong by stopping")]

mod api_bodies;
mod links;
mod matchers;
mod policy_files;
mod stored_entries;
mod words;

use std::sync::{Arc, LazyLock};

use dormouse_domain::{Definition, agent_file};

pub use api_bodies::api_bodies;
pub use links::links;
pub use matchers::matchers;
pub use policy_files::policy_files;
pub use stored_entries::stored_entries;

/// A target: it stops the process if its bytes break what must hold.
pub type Target = fn(&[u8]);

/// All targets, by the name of their corpus.
pub const TARGETS: [(&str, Target); 5] = [
    ("policy_files", policy_files),
    ("matchers", matchers),
    ("links", links),
    ("api_bodies", api_bodies),
    ("stored_entries", stored_entries),
];

/// An agent with a tool for each way in which a call can go on.
fn agent() -> Arc<Definition> {
    static AGENT: LazyLock<Arc<Definition>> = LazyLock::new(|| {
        let agent = agent_file::parse(include_str!("agent.toml"), "ops", 600_000);
        Arc::new(agent.expect("the agent of this package has no fault"))
    });
    AGENT.clone()
}

/// What serde makes of `value`, read again, must be `value`: nothing is lost between two releases of a process.
fn survives_its_stored_form<T>(value: &T)
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let text = serde_json::to_string(value).expect("what was read can be written");
    let again: T = serde_json::from_str(&text).expect("what was written can be read");
    assert_eq!(again, *value, "{text}");
}
