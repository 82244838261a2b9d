//! Where a harness listens.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where a harness listens: `HOST:PORT`, `:PORT` for every interface, `unix:/path` or `unix:///path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A host and a port; an empty host is every interface, port 0 is any free one.
    Tcp {
        /// A name or an IP address.
        host: String,
        /// The port.
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

/// Text that is no address to listen at.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address to listen at: write HOST:PORT, :PORT or unix:/path")]
pub struct BadAddress(String);

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Address, BadAddress> {
        let bad = || BadAddress(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            let names_a_file = PathBuf::from(path).file_name().is_some() && !path.ends_with(['/', '.']);
            return if names_a_file { Ok(Address::Unix(path.into())) } else { Err(bad()) };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if bare.is_none() && host.contains([':', '/', '[', ']']) || port.starts_with('+') {
            return Err(bad());
        }
        let port = port.parse().map_err(|_| bad())?;
        Ok(Address::Tcp { host: bare.unwrap_or(host).to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for text in ["127.0.0.1:7000", "[::1]:0", "unix:/run/h.sock", "unix:h.sock", ":80", "localhost:8090"] {
            assert_eq!(text.parse::<Address>().expect("an address").to_string(), text);
        }
        assert_eq!("unix:///run/h.sock".parse::<Address>().expect("an address").to_string(), "unix:/run/h.sock");
        for text in [
            "",
            "80",
            "host",
            "host:",
            "host:x",
            "host:+1",
            "::1:80",
            "http://x:1",
            "unix:",
            "unix:/",
            "unix:/run/",
            "unix:.",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
