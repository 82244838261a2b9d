//! What a store keeps of a session beside its records.

use bytes::Bytes;
use inspan_wire::{Digest, SessionUid, v1};

/// Where a journal ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head {
    /// The last seq; 0 for an empty journal.
    pub seq: i64,
    /// The last record's content hash; `None` for an empty journal.
    pub hash: Option<Digest>,
}

/// The projections that move in the same commit as the records (R-LIFE-2, R-LIFE-4).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    /// A `v1::ComputeState` number.
    pub compute: i32,
    /// A `v1::ExecState` number, as the journal alone tells it: a turn that runs right now is
    /// known to the host that runs it.
    pub exec: i32,
    /// The approval that this session waits for.
    pub pending: Option<v1::ApprovalRef>,
    /// When that wait expires, nanoseconds since the Unix epoch. `None` for never, and without [`State::pending`].
    pub deadline_ns: Option<i64>,
    /// The engine's folded view of the records, opaque to the store: with it a turn starts without
    /// reading the past.
    pub scan: Bytes,
}

/// A session to create.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSession {
    /// Its uid; a uid that exists is a conflict.
    pub uid: SessionUid,
    /// What the creator said: project, name, harness, model, identity, origin, labels,
    /// annotations. Output-only fields are ignored.
    pub info: v1::Session,
    /// The projections of an empty journal.
    pub state: State,
}

/// A stored session.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Its uid.
    pub uid: SessionUid,
    /// What the creator said; see [`NewSession::info`].
    pub info: v1::Session,
    /// The session it was forked from and the last seq it shares with it.
    pub parent: Option<(SessionUid, i64)>,
    /// Creation time, nanoseconds since the Unix epoch. The listing's order (R-LIST-1).
    pub create_ns: i64,
    /// Time of the last append, nanoseconds since the Unix epoch (R-LIFE-3).
    pub update_ns: i64,
    /// Where its journal ends.
    pub head: Head,
    /// The current fence; a writer below it is refused (R-CAS-1).
    pub fence: i64,
    /// The projections at `head`.
    pub state: State,
}
