//! The engine's front: what every operation shares.

use std::sync::Arc;

use futures_util::future::{Either, select};
use inspan_harness::Failure;
use inspan_journal::{FenceRule, Journal, NewSession, Session};
use inspan_wire::{SessionUid, v1};

use crate::guard::Guards;
use crate::history::Past;
use crate::scan::Scan;
use crate::warm::Warm;
use crate::writer::Writer;
use crate::{Agent, Catalog, Error, Observer, Policy, Rim, Unserved};

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
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) rim: Arc<dyn Rim>,
    pub(crate) catalog: Arc<dyn Catalog>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) limits: Limits,
    pub(crate) warm: Arc<Warm>,
    pub(crate) guards: Arc<Guards>,
    pub(crate) policy: Option<Arc<dyn Policy>>,
}

impl Engine {
    /// An engine over `journal`.
    pub fn new(
        journal: Arc<dyn Journal>,
        rim: Arc<dyn Rim>,
        catalog: Arc<dyn Catalog>,
        observer: Arc<dyn Observer>,
        limits: Limits,
    ) -> Engine {
        let warm = Arc::new(Warm::new(limits.warm_bytes_max));
        let guards = Arc::new(Guards::default());
        Engine { inner: Arc::new(Inner { journal, rim, catalog, observer, limits, warm, guards, policy: None }) }
    }

    /// The same engine under a policy: every tool call that the host mediates is put to it.
    ///
    /// # Panics
    /// When the engine was cloned before.
    #[must_use]
    pub fn with_policy(mut self, policy: Arc<dyn Policy>) -> Engine {
        Arc::get_mut(&mut self.inner).expect("an engine gets its policy before it is shared").policy = Some(policy);
        self
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
    /// model, identity, origin, labels, annotations (R-LIST-4). An empty project stays empty: the host
    /// puts its default there before.
    ///
    /// # Errors
    /// [`Error::UnknownHarness`], [`Error::HarnessUnservable`], [`Error::HarnessRetired`], or the store's.
    pub async fn create(&self, info: v1::Session) -> Result<v1::Session, Error> {
        if !info.harness.is_empty() {
            self.refuse_retired(&*self.agent(&info.harness)?).await?;
        }
        let info = v1::Session {
            metadata: info.metadata.map(|m| v1::ResourceMetadata {
                project: m.project,
                name: m.name,
                ..Default::default()
            }),
            harness: info.harness,
            model: info.model,
            identity: info.identity.filter(|i| *i != v1::IdentityRef::default()),
            origin: info.origin,
            labels: info.labels,
            annotations: info.annotations,
            ..Default::default()
        };
        let new = NewSession { uid: self.new_uid(), info, state: Scan::empty().state() };
        Ok(self.view(&self.inner.journal.create(new).await?))
    }

    /// The session as callers see it, RUNNING included.
    ///
    /// # Errors
    /// The store's; NOT_FOUND for an unknown uid.
    pub async fn session(&self, uid: &SessionUid) -> Result<v1::Session, Error> {
        Ok(self.view(&self.load(uid).await?))
    }

    /// A stored session as callers see it (R-LIFE-5: every answer agrees with every other).
    pub fn view(&self, session: &Session) -> v1::Session {
        let mut view = session.info.clone();
        let metadata = view.metadata.get_or_insert_default();
        metadata.uid = session.uid.to_string();
        metadata.create_time = Some(timestamp(session.create_ns));
        metadata.update_time = Some(timestamp(session.update_ns));
        view.last_seq = session.head.seq;
        if let Some((parent, fork_seq)) = &session.parent {
            view.parent_uid = parent.to_string();
            view.fork_seq = *fork_seq;
        }
        view.exec_state = match self.inner.guards.running(&session.uid) {
            Some(_) => v1::ExecState::ExecRunning.into(),
            None => session.state.exec,
        };
        view.compute_state = session.state.compute;
        view.pending_approval.clone_from(&session.state.pending);
        view
    }

    /// Lets running turns finish the effect that they are in, then stops them; new effects and new
    /// operations are refused. Returns when no operation runs any more.
    pub async fn drain(&self) {
        self.inner.guards.start_draining();
        for released in self.inner.guards.all() {
            released.wait().await;
        }
    }

    pub(crate) async fn load(&self, uid: &SessionUid) -> Result<Session, Error> {
        let session = self.inner.journal.session(uid).await?;
        Ok(session.ok_or_else(|| inspan_journal::Error::NotFound(uid.clone()))?)
    }

    pub(crate) fn agent(&self, name: &str) -> Result<Arc<Agent>, Error> {
        self.inner.catalog.agent(name).map_err(|unserved| match unserved {
            Unserved::Unknown => {
                Error::UnknownHarness { name: name.to_owned(), known: self.inner.catalog.names().join(", ") }
            }
            Unserved::Unservable(why) => Error::HarnessUnservable(why),
        })
    }

    /// R-REG-3: for a session that is about to be created. One that exists goes on, its forks included.
    async fn refuse_retired(&self, agent: &Agent) -> Result<(), Error> {
        if agent.registered.is_none() {
            return Ok(());
        }
        match self.inner.catalog.retired(&agent.name).await? {
            Some(reason) => Err(Error::HarnessRetired { harness: agent.name.clone(), reason }),
            None => Ok(()),
        }
    }

    /// R-REG-6: a session whose harness, or the harness of whose turn, is registered has no turns on two of them.
    pub(crate) fn check_pin(&self, session: &Session, other: &str) -> Result<(), Error> {
        let registered = |name: &str| match self.inner.catalog.agent(name) {
            Ok(agent) => agent.registered.is_some(),
            Err(Unserved::Unservable(_)) => true,
            Err(Unserved::Unknown) => false,
        };
        let stored = self.stored_name(session);
        if other.is_empty() || other == stored || !(registered(stored) || registered(other)) {
            return Ok(());
        }
        let (session, stored, other) = (session.uid.clone(), stored.to_owned(), other.to_owned());
        Err(Error::HarnessPinned { session, stored, other })
    }

    /// The harness that a session was created on: its own, or the default.
    fn stored_name<'a>(&'a self, session: &'a Session) -> &'a str {
        match session.info.harness.as_str() {
            "" => self.inner.catalog.default_name(),
            name => name,
        }
    }

    /// The agent that a session's new turns run on: its own, or the default.
    pub(crate) fn stored_agent(&self, session: &Session) -> Result<Arc<Agent>, Error> {
        self.agent(self.stored_name(session))
    }

    /// Describes the harness and checks that this host can run it: before any fence and any record
    /// (R-CAP-1 to R-CAP-4).
    pub(crate) async fn admit(&self, agent: &Agent) -> Result<v1::HarnessDescriptor, Error> {
        let rim = &self.inner.rim;
        let limit = rim.sleep_until(rim.now_ns().saturating_add(self.inner.limits.describe_ns_max));
        let failed = |cause: String| Error::HarnessNotDescribed { harness: agent.name.clone(), cause };
        let descriptor = match select(agent.harness.describe(), limit).await {
            Either::Left((answer, _)) => answer.map_err(|failure| match failure {
                Failure::Unavailable(cause) => failed(cause),
                failure => Error::HarnessDescribeFailed { harness: agent.name.clone(), cause: failure.to_string() },
            })?,
            Either::Right(_) => return Err(failed("no answer in time".to_owned())),
        };
        if let Some(registered) = &agent.registered
            && !registered.descriptor_id.is_empty()
            && registered.descriptor_id != descriptor.id
        {
            return Err(Error::HarnessDescriptorMismatch {
                harness: agent.name.clone(),
                registered: registered.descriptor_id.clone(),
                answered: descriptor.id,
            });
        }
        if needs_memory(&descriptor) && !agent.memory_snapshot {
            return Err(Error::Unplaceable(format!(
                "harness {} needs its memory kept and this host has no runtime that keeps memory: \
                 run it on one that has, or use a harness that replays",
                agent.name
            )));
        }
        Ok(descriptor)
    }

    pub(crate) fn past(&self, uid: &SessionUid) -> Past {
        Past::new(self.inner.journal.clone(), self.inner.warm.clone(), uid.clone())
    }

    pub(crate) fn writer(&self, session: &Session, fence: FenceRule) -> Result<Writer, Error> {
        Ok(self.writer_at(session, Scan::load(&session.state)?, fence))
    }

    /// As [`Engine::writer`], for a session whose fold has been read.
    pub(crate) fn writer_at(&self, session: &Session, scan: Scan, fence: FenceRule) -> Writer {
        let inner = &self.inner;
        Writer::new(inner.journal.clone(), inner.warm.clone(), inner.observer.clone(), session, scan, fence)
    }

    pub(crate) fn new_uid(&self) -> SessionUid {
        let mut bytes = [0; 12];
        self.inner.rim.fill(&mut bytes);
        SessionUid::from_random(bytes)
    }

    /// Tells watchers that the session's state may have changed, and answers with it.
    pub(crate) async fn settled(&self, uid: &SessionUid) -> Result<v1::Session, Error> {
        self.inner.observer.turn_changed(uid);
        self.session(uid).await
    }
}

/// Whether a harness keeps in memory what no record holds.
pub(crate) fn needs_memory(descriptor: &v1::HarnessDescriptor) -> bool {
    descriptor.capabilities.as_ref().map(v1::Capabilities::resumability)
        == Some(v1::Resumability::RequiresMemorySnapshot)
}

pub(crate) fn timestamp(ns: i64) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: ns.div_euclid(1_000_000_000),
        nanos: i32::try_from(ns.rem_euclid(1_000_000_000)).expect("a remainder below 10^9"),
    }
}
