//! `inspan serve`: the host.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use inspan_host::Settings;
use inspan_host::catalog::{Static, at_address};
use inspan_host::engine::{Catalog as _, Model, Policy};
use inspan_host::models::{Api, AuthHeader, BaseUrl, Echo, Key, Provider, Scripted};
use inspan_host::registry::Directory;
use inspan_host::server::{Address, BindError, Config, Registry, RegistryAddress, Server};
use inspan_host::tools::Rules;
use tokio::signal::unix::{SignalKind, signal};

use self::attached::Attached;
use super::version::VERSION;
use crate::client::{DEFAULT_JOURNAL, DEFAULT_PROJECT};
use crate::error::Error;
use crate::settings::Settings as CliSettings;
use crate::{logfmt, store};

mod attached;

/// Serve sessions over gRPC and HTTP until SIGINT or SIGTERM
///
/// The harness `echo` is always there; `chat` is there with --model or --model-script. A model's key comes from the
/// environment (MODEL_API_KEY, then OPENAI_API_KEY; with --model-api anthropic ANTHROPIC_API_KEY) or from a file, never from
/// the command line. Tools and policy are in inspan.toml.
#[derive(Debug, clap::Args)]
#[command(version, display_name = "inspan")]
pub(crate) struct Args {
    /// Where to listen: IP:PORT or unix:/path; port 0 is any free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    addr: Address,
    /// Listen also on an address that other machines can reach; there is no authentication yet
    #[arg(long)]
    insecure: bool,
    /// One more name that requests may use for this host; repeat for more
    #[arg(long = "allow-host", value_name = "HOST[:PORT]")]
    allowed_hosts: Vec<String>,
    /// Journal file
    #[arg(long, value_name = "FILE", default_value = DEFAULT_JOURNAL)]
    journal: PathBuf,
    /// Folder of large payloads; the journal's name with `-blobs` behind it when left out
    #[arg(long, value_name = "DIR")]
    blobs: Option<PathBuf>,
    /// Project of sessions that name none
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROJECT)]
    project: String,
    #[command(flatten)]
    model: ModelArgs,
    /// Configuration file of tools and policy; inspan.toml in this folder when left out and there
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What to log: error, warn, info, debug, trace, or a filter such as `inspan_host=debug`
    #[arg(long, value_name = "FILTER", default_value = "info")]
    log: String,
    /// Attach a harness in another process: HOST:PORT, dns:///HOST:PORT or unix:/path; needs a model, repeat for more
    #[arg(long = "harness", value_name = "NAME=ADDRESS")]
    harnesses: Vec<String>,
    /// Serve the harness registry too: a literal loopback IP and a port, 0 for any free one. Whoever reaches it decides
    /// which processes sessions run in; empty is off
    #[arg(long, value_name = "IP:PORT", default_value = "", hide_default_value = true)]
    registry_addr: String,
}

/// The model behind `chat`.
#[derive(Debug, clap::Args)]
struct ModelArgs {
    /// Model that chat asks for; empty means that there is no chat
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    model: String,
    /// What the provider speaks
    #[arg(long, value_name = "API", value_enum, default_value_t = ApiName::Openai)]
    model_api: ApiName,
    /// The provider's address; the API's own when left out
    #[arg(long, value_name = "URL")]
    model_base_url: Option<BaseUrl>,
    /// What follows the address; the API's own when left out
    #[arg(long, value_name = "PATH")]
    model_path: Option<String>,
    /// Header of the key; `Authorization` sends it as a bearer token, an empty name sends none
    #[arg(long, value_name = "NAME")]
    model_auth_header: Option<String>,
    /// File with the key, in place of the environment
    #[arg(long, value_name = "FILE")]
    model_key_file: Option<PathBuf>,
    /// Answer from a script (YAML) instead of a provider
    #[arg(long, value_name = "FILE", conflicts_with_all = ["model_api", "model_base_url", "model_path",
        "model_auth_header", "model_key_file"])]
    model_script: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ApiName {
    /// Chat Completions, also of compatible servers
    Openai,
    /// Messages
    Anthropic,
}

const HELP: &str = "inspan serve --help";
/// The message that says where a host listens. `address_of` and scripts look for it.
const LISTENING: &str = "inspan listening";

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    // Everything that can be refused is refused before the journal is opened.
    let registry_addr = check(&args)?;
    let model = args.model.choose(|name| std::env::var(name).ok())?;
    let attached = attached::read(&args.harnesses, model.is_some())?;
    let (catalog, provider, model) = catalog(model, attached);
    let configured = CliSettings::find(args.config.as_deref())?;
    let tools = configured.tools()?;
    let catalog = if tools.is_empty() { catalog } else { catalog.with_executor(Arc::new(tools.clone())) };
    let webhook = configured.webhook()?;
    logfmt::init(&args.log).map_err(|e| Error::usage(format!("--log {:?}: {e}", args.log), HELP))?;

    let blobs = args.blobs.unwrap_or_else(|| store::blobs_beside(&args.journal));
    let journal = store::open(&args.journal, &blobs)?;
    let directory = Directory::load(catalog, Arc::clone(&journal) as _, provider).await;
    let directory = Arc::new(directory.map_err(|e| Error::new(e.to_string(), "inspan serve --journal FILE"))?);
    let harnesses = format!("[{}]", directory.names().join(" "));
    let default_harness = directory.default_name().to_owned();
    let mut config = Config::new(args.addr, journal, Arc::clone(&directory) as _);
    config.registry = registry_addr.map(|address| Registry { address, directory });
    config.insecure = args.insecure;
    config.allowed_hosts = args.allowed_hosts;
    config.policy = policy(&configured);
    config.lanes = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    config.webhook = webhook.map(Arc::new);
    config.settings = Settings {
        default_project: args.project.clone(),
        scratch: Some(store::folder_of(&args.journal)),
        ..Settings::default()
    };
    if let Some(path) = &configured.path {
        let (servers, endpoints) = (configured.file.tools.mcp.len(), configured.file.tools.http.len());
        let rules = configured.file.policy.len();
        tracing::info!(file = %path.display(), servers, endpoints, rules, "configuration read");
    }
    let bound = Server::bind(config).await.map_err(|e| bind_error(&e))?;
    tools.record_late_with(bound.host().engine());
    let shutdown = shutdown().map_err(|e| Error::new(format!("listening for signals failed: {e}"), HELP))?;
    if let Some(addr) = bound.registry_address() {
        tracing::warn!(registry_addr = %addr, "operator registry listening: plaintext and unauthenticated");
    }
    tracing::info!(
        version = VERSION,
        addr = %bound.address(),
        journal = %args.journal.display(),
        project = args.project,
        harnesses,
        default_harness,
        model,
        "{LISTENING}"
    );
    if args.insecure {
        tracing::warn!("--insecure: whoever can reach this address can drive this host");
    }
    let stopped = bound.serve(shutdown).await;
    tools.close().await;
    if !stopped.drained {
        tracing::warn!("a turn did not reach a durable point in time: resume it as after a crash");
    }
    tracing::info!("stopped");
    Ok(())
}

/// The operator's rules; none is different from rules that speak of nothing only in that nobody is asked.
fn policy(configured: &CliSettings) -> Option<Arc<dyn Policy>> {
    let rules = &configured.file.policy;
    (!rules.is_empty()).then(|| Arc::new(Rules::new(rules.clone())) as _)
}

/// The address in a host's own log line that says it listens; `None` for every other line.
pub(crate) fn address_of(line: &str) -> Option<&str> {
    let (_, fields) = line.split_once(&format!("msg=\"{LISTENING}\""))?;
    fields.split(' ').find_map(|field| field.strip_prefix("addr="))
}

/// Refuses addresses that must not be; gives the registry's.
fn check(args: &Args) -> Result<Option<RegistryAddress>, Error> {
    if let Address::Tcp(addr) = &args.addr
        && !args.insecure
        && !addr.ip().to_canonical().is_loopback()
    {
        return Err(bind_error(&BindError::NotLoopback(*addr)));
    }
    if args.registry_addr.is_empty() {
        return Ok(None);
    }
    let refused = |why: &dyn std::fmt::Display| Error::usage(format!("--registry-addr: {why}"), HELP);
    let registry: RegistryAddress = args.registry_addr.parse().map_err(|e| refused(&e))?;
    if registry.is_that_of(&args.addr) {
        return Err(refused(&BindError::Shared(registry)));
    }
    Ok(Some(registry))
}

fn bind_error(e: &BindError) -> Error {
    let next = match e {
        BindError::NotLoopback(addr) => format!("inspan serve --addr 127.0.0.1:{}", addr.port()),
        BindError::InUse(_) => "inspan serve --addr 127.0.0.1:0".to_owned(),
        BindError::Shared(_) | BindError::Refused { .. } => HELP.to_owned(),
        BindError::NoThread(_) => "ulimit -u, then the command again".to_owned(),
    };
    Error::new(e.to_string(), next)
}

/// The model behind every harness but `echo`.
struct Chosen {
    name: String,
    model: Arc<dyn Model>,
    /// What the log says of it.
    shown: String,
}

/// The harnesses of this host, the model of those that are registered, and what the log says of it.
fn catalog(model: Option<Chosen>, attached: Vec<Attached>) -> (Static, Option<Arc<dyn Model>>, String) {
    let mut catalog = Static::new(Arc::new(Echo));
    let Some(Chosen { name, model, shown }) = model else { return (catalog, None, "echo (built-in)".to_owned()) };
    catalog = catalog.with_chat(&name, Arc::clone(&model));
    for Attached { name, address } in attached {
        catalog = catalog.with(at_address(&name, address, Arc::clone(&model)));
    }
    (catalog, Some(model), shown)
}

impl ModelArgs {
    /// The model that these flags name.
    fn choose(self, env: impl Fn(&str) -> Option<String>) -> Result<Option<Chosen>, Error> {
        if let Some(script) = &self.model_script {
            let scripted = Scripted::from_file(script);
            let scripted = scripted.map_err(|e| Error::new(e.to_string(), format!("ls -l {}", script.display())))?;
            let name = if self.model.is_empty() { "scripted".to_owned() } else { self.model };
            let shown = format!("{name} @ {}", script.display());
            return Ok(Some(Chosen { name, model: Arc::new(scripted), shown }));
        }
        if self.model.is_empty() {
            if self.names_a_provider() {
                return Err(Error::usage(
                    "the --model-… flags describe the provider of a model: name it with --model",
                    HELP,
                ));
            }
            return Ok(None);
        }
        let provider = self.provider(env)?;
        let shown = format!("{} @ {}{}", provider.model, provider.base_url, provider.path);
        let name = provider.model.clone();
        let model = inspan_host::models::build(provider).map_err(|e| Error::new(e.to_string(), HELP))?;
        Ok(Some(Chosen { name, model, shown }))
    }

    fn names_a_provider(&self) -> bool {
        self.model_base_url.is_some()
            || self.model_path.is_some()
            || self.model_auth_header.is_some()
            || self.model_key_file.is_some()
    }

    fn provider(self, env: impl Fn(&str) -> Option<String>) -> Result<Provider, Error> {
        let (api, names): (Api, &[&str]) = match self.model_api {
            ApiName::Openai => (Api::OpenAi, &["MODEL_API_KEY", "OPENAI_API_KEY"]),
            ApiName::Anthropic => (Api::Anthropic, &["MODEL_API_KEY", "ANTHROPIC_API_KEY"]),
        };
        let mut provider = Provider::new(api, self.model);
        if let Some(url) = self.model_base_url {
            provider.base_url = url;
        }
        if let Some(path) = self.model_path {
            provider.path = path;
        }
        if let Some(header) = &self.model_auth_header {
            provider.auth_header = AuthHeader::from_name(header);
        }
        provider.key = match &self.model_key_file {
            Some(file) => Some(key_from(file)?),
            None => Key::from_env(names, env),
        };
        Ok(provider)
    }
}

fn key_from(file: &Path) -> Result<Key, Error> {
    Key::from_file(file).map_err(|e| Error::new(e.to_string(), format!("ls -l {}", file.display())))
}

/// Resolves at the first SIGINT or SIGTERM.
pub(super) fn shutdown() -> std::io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        tracing::info!("shutting down");
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_back_from_the_log() {
        let line = "time=2030-01-31T12:00:00Z level=INFO msg=\"inspan listening\" version=1 addr=127.0.0.1:9 journal=x";
        assert_eq!(address_of(line), Some("127.0.0.1:9"));
        assert_eq!(address_of("level=INFO msg=\"shutting down\" addr=1"), None);
    }
}
