//! The named harnesses that a host can place sessions on.

use std::sync::Arc;

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
}

/// Harnesses by name.
pub trait Catalog: Send + Sync + 'static {
    /// The harness of this name.
    fn agent(&self, name: &str) -> Option<Arc<Agent>>;

    /// The name used when a session names none.
    fn default_name(&self) -> &str;

    /// All names, sorted: for the text of an error.
    fn names(&self) -> Vec<String>;
}
