//! An MCP server: connected when it is first needed, connected again when it has gone.

mod process;
mod result;
mod streamable;

use std::sync::Arc;
use std::time::Duration;

use inspan_engine::{ReplayRule, ToolError, ToolRun};
use inspan_models::http::{chain, one_line};
use inspan_wire::v1;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, Implementation, RequestMetaObject, Tool,
};
use rmcp::service::{RunningService, ServiceError};
use rmcp::{RoleClient, ServiceExt as _};
use tokio::sync::Mutex;

use super::outside::Outside;
use super::secrets::Secrets;
use super::{Listed, json};
use crate::config::{McpServer, Place};
use process::Process;
use streamable::Endpoint;

/// The key of `_meta` under which a server finds the name of this effect: the same in every run of one call, and in no
/// other call of any session.
const EFFECT_KEY: &str = "inspan/effect-key";
/// The key of `_meta` under which a server finds the harness's own key of the call, which other sessions may use too.
const IDEMPOTENCY_KEY: &str = "inspan/idempotency-key";

/// How long a server may take to end before it is killed.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// A connected server.
type Client = RunningService<RoleClient, ClientConfig>;

/// One server of the configuration.
pub(super) struct Server {
    config: McpServer,
    reach: Reach,
    secrets: Secrets,
    link: Mutex<Option<Arc<Link>>>,
}

/// How a connection is made, secrets included.
enum Reach {
    Process(Process),
    Endpoint(Endpoint),
}

/// A connection and what the server said that it has. Dropped, it ends the server.
struct Link {
    client: Client,
    tools: Mutex<Arc<[Tool]>>,
}

impl Link {
    fn is_up(&self) -> bool {
        !self.client.is_closed() && !self.client.peer().is_transport_closed()
    }
}

impl Server {
    /// Reads the secrets that `config` names. Starts nothing yet.
    pub(super) fn new(
        config: McpServer,
        env: &dyn Fn(&str) -> Option<String>,
        client: &Arc<Outside>,
    ) -> Result<Server, String> {
        let of = |e: String| format!("tool server {}: {e}", config.name);
        let (reach, secrets) = match &config.place {
            Place::Command { command, env: set, env_from } => {
                let (process, secrets) = Process::new(&config.name, command, set, env_from, env).map_err(of)?;
                (Reach::Process(process), secrets)
            }
            Place::Http { url, headers } => {
                let (endpoint, secrets) = Endpoint::new(url, headers, env, client).map_err(of)?;
                (Reach::Endpoint(endpoint), secrets)
            }
        };
        Ok(Server { config, reach, secrets, link: Mutex::new(None) })
    }

    pub(super) fn name(&self) -> &str {
        &self.config.name
    }

    pub(super) fn own_name<'t>(&self, tool: &'t str) -> Option<&'t str> {
        self.config.own_name(tool)
    }

    /// What a server's hints say of a tool is its own claim about itself, so only the operator's word counts.
    pub(super) fn rule(&self, own: &str) -> ReplayRule {
        self.config.rule(own)
    }

    /// The tools that sessions may use, asked for anew.
    pub(super) async fn list(&self) -> Result<Vec<Listed>, String> {
        let link = self.link().await?;
        let tools = self.refresh(&link).await?;
        let exposed = tools.iter().filter(|tool| self.config.exposes(&tool.name));
        let mut listed: Vec<Listed> = exposed
            .map(|tool| Listed {
                name: format!("{}{}", self.config.prefix, tool.name),
                replay: self.rule(&tool.name),
                description: tool.description.as_deref().unwrap_or_default().to_owned(),
                input_schema: Some(serde_json::Value::Object((*tool.input_schema).clone())),
            })
            .collect();
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(listed)
    }

    /// One call; `None` when the server has no such tool.
    pub(super) async fn run(&self, own: &str, run: &ToolRun) -> Option<Result<v1::ToolResult, ToolError>> {
        let link = match self.link().await {
            Ok(link) => link,
            Err(e) => return Some(Err(ToolError::NotSent(e))),
        };
        match self.has(&link, own).await {
            Ok(true) => {}
            Ok(false) => return None,
            Err(e) => return Some(Err(ToolError::NotSent(e))),
        }
        let params = match params(own, run) {
            Ok(params) => params,
            Err(e) => return Some(Err(ToolError::NotSent(self.say(&e)))),
        };
        // A future that is dropped here, by the bound or with the whole turn, tells the server so.
        let answered = tokio::time::timeout(self.config.timeout, link.client.call_tool_once(params)).await;
        Some(match answered {
            Ok(answered) => self.judge(own, answered).map(|mut result| {
                self.secrets.mask_result(&mut result);
                result
            }),
            Err(_) => {
                let seconds = self.config.timeout.as_secs_f64();
                Err(ToolError::Unknown(self.say(&format!("gave no answer to {own} within {seconds} s"))))
            }
        })
    }

    /// Ends the server when it runs. The next call starts it again.
    pub(super) async fn close(&self) {
        let Some(link) = self.link.lock().await.take() else { return };
        match Arc::try_unwrap(link) {
            // How a server ends is its own affair.
            Ok(mut link) => drop(link.client.close_with_timeout(CLOSE_WITHIN).await),
            Err(shared) => shared.client.cancellation_token().cancel(),
        }
    }

    /// The connection, made when there is none. One caller makes it, the others wait.
    async fn link(&self) -> Result<Arc<Link>, String> {
        let mut held = self.link.lock().await;
        if let Some(link) = held.as_ref().filter(|link| link.is_up()) {
            return Ok(Arc::clone(link));
        }
        *held = None;
        let limit = self.config.start_timeout;
        let connected = tokio::time::timeout(limit, self.connect()).await;
        let link = connected.map_err(|_| self.say(&format!("did not start within {} s", limit.as_secs_f64())))??;
        let link = Arc::new(link);
        *held = Some(Arc::clone(&link));
        Ok(link)
    }

    async fn connect(&self) -> Result<Link, String> {
        let ourselves = Implementation::new("inspan", env!("CARGO_PKG_VERSION"));
        let info = ClientConfig::new(ClientCapabilities::default(), ourselves);
        let client = match &self.reach {
            Reach::Process(process) => info.serve(process.start().map_err(|e| self.say(&e))?).await,
            Reach::Endpoint(endpoint) => info.serve(endpoint.transport()).await,
        };
        let client = client.map_err(|e| self.say(&format!("did not start: {}", one_line(&chain(&e)))))?;
        let link = Link { client, tools: Mutex::new(Arc::from([])) };
        self.refresh(&link).await?;
        tracing::info!(server = self.config.name, "tool server connected");
        Ok(link)
    }

    async fn refresh(&self, link: &Link) -> Result<Arc<[Tool]>, String> {
        let mut held = link.tools.lock().await;
        let asked = tokio::time::timeout(self.config.start_timeout, link.client.list_all_tools()).await;
        let asked = asked.map_err(|_| self.say("did not say in time which tools it has"))?;
        let tools =
            asked.map_err(|e| self.say(&format!("did not say which tools it has: {}", one_line(&chain(&e)))))?;
        *held = tools.into();
        Ok(Arc::clone(&held))
    }

    /// Whether the server has the tool: it may have got it since it was asked.
    async fn has(&self, link: &Link, own: &str) -> Result<bool, String> {
        let known = |tools: &[Tool]| tools.iter().any(|tool| tool.name == own);
        Ok(known(&link.tools.lock().await.clone()) || known(&self.refresh(link).await?))
    }

    fn judge(&self, own: &str, answered: Result<CallToolResponse, ServiceError>) -> Result<v1::ToolResult, ToolError> {
        match answered {
            Ok(CallToolResponse::Complete(result)) => Ok(result::of(result)),
            // Neither was offered: what the tool has done until now is not known.
            Ok(CallToolResponse::InputRequired(_)) => {
                Err(ToolError::Unknown(self.say(&format!("asks for more input in {own}, which this host cannot give"))))
            }
            Ok(_) => Err(ToolError::Unknown(self.say(&format!("made {own} a task, which this host did not ask for")))),
            // The server has spoken: it refused the call, or the call failed.
            Err(ServiceError::McpError(e)) => {
                Ok(result::error(self.say(&format!("answered {}", one_line(&e.message)))))
            }
            Err(e) => match streamable::failure(&e) {
                Some(streamable::Failure::NotSent(text)) => Err(ToolError::NotSent(self.say(&one_line(text)))),
                Some(streamable::Failure::Refused(text)) => Ok(result::error(self.say(&one_line(text)))),
                None => {
                    let text = format!("was lost in the middle of {own}: {}", one_line(&chain(&e)));
                    Err(ToolError::Unknown(self.say(&text)))
                }
            },
        }
    }

    /// A fragment that says which server it is about.
    fn say(&self, what: &str) -> String {
        self.secrets.mask(format!("tool server {} {what}", self.config.name))
    }
}

fn params(own: &str, run: &ToolRun) -> Result<CallToolRequestParams, String> {
    let mut params = CallToolRequestParams::new(own.to_owned());
    params.arguments = Some(json::arguments(run.call.args.as_ref())?);
    let mut meta = RequestMetaObject::new();
    meta.insert(EFFECT_KEY.to_owned(), run.effect_key().into());
    meta.insert(IDEMPOTENCY_KEY.to_owned(), run.call.idempotency_key.clone().into());
    params.meta = Some(meta);
    Ok(params)
}
