//! The executors of this host: MCP servers and HTTP endpoints, as one.
//!
//! Which of them has a tool is decided by the tool's name alone, never by who is up: a call that is driven again goes to
//! where it went the first time.

mod http;
mod json;
mod late;
mod mcp;
mod outside;
mod policy;
mod secrets;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use inspan_engine::{Engine, Executor, ReplayRule, ToolError, ToolRun};
use inspan_wire::v1;

use crate::config::{Place, ToolsConfig};
use http::Endpoint;
use late::Late;
use mcp::Server;

pub use policy::Rules;

/// Every tool that a configuration names. Cheap to clone; MCP servers start when the first of their tools is asked for.
#[derive(Clone)]
pub struct Tools {
    inner: Arc<Inner>,
}

struct Inner {
    endpoints: BTreeMap<String, Arc<Endpoint>>,
    servers: Vec<Server>,
    late: Late,
}

/// A tool, as sessions see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// The name by which sessions call it.
    pub name: String,
    /// What may be done with a call whose outcome is unknown.
    pub replay: ReplayRule,
    /// What it does, in the words of whoever made it.
    pub description: String,
    /// JSON schema of its arguments, when it has one.
    pub input_schema: Option<serde_json::Value>,
}

/// What one server has. The HTTP endpoints count as one server, `http`.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    /// The server's name.
    pub server: String,
    /// Its tools by name, or why they cannot be had.
    pub tools: Result<Vec<Listed>, String>,
}

/// The name under which HTTP endpoints are listed.
const HTTP: &str = "http";

/// A tool that some executor has.
enum Route<'t> {
    Endpoint(&'t Arc<Endpoint>),
    /// The server and its own name of the tool.
    Server(&'t Server, &'t str),
}

impl Tools {
    /// Reads the secrets that `config` names; `env` looks up an environment variable. Connects to nothing yet.
    ///
    /// # Errors
    /// A variable is not set or a key file cannot be read; there are no root certificates for an https address. The text
    /// names the tool or the server, and never shows a secret.
    pub fn new(config: &ToolsConfig, env: &dyn Fn(&str) -> Option<String>) -> Result<Tools, String> {
        let https = config.http.iter().any(|tool| tool.url.is_https())
            || config.mcp.iter().any(|server| matches!(&server.place, Place::Http { url, .. } if url.is_https()));
        let client = Arc::new(outside::client(https)?);
        let mut endpoints = BTreeMap::new();
        for tool in &config.http {
            let endpoint = Endpoint::new(tool.clone(), env, Arc::clone(&client))?;
            endpoints.insert(tool.name.clone(), Arc::new(endpoint));
        }
        let servers = config.mcp.iter().map(|server| Server::new(server.clone(), env, &client));
        let servers = servers.collect::<Result<_, _>>()?;
        Ok(Tools { inner: Arc::new(Inner { endpoints, servers, late: Late::default() }) })
    }

    /// Has answers that come after their call was given up recorded by `engine`, whose executor this is. Until
    /// [`Tools::close`] they hold on to each other.
    pub fn record_late_with(&self, engine: &Engine) {
        self.inner.late.by(Some(engine.clone()));
    }

    /// Whether there is no tool and no server.
    pub fn is_empty(&self) -> bool {
        self.inner.endpoints.is_empty() && self.inner.servers.is_empty()
    }

    /// Every tool, by server in the order of the configuration. Starts the servers that are not running; asks all of
    /// them at once.
    pub async fn list(&self) -> Vec<Listing> {
        let mut listings = Vec::new();
        if !self.inner.endpoints.is_empty() {
            let tools = self.inner.endpoints.values().map(|endpoint| endpoint.listed()).collect();
            listings.push(Listing { server: HTTP.to_owned(), tools: Ok(tools) });
        }
        let asked = self.inner.servers.iter().map(|server| async move {
            let tools = server.list().await.map(|tools| {
                // An endpoint of the same name is the one that runs.
                tools.into_iter().filter(|tool| !self.inner.endpoints.contains_key(&tool.name)).collect()
            });
            Listing { server: server.name().to_owned(), tools }
        });
        listings.extend(futures_util::future::join_all(asked).await);
        listings
    }

    /// Ends every server that was started; calls that are under way end with an unknown outcome.
    pub async fn close(&self) {
        self.inner.late.by(None);
        futures_util::future::join_all(self.inner.servers.iter().map(Server::close)).await;
    }

    fn route<'t>(&'t self, tool: &'t str) -> Option<Route<'t>> {
        if let Some(endpoint) = self.inner.endpoints.get(tool) {
            return Some(Route::Endpoint(endpoint));
        }
        self.inner.servers.iter().find_map(|server| Some(Route::Server(server, server.own_name(tool)?)))
    }

    /// What to say of a tool that nobody has.
    async fn unknown(&self, tool: &str) -> ToolError {
        let (mut known, mut silent) = (Vec::new(), Vec::new());
        for listing in self.list().await {
            match listing.tools {
                Ok(tools) => known.extend(tools.into_iter().map(|tool| tool.name)),
                Err(_) => silent.push(listing.server),
            }
        }
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let mut text = format!("there is no tool {tool:?} on this host; its tools are: {known}");
        if !silent.is_empty() {
            text.push_str(&format!("; these servers could not be asked: {}", silent.join(", ")));
        }
        ToolError::NotSent(text)
    }
}

#[async_trait]
impl Executor for Tools {
    fn replay_rule(&self, tool: &str) -> ReplayRule {
        match self.route(tool) {
            Some(Route::Endpoint(endpoint)) => endpoint.rule(),
            Some(Route::Server(server, own)) => server.rule(own),
            // It may have been another configuration's tool: whether it can be repeated is not for us to say.
            None => ReplayRule::Ask,
        }
    }

    async fn run(&self, run: ToolRun) -> Result<v1::ToolResult, ToolError> {
        match self.route(&run.call.tool) {
            Some(Route::Endpoint(endpoint)) => endpoint.run(run.clone(), &self.inner.late).await,
            Some(Route::Server(server, own)) => match server.run(own, &run).await {
                Some(answered) => answered,
                None => Err(self.unknown(&run.call.tool).await),
            },
            None => Err(self.unknown(&run.call.tool).await),
        }
    }
}
