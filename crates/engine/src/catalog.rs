//! The named harnesses that a host can place sessions on.

use std::sync::Arc;

use async_trait::async_trait;
use inspan_harness::Harness;

use crate::{Executor, Model};

/// A harness under its registry name, with what its effects go to.
#[derive(Clone)]
pub struct Agent {
    /// The name that sessions and records carry.
    pub name: String,
    /// How it is reached.
    pub harness: Arc<dyn Harness>,
    /// Where its model calls go.
    pub model: Arc<dyn Model>,
    /// Where its tool calls go; without one they are recorded and refused (R-TOOL-4).
    pub executor: Option<Arc<dyn Executor>>,
    /// Whether its runtime can keep the memory of a process (R-CAP-1).
    pub memory_snapshot: bool,
    /// Set when an operator registered it; `None` for one that the host itself brings.
    pub registered: Option<Registered>,
}

/// What a harness was registered as. A session that is on a registered harness stays on it (R-REG-6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// The id that the harness must describe itself with (R-CAP-3); empty is any.
    pub descriptor_id: String,
}

/// Why a name leads to no harness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unserved {
    /// This host knows no such name.
    Unknown,
    /// The name is registered, and this host cannot use the registration; the text says why and what to do (R-REG-5, R-REG-7).
    Unservable(String),
}

/// Harnesses by name.
#[async_trait]
pub trait Catalog: Send + Sync + 'static {
    /// The harness of this name.
    ///
    /// # Errors
    /// See [`Unserved`].
    fn agent(&self, name: &str) -> Result<Arc<Agent>, Unserved>;

    /// Why a registered harness takes no new sessions: the reason that it was retired with (R-REG-3). `None` when it takes them.
    /// Asked before each new session, since another host may have retired it.
    ///
    /// # Errors
    /// The store's.
    async fn retired(&self, name: &str) -> Result<Option<String>, inspan_journal::Error> {
        let _ = name;
        Ok(None)
    }

    /// The name used when a session names none.
    fn default_name(&self) -> &str;

    /// All names, sorted: for the text of an error.
    fn names(&self) -> Vec<String>;
}
