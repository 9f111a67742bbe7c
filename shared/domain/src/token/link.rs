//! Approval links: a token that lets whoever holds it decide one request, once, in the name of who made it.
//!
//! What a link can do is checked by the same code as an answer of somebody who signed in ([`decide::check`]), against
//! the stored request with its decisions narrowed to the link's. A link is used up by the request being decided, by
//! whomever: there is nothing else to strike out.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Claims, Purpose, TokenId};
use crate::{
    decide::{self, Answer, Decision, Refusal},
    ids::{Caller, Digest, Millis, Principal, RequestId},
    request::{DecisionKind, Request},
};

/// How long a link is good, unless its maker says otherwise, in milliseconds.
pub const DEFAULT_LINK_MS: u64 = 3_600_000;

/// What a link says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Wire", into = "Wire")]
pub struct Link {
    /// Its name.
    pub id: TokenId,
    /// The request that it is for.
    pub request: RequestId,
    /// The digest of what its maker was shown.
    pub digest: Digest,
    /// What it can decide.
    pub decisions: Vec<DecisionKind>,
    /// It is good up to and including this moment.
    pub expires_at: Millis,
    /// Who made it, and in whose name it decides.
    pub issuer: Principal,
}

/// As it is signed: a tuple, since names would only make a URL longer.
type Wire = (TokenId, RequestId, Digest, Vec<DecisionKind>, Millis, String, String);

impl From<Wire> for Link {
    fn from((id, request, digest, decisions, expires_at, tenant, subject): Wire) -> Self {
        Self { id, request, digest, decisions, expires_at, issuer: Principal { tenant, subject } }
    }
}

impl From<Link> for Wire {
    fn from(link: Link) -> Self {
        let Principal { tenant, subject } = link.issuer;
        (link.id, link.request, link.digest, link.decisions, link.expires_at, tenant, subject)
    }
}

impl Claims for Link {
    const PURPOSE: Purpose = Purpose::Link;
}

/// Why no link is made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unlinked {
    /// As an answer of theirs would be refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Nothing that is on offer can be given out.
    #[error("none of this request's decisions can be given out by a link; decide it signed in")]
    NothingToGive,
}

/// Whether a link can give this decision out. What changes arguments, makes a rule or raises a ceiling does more than
/// settle this one request as it was shown: it takes somebody who is signed in.
#[must_use]
pub fn shareable(kind: DecisionKind) -> bool {
    match kind {
        DecisionKind::Approve
        | DecisionKind::Deny
        | DecisionKind::Answer
        | DecisionKind::Settle
        | DecisionKind::Stop => true,
        DecisionKind::Edit | DecisionKind::Always | DecisionKind::Raise => false,
    }
}

impl Link {
    /// The link that `by` makes at `now` for `request`: for `wanted`, or for all that can be given out; good for
    /// `life_ms`, but not longer than the request.
    ///
    /// # Errors
    /// [`Unlinked`].
    pub fn make(
        id: TokenId,
        request: &Request,
        by: &Caller,
        wanted: Option<&[DecisionKind]>,
        life_ms: u64,
        now: Millis,
    ) -> Result<Self, Unlinked> {
        decide::entitled(request, by)?;
        decide::still_open(request, now)?;
        let on_offer: Vec<_> = request.decisions.iter().copied().filter(|kind| shareable(*kind)).collect();
        if on_offer.is_empty() {
            return Err(Unlinked::NothingToGive);
        }
        if let Some(given) = wanted.into_iter().flatten().find(|kind| !on_offer.contains(kind)) {
            return Err(Refusal::NotOffered { given: *given, offered: on_offer }.into());
        }
        let wanted = |kind: &DecisionKind| wanted.is_none_or(|wanted| wanted.contains(kind));
        Ok(Self {
            id,
            request: request.id.clone(),
            digest: request.digest.clone(),
            decisions: on_offer.into_iter().filter(wanted).collect(),
            expires_at: now.plus(life_ms).min(request.windows.decide_by),
            issuer: by.principal.clone(),
        })
    }

    /// Whether it is still good at `now`: inclusive at the edge, as the windows of requests are.
    #[must_use]
    pub fn is_good(&self, now: Millis) -> bool {
        now <= self.expires_at
    }

    /// In whose name it decides `request`: its maker, who had the right to when it was made. A group that they have
    /// left since does not take that back; the link's end does.
    #[must_use]
    pub fn caller(&self, request: &Request) -> Caller {
        let groups = request.approvers.iter().map(|approvers| approvers.group.clone()).collect();
        Caller { principal: self.issuer.clone(), groups }
    }

    /// `request` as the link shows it: with the decisions that it can give.
    ///
    /// # Errors
    /// [`Refusal`] if the link is over or not for what is stored.
    pub fn shows(&self, request: &Request, now: Millis) -> Result<Request, Refusal> {
        if !self.is_good(now) {
            return Err(Refusal::LinkExpired);
        }
        if request.digest != self.digest {
            return Err(Refusal::DigestMismatch);
        }
        let mut shown = request.clone();
        shown.decisions.retain(|kind| shareable(*kind) && self.decisions.contains(kind));
        shown.always = None;
        Ok(shown)
    }

    /// Judges `answer`, given through this link, against the stored `request`. The digest may be left out: the link
    /// has it. If it is there, it must be that of what is stored, as always.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn check(
        &self,
        request: &Request,
        answer: &Answer,
        now: Millis,
        fits: &dyn Fn(&Value) -> Result<(), String>,
    ) -> Result<Decision, Refusal> {
        let shown = self.shows(request, now)?;
        let mut answer = answer.clone();
        answer.digest.get_or_insert_with(|| self.digest.as_str().to_owned());
        decide::check(&shown, &answer, &self.caller(request), now, fits)
    }
}
