//! The HTTP client of the executors, and the secrets that its requests carry.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, USER_AGENT};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use inspan_models::http::{Connector, chain, tls};

use super::secrets::Secrets;
use crate::config::Headers;

/// For name lookup, connection and TLS together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an unused connection is kept: shorter than servers keep theirs, so that a request does not meet a connection
/// that is just being closed - whether such a request arrived would not be known.
const POOL_IDLE: Duration = Duration::from_secs(4);

/// Bytes that an answer may have: 64 MiB. A larger one is a final failure of its call.
pub(super) const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The one client of all executors.
pub(super) type Outside = Client<Connector, Full<Bytes>>;

/// A client; `https` says whether any address needs TLS.
///
/// # Errors
/// There is nothing that TLS could trust.
pub(super) fn client(https: bool) -> Result<Outside, String> {
    let tls = tls(https).map_err(|e| {
        format!("no root certificates for https: {e}; install the system's ca-certificates or set SSL_CERT_FILE")
    })?;
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_timer(TokioTimer::new()).pool_idle_timeout(POOL_IDLE);
    Ok(builder.build(Connector::new(tls, CONNECT_TIMEOUT)))
}

/// The headers of every request to one place with the secrets in them, and the secrets by themselves. Values are marked
/// as sensitive, so that `Debug` does not show them.
///
/// # Errors
/// A variable is not set, a file cannot be read, or a secret cannot be put into a header; the text never shows it.
pub(super) fn headers(from: &Headers, env: &dyn Fn(&str) -> Option<String>) -> Result<(HeaderMap, Secrets), String> {
    let (mut headers, mut secrets) = (HeaderMap::new(), Vec::new());
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("inspan/", env!("CARGO_PKG_VERSION"))));
    for (header, name) in &from.env {
        let name = name.as_str();
        let value =
            env(name).ok_or_else(|| format!("the environment variable {name} is not set: set it and start again"))?;
        headers.insert(header.clone(), sensitive(value.trim(), &format!("the environment variable {name}"))?);
        secrets.push(value.trim().to_owned());
    }
    if let Some(file) = &from.key_file {
        let shown = file.display();
        let text = std::fs::read_to_string(file).map_err(|e| format!("cannot read the key file {shown}: {e}"))?;
        let token = text.trim();
        if token.is_empty() {
            return Err(format!("the key file {shown} is blank: put the key into it"));
        }
        headers.insert(AUTHORIZATION, sensitive(&format!("Bearer {token}"), &format!("the key file {shown}"))?);
        secrets.push(token.to_owned());
    }
    Ok((headers, Secrets::new(secrets)))
}

fn sensitive(value: &str, from: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::try_from(value)
        .map_err(|_| format!("{from} has a character that no HTTP header may carry: check what is in it"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Why a body could not be had.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BodyError {
    /// It is larger than what was allowed.
    TooLarge,
    /// The connection broke off.
    Lost(String),
}

/// A whole body of at most `bytes_max`.
pub(super) async fn body(body: Incoming, bytes_max: usize) -> Result<Bytes, BodyError> {
    match Limited::new(body, bytes_max).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(e) if e.is::<http_body_util::LengthLimitError>() => Err(BodyError::TooLarge),
        Err(e) => Err(BodyError::Lost(chain(e.as_ref()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::File;

    fn built(toml: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<HeaderMap, String> {
        let file =
            File::parse("t", &format!("[[tools.http]]\nname = \"t\"\nurl = \"http://h\"\n{toml}")).expect("sound");
        headers(&file.tools.http[0].headers, env).map(|(headers, _)| headers)
    }

    #[test]
    fn secrets_come_from_where_the_file_says_and_are_shown_nowhere() {
        let env = |name: &str| match name {
            "SET" => Some(" s3cret\n".to_owned()),
            "BROKEN" => Some("s3cret\u{1}".to_owned()),
            _ => None,
        };
        let headers = built("headers_env = { x-key = \"SET\" }", &env).expect("it is set");
        assert_eq!(headers["x-key"], "s3cret");
        assert!(!format!("{headers:?}").contains("s3cret"), "{headers:?}");
        let unset = built("headers_env = { x-key = \"UNSET\" }", &env).expect_err("not set");
        assert!(unset.contains("UNSET is not set"), "{unset}");
        let broken = built("headers_env = { x-key = \"BROKEN\" }", &env).expect_err("no header");
        assert!(broken.contains("BROKEN") && !broken.contains("s3cret"), "{broken}");
    }

    #[test]
    fn a_key_file_becomes_a_bearer_token() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("key");
        let toml = format!("key_file = {:?}", path.display().to_string());
        let none = |_: &str| None;
        assert!(built(&toml, &none).expect_err("not there").contains("cannot read the key file"));
        std::fs::write(&path, " \n").expect("writable");
        assert!(built(&toml, &none).expect_err("blank").contains("is blank"));
        std::fs::write(&path, "s3cret\n").expect("writable");
        assert_eq!(built(&toml, &none).expect("there")["authorization"], "Bearer s3cret");
    }
}
