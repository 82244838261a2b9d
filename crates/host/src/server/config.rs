//! What a server is told.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use inspan_engine::{Catalog, Limits, Policy};
use inspan_journal::Journal;

use crate::guard::Reach;
use crate::host::Settings;
use crate::hub::RingLimits;
use crate::webhook::Webhook;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// An IP address and a port; port 0 is any free one.
    Tcp(SocketAddr),
    /// A Unix socket, written `unix:/path`.
    Unix(PathBuf),
}

/// Text that is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither ADDRESS:PORT nor unix:/path")]
pub struct BadAddress(String);

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Address, BadAddress> {
        let bad = || BadAddress(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(bad()) } else { Ok(Address::Unix(path.into())) };
        }
        let literal = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => text.to_owned(),
        };
        literal.parse().map(Address::Tcp).map_err(|_| bad())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Address {
    /// What a gRPC client is given to reach this address.
    pub fn endpoint(&self) -> String {
        match self {
            Address::Tcp(address) => format!("http://{address}"),
            Address::Unix(_) => self.to_string(),
        }
    }

    pub(super) fn reach(&self) -> Reach {
        match self {
            Address::Tcp(address) if is_loopback(address) => Reach::Loopback { port: address.port() },
            Address::Tcp(_) => Reach::Anywhere,
            Address::Unix(_) => Reach::Socket,
        }
    }
}

pub(super) fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Everything that a server is told.
#[derive(Clone)]
pub struct Config {
    /// Where to listen.
    pub address: Address,
    /// Listen also where other machines can reach: there is no authentication yet.
    pub insecure: bool,
    /// More names, as `host` or `host:port`, that requests and pages may use for this host.
    pub allowed_hosts: Vec<String>,
    /// The sessions.
    pub journal: Arc<dyn Journal>,
    /// The harnesses.
    pub catalog: Arc<dyn Catalog>,
    /// Who may have which tool run; without one, a call asks for itself.
    pub policy: Option<Arc<dyn Policy>>,
    /// Who is told of what waits for a person.
    pub webhook: Option<Arc<Webhook>>,
    /// Default project and heartbeats.
    pub settings: Settings,
    /// Bounds of the engine.
    pub limits: Limits,
    /// Bounds of what is kept for the viewers of a session.
    pub ring: RingLimits,
    /// How long running turns may take to reach a durable point when the server stops.
    pub stop_within: Duration,
    /// Connections at once; more wait.
    pub connections_max: usize,
}

impl Config {
    /// A server of these sessions and harnesses, with the usual bounds.
    pub fn new(address: Address, journal: Arc<dyn Journal>, catalog: Arc<dyn Catalog>) -> Config {
        Config {
            address,
            insecure: false,
            allowed_hosts: Vec::new(),
            journal,
            catalog,
            policy: None,
            webhook: None,
            settings: Settings::default(),
            limits: Limits::default(),
            ring: RingLimits::default(),
            stop_within: Duration::from_secs(30),
            connections_max: 4096,
        }
    }
}

/// Why a server did not get its address.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Others could reach it.
    #[error(
        "{0} can be reached from other machines and there is no authentication: use a loopback address, or say --insecure"
    )]
    NotLoopback(SocketAddr),
    /// Somebody else listens there.
    #[error("{0} is in use: stop the other server or choose another address")]
    InUse(Address),
    /// The operating system refused.
    #[error("cannot listen on {address}: {cause}")]
    Refused {
        /// The address.
        address: Address,
        /// Why.
        cause: std::io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for text in ["127.0.0.1:7000", "[::1]:0", "unix:/run/inspan.sock", "0.0.0.0:80"] {
            assert_eq!(text.parse::<Address>().expect("an address").to_string(), text);
        }
        assert_eq!("localhost:9".parse::<Address>().expect("an address").to_string(), "127.0.0.1:9");
        for text in ["", "7000", "127.0.0.1", "unix:", "host.test:80", "http://127.0.0.1:1"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
