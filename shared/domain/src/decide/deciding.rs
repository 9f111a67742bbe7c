//! What a decision writes: its entries, its row, and the standing rule that it makes.

use super::{Decision, Resolution};
use crate::{
    display::{self, Extent},
    entry::{Entry, Fact},
    fold::Corrupt,
    ids::{Digest, EntryId, Millis, Principal},
    next::{Next, next},
    policy::{self, Covered, StandingRule},
    request::{Request, Settled, Via},
    run::Run,
};

/// What a decision writes, all in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deciding {
    /// The entries.
    pub facts: Vec<Fact>,
    /// What the row gets.
    pub settled: Settled,
    /// The digest that the row must have, where the decision is about arguments.
    pub digest: Option<Digest>,
    /// The standing rule that it makes.
    pub rule: Option<StandingRule>,
}

/// What `decision` of `request`, made by `by` at `now` through `via`, writes to the journal that `run` was folded from.
/// One that cancels ends the run at once (D4), unless something runs that must settle first.
///
/// # Errors
/// [`Corrupt`] if the request is not one that waits in this run.
pub fn record(
    run: &Run,
    request: &Request,
    decision: Decision,
    by: &Principal,
    via: Option<Via>,
    now: Millis,
) -> Result<Deciding, Corrupt> {
    let about_arguments = match &decision {
        Decision::Approve | Decision::Always { .. } | Decision::Edit { .. } => true,
        Decision::Settle { resolution } => *resolution == Resolution::Retry,
        Decision::Deny { .. } | Decision::Answer { .. } | Decision::Raise { .. } | Decision::Stop => false,
    };
    let digest = about_arguments.then(|| request.digest.clone());
    let rule = rule(run, request, &decision, by, now);
    if rule.is_none() && matches!(decision, Decision::Always { .. }) {
        let problem = format!("request {} has no such pattern", request.id);
        return Err(Corrupt { run: run.id.clone(), index: run.len, problem });
    }
    let settled = Settled { decision: decision.clone(), by: by.clone(), at: now, via: via.clone() };
    let (request, by) = (request.id.key, by.clone());
    let fact = Fact::RequestDecided { request, decision, by, digest: digest.clone(), via };
    let mut after = run.clone();
    // The entry is not the one that is written, only what it says is.
    let entry_id = EntryId(String::new());
    after.apply(&Entry { index: run.len, entry_id, at: now, driver: None, fact: fact.clone() })?;
    let mut facts = vec![fact];
    // Where other runs must be told, the next step ends it.
    if after.cancel.is_some() && after.ends_alone() {
        facts.extend(match next(&after, now) {
            Next::Finish(outcome) => Some(Fact::RunFinished(outcome)),
            Next::Dispatch(_)
            | Next::Await
            | Next::CallModel
            | Next::Expire(_)
            | Next::StopWaiting(_)
            | Next::Reopen
            | Next::Rest { .. } => None,
        });
    }
    Ok(Deciding { facts, settled, digest, rule })
}

/// The standing rule that an `always` makes, which is stored with it.
fn rule(run: &Run, request: &Request, decision: &Decision, by: &Principal, now: Millis) -> Option<StandingRule> {
    let Decision::Always { scope, pattern } = decision else { return None };
    let tool = request.tool.as_ref()?;
    let what = match pattern {
        None => Covered::Exact(policy::rule_digest(tool, &request.arguments).ok()?),
        Some(name) => Covered::Pattern(run.definition.tool(tool)?.always.get(name)?.clone()),
    };
    Some(StandingRule {
        id: format!("{}.{}", scope.as_str(), request.id),
        tenant: run.owner.tenant.clone(),
        scope: scope.of(&run.id, &run.owner, &run.agent),
        agent: run.agent.clone(),
        tool: tool.clone(),
        what,
        about: display::request(request, Extent::Listed).summary,
        owner: run.owner.clone(),
        group: request.approvers.as_ref().map(|approvers| approvers.group.clone()),
        from: request.id.clone(),
        by: by.clone(),
        at: now,
        revoked: None,
    })
}
