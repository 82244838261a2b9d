//! The POST and its attempts.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use hyper::{Method, Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use inspan_engine::ModelError;
use rustls::ClientConfig;

use super::connect::{self, Connector};
use super::failure::Failure;
use crate::config::{Api, AuthHeader, BuildError, Key, Provider, Retry, Timeouts};
use crate::request_id;

/// Bytes of an error body that are read.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// How long an unused connection is kept: shorter than servers keep theirs, so that a request does not meet a
/// connection that is just being closed - such a request could not be repeated.
const POOL_IDLE: Duration = Duration::from_secs(4);

/// Posts JSON to one address.
pub(crate) struct Post {
    client: Client<Connector, Full<Bytes>>,
    uri: Uri,
    /// The address without its query, for error texts.
    shown: String,
    headers: HeaderMap,
    key: Option<Key>,
    timeouts: Timeouts,
    retry: Retry,
}

/// Why one attempt gave no answer.
enum Attempt {
    /// Nothing was sent: asking again is safe.
    Unreachable(String),
    /// The provider said no.
    Refused(Failure),
    /// The request may have been read: asking again could pay twice.
    Lost(ModelError),
}

impl Post {
    /// Trusts what this system trusts.
    pub(crate) fn new(provider: &Provider) -> Result<Post, BuildError> {
        let tls = connect::tls(provider.base_url.is_https()).map_err(BuildError::Roots)?;
        Post::with_tls(provider, tls)
    }

    /// The same with the TLS configuration given.
    pub(super) fn with_tls(provider: &Provider, tls: ClientConfig) -> Result<Post, BuildError> {
        let uri = provider.base_url.join(&provider.path).ok_or_else(|| BuildError::Path(provider.path.clone()))?;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .build(Connector::new(tls, provider.timeouts.connect));
        Ok(Post {
            client,
            shown: uri.to_string().split('?').next().unwrap_or_default().to_owned(),
            uri,
            headers: headers(provider)?,
            key: provider.key.clone(),
            timeouts: provider.timeouts,
            retry: provider.retry,
        })
    }

    /// Posts `body` and returns the head of a successful answer. Dropping the future, or the answer's
    /// body before its end, closes the connection.
    pub(crate) async fn send(&self, body: Bytes) -> Result<Response<Incoming>, ModelError> {
        let attempts = self.retry.attempts.max(1);
        let mut attempt = 1;
        loop {
            let (wait, error) = match self.once(body.clone()).await {
                Ok(response) => return Ok(response),
                Err(Attempt::Lost(error)) => return Err(self.scrub(error)),
                Err(Attempt::Unreachable(reason)) => {
                    let message =
                        format!("cannot connect to {}: {reason}; check the base URL and the network", self.shown);
                    (Some(self.retry.backoff(attempt)), ModelError { message, retryable: true })
                }
                Err(Attempt::Refused(failure)) => {
                    (self.wait(&failure, attempt), failure.into_error(&self.shown, attempt))
                }
            };
            match wait {
                Some(wait) if attempt < attempts => {
                    tracing::debug!(attempt, wait_ms = wait.as_millis(), "asking the provider again");
                    tokio::time::sleep(wait).await;
                }
                _ => return Err(self.scrub(error)),
            }
            attempt += 1;
        }
    }

    /// How long to wait before asking again; `None` is not at all.
    fn wait(&self, failure: &Failure, attempt: u32) -> Option<Duration> {
        if !failure.is_passing() {
            return None;
        }
        match failure.after {
            Some(after) if after > self.retry.after_max => None,
            Some(after) => Some(after),
            None => Some(self.retry.backoff(attempt)),
        }
    }

    async fn once(&self, body: Bytes) -> Result<Response<Incoming>, Attempt> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        if let Some(id) = request_id::current() {
            // A provider that wants its key under this very name gets its key.
            request.headers_mut().entry(request_id::HEADER).or_insert(id);
        }
        // The connect has its own bound, and waits of a busy pool do not exist: the rest is first byte.
        let limit = self.timeouts.connect + self.timeouts.first_byte;
        let response = match tokio::time::timeout(limit, self.client.request(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(e)) if e.is_connect() => return Err(Attempt::Unreachable(chain(&e))),
            Ok(Err(e)) => return Err(Attempt::Lost(self.lost(&format!("gave no answer: {}", chain(&e))))),
            Err(_) => {
                let waited = limit.as_secs_f64();
                return Err(Attempt::Lost(self.lost(&format!("gave no answer within {waited} s"))));
            }
        };
        let status = response.status();
        if !status.is_success() {
            let (head, body) = response.into_parts();
            let body = self.error_body(body).await;
            return Err(Attempt::Refused(Failure::new(status, &head.headers, &body)));
        }
        match response.headers().get(CONTENT_ENCODING) {
            Some(encoding) if encoding != "identity" => {
                Err(Attempt::Lost(self.lost("sent an encoded answer, which was not asked for")))
            }
            _ => Ok(response),
        }
    }

    fn lost(&self, what: &str) -> ModelError {
        ModelError {
            message: format!("{} {what}; whether the request was counted there is unknown", self.shown),
            retryable: true,
        }
    }

    /// What can be had of an error's body: the status alone is enough.
    async fn error_body(&self, body: Incoming) -> Vec<u8> {
        let (mut body, mut text) = (Limited::new(body, ERROR_BYTES_MAX), Vec::new());
        while let Ok(Some(Ok(frame))) = tokio::time::timeout(self.timeouts.idle, body.frame()).await {
            if let Ok(data) = frame.into_data() {
                text.extend_from_slice(&data);
            }
        }
        text
    }

    /// Takes the key out of an error text: some servers repeat it.
    pub(crate) fn scrub(&self, error: ModelError) -> ModelError {
        match &self.key {
            Some(key) => ModelError { message: error.message.replace(key.reveal(), "[key]"), ..error },
            None => error,
        }
    }
}

fn headers(provider: &Provider) -> Result<HeaderMap, BuildError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("inspan/", env!("CARGO_PKG_VERSION"))));
    let accept = if provider.stream { "text/event-stream" } else { "application/json" };
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    if provider.api == Api::Anthropic {
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    let Some(key) = &provider.key else { return Ok(headers) };
    let (name, value) = match &provider.auth_header {
        AuthHeader::None => return Ok(headers),
        AuthHeader::Bearer => (AUTHORIZATION, format!("Bearer {}", key.reveal())),
        AuthHeader::Raw(name) => {
            let parsed = HeaderName::try_from(name.as_str()).map_err(|_| BuildError::Header(name.clone()))?;
            (parsed, key.reveal().to_owned())
        }
    };
    let mut value = HeaderValue::try_from(value).map_err(|_| BuildError::Key)?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(headers)
}

/// The media type of an answer, without its parameters, in lower case.
pub fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// An error with its causes, on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(c) = cause {
        text.push_str(": ");
        text.push_str(&c.to_string());
        cause = c.source();
    }
    text
}
