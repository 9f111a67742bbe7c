//! Why something that a client asked for was not done. Each variant says what the client does next;
//! the texts are for the client, the log has the rest.

use dormouse_domain::{Mode, agent::Approvers, decide::Refusal};

use crate::ports::{StoreError, WriteError};

/// Why something was not done. Nothing was changed, except where [`Problem::Unknown`] says that
/// this is not known.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// It does not exist, or not for this person.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// There is no agent of this name.
    #[error("there is no agent {name:?}; there are: {known}")]
    UnknownAgent {
        /// The name that was given.
        name: String,
        /// The names that there are, joined.
        known: String,
    },
    /// The content can't be taken.
    #[error("{0}")]
    Invalid(String),
    /// The run is not in a state for this.
    #[error("{0}")]
    WrongState(String),
    /// It came too late, for good.
    #[error("{0}")]
    Gone(String),
    /// It is theirs to see, and others' to say.
    #[error(
        "mode {mode} is wider than this agent's own, {own}, and that is for the group {} to say{}; ask one of its members",
        approvers.group,
        if approvers.not_requester { ", the person whose run it is aside" } else { "" }
    )]
    NotEntitled {
        /// The mode that was asked for.
        mode: Mode,
        /// The agent's.
        own: Mode,
        /// Who decides.
        approvers: Approvers,
    },
    /// The answer to a request was not taken.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The idempotency key belongs to another write.
    #[error("this Idempotency-Key was used for another request; choose a new one")]
    KeyReused,
    /// It is too large.
    #[error("{0}")]
    TooLarge(String),
    /// This deployment is not set up for it; whoever runs it can change that.
    #[error("{0} are not set up here; nothing was changed")]
    NotSetUp(&'static str),
    /// The store did not take it; it can be tried again.
    #[error("temporarily unavailable, nothing was changed; try again")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It is not known whether the store took it.
    #[error("it is not known whether this was stored; repeat it with the same Idempotency-Key")]
    Unknown(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// What is stored can't be read. Trying again does not help; the log says where.
    #[error("this run's stored data cannot be read; nothing was changed")]
    Corrupt(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Problem {
    /// Whether it says that something does not exist, or not for this person.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_) | Self::Refused(Refusal::NotFound))
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) => Self::Unavailable(error.into()),
            StoreError::Corrupt(_) => Self::Corrupt(error.into()),
            StoreError::BadCursor => Self::Invalid("the cursor is not one of this list's; start without one".into()),
        }
    }
}

/// A write that is not worth trying again here.
pub(crate) fn final_write_error(error: WriteError) -> Problem {
    match error {
        WriteError::TooLarge(what) => Problem::TooLarge(format!("too large to store: {what}")),
        WriteError::Ambiguous(_) => Problem::Unknown(error.into()),
        WriteError::LostIndex
        | WriteError::RequestCondition
        | WriteError::FileChanged { .. }
        | WriteError::ReceiptExists
        | WriteError::ItemCondition
        | WriteError::Contention
        | WriteError::Unavailable(_) => Problem::Unavailable(error.into()),
    }
}
