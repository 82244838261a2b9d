//! The author's side of `Harness.Connect`: a harness in a process of its own.
//!
//! A host reaches it at its address, asks what it is, and drives one turn over each stream. The code of the harness
//! is the same as in the host's process: its sink is on the other end of the stream here, so every effect is still
//! recorded before it happens.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use inspan_harness::{reference::Echo, serve};
//!
//! let listener = serve::Listener::bind(&"127.0.0.1:8090".parse()?).await?;
//! serve::serve(Echo, listener, std::future::pending()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! In reading order: `address` and `listen` (with `socket`, the care that a Unix socket needs), `service`, `turn`
//! drives one stream, `sink` is the harness's view of it.

use std::time::Duration;

use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

mod address;
mod listen;
mod service;
mod sink;
mod socket;
mod turn;

/// The generated server of `agentsessions.v1.Harness`.
#[allow(missing_docs, clippy::all, unreachable_pub, reason = "generated: its documentation is the .proto files")]
mod proto {
    include!("../gen/agentsessions.v1.rs");
}

pub use address::{Address, BadAddress};
pub use listen::{BindError, Listener};
pub use service::Service;

/// Bytes of one message on the stream, in both directions: Start carries the whole history of a session, which is far
/// more than gRPC's usual 4 MiB.
pub const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// Turns that one connection may carry at once; more wait for one of them to end.
const STREAMS_MAX: u32 = 4096;
/// Silence of a connection after which the host is asked whether it is still there.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(60);
/// How long it may take to say so.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long running turns may take to end once the server stops.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// Why serving ended early.
#[derive(Debug, thiserror::Error)]
#[error("serving the harness failed: {0}")]
pub struct ServeError(#[from] tonic::transport::Error);

/// Serves `harness` until `stop` resolves. Then no new turn is taken; running ones may take up to ten seconds to end.
/// A turn that has not ended then is lost with this process, and the host resumes it from the journal.
///
/// # Errors
/// [`ServeError`] when the listener breaks.
pub async fn serve(
    harness: impl crate::Harness,
    listener: Listener,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let (stopping, stopped) = tokio::sync::oneshot::channel();
    let stop = async {
        stop.await;
        // Nobody listens any more when the server broke first.
        let _ = stopping.send(());
    };
    let router = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .http2_adaptive_window(Some(true))
        .max_concurrent_streams(Some(STREAMS_MAX))
        .add_service(Service::new(harness).into_server());
    let served = async {
        match listener.kind {
            listen::Kind::Tcp(listener) => {
                // Frames are small and each is waited for.
                let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
                router.serve_with_incoming_shutdown(incoming, stop).await
            }
            listen::Kind::Unix(listener, _file) => {
                let incoming = tokio_stream::wrappers::UnixListenerStream::new(listener);
                router.serve_with_incoming_shutdown(incoming, stop).await
            }
        }
    };
    tokio::select! {
        served = served => Ok(served?),
        () = overdue(stopped) => Ok(()),
    }
}

#[expect(clippy::disallowed_methods, reason = "a server is the rim: its patience is not a turn's time")]
async fn overdue(stopped: tokio::sync::oneshot::Receiver<()>) {
    match stopped.await {
        Ok(()) => tokio::time::sleep(STOP_WITHIN).await,
        Err(_) => std::future::pending().await,
    }
}
