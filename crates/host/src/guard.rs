//! Who may drive this host: what is checked before any route is looked at.
//!
//! A host that listens on loopback is open to every page that a browser on this machine shows, unless it
//! looks at two headers. `Host` says by which name the caller reached it: a name that an
//! attacker's DNS points here (rebinding) is not one of ours. `Origin` says which page a request
//! comes from: it must be one that this host itself serves. gRPC says the same in `:authority`.

use std::net::IpAddr;

use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, Request};

/// What the listener can be reached by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Only from this machine, on this port.
    Loopback {
        /// The port.
        port: u16,
    },
    /// From other machines too, by the operator's wish.
    Anywhere,
    /// Through a file that no web page can open.
    Socket,
}

/// Which names and pages are this host's own.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    reach: Reach,
    /// More names, as `host` or `host:port`.
    allowed: Vec<String>,
}

impl Guard {
    pub(crate) fn new(reach: Reach, allowed: Vec<String>) -> Guard {
        Guard { reach, allowed }
    }

    /// Refuses a request that must not drive this host; the text says why.
    pub(crate) fn check<B>(&self, request: &Request<B>) -> Result<(), String> {
        if self.reach != Reach::Socket {
            self.check_host(request)?;
        }
        let mut origins = request.headers().get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => Ok(()),
            (Some(origin), None) if self.is_own_page(request, origin) => Ok(()),
            _ => Err("the origin header names a page that is not this host's: \
                      allow its host and port if it is yours"
                .to_owned()),
        }
    }

    fn check_host<B>(&self, request: &Request<B>) -> Result<(), String> {
        let names = named_hosts(request);
        if names.is_empty() {
            return Err("the request names no host".to_owned());
        }
        for name in names {
            let own = name.as_ref().is_some_and(|name| self.is_own_name(name));
            if !own {
                return Err(format!(
                    "the request is for host {:?}, which is not this host's name: \
                     use its address, or allow the name",
                    name.as_ref().map_or("", Authority::as_str)
                ));
            }
        }
        Ok(())
    }

    fn is_own_name(&self, name: &Authority) -> bool {
        if name.as_str().contains('@') {
            return false;
        }
        self.is_allowed(name)
            || match self.reach {
                Reach::Loopback { port } => is_loopback(name.host()) && name.port_u16().unwrap_or(80) == port,
                // An address cannot be pointed elsewhere; a name can. Ports may be mapped on the way.
                Reach::Anywhere => literal(name.host()).is_some() || is_loopback(name.host()),
                Reach::Socket => true,
            }
    }

    fn is_allowed(&self, name: &Authority) -> bool {
        self.allowed
            .iter()
            .any(|allowed| allowed.eq_ignore_ascii_case(name.as_str()) || allowed.eq_ignore_ascii_case(name.host()))
    }

    fn is_own_page<B>(&self, request: &Request<B>, origin: &HeaderValue) -> bool {
        let Some(origin) = origin.to_str().ok() else { return false };
        let (scheme, name) = match origin.split_once("://") {
            Some((scheme @ ("http" | "https"), name)) => (scheme, name),
            // "null" among others: a page of unknown origin.
            _ => return false,
        };
        let Ok(name) = Authority::try_from(name) else { return false };
        if self.is_allowed(&name) {
            return true;
        }
        match self.reach {
            Reach::Loopback { .. } => scheme == "http" && self.is_own_name(&name),
            // What another machine shows of this host, it shows under the name it asked for.
            Reach::Anywhere => named_hosts(request).iter().flatten().any(|host| *host == name),
            Reach::Socket => false,
        }
    }
}

/// Every name that the request gives for the host it wants: `None` for one that is none. HTTP/2 has
/// `:authority`, HTTP/1 the header; a request with several must mean this host by each.
fn named_hosts<B>(request: &Request<B>) -> Vec<Option<Authority>> {
    let target = request.uri().authority().cloned().map(Some);
    let headers = request.headers().get_all(HOST).iter();
    let headers = headers.map(|value| Authority::try_from(value.as_bytes()).ok());
    target.into_iter().chain(headers).collect()
}

fn is_loopback(host: &str) -> bool {
    let host_lower = host.to_ascii_lowercase();
    host_lower == "localhost"
        || host_lower.ends_with(".localhost")
        || literal(host).is_some_and(|ip| ip.to_canonical().is_loopback())
}

fn literal(host: &str) -> Option<IpAddr> {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(uri: &str, host: &[&str], origin: &[&str]) -> Request<()> {
        let mut request = Request::builder().uri(uri);
        for host in host {
            request = request.header(HOST, *host);
        }
        for origin in origin {
            request = request.header(ORIGIN, *origin);
        }
        request.body(()).expect("the parts are valid")
    }

    fn allows(guard: &Guard, host: &str, origin: Option<&str>) -> bool {
        guard.check(&request("/", &[host], &Vec::from_iter(origin))).is_ok()
    }

    #[test]
    fn loopback_is_reached_by_loopback_names_on_its_port() {
        let guard = Guard::new(Reach::Loopback { port: 7000 }, vec!["agents.test:7000".to_owned()]);
        for own in [
            "localhost:7000",
            "LOCALHOST:7000",
            "a.localhost:7000",
            "127.0.0.1:7000",
            "127.9.9.9:7000",
            "[::1]:7000",
            "[::ffff:127.0.0.1]:7000",
            "agents.test:7000",
        ] {
            assert!(allows(&guard, own, None), "{own}");
        }
        for other in [
            "localhost",
            "localhost:7001",
            "127.0.0.1",
            "evil.test:7000",
            "localhost.evil.test:7000",
            "127.0.0.1.evil.test:7000",
            "user@localhost:7000",
            "10.0.0.1:7000",
            "agents.test:7001",
            "0.0.0.0:7000",
            "",
            "bad host",
        ] {
            assert!(!allows(&guard, other, None), "{other}");
        }
        assert!(guard.check(&request("/", &[], &[])).is_err(), "no host at all");
        assert!(allows(&Guard::new(Reach::Loopback { port: 80 }, vec![]), "localhost", None), "the default port");
    }

    #[test]
    fn every_name_of_a_request_must_be_own() {
        let guard = Guard::new(Reach::Loopback { port: 7000 }, vec![]);
        let ok = |uri, hosts: &[&str]| guard.check(&request(uri, hosts, &[])).is_ok();
        assert!(ok("http://localhost:7000/", &[]));
        assert!(!ok("http://evil.test:7000/", &[]));
        assert!(!ok("http://localhost:7000/", &["evil.test:7000"]));
        assert!(!ok("http://evil.test:7000/", &["localhost:7000"]));
        assert!(!ok("/", &["localhost:7000", "evil.test:7000"]));
    }

    #[test]
    fn only_own_pages_may_call() {
        let guard = Guard::new(Reach::Loopback { port: 7000 }, vec!["agents.test".to_owned()]);
        let own = |origin| allows(&guard, "localhost:7000", Some(origin));
        assert!(own("http://localhost:7000"));
        assert!(own("http://127.0.0.1:7000"));
        assert!(own("https://agents.test"));
        for other in [
            "http://localhost:3000",
            "https://localhost:7000",
            "http://evil.test",
            "null",
            "",
            "file://",
            "http://localhost:7000@evil.test",
            "chrome-extension://localhost:7000",
        ] {
            assert!(!own(other), "{other}");
        }
        let twice = request("/", &["localhost:7000"], &["http://localhost:7000", "http://evil.test"]);
        assert!(guard.check(&twice).is_err());
    }

    #[test]
    fn an_open_listener_goes_by_addresses_and_by_allowed_names() {
        let guard = Guard::new(Reach::Anywhere, vec!["agents.test".to_owned()]);
        for own in ["10.0.0.1", "10.0.0.1:8080", "[2001:db8::1]:7000", "agents.test:1", "localhost:7000"] {
            assert!(allows(&guard, own, None), "{own}");
        }
        assert!(!allows(&guard, "evil.test:7000", None));
        assert!(allows(&guard, "10.0.0.1:7000", Some("http://10.0.0.1:7000")));
        assert!(!allows(&guard, "10.0.0.1:7000", Some("http://10.0.0.2:7000")));
    }

    #[test]
    fn a_socket_has_no_name_and_no_pages() {
        let guard = Guard::new(Reach::Socket, vec![]);
        assert!(guard.check(&request("/", &[], &[])).is_ok());
        assert!(allows(&guard, "anything", None));
        assert!(!allows(&guard, "localhost", Some("http://localhost")));
    }
}
