//! The engine's front: every operation on a session.

use std::sync::Arc;

use inspan_journal::{Journal, Session};
use inspan_wire::{SessionUid, v1};

use crate::{Catalog, Error, Observer, Rim};

/// Bounds that the engine keeps.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of decoded records kept warm over all sessions.
    pub warm_bytes_max: usize,
    /// How long a harness may take to describe itself, in nanoseconds (R-REMOTE-1).
    pub describe_ns_max: i64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { warm_bytes_max: 32 << 20, describe_ns_max: 10_000_000_000 }
    }
}

/// Drives sessions. Cheap to clone; one per store and process, since the guard lives here.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    journal: Arc<dyn Journal>,
    rim: Arc<dyn Rim>,
    catalog: Arc<dyn Catalog>,
    observer: Arc<dyn Observer>,
    limits: Limits,
}

/// What a fork asks for.
#[derive(Debug, Clone, Default)]
pub struct ForkArgs {
    /// Zero or less means the head (R-FORK-2).
    pub at_seq: i64,
    /// 1 to 128; zero means 1.
    pub count: i32,
    /// Replace the parent's.
    pub labels: std::collections::BTreeMap<String, String>,
    /// Empty, or one for each child.
    pub names: Vec<String>,
}

/// What a re-run of a journal gave (R-REPLAY).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rerun {
    /// Completed executions that were run.
    pub executions: i64,
    /// Recorded effects that were served.
    pub effects: i64,
    /// Texts of the consumed OUTPUT records, in order (R-OUT-5).
    pub outputs: Vec<String>,
}

/// An accepted turn that has not started: the first frame of an Exec stream can be sent.
#[must_use = "an accepted turn does nothing until it is run"]
pub struct Turn {
    engine: Engine,
    session: v1::Session,
    uid: SessionUid,
    execution_id: String,
}

impl Turn {
    /// The session before the turn.
    pub fn session(&self) -> &v1::Session {
        &self.session
    }

    /// Its uid.
    pub fn uid(&self) -> &SessionUid {
        &self.uid
    }

    /// The id that the turn's records will carry: how its caller tells them from another turn's.
    pub fn execution_id(&self) -> &str {
        &self.execution_id
    }

    /// Runs the turn to its end. What it records goes to the observer; dropping the future is like
    /// a crash of the host at that point: everything recorded stays, and Resume picks it up.
    ///
    /// # Errors
    /// As the table of Exec's status codes says.
    pub async fn run(self) -> Result<v1::Session, Error> {
        let _ = self.engine;
        Err(Error::Stopping)
    }
}

#[allow(clippy::unused_async, unused_variables)]
impl Engine {
    /// An engine over `journal`.
    pub fn new(
        journal: Arc<dyn Journal>,
        rim: Arc<dyn Rim>,
        catalog: Arc<dyn Catalog>,
        observer: Arc<dyn Observer>,
        limits: Limits,
    ) -> Engine {
        Engine { inner: Arc::new(Inner { journal, rim, catalog, observer, limits }) }
    }

    /// The store.
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.inner.journal
    }

    /// The named harnesses.
    pub fn catalog(&self) -> &Arc<dyn Catalog> {
        &self.inner.catalog
    }

    /// Creates a session from what the caller says of it: metadata.project and name, harness,
    /// model, identity, origin, labels, annotations. An empty project stays empty: the host puts
    /// its default there before.
    ///
    /// # Errors
    /// [`Error::UnknownHarness`], or the store's.
    pub async fn create(&self, info: v1::Session) -> Result<v1::Session, Error> {
        Err(Error::Stopping)
    }

    /// The session as callers see it, RUNNING included.
    ///
    /// # Errors
    /// The store's; NOT_FOUND for an unknown uid.
    pub async fn session(&self, uid: &SessionUid) -> Result<v1::Session, Error> {
        Err(Error::Stopping)
    }

    /// A stored session as callers see it (R-LIFE-5: every answer agrees with every other).
    pub fn view(&self, session: &Session) -> v1::Session {
        v1::Session::default()
    }

    /// Accepts a turn: resolves the session (an empty one is created) and the harness name. Any
    /// error here comes before the first frame.
    ///
    /// # Errors
    /// INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION as the table of Exec's status codes says.
    pub async fn accept(&self, request: v1::ExecRequest, default_project: &str) -> Result<Turn, Error> {
        Err(Error::Stopping)
    }

    /// Drives an interrupted turn to its end, or wakes a sleeping session (R-RESUME).
    ///
    /// # Errors
    /// As the table of Resume's status codes says.
    pub async fn resume(&self, uid: &SessionUid) -> Result<v1::Session, Error> {
        Err(Error::Stopping)
    }

    /// Puts a session to sleep (R-LIFE-1).
    ///
    /// # Errors
    /// As the table of Suspend's status codes says.
    pub async fn suspend(&self, uid: &SessionUid) -> Result<v1::Session, Error> {
        Err(Error::Stopping)
    }

    /// Forks a session (R-FORK).
    ///
    /// # Errors
    /// As the table of Fork's status codes says; OUT_OF_RANGE beyond the head.
    pub async fn fork(&self, uid: &SessionUid, args: ForkArgs) -> Result<Vec<v1::Session>, Error> {
        Err(Error::Stopping)
    }

    /// Ends a turn with CANCELED: the running one, or an interrupted one. An empty `execution_id`
    /// means the last. Returns once the turn has ended.
    ///
    /// # Errors
    /// NOT_FOUND, or FAILED_PRECONDITION when there is no such unfinished turn.
    pub async fn cancel(&self, uid: &SessionUid, execution_id: &str, reason: &str) -> Result<v1::Session, Error> {
        Err(Error::Stopping)
    }

    /// Hides a session for ever and drops what nobody needs.
    ///
    /// # Errors
    /// NOT_FOUND; ABORTED while it is busy.
    pub async fn delete(&self, uid: &SessionUid) -> Result<v1::Session, Error> {
        Err(Error::Stopping)
    }

    /// Runs every completed execution again on its recorded effects (R-REPLAY): no provider, no
    /// append, no fence.
    ///
    /// # Errors
    /// [`Error::ReplayDiverged`] and whatever makes the journal unfit to run.
    pub async fn rerun(&self, uid: &SessionUid) -> Result<Rerun, Error> {
        Err(Error::Stopping)
    }

    /// Folds records, given in order from seq 1 (or from `fork_seq + 1` on top of the parent's
    /// state), into the projections and turn marks that an import needs. See `scan`.
    ///
    /// Lets running turns finish the effect that they are in, then stops them; new effects and new
    /// turns are refused. Returns when no turn runs any more.
    pub async fn drain(&self) {}
}
