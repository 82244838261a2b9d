//! What a store keeps of harnesses that operators register under a name.
//!
//! A registration is for ever: its spec never changes, and retiring it is a mark on it (R-REG-1, R-REG-3). So whoever has read a
//! spec under a name need not read it again.

use async_trait::async_trait;
use bytes::Bytes;
use inspan_wire::Digest;

use crate::Error;

/// A harness to register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRegistration {
    /// The name that sessions will use. What makes a good name is the host's to say.
    pub name: String,
    /// The uid that it gets if the name is free.
    pub uid: String,
    /// Its spec in canonical form: `inspan_wire::canon::message`. Stored byte for byte.
    pub spec: Bytes,
}

/// A registered harness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The name that sessions use.
    pub name: String,
    /// Given when the name was first registered, and kept.
    pub uid: String,
    /// The spec's canonical bytes as they were registered. A store of a later version may hold a spec that this
    /// version cannot decode.
    pub spec: Bytes,
    /// SHA-256 of the spec, taken when it was registered: whoever reads the spec compares.
    pub digest: Digest,
    /// When the name was first registered, nanoseconds since the Unix epoch.
    pub create_ns: i64,
    /// When it was registered, retired or reactivated last, nanoseconds since the Unix epoch.
    pub update_ns: i64,
    /// Set while it takes no new sessions.
    pub retired: Option<Retired>,
}

/// Since when and why a registration takes no new sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retired {
    /// Nanoseconds since the Unix epoch.
    pub at_ns: i64,
    /// The operator's words; may be empty.
    pub reason: String,
}

/// What a register call found under its name, and what it made of it (R-REG-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registered {
    /// The name was free.
    Created,
    /// The same spec was there and active.
    Unchanged,
    /// The same spec was there and retired: it is active again.
    Reactivated,
    /// Another spec is there; nothing was written.
    OtherSpec,
}

/// A page of registrations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrationQuery {
    /// The last name of the page before; empty for the first page.
    pub after: String,
    /// The most that are wanted.
    pub limit: usize,
    /// Whether retired ones count.
    pub include_retired: bool,
}

/// A store of registered harnesses. Like [`crate::Journal`]: what returned `Ok` is durable, what returned `Err` left
/// nothing behind.
#[async_trait]
pub trait Registrations: Send + Sync + 'static {
    /// Registers a spec under a name, or finds that the name is taken. Answers with what is there now.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Failed`], [`Error::Io`].
    async fn register(&self, new: NewRegistration) -> Result<(Registration, Registered), Error>;

    /// The registration of this name, retired or not.
    ///
    /// # Errors
    /// [`Error::Io`].
    async fn registration(&self, name: &str) -> Result<Option<Registration>, Error>;

    /// Registrations in the order of their names' bytes.
    ///
    /// # Errors
    /// [`Error::Io`].
    async fn registrations(&self, query: RegistrationQuery) -> Result<Vec<Registration>, Error>;

    /// Retires the registration of this name; one that is retired keeps its first reason and time (R-REG-3). `None` when
    /// there is none.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Failed`], [`Error::Io`].
    async fn retire(&self, name: &str, reason: &str) -> Result<Option<Registration>, Error>;
}

impl NewRegistration {
    /// What is stored for a name that is free.
    pub(crate) fn at(self, now_ns: i64) -> Registration {
        let NewRegistration { name, uid, spec } = self;
        let digest = Digest::of(&spec);
        Registration { name, uid, spec, digest, create_ns: now_ns, update_ns: now_ns, retired: None }
    }
}

impl Registration {
    /// Registers `spec` again under this name: what that is, and what it changes here.
    pub(crate) fn register_again(&mut self, spec: &[u8], now_ns: i64) -> Registered {
        if self.spec != spec {
            return Registered::OtherSpec;
        }
        if self.retired.take().is_none() {
            return Registered::Unchanged;
        }
        self.update_ns = now_ns;
        Registered::Reactivated
    }

    /// Retires it; whether that changed anything.
    pub(crate) fn retire(&mut self, reason: &str, now_ns: i64) -> bool {
        if self.retired.is_some() {
            return false;
        }
        self.update_ns = now_ns;
        self.retired = Some(Retired { at_ns: now_ns, reason: reason.to_owned() });
        true
    }
}
