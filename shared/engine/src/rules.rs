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
        let rules = self.rules_about(&run.id, &run.owner, &run.agent).await?;
        Ok(rules.into_iter().filter(|rule| rule.stands_for(run)).collect())
    }

    /// All rules of the scopes that a run of this owner and agent is in.
    pub(crate) async fn rules_about(
        &self,
        run: &RunId,
        owner: &Principal,
        agent: &str,
    ) -> Result<Vec<StandingRule>, StoreError> {
        let scopes = RuleScope::ALL.map(|scope| scope.of(run, owner, agent));
        let read = scopes.iter().map(|scope| self.ports.store.rules(&owner.tenant, scope));
        Ok(try_join_all(read).await?.into_iter().flatten().collect())
    }

    /// Whether the scope of the rule that an answer to request `id` would make is full.
    pub(crate) async fn no_room_for_a_rule(&self, id: &RequestId, scope: Option<RuleScope>) -> Result<bool, Problem> {
        let (Some(scope), Some(item)) = (scope, self.ports.store.item(&id.run).await?) else { return Ok(false) };
        let scope = scope.of(&item.run_id, &item.owner, &item.agent);
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
        let scope = RuleScope::named(scope).ok_or_else(missing)?.of(&item.run_id, &item.owner, &item.agent);
        let rule = self.rule(by, &scope, id).await?;
        if rule.revoked.is_some() {
            return Ok(rule);
        }
        let revoked = Revoked { by: by.principal.clone(), at: self.ports.clock.now() };
        if self.ports.store.revoke(&rule.tenant, &scope, id, &revoked).await? {
            return Ok(StandingRule { revoked: Some(revoked), ..rule });
        }
        // Somebody was first: what stands is theirs.
        self.rule(by, &scope, id).await
    }

    async fn rule(&self, by: &Caller, scope: &Scope, id: &str) -> Result<StandingRule, Problem> {
        let rules = self.ports.store.rules(&by.principal.tenant, scope).await?;
        rules.into_iter().find(|rule| rule.id == id && rule.is_for(by)).ok_or(Problem::NotFound("rule"))
    }
}

/// More rules would be read with every call that asks.
pub(crate) fn no_room() -> Problem {
    Problem::WrongState(format!(
        "there are {MAX_RULES} standing rules of this scope already; revoke some, or approve this one call"
    ))
}
