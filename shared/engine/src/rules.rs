//! Standing rules: which hold for a run, and listing and revoking them (A12).

use dormouse_domain::{
    Caller, Principal, RequestId, Run, RunId,
    policy::{Revoked, Scope, StandingRule},
    request::RuleScope,
};
use futures::future::try_join_all;

use crate::{Engine, error::Problem, ports::StoreError};

/// Standing rules of one scope, revoked ones aside. All of them are read with each call that would ask.
const MAX_RULES: usize = 200;

/// Whose rules to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RulesOf {
    /// Those for the runs of this subject of the caller's tenant; none: the caller's own.
    Owner(Option<String>),
    /// Those for one run.
    Run(RunId),
    /// Those for all runs of an agent.
    Agent(String),
}

impl Engine {
    /// The standing rules that hold for `run` now: its own, its owner's, its agent's.
    pub(crate) async fn standing(&self, run: &Run) -> Result<Vec<StandingRule>, StoreError> {
        let scopes = [Scope::Run(run.id.clone()), Scope::Owner(run.owner.clone()), Scope::Agent(run.agent.clone())];
        let read = scopes.iter().map(|scope| self.ports.store.rules(&run.owner.tenant, scope));
        let rules = try_join_all(read).await?.into_iter().flatten();
        Ok(rules.filter(|rule| rule.stands_for(run)).collect())
    }

    /// The same, of a run that is not loaded.
    pub(crate) async fn standing_of(&self, run: &RunId) -> Result<Vec<StandingRule>, Problem> {
        let run = self.load(run).await?.ok_or(Problem::NotFound("run"))?;
        Ok(self.standing(&run).await?)
    }

    /// Whether the scope of the rule that an answer to request `id` would make is full.
    pub(crate) async fn no_room_for_a_rule(&self, id: &RequestId, scope: Option<RuleScope>) -> Result<bool, Problem> {
        let (Some(scope), Some(item)) = (scope, self.ports.store.item(&id.run).await?) else { return Ok(false) };
        let scope = match scope {
            RuleScope::Run => Scope::Run(item.run_id),
            RuleScope::Owner => Scope::Owner(item.owner.clone()),
            RuleScope::Agent => Scope::Agent(item.agent),
        };
        let rules = self.ports.store.rules(&item.owner.tenant, &scope).await?;
        Ok(rules.iter().filter(|rule| rule.revoked.is_none()).count() >= MAX_RULES)
    }

    /// The standing rules that `by` may see, oldest first, the revoked ones too.
    ///
    /// # Errors
    /// [`Problem`].
    pub async fn rules(&self, by: &Caller, of: &RulesOf) -> Result<Vec<StandingRule>, Problem> {
        let scope = match of {
            RulesOf::Owner(None) => Scope::Owner(by.principal.clone()),
            RulesOf::Owner(Some(subject)) => {
                Scope::Owner(Principal { tenant: by.principal.tenant.clone(), subject: subject.clone() })
            }
            RulesOf::Run(run) => Scope::Run(run.clone()),
            RulesOf::Agent(agent) => Scope::Agent(agent.clone()),
        };
        let rules = self.ports.store.rules(&by.principal.tenant, &scope).await?;
        Ok(rules.into_iter().filter(|rule| rule.is_for(by)).collect())
    }

    /// Revokes the standing rule `id`: from the next call on it allows nothing. Revoking it again is harmless.
    ///
    /// # Errors
    /// [`Problem::NotFound`] if there is none, or it is not theirs.
    pub async fn revoke(&self, by: &Caller, id: &str) -> Result<StandingRule, Problem> {
        let missing = || Problem::NotFound("rule");
        let (scope, request) = id.split_once('.').ok_or_else(missing)?;
        let request: RequestId = request.parse().map_err(|_| missing())?;
        let item = self.ports.store.item(&request.run).await?.ok_or_else(missing)?;
        let tenant = &by.principal.tenant;
        let scope = match scope {
            "run" => Scope::Run(item.run_id),
            "owner" => Scope::Owner(item.owner),
            "agent" => Scope::Agent(item.agent),
            _ => return Err(missing()),
        };
        let rules = self.ports.store.rules(tenant, &scope).await?;
        let mut rule = rules.into_iter().find(|rule| rule.id == id && rule.is_for(by)).ok_or_else(missing)?;
        if rule.revoked.is_none() {
            let revoked = Revoked { by: by.principal.clone(), at: self.ports.clock.now() };
            // Whoever was first, it is revoked; a second time changes nothing.
            self.ports.store.revoke(tenant, &scope, id, &revoked).await?;
            rule.revoked = Some(revoked);
        }
        Ok(rule)
    }
}

/// More rules would be read with every call that asks.
pub(crate) fn no_room() -> Problem {
    Problem::WrongState(format!(
        "there are {MAX_RULES} standing rules of this scope already; revoke some, or approve this one call"
    ))
}
