//! Listeners: TCP and Unix sockets behind one face.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::config::{Address, BindError, is_loopback};

/// How long to wait when the system is out of something that a connection needs.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listener of either kind.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix { listener: UnixListener, _file: SocketFile },
}

/// The file of a Unix socket; it goes with its listener.
pub(super) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A file that is gone already is what is wanted.
        drop(std::fs::remove_file(&self.0));
    }
}

impl Listener {
    /// Takes `address`; answers with the one that it got.
    pub(super) async fn bind(address: &Address, insecure: bool) -> Result<(Listener, Address), BindError> {
        let failed = |cause: io::Error| match cause.kind() {
            io::ErrorKind::AddrInUse => BindError::InUse(address.clone()),
            _ => BindError::Refused { address: address.clone(), cause },
        };
        match address {
            Address::Tcp(wanted) => {
                if !insecure && !is_loopback(wanted) {
                    return Err(BindError::NotLoopback(*wanted));
                }
                let listener = TcpListener::bind(wanted).await.map_err(failed)?;
                let got = listener.local_addr().map_err(failed)?;
                Ok((Listener::Tcp(listener), Address::Tcp(got)))
            }
            Address::Unix(path) => {
                remove_stale(path).await;
                let listener = UnixListener::bind(path).map_err(failed)?;
                let file = SocketFile(path.clone());
                // Whoever may open the socket drives the host: its owner, nobody else.
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
                Ok((Listener::Unix { listener, _file: file }, address.clone()))
            }
        }
    }

    /// The next connection. Running out of file descriptors is waited out.
    pub(super) async fn accept(&self) -> Accepted {
        loop {
            let accepted = match self {
                Listener::Tcp(listener) => listener.accept().await.and_then(|(stream, _)| {
                    // Frames are small and each is waited for.
                    drop(stream.set_nodelay(true));
                    stream.into_std().map(Accepted::Tcp)
                }),
                Listener::Unix { listener, .. } => {
                    listener.accept().await.and_then(|(stream, _)| stream.into_std().map(Accepted::Unix))
                }
            };
            match accepted {
                Ok(connection) => return connection,
                Err(error) => {
                    tracing::warn!(%error, "no connection could be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Removes the socket of a server that did not: one that nobody listens on.
async fn remove_stale(path: &Path) {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if !is_socket {
        return;
    }
    if let Err(error) = UnixStream::connect(path).await
        && error.kind() == io::ErrorKind::ConnectionRefused
    {
        drop(std::fs::remove_file(path));
    }
}

/// A connection that no runtime drives yet.
pub(super) enum Accepted {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl Accepted {
    /// Hands it to the runtime that this is called on.
    pub(super) fn adopt(self) -> io::Result<Connection> {
        match self {
            Accepted::Tcp(stream) => TcpStream::from_std(stream).map(Connection::Tcp),
            Accepted::Unix(stream) => UnixStream::from_std(stream).map(Connection::Unix),
        }
    }
}

/// A connection of either kind.
pub(super) enum Connection {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Connection::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Connection::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Connection::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Connection::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Connection::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Connection::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Connection::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Connection::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Connection::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Connection::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
