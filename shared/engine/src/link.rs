//! Approval links: given out to be decided through by somebody who has not signed in.
//!
//! Nothing is stored for a link. What it can do stands in its token, and the token is signed; what has become of it is
//! what has become of its request. It decides by the code path of every other decision, in the name of who made it.

use std::sync::Arc;

use dormouse_domain::{
    Caller, RequestId,
    decide::Answer,
    request::{DecisionKind, Request},
    token::{DEFAULT_LINK_MS, KeyRing, Link, TokenId, Unlinked},
};

use crate::{
    Engine, IdempotencyKey,
    error::Problem,
    ports::KeysError,
    respond::{Responded, Through},
};

/// The shortest life of a link that can be asked for, in milliseconds.
const LEAST_LIFE_MS: u64 = 1_000;

/// A link that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkMade {
    /// What lets its holder in. A secret: not to be logged.
    pub token: String,
    /// What the token says.
    pub link: Link,
}

/// A link as whoever holds it sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkView {
    /// What it says.
    pub link: Link,
    /// In whose name it decides.
    pub by: Caller,
    /// The request, with the decisions that the link can give.
    pub request: Request,
}

impl Engine {
    /// Makes a link to request `id`, as `by`: for the decisions `wanted`, or for all that can be given out; good for
    /// `life_ms`, an hour unless said otherwise, but not longer than the request. Writes nothing: made again, it is
    /// another link as good as the first.
    ///
    /// # Errors
    /// As an answer of theirs would be refused; [`Problem::NotSetUp`] if this deployment has no keys.
    pub async fn make_link(
        &self,
        by: &Caller,
        id: &RequestId,
        wanted: Option<&[DecisionKind]>,
        life_ms: Option<u64>,
    ) -> Result<LinkMade, Problem> {
        let life_ms = life_ms.unwrap_or(DEFAULT_LINK_MS);
        if life_ms < LEAST_LIFE_MS {
            return Err(Problem::Invalid("a link is good for a second at least".to_owned()));
        }
        if wanted.is_some_and(<[_]>::is_empty) {
            return Err(Problem::Invalid("a link for no decision at all is of no use; name one".to_owned()));
        }
        let request = self.ports.store.request(id).await?.ok_or(Problem::NotFound("request"))?;
        let (name, now) = (TokenId::from_bits(self.ports.ids.fresh()), self.ports.clock.now());
        let link = Link::make(name, &request, by, wanted, life_ms, now).map_err(|unlinked| match unlinked {
            Unlinked::Refused(refusal) => Problem::Refused(refusal),
            Unlinked::NothingToGive => Problem::WrongState(unlinked.to_string()),
        })?;
        let token = self.keys().await?.sign(&link).map_err(|error| Problem::Invalid(error.to_string()))?;
        tracing::info!(request = %id, link = %link.id, by = %by.principal, "link made");
        Ok(LinkMade { token, link })
    }

    /// What a link shows to whoever holds it. Decides nothing.
    ///
    /// # Errors
    /// [`Problem::NotFound`] for what is no link of this deployment's; [`Problem::Refused`] if it is over.
    pub async fn link(&self, token: &str) -> Result<LinkView, Problem> {
        let link = self.opened(token).await?;
        let request = self.ports.store.request(&link.request).await?.ok_or(Problem::NotFound("link"))?;
        let shown = link.shows(&request, self.ports.clock.now())?;
        Ok(LinkView { by: link.caller(&request), link, request: shown })
    }

    /// Decides the request that a link is for by `answer`.
    ///
    /// # Errors
    /// As [`link`](Self::link) and [`respond`](Self::respond).
    pub async fn respond_by_link(
        &self,
        token: &str,
        answer: &Answer,
        key: Option<&IdempotencyKey>,
    ) -> Result<Responded, Problem> {
        let link = self.opened(token).await?;
        let key = key.map(|key| key.of_token("link", &link.id));
        let decided = self.decide(&link.issuer, &link.request, Through::Link(&link), answer, key.as_ref()).await;
        // That there is no such request is no more to be told than that there is no such link.
        decided.map_err(|problem| if problem.is_not_found() { Problem::NotFound("link") } else { problem })
    }

    async fn opened(&self, token: &str) -> Result<Link, Problem> {
        self.keys().await?.open(token).ok_or(Problem::NotFound("link"))
    }

    pub(crate) async fn keys(&self) -> Result<Arc<KeyRing>, Problem> {
        self.ports.keys.ring().await.map_err(|error| match error {
            KeysError::NotSetUp => Problem::NotSetUp("tokens, for links and completions,"),
            KeysError::Unavailable(_) => Problem::Unavailable(error.into()),
        })
    }
}
