//! Where a harness in another process is.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a harness:
///
/// * `HOST:PORT` or `dns:HOST:PORT` or `dns:///HOST:PORT`, an IPv6 address in brackets;
/// * `unix:PATH` or `unix://PATH`, absolute or relative to the host's working folder.
///
/// Everything that could not be dialled as it is written is refused when it is read, so that a host does not start with an
/// address that fails every call later.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    text: String,
    target: Target,
}

/// What is dialled.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Target {
    /// A host, without brackets, and a port.
    Tcp {
        host: String,
        port: u16,
    },
    Unix(PathBuf),
}

/// Why text is no address of a harness.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no address of a harness: {why}")]
pub struct BadAddress {
    text: String,
    why: &'static str,
}

/// Names that gRPC clients read as the way to resolve what follows, so that `NAME:PORT` means different things to
/// different clients.
const SCHEMES: &[&str] =
    &["dns", "google-c2p", "http", "https", "ipv4", "ipv6", "passthrough", "unix", "unix-abstract", "vsock", "xds"];
/// Bytes of a socket's path that every system takes.
const SOCKET_PATH_MAX: usize = 103;

impl Address {
    pub(super) fn target(&self) -> &Target {
        &self.target
    }
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Address, BadAddress> {
        let target = target(text).map_err(|why| BadAddress { text: text.to_owned(), why })?;
        Ok(Address { text: text.to_owned(), target })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn target(text: &str) -> Result<Target, &'static str> {
    if text.is_empty() {
        return Err("it is empty: write HOST:PORT or unix:/path");
    }
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("it has white space or control characters in it");
    }
    if text.contains(['?', '#']) {
        return Err("a query or a fragment means nothing here");
    }
    if text.contains('%') {
        return Err("a % stands for an escape in some clients and for itself in others");
    }
    if let Some(path) = text.strip_prefix("unix:") {
        return unix(path.strip_prefix("//").unwrap_or(path));
    }
    if text.contains('@') {
        return Err("user info means nothing here");
    }
    if let Some(rest) = text.strip_prefix("dns:") {
        return dns(rest);
    }
    if text.contains("://") {
        return Err("no such scheme: write HOST:PORT, dns:///HOST:PORT or unix:/path");
    }
    let target = tcp(text)?;
    match &target {
        Target::Tcp { host, .. } if SCHEMES.contains(&host.to_ascii_lowercase().as_str()) => {
            Err("its host is named like a resolver of gRPC: write dns:///HOST:PORT")
        }
        _ => Ok(target),
    }
}

fn unix(path: &str) -> Result<Target, &'static str> {
    if !path.starts_with('/') && path.contains('@') {
        return Err("user info means nothing here");
    }
    let last = path.rsplit('/').next().unwrap_or_default();
    if matches!(last, "" | "." | "..") {
        return Err("it names no socket: write unix:/path/to/socket");
    }
    if path.len() > SOCKET_PATH_MAX {
        return Err("its path is longer than the 103 bytes that a socket can have");
    }
    Ok(Target::Unix(path.into()))
}

fn dns(rest: &str) -> Result<Target, &'static str> {
    let Some(rest) = rest.strip_prefix("//") else { return tcp(rest) };
    match rest.split_once('/') {
        Some(("", name)) => tcp(name),
        Some((resolver, name)) => {
            server(resolver)?;
            tcp(name)?;
            Err("this host asks the system's DNS server and no other: write dns:///HOST:PORT")
        }
        None => Err("it names a DNS server and no host: write dns:///HOST:PORT"),
    }
}

/// A DNS server: a host whose port may be left out.
fn server(text: &str) -> Result<(), &'static str> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    match bare {
        Some(bare) => bare.parse::<Ipv6Addr>().map(drop).map_err(|_| "what stands in brackets is no IPv6 address"),
        None if text.contains(':') => tcp(text).map(drop),
        None => name(text),
    }
}

fn tcp(text: &str) -> Result<Target, &'static str> {
    let Some((host, port)) = text.rsplit_once(':') else { return Err("it has no port: write HOST:PORT") };
    let host = match host.strip_prefix('[') {
        Some(rest) => {
            let bare = rest.strip_suffix(']').ok_or("what stands in brackets is no IPv6 address")?;
            bare.parse::<Ipv6Addr>().map_err(|_| "what stands in brackets is no IPv6 address")?;
            bare
        }
        None => {
            name(host)?;
            host
        }
    };
    if !port.bytes().all(|b| b.is_ascii_digit()) {
        return Err("its port is no number");
    }
    match port.parse() {
        Ok(port) if port > 0 => Ok(Target::Tcp { host: host.to_owned(), port }),
        _ => Err("its port is not between 1 and 65535"),
    }
}

fn name(host: &str) -> Result<(), &'static str> {
    if host.is_empty() {
        return Err("it has no host: write HOST:PORT");
    }
    if host.contains(':') {
        return Err("an IPv6 address stands in brackets: write [HOST]:PORT");
    }
    if host.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_')) {
        Ok(())
    } else {
        Err("its host is no name and no IP address")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        match text.parse::<Address>() {
            Ok(address) => match address.target() {
                Target::Tcp { host, port } => format!("{host} {port}"),
                Target::Unix(path) => path.display().to_string(),
            },
            Err(e) => panic!("{e}"),
        }
    }

    #[test]
    fn what_can_be_dialled_is_accepted() {
        for (text, want) in [
            ("127.0.0.1:8090", "127.0.0.1 8090"),
            ("localhost:1", "localhost 1"),
            ("agent.test:65535", "agent.test 65535"),
            ("[::1]:80", "::1 80"),
            ("dns:///agent.test:80", "agent.test 80"),
            ("dns:///[::1]:80", "::1 80"),
            ("dns:///passthrough:8080", "passthrough 8080"),
            ("dns:agent.test:80", "agent.test 80"),
            ("unix:///run/h.sock", "/run/h.sock"),
            ("unix:/run/h.sock", "/run/h.sock"),
            ("unix:/run/user@1/h.sock", "/run/user@1/h.sock"),
            ("unix:h.sock", "h.sock"),
            ("unix://h.sock", "h.sock"),
            ("unix://run/h.sock", "run/h.sock"),
        ] {
            assert_eq!(read(text), want, "{text}");
            assert_eq!(text.parse::<Address>().expect("an address").to_string(), text);
        }
    }

    #[test]
    fn what_cannot_be_dialled_is_refused_with_the_reason() {
        for (text, why) in [
            ("", "empty"),
            ("host", "no port"),
            (":9000", "no host"),
            ("host:0", "not between"),
            ("host:70000", "not between"),
            ("host:", "not between"),
            ("host:http", "no number"),
            ("host:+80", "no number"),
            ("::1:80", "brackets"),
            ("[::1]", "IPv6"),
            ("[host]:80", "IPv6"),
            ("[::1:80", "IPv6"),
            ("ho st:80", "white space"),
            ("host/path:80", "no name"),
            ("dns:///", "no port"),
            ("dns:///host", "no port"),
            ("dns:host", "no port"),
            ("dns:", "no port"),
            ("dns://host:80", "no host"),
            ("dns://%/127.0.0.1:9000", "escape"),
            ("dns:///ho%73t:80", "escape"),
            ("dns://8.8.8.8/host:80", "no other"),
            ("dns://8.8.8.8:53/host:80", "no other"),
            ("dns://8.8.8.8:x/host:80", "no number"),
            ("unix:", "no socket"),
            ("unix:.", "no socket"),
            ("unix://", "no socket"),
            ("unix:///", "no socket"),
            ("unix:////", "no socket"),
            ("unix:///.", "no socket"),
            ("unix:/run/", "no socket"),
            ("unix:a/..", "no socket"),
            ("unix://me@h.sock", "user info"),
            ("unix:/run/h.sock?x", "query"),
            ("unix:/run/h%20.sock", "escape"),
            ("me@host:80", "user info"),
            ("host:80?x=1", "query"),
            ("host:80#x", "fragment"),
            ("http://host:80", "no such scheme"),
            ("https://host:80", "no such scheme"),
            ("passthrough:///host:80", "no such scheme"),
            ("DNS:///host:80", "no such scheme"),
            ("passthrough:8080", "dns:///"),
            ("Passthrough:8080", "dns:///"),
            ("unix-abstract:80", "dns:///"),
            ("xds:80", "dns:///"),
        ] {
            let refused = text.parse::<Address>().expect_err(text).to_string();
            assert!(refused.contains(why), "{refused}, not {why}");
        }
        assert!(format!("unix:/{}", "x".repeat(103)).parse::<Address>().is_err());
    }
}
