//! The harnesses that a host serves from its start to its end.

use std::collections::BTreeMap;
use std::sync::Arc;

use inspan_attach::InProcess;
use inspan_attach::grpc::Remote;
use inspan_engine::{Agent, Catalog, Executor, Model, Unserved};
use inspan_harness::Harness;
use inspan_harness::reference::{Chat, Echo};

pub use inspan_attach::grpc::{Address as HarnessAddress, BadAddress as BadHarnessAddress};

/// The name of the harness that every host has.
const ECHO: &str = "echo";

/// Names that a host gives to harnesses of its own, whether it has them or not: no other harness may have them (R-REG-4).
pub const RESERVED: [&str; 2] = ["chat", ECHO];

/// Harnesses by name, fixed when the host starts. `echo` is always there and is the default until
/// another one is chosen.
pub struct Static {
    agents: BTreeMap<String, Arc<Agent>>,
    default_name: String,
    /// The executor of agents that bring none of their own.
    executor: Option<Arc<dyn Executor>>,
}

impl Static {
    /// A catalog with `echo`, whose model calls go to `echo_model`.
    pub fn new(echo_model: Arc<dyn Model>) -> Static {
        let mut catalog = Static { agents: BTreeMap::new(), default_name: ECHO.to_owned(), executor: None };
        catalog.insert(in_process(ECHO, Echo, echo_model));
        catalog
    }

    /// Adds `chat`, which asks `provider` for the model `model`.
    #[must_use]
    pub fn with_chat(self, model: &str, provider: Arc<dyn Model>) -> Static {
        self.with(in_process("chat", Chat::new(model), provider))
    }

    /// Adds a harness, in place of one of the same name.
    #[must_use]
    pub fn with(mut self, agent: Agent) -> Static {
        self.insert(agent);
        self
    }

    /// Has `executor` run the tools of every harness that brings no executor of its own, whether it is here already
    /// or comes later.
    #[must_use]
    pub fn with_executor(mut self, executor: Arc<dyn Executor>) -> Static {
        self.executor = Some(executor);
        for agent in std::mem::take(&mut self.agents).into_values() {
            self.insert(Arc::unwrap_or_clone(agent));
        }
        self
    }

    /// Makes `name` the harness of sessions that name none; `None` when there is no such harness.
    #[must_use]
    pub fn with_default(mut self, name: &str) -> Option<Static> {
        self.agents.contains_key(name).then(|| {
            name.clone_into(&mut self.default_name);
            self
        })
    }

    /// What runs the tools of harnesses that bring no executor of their own.
    pub(crate) fn executor(&self) -> Option<Arc<dyn Executor>> {
        self.executor.clone()
    }

    fn insert(&mut self, mut agent: Agent) {
        agent.executor = agent.executor.or_else(|| self.executor.clone());
        self.agents.insert(agent.name.clone(), Arc::new(agent));
    }
}

/// A harness in this process under `name`. Nothing here keeps the memory of a process, so a harness
/// that needs that is refused when it is placed (R-CAP-1).
pub fn in_process(name: &str, harness: impl Harness, model: Arc<dyn Model>) -> Agent {
    Agent {
        name: name.to_owned(),
        harness: Arc::new(InProcess::new(harness)),
        model,
        executor: None,
        memory_snapshot: false,
        registered: None,
    }
}

/// A harness in another process under `name`. This host neither starts that process nor keeps its memory, so a
/// harness that needs that is refused when it is placed (R-CAP-1, R-REMOTE-4).
pub fn at_address(name: &str, address: HarnessAddress, model: Arc<dyn Model>) -> Agent {
    Agent {
        name: name.to_owned(),
        harness: Arc::new(Remote::new(address)),
        model,
        executor: None,
        memory_snapshot: false,
        registered: None,
    }
}

impl Catalog for Static {
    fn agent(&self, name: &str) -> Result<Arc<Agent>, Unserved> {
        self.agents.get(name).cloned().ok_or(Unserved::Unknown)
    }

    fn default_name(&self) -> &str {
        &self.default_name
    }

    fn names(&self) -> Vec<String> {
        self.agents.keys().cloned().collect()
    }
}
