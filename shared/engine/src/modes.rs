//! Who may let a run do how much: narrower than the agent's own mode anybody whose run it is, wider only who
//! decides what the agent would ask.

use dormouse_domain::{Caller, Definition, Mode, Principal};

use crate::error::Problem;

/// Whether a run of `owner`'s may be in `mode`, if `by` says so.
pub(crate) fn check(agent: &Definition, mode: Mode, owner: &Principal, by: &Caller) -> Result<(), Problem> {
    let widest = agent.max_mode;
    if mode > widest {
        return Err(Problem::Invalid(format!("mode {mode} is wider than this agent's max_mode, {widest}")));
    }
    if mode <= agent.mode {
        return Ok(());
    }
    // Where others decide, a wider mode is no way around them.
    match agent.guards().find(|approvers| !approvers.admit(by, owner)) {
        None => Ok(()),
        Some(approvers) => Err(Problem::NotEntitled { mode, own: agent.mode, approvers: approvers.clone() }),
    }
}

/// Whether `by` decides everything that runs of `owner`'s with this agent would ask.
pub(crate) fn decides_all(agent: &Definition, owner: &Principal, by: &Caller) -> bool {
    agent.guards().next().is_some() && agent.guards().all(|approvers| approvers.admit(by, owner))
}
