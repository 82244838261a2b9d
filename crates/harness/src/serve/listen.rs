//! Taking an address.

use std::io;
use std::path::PathBuf;

use tokio::net::{TcpListener, UnixListener};

use super::Address;
use super::socket::{self, SocketFile};

/// An address that was taken.
pub struct Listener {
    pub(super) kind: Kind,
    address: Address,
}

pub(super) enum Kind {
    Tcp(TcpListener),
    /// The file goes with its listener.
    Unix(UnixListener, SocketFile),
}

/// Why an address could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The operating system refused.
    #[error("cannot listen on {address}: {cause}")]
    Refused {
        /// The address.
        address: Address,
        /// Why.
        cause: io::Error,
    },
    /// Another process serves there, as far as its lock or its answer tells.
    #[error("{0} is in use: stop the other harness or choose another address")]
    InUse(Address),
    /// What lies at the socket's path, or at its lock's, is not ours to touch.
    #[error("{} {what}: remove it if nobody uses it, or choose another address", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
}

impl Listener {
    /// Takes `address`. A Unix socket is for its owner only; the file `PATH.lock` beside it tells whose it is and
    /// stays.
    ///
    /// # Errors
    /// [`BindError`].
    pub async fn bind(address: &Address) -> Result<Listener, BindError> {
        let refused = |cause: io::Error| match cause.kind() {
            io::ErrorKind::AddrInUse => BindError::InUse(address.clone()),
            _ => BindError::Refused { address: address.clone(), cause },
        };
        match address {
            Address::Tcp { host, port } => {
                let listener = bind_tcp(host, *port).await.map_err(refused)?;
                let got = listener.local_addr().map_err(refused)?;
                let address = Address::Tcp { host: got.ip().to_string(), port: got.port() };
                Ok(Listener { kind: Kind::Tcp(listener), address })
            }
            Address::Unix(path) => {
                let (listener, file) = socket::bind(path).await.map_err(|e| match e {
                    socket::Error::InUse => BindError::InUse(address.clone()),
                    socket::Error::NotOurs { path, what } => BindError::NotOurs { path, what },
                    socket::Error::Io(cause) => refused(cause),
                })?;
                Ok(Listener { kind: Kind::Unix(listener, file), address: address.clone() })
            }
        }
    }

    /// The TCP socket, for whoever serves something else than a harness there; `None` for a Unix socket.
    pub fn into_tcp(self) -> Option<TcpListener> {
        match self.kind {
            Kind::Tcp(listener) => Some(listener),
            Kind::Unix(..) => None,
        }
    }

    /// Where it listens; a port 0 that was asked for is a real one here.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

async fn bind_tcp(host: &str, port: u16) -> io::Result<TcpListener> {
    if !host.is_empty() {
        return TcpListener::bind((host, port)).await;
    }
    // Both families where there are both.
    match TcpListener::bind(("::", port)).await {
        Err(e) if e.kind() != io::ErrorKind::AddrInUse => TcpListener::bind(("0.0.0.0", port)).await,
        bound => bound,
    }
}
