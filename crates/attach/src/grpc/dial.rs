//! The one way to a harness's address.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tonic::transport::{Channel, Endpoint};
use tower_service::Service;

use super::Settings;
use super::address::{Address, Target};

/// How often an idle TCP connection is probed by the system: what notices a machine that is gone.
const TCP_PROBE: Duration = Duration::from_secs(30);

/// A channel to `address`. It connects at the first call, and again at the first call after a connection is lost: a
/// harness that is back is noticed by the next call, so nothing has to be tried in the background.
///
/// Must be called in a tokio runtime. A silent connection with turns on it is asked from time to time whether somebody is there. Not more often than
/// the servers of the field put up with: they close a connection that pings without data more than once in five minutes.
pub fn channel(address: &Address, settings: &Settings) -> Channel {
    let authority = match address.target() {
        Target::Tcp { host, port } if host.contains(':') => format!("[{host}]:{port}"),
        Target::Tcp { host, port } => format!("{host}:{port}"),
        Target::Unix(_) => "localhost".to_owned(),
    };
    let endpoint = Endpoint::from_shared(format!("http://{authority}"))
        .unwrap_or_else(|_| Endpoint::from_static("http://harness"))
        .connect_timeout(settings.connect_within)
        .http2_keep_alive_interval(settings.ping_after)
        .keep_alive_timeout(settings.ping_within)
        .keep_alive_while_idle(false)
        .http2_adaptive_window(true);
    endpoint.connect_with_connector_lazy(Connector(address.target().clone()))
}

/// Connects to one target, whatever it is asked for.
#[derive(Clone)]
struct Connector(Target);

impl Service<Uri> for Connector {
    type Response = TokioIo<Box<dyn Io>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<Box<dyn Io>>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let target = self.0.clone();
        Box::pin(async move { connect(&target).await.map(TokioIo::new) })
    }
}

async fn connect(target: &Target) -> io::Result<Box<dyn Io>> {
    match target {
        Target::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            // Frames are small and each is waited for.
            stream.set_nodelay(true)?;
            let probe = socket2::TcpKeepalive::new().with_time(TCP_PROBE).with_interval(TCP_PROBE);
            socket2::SockRef::from(&stream).set_tcp_keepalive(&probe)?;
            Ok(Box::new(stream))
        }
        Target::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
    }
}

/// A connection of either kind.
trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}
