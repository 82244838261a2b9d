//! The server: one listener, both spellings, a graceful stop.

mod config;
mod listen;

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use inspan_engine::Engine;
use inspan_models::request_id;
use tokio::sync::Semaphore;
use tonic_health::server::HealthReporter;

pub use config::{Address, BadAddress, BindError, Config};
use listen::{Connection, Listener};

use crate::guard::Guard;
use crate::hub::Hub;
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
/// How long connections may take to send what they have, after the last turn.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// A host that can be bound to an address.
#[derive(Debug, Clone, Copy)]
pub struct Server;

/// A server that has its address and serves nobody yet.
pub struct Bound {
    listener: Listener,
    address: Address,
    host: Arc<Host>,
    router: Router,
    health: HealthReporter,
    webhook: Option<Arc<Webhook>>,
    stop_within: Duration,
    connections_max: usize,
}

impl Server {
    /// Builds the host that `config` says and takes its address.
    ///
    /// # Errors
    /// [`BindError`]: an address that others can reach without the operator's word for it, or one
    /// that cannot be had.
    pub async fn bind(config: Config) -> Result<Bound, BindError> {
        let (listener, address) = Listener::bind(&config.address, config.insecure).await?;
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
        Ok(Bound {
            listener,
            address,
            host,
            router,
            health,
            webhook: config.webhook,
            stop_within: config.stop_within,
            connections_max: config.connections_max,
        })
    }
}

/// gRPC and HTTP side by side, behind the guard.
fn router(grpc: Router, host: &Arc<Host>, guard: Guard) -> Router {
    let routes = grpc.reset_fallback().merge(http::router(Arc::clone(host))).fallback(http::no_route);
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
        &self.address
    }

    /// The host that answers: for who serves and drives in one process.
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// Serves until `shutdown` resolves; then takes no new work, lets running turns reach a durable
    /// point within the configured time, ends the streams and closes.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Stopped {
        let Bound { listener, address: _, host, router, health, webhook, stop_within, connections_max } = self;
        let slots = Arc::new(Semaphore::new(connections_max));
        let graceful = GracefulShutdown::new();
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(expiry::run(Arc::clone(&host), host.hub().asked()));
        if let Some(webhook) = webhook {
            tasks.spawn(webhook::run(Arc::clone(&host), webhook, host.hub().asked()));
        }
        tokio::pin!(shutdown);
        loop {
            let accept = async {
                let slot = Arc::clone(&slots).acquire_owned().await.expect("the semaphore is never closed");
                (listener.accept().await, slot)
            };
            tokio::select! {
                () = &mut shutdown => break,
                (connection, slot) = accept => {
                    let served = serve_connection(connection, router.clone(), &graceful);
                    tasks.spawn(async move {
                        served.await;
                        drop(slot);
                    });
                }
                // Finished tasks are let go of as they finish.
                Some(_) = tasks.join_next() => {}
            }
        }
        drop(listener);
        grpc::stop_serving(&health).await;
        // Connections stay open: viewers see the end of the turns that they follow.
        let drained = host.stop(stop_within).await;
        let closed = tokio::time::timeout(CLOSE_WITHIN, graceful.shutdown()).await.is_ok();
        tasks.shutdown().await;
        Stopped { drained, closed }
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

fn serve_connection(
    connection: Connection,
    router: Router,
    graceful: &GracefulShutdown,
) -> impl Future<Output = ()> + Send + 'static {
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
    let watched = graceful.watch(served);
    async move {
        if let Err(error) = watched.await {
            tracing::debug!(%error, "connection");
        }
    }
}
