//! Everything that a host serves: what it brings itself, and what is registered in its store.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use inspan_engine::{Agent, Catalog, Model, Registered, Unserved};
use inspan_journal::{Registration, RegistrationQuery, Registrations};

use super::spec::{Place, Spec};
use crate::catalog::{RESERVED, Static, at_address};

/// Registrations that are read at once.
const PAGE: usize = 500;

/// The catalog of a host that has a store: its own harnesses and the registered ones.
///
/// Registered ones are read when it is made, and learnt as they are registered here. What another host registers on the same store
/// in the meantime is unknown here until then (R-REG-8). Since a spec never changes under its name, nothing that is known
/// ever has to be read again.
pub struct Directory {
    own: Static,
    model: Option<Arc<dyn Model>>,
    store: Arc<dyn Registrations>,
    routes: RwLock<BTreeMap<String, Route>>,
}

/// Where the sessions of a registered name go.
enum Route {
    Served(Arc<Agent>),
    /// Nowhere, and why (R-REG-5, R-REG-7).
    Unservable(String),
}

/// Why a host cannot start on what is registered in its store.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A row under a name that no registration may have (R-REG-4).
    #[error(
        "the store has a registration under {0}, which is the host's own name: this is not a store of this program's making"
    )]
    Reserved(String),
    /// Reading failed.
    #[error(transparent)]
    Store(#[from] inspan_journal::Error),
}

impl Directory {
    /// Reads what is registered in `store`. Registered harnesses send their model calls to `model`; without one they are
    /// listed and not served. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// [`LoadError`]. A registration that this host cannot use is no error: it is out of order by itself (R-REG-7).
    pub async fn load(
        own: Static,
        store: Arc<dyn Registrations>,
        model: Option<Arc<dyn Model>>,
    ) -> Result<Directory, LoadError> {
        let directory = Directory { own, model, store, routes: RwLock::default() };
        let mut after = String::new();
        loop {
            let query = RegistrationQuery { after, limit: PAGE, include_retired: true };
            let page = directory.store.registrations(query).await?;
            let Some(last) = page.last() else { return Ok(directory) };
            after = last.name.clone();
            for row in page {
                if RESERVED.contains(&row.name.as_str()) {
                    return Err(LoadError::Reserved(row.name));
                }
                let route = directory.route(&row);
                directory.set(&row.name, route);
            }
        }
    }

    pub(super) fn store(&self) -> &dyn Registrations {
        &*self.store
    }

    pub(super) fn own(&self) -> &Static {
        &self.own
    }

    /// Whether the host itself brings a harness of this name.
    pub(super) fn is_own(&self, name: &str) -> bool {
        self.own.agent(name).is_ok()
    }

    /// Why sessions of this name go nowhere.
    pub(super) fn refusal(&self, name: &str) -> Option<String> {
        match self.agent(name) {
            Err(Unserved::Unservable(why)) => Some(why),
            Ok(_) | Err(Unserved::Unknown) => None,
        }
    }

    /// Routes a name that has been registered here.
    pub(super) fn learn(&self, agent: Agent) {
        let name = agent.name.clone();
        self.set(&name, Route::Served(Arc::new(agent)));
    }

    /// Whether this host can serve what is registered.
    ///
    /// # Errors
    /// Why not, and what would help.
    pub(super) fn check(&self, spec: &Spec) -> Result<(), String> {
        self.means(spec).map(drop)
    }

    /// The harness of a spec. Nothing is dialled.
    ///
    /// # Errors
    /// As [`Directory::check`].
    pub(super) fn build(&self, name: &str, spec: &Spec) -> Result<Agent, String> {
        let (address, model) = self.means(spec)?;
        let agent = at_address(name, address, model);
        let registered = Registered { descriptor_id: spec.message.descriptor_id.clone() };
        Ok(Agent { executor: self.own.executor(), registered: Some(registered), ..agent })
    }

    fn means(&self, spec: &Spec) -> Result<(crate::catalog::HarnessAddress, Arc<dyn Model>), String> {
        let address = match &spec.place {
            Place::Remote(address) => address.clone(),
            Place::Substrate(space, template) => {
                return Err(format!(
                    "it is on a substrate ({space}, {template}), and this host has none: register a remote placement"
                ));
            }
        };
        match &self.model {
            Some(model) => Ok((address, Arc::clone(model))),
            None => {
                Err("its model calls go through this host, which has no model: start the host with --model".to_owned())
            }
        }
    }

    fn route(&self, row: &Registration) -> Route {
        if self.is_own(&row.name) {
            return Route::Unservable(format!(
                "harness {} is both registered and brought by this host itself: start the host without it, or with another name",
                row.name
            ));
        }
        match Spec::stored(row).and_then(|spec| self.build(&row.name, &spec)) {
            Ok(agent) => Route::Served(Arc::new(agent)),
            Err(why) => {
                tracing::warn!(harness = row.name, why, "a registered harness cannot be served");
                Route::Unservable(format!("harness {} cannot be served here: {why}", row.name))
            }
        }
    }

    fn set(&self, name: &str, route: Route) {
        // The map is whole between any two operations on it.
        self.routes.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), route);
    }
}

#[async_trait]
impl Catalog for Directory {
    fn agent(&self, name: &str) -> Result<Arc<Agent>, Unserved> {
        match self.routes.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            Some(Route::Served(agent)) => Ok(Arc::clone(agent)),
            Some(Route::Unservable(why)) => Err(Unserved::Unservable(why.clone())),
            None => self.own.agent(name),
        }
    }

    async fn retired(&self, name: &str) -> Result<Option<String>, inspan_journal::Error> {
        let row = self.store.registration(name).await?;
        Ok(row.and_then(|row| row.retired).map(|retired| retired.reason))
    }

    fn default_name(&self) -> &str {
        self.own.default_name()
    }

    fn names(&self) -> Vec<String> {
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        let registered =
            routes.iter().filter(|(_, route)| matches!(route, Route::Served(_))).map(|(name, _)| name.clone());
        let mut names: Vec<String> = self.own.names().into_iter().chain(registered).collect();
        names.sort_unstable();
        names
    }
}
