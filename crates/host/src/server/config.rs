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
use crate::registry::Directory;
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

/// Where the registry listens: a literal loopback IP and a port, 0 for any free one. Whoever reaches it decides which
/// processes sessions run in, so it takes no name that could lead elsewhere, and no word of the operator's opens it to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegistryAddress(SocketAddr);

/// Text that is no address of a registry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address for a registry: it is a literal loopback IP and a port, such as 127.0.0.1:8081")]
pub struct BadRegistryAddress(String);

impl FromStr for RegistryAddress {
    type Err = BadRegistryAddress;

    fn from_str(text: &str) -> Result<RegistryAddress, BadRegistryAddress> {
        match text.parse() {
            Ok(address) if is_loopback(&address) => Ok(RegistryAddress(address)),
            _ => Err(BadRegistryAddress(text.to_owned())),
        }
    }
}

impl fmt::Display for RegistryAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl RegistryAddress {
    /// Whether it is the address of the sessions, which the registry must not share.
    pub fn is_that_of(&self, sessions: &Address) -> bool {
        match sessions {
            Address::Tcp(sessions) => {
                let same_ip = sessions.ip().to_canonical() == self.0.ip().to_canonical();
                same_ip && sessions.port() == self.0.port() && self.0.port() != 0
            }
            Address::Unix(_) => false,
        }
    }

    pub(super) fn listen(&self) -> Address {
        Address::Tcp(self.0)
    }
}

/// The registry of a server.
#[derive(Clone)]
pub struct Registry {
    /// Where it listens.
    pub address: RegistryAddress,
    /// What it registers in; the catalog of the same server.
    pub directory: Arc<Directory>,
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
    /// The operator's registry; without one nothing is registered here, and what is registered already is served.
    pub registry: Option<Registry>,
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
    /// Threads that serve connections, each its own; with 0 the runtime that the server is started on does.
    pub lanes: usize,
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
            registry: None,
            policy: None,
            webhook: None,
            settings: Settings::default(),
            limits: Limits::default(),
            ring: RingLimits::default(),
            stop_within: Duration::from_secs(30),
            connections_max: 4096,
            lanes: 0,
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
    /// The registry would listen where the sessions do.
    #[error("{0} is the address of the sessions: the registry is never on their port, give it another one")]
    Shared(RegistryAddress),
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
    /// The operating system gave no thread to serve on.
    #[error("no thread to serve connections on: {0}")]
    NoThread(std::io::Error),
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

    #[test]
    fn a_registry_listens_on_a_literal_loopback_ip() {
        for text in ["127.0.0.1:0", "127.0.0.1:8081", "127.9.9.9:1", "[::1]:8081", "[::ffff:127.0.0.1]:8081"] {
            assert_eq!(text.parse::<RegistryAddress>().expect("an address").to_string(), text);
        }
        for text in ["", "127.0.0.1", ":8081", "localhost:8081", "0.0.0.0:8081", "[::]:8081", "10.0.0.1:1", "unix:/r"] {
            assert!(text.parse::<RegistryAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_registry_and_the_sessions_share_no_address() {
        for (registry, sessions, same) in [
            ("127.0.0.1:8080", "127.0.0.1:8080", true),
            ("[::ffff:127.0.0.1]:8080", "127.0.0.1:8080", true),
            ("127.0.0.1:8081", "127.0.0.1:8080", false),
            ("[::1]:8080", "127.0.0.1:8080", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
            ("127.0.0.1:8080", "unix:/run/x", false),
        ] {
            let address: RegistryAddress = registry.parse().expect("an address");
            assert_eq!(address.is_that_of(&sessions.parse().expect("an address")), same, "{registry} {sessions}");
        }
    }
}
