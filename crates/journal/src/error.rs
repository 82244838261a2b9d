//! What a store refuses, and why.

use inspan_wire::SessionUid;

use crate::KeyUse;

/// A store's refusal. Nothing was written unless the variant says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The head is not where the writer thought (R-CAS-1).
    #[error("the journal of {session} is at seq {actual}, not {expected}: another writer was here; read it again")]
    Conflict {
        /// The session.
        session: SessionUid,
        /// The head that the writer expected.
        expected: i64,
        /// The head that there is.
        actual: i64,
    },
    /// The writer's fence has been passed (R-CAS-1).
    #[error("fence {held} of {session} has been passed by {current}: another writer took over")]
    Fenced {
        /// The session.
        session: SessionUid,
        /// The writer's fence.
        held: i64,
        /// The session's fence.
        current: i64,
    },
    /// An idempotency key of the session that was to be used for the first time is in use (R-TOOL-16).
    #[error("an idempotency key of {session} is in use since seq {}", used.call_seq)]
    KeyUsed {
        /// The session.
        session: SessionUid,
        /// What it was used for.
        used: KeyUse,
    },
    /// No such session, or it was deleted.
    #[error("no session {0}")]
    NotFound(SessionUid),
    /// A uid that is taken.
    #[error("session {0} exists already")]
    Exists(SessionUid),
    /// The disk is full. The append was rolled back; the store goes on once there is room.
    #[error("the disk is full: nothing was written; free some space and try again")]
    Full,
    /// A write or an fsync failed and what is on disk is unknown. The store refuses every further
    /// write until it is opened again.
    #[error("the store refuses writes after a failed write ({0}); restart the host to recover from what is on disk")]
    Failed(String),
    /// What is stored is not what was written.
    #[error("session {session} is damaged at seq {seq}: {what}")]
    Damaged {
        /// The session.
        session: SessionUid,
        /// The first record that does not hold.
        seq: i64,
        /// What does not hold.
        what: String,
    },
    /// A request that no retry helps: the text says what is wrong with it.
    #[error("{0}")]
    Invalid(String),
    /// Reading or opening failed.
    #[error("the store failed: {0}")]
    Io(String),
}
