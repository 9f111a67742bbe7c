//! Loading a journal and folding it.

use dormouse_domain::{Corrupt, Entry, Fact, Run, RunId};

use crate::{
    Engine,
    error::Problem,
    ports::{Store, StoreError},
};

/// A journal that could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal can't be folded.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// The definition that the journal names is not stored.
    #[error("the definition {0} is not stored")]
    NoDefinition(String),
}

impl From<LoadError> for Problem {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Store(error) => error.into(),
            LoadError::Corrupt(_) | LoadError::NoDefinition(_) => Self::Corrupt(error.into()),
        }
    }
}

impl Engine {
    /// The run as its whole journal says, or none.
    pub(crate) async fn load(&self, id: &RunId) -> Result<Option<Run>, LoadError> {
        let store = self.ports.store.as_ref();
        fold(store, id, &store.load(id, 0).await?).await
    }
}

/// The run `id` as these entries make it, or none without any.
pub(crate) async fn fold(store: &dyn Store, id: &RunId, entries: &[Entry]) -> Result<Option<Run>, LoadError> {
    let Some((first, rest)) = entries.split_first() else {
        return Ok(None);
    };
    let Fact::RunStarted { definition: digest, .. } = &first.fact else {
        let problem = format!("the journal begins with {}", first.fact.kind());
        return Err(Corrupt { run: id.clone(), index: first.index, problem }.into());
    };
    let definition = store.definition(digest).await?;
    let definition = definition.ok_or_else(|| LoadError::NoDefinition(digest.to_string()))?;
    let mut run = Run::start(id.clone(), definition, first)?;
    rest.iter().try_for_each(|entry| run.apply(entry))?;
    Ok(Some(run))
}

/// Reads what others appended to `run` since it was folded, and folds it in. Returns those entries.
pub(crate) async fn catch_up(store: &dyn Store, run: &mut Run) -> Result<Vec<Entry>, LoadError> {
    let news = store.load(&run.id, run.len).await?;
    news.iter().try_for_each(|entry| run.apply(entry))?;
    Ok(news)
}
