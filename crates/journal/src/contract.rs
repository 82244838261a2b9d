//! The contract of every store.

use std::sync::Arc;

use async_trait::async_trait;
use inspan_wire::{Digest, SessionUid};

use crate::record::NewRecord;
use crate::{Blobs, Error, KeyChange, KeyUse, NewSession, Record, Session, State};

/// Which fence an append runs under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FenceRule {
    /// The fence that the writer holds; below the current one it is refused, above it is taken
    /// over (R-CAS-1).
    Held(i64),
    /// Take the next fence and append in one commit: NewFence without a flush of its own
    /// (R-CAS-2).
    Next,
}

/// Records that start a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnMark {
    /// The turn's execution id; empty for a turn of a legacy journal.
    pub execution_id: String,
    /// The seq of its first record.
    pub first_seq: i64,
    /// The projections just before that record: where a fork in the middle of a long journal
    /// starts folding.
    pub before: State,
}

/// The exact text of a model request, kept under the digest that its record carries as
/// `input_hash`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptRequest {
    /// SHA-256 of `text`.
    pub digest: Digest,
    /// The JSON text (R-IN-1).
    pub text: Arc<str>,
    /// The session's request before this one, when the writer has it at hand: the store keeps
    /// the difference.
    pub base: Option<(Digest, Arc<str>)>,
}

/// Records for one session, committed together or not at all.
#[derive(Debug, Clone)]
pub struct Append {
    /// The session.
    pub session: SessionUid,
    /// The head that the writer has seen.
    pub expect_head: i64,
    /// The fence.
    pub fence: FenceRule,
    /// Dense from `expect_head + 1`, already hashed. Never empty.
    pub records: Vec<NewRecord>,
    /// Set when one of the records starts a turn.
    pub turn: Option<TurnMark>,
    /// The projections after the last record.
    pub state: State,
    /// Model requests that the records carry the hash of.
    pub requests: Vec<KeptRequest>,
    /// Blobs that the records name; already durable.
    pub blobs: Vec<Digest>,
    /// What becomes of idempotency keys, in order.
    pub keys: Vec<KeyChange>,
}

/// An append that is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The fence that it ran under.
    pub fence: i64,
    /// The commit time of its records, milliseconds since the Unix epoch.
    pub ts_ms: i64,
}

/// One child of a fork.
#[derive(Debug, Clone)]
pub struct ForkChild {
    /// Its uid and what is said of it; `session.state` holds the projections after the marker.
    pub session: NewSession,
    /// The fork marker, sealed at `at_seq + 1`.
    pub marker: NewRecord,
}

/// Children that share a parent's records up to `at_seq`. All or none become visible (R-FORK-6).
#[derive(Debug, Clone)]
pub struct Fork {
    /// The parent.
    pub parent: SessionUid,
    /// The last record that the children share; 0 to the parent's head.
    pub at_seq: i64,
    /// At least one.
    pub children: Vec<ForkChild>,
}

/// A page of a listing (R-LIST-1).
#[derive(Debug, Clone)]
pub struct ListQuery {
    /// Exact match.
    pub project: String,
    /// 1 to 500.
    pub limit: usize,
    /// `create_ns` and uid of the last session of the page before.
    pub after: Option<(i64, SessionUid)>,
}

/// Sessions by creation time, newest first, then by uid.
#[derive(Debug, Clone)]
pub struct Page {
    /// The sessions.
    pub sessions: Vec<Session>,
    /// Whether there are more after the last one.
    pub more: bool,
}

/// Which of the sessions that wait for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asks {
    /// All of them, the longest wait first.
    All,
    /// Those of one project (exact match), the longest wait first.
    Project(String),
    /// Those whose wait expires, the earliest deadline first.
    Due,
    /// Those of which nobody was told yet (see [`Journal::announced`]), the longest wait first.
    Unannounced,
}

/// A page of what waits. A listing goes on where it stopped, whatever was decided in between.
#[derive(Debug, Clone)]
pub struct AskQuery {
    /// Which.
    pub of: Asks,
    /// At least 1.
    pub limit: usize,
    /// [`AskPage::next`] of the page before.
    pub after: Option<(i64, SessionUid)>,
}

/// A session that waits for a person: its [`State::pending`] is set.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// The session.
    pub session: Session,
    /// The commit time of the record that asks, nanoseconds since the Unix epoch.
    pub since_ns: i64,
}

/// Some of the sessions that wait. The cost of a page depends on its length, never on how many wait.
#[derive(Debug, Clone)]
pub struct AskPage {
    /// In the order of the query.
    pub asks: Vec<Ask>,
    /// Where the next page starts; `None` on the last one.
    pub next: Option<(i64, SessionUid)>,
}

/// A store of sessions and their records.
///
/// * An operation that returns `Ok` is durable; one that returns `Err` left nothing behind.
/// * Records never change; reads of a fork go through its parents.
/// * A record that is read is checked against its hash: [`Error::Damaged`] instead of wrong bytes.
#[async_trait]
pub trait Journal: Send + Sync + 'static {
    /// Creates an empty session.
    ///
    /// # Errors
    /// [`Error::Exists`] for a uid that is or was taken.
    async fn create(&self, session: NewSession) -> Result<Session, Error>;

    /// Reads a session. `None` when there is none or it was deleted.
    ///
    /// # Errors
    /// [`Error::Io`].
    async fn session(&self, uid: &SessionUid) -> Result<Option<Session>, Error>;

    /// One page of a project's sessions, deleted ones left out.
    ///
    /// # Errors
    /// [`Error::Io`].
    async fn list(&self, query: ListQuery) -> Result<Page, Error>;

    /// Sessions that wait for a person, in every project or in one: those whose [`State::pending`] is set. The listing
    /// moves in the commit that sets or clears it. A wait that goes on through further appends keeps its place; another
    /// wait of the same session is a new one.
    ///
    /// # Errors
    /// [`Error::Io`].
    async fn asks(&self, query: AskQuery) -> Result<AskPage, Error>;

    /// Notes that somebody was told that the session waits on the request of this seq. Nothing happens when it waits
    /// on another one or no longer.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Full`], [`Error::Failed`].
    async fn announced(&self, uid: &SessionUid, request_seq: i64) -> Result<(), Error>;

    /// Appends records. Head first, then fence (R-CAS-1), then keys.
    ///
    /// # Errors
    /// [`Error::Conflict`], [`Error::Fenced`], [`Error::KeyUsed`], [`Error::NotFound`], [`Error::Full`], [`Error::Failed`].
    async fn append(&self, append: Append) -> Result<Appended, Error>;

    /// Raises the session's fence by one and returns it (R-CAS-2).
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Full`], [`Error::Failed`].
    async fn new_fence(&self, uid: &SessionUid) -> Result<i64, Error>;

    /// Records `from..=to`, at most `limit` of them and about 4 MiB at once (at least one when there is
    /// one). A shorter answer is not the end: ask again behind the last one.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Damaged`], [`Error::Io`].
    async fn records(&self, uid: &SessionUid, from: i64, to: i64, limit: usize) -> Result<Vec<Record>, Error>;

    /// The turn that seq `at` belongs to: the last one that starts at or before it, through the
    /// lineage.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Io`].
    async fn turn_at(&self, uid: &SessionUid, at: i64) -> Result<Option<TurnMark>, Error>;

    /// Creates the children of a fork. The parent's records are not copied.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Exists`], [`Error::Invalid`] for an `at_seq` beyond the head.
    async fn fork(&self, fork: Fork) -> Result<Vec<Session>, Error>;

    /// Hides a session for ever. Records that a fork reads stay; the rest, and payloads nobody
    /// else names, are dropped.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    async fn delete(&self, uid: &SessionUid) -> Result<(), Error>;

    /// The text of a model request, `None` when it was not kept. Checked against the digest.
    ///
    /// # Errors
    /// [`Error::Io`], also when the stored differences do not give that digest.
    async fn request(&self, digest: Digest) -> Result<Option<Arc<str>>, Error>;

    /// Whether a record of this session or of its lineage names this blob: only then may its readers see it.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Io`].
    async fn names_blob(&self, uid: &SessionUid, digest: Digest) -> Result<bool, Error>;

    /// What an idempotency key was used for in this very session: a fork has keys of its own.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Io`].
    async fn key_use(&self, uid: &SessionUid, key: &str) -> Result<Option<KeyUse>, Error>;

    /// Writes a whole session that comes from an export or from another store: records with their
    /// original hashes, fences and times, turns, requests. The session appears when the last
    /// batch is in. See [`Import`]. What its keys were used for is worked out of its records.
    ///
    /// # Errors
    /// [`Error::Exists`] when the uid is taken.
    async fn import(&self, import: Import) -> Result<Session, Error>;

    /// Every session uid, deleted ones with children included, in uid order after `after`: what
    /// the verification of a whole store walks through.
    ///
    /// # Errors
    /// [`Error::Io`].
    async fn uids(&self, after: Option<SessionUid>, limit: usize) -> Result<Vec<SessionUid>, Error>;

    /// The payload store beside this journal.
    fn blobs(&self) -> &Arc<dyn Blobs>;
}

/// A session from elsewhere. Its records come in order from `next` (called until it gives an
/// empty batch), so that a long session needs no memory.
pub struct Import {
    /// Uid, information and final projections.
    pub session: NewSession,
    /// Parent, when the parent is in this store already and the first record is `fork_seq + 1`.
    pub parent: Option<(SessionUid, i64)>,
    /// Creation and update time of the original, nanoseconds.
    pub times_ns: (i64, i64),
    /// Current fence.
    pub fence: i64,
    /// The next batch, already verified by the caller.
    pub next: Box<dyn FnMut() -> Result<ImportBatch, Error> + Send>,
}

/// Some records of an import and what belongs to them.
#[derive(Debug, Default)]
pub struct ImportBatch {
    /// In order.
    pub records: Vec<Record>,
    /// Turns that start among them.
    pub turns: Vec<TurnMark>,
    /// Request texts.
    pub requests: Vec<KeptRequest>,
    /// Blobs that the records name, durable already.
    pub blobs: Vec<Digest>,
    /// The projections after the last record: only the last batch's count.
    pub state: Option<State>,
}
