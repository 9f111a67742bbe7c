//! Reading, for owners only: to anybody else nothing exists (A16).

use std::{sync::Arc, time::Duration};

use dormouse_domain::{
    Caller, Definition, Entry, Fact, Inbox, RequestId, RunId, item::RunItem, message::reply_text, request::Request,
};

use crate::{Engine, error::Problem, journal::LoadError, ports::Page};

/// Groups whose requests are listed at once.
const MAX_GROUPS: usize = 50;
/// Pauses between looks at a run whose item and requests do not agree, in milliseconds.
const LOOKS_AGAIN_MS: [u64; 5] = [5, 20, 80, 200, 400];

/// A run as its owner sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunView {
    /// What is known of it.
    pub item: RunItem,
    /// Requests that wait, oldest first.
    pub pending: Vec<Request>,
    /// Text of the last reply, if it has any.
    pub output: Option<String>,
}

impl Engine {
    /// A run of `by`'s.
    ///
    /// # Errors
    /// [`Problem::NotFound`] if it is not theirs.
    pub async fn run_view(&self, by: &Caller, run_id: &RunId) -> Result<RunView, Problem> {
        let (item, mut pending) = self.owned(by, run_id).await?;
        let now = self.ports.clock.now();
        pending.retain(|request| request.windows.is_decidable(now));
        let output = match item.last_reply {
            Some(index) => self.reply_at(run_id, index).await?,
            None => None,
        };
        Ok(RunView { item, pending, output })
    }

    async fn reply_at(&self, run_id: &RunId, index: u32) -> Result<Option<String>, Problem> {
        let entries = self.ports.store.page(run_id, index, 1).await?;
        let Some(Fact::ModelReplied { content, .. }) = entries.first().map(|entry| &entry.fact) else {
            return Ok(None);
        };
        Ok(Some(reply_text(content)).filter(|text| !text.is_empty()))
    }

    async fn owned(&self, by: &Caller, run_id: &RunId) -> Result<(RunItem, Vec<Request>), Problem> {
        for pause_ms in LOOKS_AGAIN_MS {
            let found = self.ports.store.overview(run_id).await?;
            let (item, pending) =
                found.filter(|(item, _)| item.owner == by.principal).ok_or(Problem::NotFound("run"))?;
            if item.pending as usize == pending.len() {
                return Ok((item, pending));
            }
            // The query fell between the items of a transaction: it is not shown half done.
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
        Err(Problem::Unavailable(format!("{run_id}: the item and the requests do not agree").into()))
    }

    /// The runs of `by`, last changed first.
    ///
    /// # Errors
    /// [`Problem`].
    pub async fn runs(&self, by: &Caller, cursor: Option<&str>, limit: u32) -> Result<Page<RunItem>, Problem> {
        Ok(self.ports.store.runs(&by.principal, cursor, limit).await?)
    }

    /// What `by` can decide, in their own inbox and in those of their groups, oldest first: never what can
    /// no longer be decided, or not by them (E11).
    ///
    /// # Errors
    /// [`Problem`].
    pub async fn inbox(&self, by: &Caller, cursor: Option<&str>, limit: u32) -> Result<Page<Request>, Problem> {
        // Each group is a list of its own to read.
        if by.groups.len() > MAX_GROUPS {
            let count = by.groups.len();
            let detail = format!("you are in {count} groups, of which {MAX_GROUPS} are looked into at once; name one");
            return Err(Problem::Invalid(detail));
        }
        self.waiting(by, &by.inboxes(), cursor, limit).await
    }

    /// What `by` can decide as a member of `group`, oldest first.
    ///
    /// # Errors
    /// [`Problem::Invalid`] if they are not in that group.
    pub async fn group_inbox(
        &self,
        by: &Caller,
        group: &str,
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<Page<Request>, Problem> {
        if !by.groups.contains(group) {
            return Err(Problem::Invalid("you are in no group of this name".to_owned()));
        }
        let inbox = Inbox::Group { tenant: by.principal.tenant.clone(), group: group.to_owned() };
        self.waiting(by, &[inbox], cursor, limit).await
    }

    async fn waiting(
        &self,
        by: &Caller,
        inboxes: &[Inbox],
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<Page<Request>, Problem> {
        let mut page = self.ports.store.inbox(inboxes, cursor, limit).await?;
        let now = self.ports.clock.now();
        page.items.retain(|request| request.windows.is_decidable(now) && request.is_for(by));
        Ok(page)
    }

    /// A request that `by` may see, decided or not: one that is theirs to decide, or of a run of theirs.
    ///
    /// # Errors
    /// [`Problem::NotFound`] if it is not theirs.
    pub async fn request(&self, by: &Caller, id: &RequestId) -> Result<Request, Problem> {
        let found = self.ports.store.request(id).await?;
        found.filter(|request| request.is_visible_to(by)).ok_or(Problem::NotFound("request"))
    }

    /// The agent of run `run_id` as it was frozen.
    ///
    /// # Errors
    /// [`Problem::NotFound`] if the run is not theirs.
    pub async fn definition(&self, by: &Caller, run_id: &RunId) -> Result<Arc<Definition>, Problem> {
        Ok(self.known(by, run_id).await?.1)
    }

    /// What is known of run `run_id` without its journal, and its agent as it was frozen.
    ///
    /// # Errors
    /// [`Problem::NotFound`] if the run is not theirs.
    pub async fn known(&self, by: &Caller, run_id: &RunId) -> Result<(RunItem, Arc<Definition>), Problem> {
        let item = self.owned_item(by, run_id).await?;
        let definition = self.ports.store.definition(&item.definition).await?;
        let definition = definition.ok_or_else(|| LoadError::NoDefinition(item.definition.to_string()))?;
        Ok((item, definition))
    }

    /// At most `limit` entries of the journal from index `from`.
    ///
    /// # Errors
    /// [`Problem::NotFound`] if the run is not theirs.
    pub async fn entries(&self, by: &Caller, run_id: &RunId, from: u32, limit: u32) -> Result<Vec<Entry>, Problem> {
        self.owned_item(by, run_id).await?;
        self.more_entries(run_id, from, limit).await
    }

    /// The same, of a run that was found to be the caller's by [`known`](Self::known) before: whose
    /// it is never changes.
    ///
    /// # Errors
    /// [`Problem`].
    pub async fn more_entries(&self, run_id: &RunId, from: u32, limit: u32) -> Result<Vec<Entry>, Problem> {
        Ok(self.ports.store.page(run_id, from, limit).await?)
    }

    pub(crate) async fn owned_item(&self, by: &Caller, run_id: &RunId) -> Result<RunItem, Problem> {
        let item = self.ports.store.item(run_id).await?;
        item.filter(|item| item.owner == by.principal).ok_or(Problem::NotFound("run"))
    }
}
