//! The server: one listener for both spellings, one for the operator's registry where it is wanted, a graceful stop.

mod config;
mod lanes;
mod listen;

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use inspan_engine::{Engine, Limits};
use inspan_models::request_id;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tonic_health::server::HealthReporter;

pub use config::{Address, BadAddress, BadRegistryAddress, BindError, Config, Registry, RegistryAddress};
use lanes::Lanes;
use listen::{Accepted, Listener};

use crate::guard::Guard;
use crate::hub::Hub;
use crate::registry::{self, Registrar};
use crate::system::System;
use crate::trace::Line;
use crate::webhook::{self, Webhook};
use crate::{Host, expiry, grpc, http};

/// Streams that one connection may have open.
const STREAMS_MAX: u32 = 1024;
/// Silence of a connection after which it is asked whether it is still there.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
/// How long it may take to say so.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the head of an HTTP/1 request may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of the head of a request.
const HEAD_BYTES_MAX: u32 = 64 << 10;
/// Connections to the registry at once; more wait.
const REGISTRY_CONNECTIONS_MAX: usize = 64;
/// How long connections may take to send what they have, after the last turn.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// A host that can be bound to an address.
#[derive(Debug, Clone, Copy)]
pub struct Server;

/// A server that has its address and serves nobody yet.
pub struct Bound {
    sessions: Port,
    registry: Option<Port>,
    host: Arc<Host>,
    health: HealthReporter,
    webhook: Option<Arc<Webhook>>,
    stop_within: Duration,
}

impl Server {
    /// Builds the host that `config` says and takes its address.
    ///
    /// # Errors
    /// [`BindError`]: an address that others can reach without the operator's word for it, or one
    /// that cannot be had.
    pub async fn bind(config: Config) -> Result<Bound, BindError> {
        if let Some(registry) = &config.registry
            && registry.address.is_that_of(&config.address)
        {
            return Err(BindError::Shared(registry.address));
        }
        let (listener, address) = Listener::bind(&config.address, config.insecure).await?;
        let registry = match config.registry {
            Some(registry) => Some(bind_registry(registry, &config.limits).await?),
            None => None,
        };
        let lanes = Lanes::start(config.lanes).map_err(BindError::NoThread)?;
        let guard = Guard::new(address.reach(), config.allowed_hosts);
        let hub = Arc::new(Hub::new(config.ring));
        let engine =
            Engine::new(config.journal, Arc::new(System), config.catalog, Arc::clone(&hub) as _, config.limits);
        let engine = match config.policy {
            Some(policy) => engine.with_policy(policy),
            None => engine,
        };
        let host = Arc::new(Host::new(engine, hub, config.settings));
        let (routes, health) = grpc::routes(&host).await;
        let router = router(routes.into_axum_router(), &host, guard);
        let sessions = Port { listener, address, router, connections_max: config.connections_max, lanes };
        let (webhook, stop_within) = (config.webhook, config.stop_within);
        Ok(Bound { sessions, registry, host, health, webhook, stop_within })
    }
}

async fn bind_registry(registry: Registry, limits: &Limits) -> Result<Port, BindError> {
    // Nobody's word opens it to other machines.
    let (listener, address) = Listener::bind(&registry.address.listen(), false).await?;
    let guard = Guard::new(address.reach(), Vec::new());
    let within = Duration::from_nanos(u64::try_from(limits.describe_ns_max).unwrap_or_default());
    let routes = registry::router(Registrar::new(registry.directory, within)).await;
    // On this runtime, which outlives every lane: the way to a harness that is registered stays on it.
    let lanes = Lanes::start(0).map_err(BindError::NoThread)?;
    let router = guarded(routes, guard);
    Ok(Port { listener, address, router, connections_max: REGISTRY_CONNECTIONS_MAX, lanes })
}

/// gRPC and HTTP side by side, behind the guard.
fn router(grpc: Router, host: &Arc<Host>, guard: Guard) -> Router {
    guarded(grpc.reset_fallback().merge(http::router(Arc::clone(host))).fallback(http::no_route), guard)
}

/// Routes that the guard stands before, each request with its line in the log.
fn guarded(routes: Router, guard: Guard) -> Router {
    let guard = Arc::new(guard);
    routes.layer(axum::middleware::from_fn(move |mut request: Request, next: axum::middleware::Next| {
        let guard = Arc::clone(&guard);
        async move {
            let line = Line::begin(&mut request);
            let response = match guard.check(&request) {
                Ok(()) => request_id::within(line.id().clone(), next.run(request)).await,
                Err(why) => refused(&request, why),
            };
            Ok::<_, Infallible>(line.follow(fenced_in(response)))
        }
    }))
}

fn refused(request: &Request, why: String) -> Response {
    if !http::is_grpc(request) {
        return http::Refusal::forbidden(why).into_response();
    }
    let mut response = tonic::Status::permission_denied(why).into_http::<axum::body::Body>();
    *response.status_mut() = axum::http::StatusCode::FORBIDDEN;
    response
}

/// Tells browsers to take an answer for what it says it is, and to keep it from other sites' pages.
fn fenced_in(mut response: Response) -> Response {
    use axum::http::HeaderValue;
    let headers = response.headers_mut();
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

impl Bound {
    /// The address that clients use; a port 0 in the configuration is a real one here.
    pub fn address(&self) -> &Address {
        &self.sessions.address
    }

    /// The address of the registry, where there is one.
    pub fn registry_address(&self) -> Option<&Address> {
        self.registry.as_ref().map(|registry| &registry.address)
    }

    /// The host that answers: for who serves and drives in one process.
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// Serves until `shutdown` resolves; then takes no new work, lets running turns reach a durable
    /// point within the configured time, ends the streams and closes.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Stopped {
        let Bound { sessions, registry, host, health, webhook, stop_within } = self;
        // They end with this, when they are dropped.
        let mut beside = JoinSet::new();
        beside.spawn(expiry::run(Arc::clone(&host), host.hub().asked()));
        if let Some(webhook) = webhook {
            beside.spawn(webhook::run(Arc::clone(&host), webhook, host.hub().asked()));
        }
        let shutdown = shutdown.shared();
        let registry = async {
            match registry {
                Some(registry) => Some(registry.accept_until(shutdown.clone()).await),
                None => None,
            }
        };
        let (sessions, registry) = tokio::join!(sessions.accept_until(shutdown.clone()), registry);
        grpc::stop_serving(&health).await;
        // Connections stay open: viewers see the end of the turns that they follow.
        let drained = host.stop(stop_within).await;
        let registry = async {
            match registry {
                Some(registry) => registry.close().await,
                None => true,
            }
        };
        let (sessions, registry) = tokio::join!(sessions.close(), registry);
        beside.shutdown().await;
        Stopped { drained, closed: sessions && registry }
    }
}

/// A listener and what answers there.
struct Port {
    listener: Listener,
    address: Address,
    router: Router,
    /// Connections at once; more wait.
    connections_max: usize,
    lanes: Lanes,
}

impl Port {
    /// Accepts connections until `shutdown` resolves, then gives the listener up.
    async fn accept_until(self, shutdown: impl Future<Output = ()>) -> Connections {
        let Port { listener, address: _, router, connections_max, lanes } = self;
        let slots = Arc::new(Semaphore::new(connections_max));
        let mut open = Connections { graceful: GracefulShutdown::new(), tasks: JoinSet::new(), lanes };
        tokio::pin!(shutdown);
        loop {
            let accept = async {
                let slot = Arc::clone(&slots).acquire_owned().await.expect("the semaphore is never closed");
                (listener.accept().await, slot)
            };
            tokio::select! {
                () = &mut shutdown => return open,
                (connection, slot) = accept => {
                    let served = serve_connection(connection, router.clone(), open.graceful.watcher());
                    let place = open.lanes.place();
                    let lane = place.handle.clone();
                    open.tasks.spawn_on(
                        async move {
                            served.await;
                            drop((slot, place));
                        },
                        &lane,
                    );
                }
                // Finished tasks are let go of as they finish.
                Some(_) = open.tasks.join_next() => {}
            }
        }
    }
}

/// The connections of a port that accepts no more.
struct Connections {
    graceful: GracefulShutdown,
    tasks: JoinSet<()>,
    lanes: Lanes,
}

impl Connections {
    /// Lets them send what they have; false when one of them took too long.
    async fn close(mut self) -> bool {
        let closed = tokio::time::timeout(CLOSE_WITHIN, self.graceful.shutdown()).await.is_ok();
        self.tasks.shutdown().await;
        self.lanes.stop().await;
        closed
    }
}

/// How a server stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// Whether every running turn reached a durable point in time. One that did not is resumed like
    /// after a crash.
    pub drained: bool,
    /// Whether every connection sent all it had in time.
    pub closed: bool,
}

/// Serves a connection on the runtime that polls this first.
async fn serve_connection(accepted: Accepted, router: Router, graceful: Watcher) {
    let connection = match accepted.adopt() {
        Ok(connection) => connection,
        Err(error) => {
            tracing::warn!(%error, "a connection was lost");
            return;
        }
    };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_BYTES_MAX as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX)
        .adaptive_window(true)
        .keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT);
    let served = builder.serve_connection(TokioIo::new(connection), TowerToHyperService::new(router)).into_owned();
    if let Err(error) = graceful.watch(served).await {
        tracing::debug!(%error, "connection");
    }
}
