//! Files that people write: agents, rules of a deployment, prices.

use dormouse_domain::{
    agent_file::{self, Fault},
    message::ModelRef,
    price::Prices,
};

use crate::survives_its_stored_form;

/// The longest that a call may take on the deployment that reads them.
const MAX_TIMEOUT_MS: u64 = 600_000;

/// Takes text for an agent file, for the rules of a deployment and for a table of prices.
///
/// Reading comes to an end without a panic. Each fault says where it is and what is wrong. An agent that was read has the
/// digest that its runs are stored under, and comes back from its stored form as it was; so do rules and prices.
pub fn policy_files(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match agent_file::parse(text, "agent", MAX_TIMEOUT_MS) {
        Ok(agent) => {
            survives_its_stored_form(&agent);
            assert!(agent.digest().is_ok(), "an agent without a digest cannot be started: {:?}", agent.digest());
        }
        Err(faults) => say_where(&faults),
    }
    match agent_file::parse_policy(text) {
        Ok(policy) => survives_its_stored_form(&policy),
        Err(faults) => say_where(&faults),
    }
    match agent_file::parse_prices(text, Prices::builtin()) {
        Ok(prices) => {
            let model = ModelRef { provider: "anthropic".to_owned(), name: "claude-sonnet-4-5".to_owned() };
            survives_its_stored_form(&prices.of(&model));
        }
        Err(faults) => say_where(&faults),
    }
}

fn say_where(faults: &[Fault]) {
    assert!(!faults.is_empty(), "refused without a fault");
    for fault in faults {
        assert!(!fault.place.trim().is_empty() && !fault.problem.trim().is_empty(), "{fault:?}");
        assert!(!fault.place.chars().any(char::is_control), "a place is one line: {fault:?}");
    }
}
