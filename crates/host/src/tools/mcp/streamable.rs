//! A server behind streamable HTTP, through the one client of the executors.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use inspan_models::http::{chain, media_type};
use rmcp::model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::service::ServiceError;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use super::super::outside::{self, ANSWER_BYTES_MAX, BodyError, Outside};
use super::super::secrets::Secrets;
use crate::config::{Headers, Url};

/// The session that a server gave us.
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// Where a broken stream goes on.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Bytes of an error's body that are read.
const ERROR_BYTES_MAX: usize = 64 << 10;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// Where a server is, and what its requests carry.
pub(super) struct Endpoint {
    url: Arc<str>,
    client: Requests,
}

/// Our HTTP client as rmcp wants it.
#[derive(Clone)]
pub(super) struct Requests {
    client: Arc<Outside>,
    headers: HeaderMap,
}

/// Why a request had no answer of MCP.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// Nothing was sent.
    #[error("cannot be reached: {0}; check its url and the network")]
    Unreachable(String),
    /// The server refused the request before it looked into it.
    #[error("refused the request: {0}")]
    Refused(String),
    /// Whether the request was read is not known.
    #[error("{0}")]
    Lost(String),
}

/// What is known of a call whose request failed.
pub(super) enum Failure<'e> {
    /// Nothing has left the host.
    NotSent(&'e str),
    /// The server said no.
    Refused(&'e str),
}

/// What a failed call tells about its outcome; `None` when nothing.
pub(super) fn failure(error: &ServiceError) -> Option<Failure<'_>> {
    let ServiceError::TransportSend(error) = error else { return None };
    match error.error.downcast_ref::<StreamableHttpError<Error>>()? {
        StreamableHttpError::Client(Error::Unreachable(text)) => Some(Failure::NotSent(text)),
        StreamableHttpError::Client(Error::Refused(text)) => Some(Failure::Refused(text)),
        _ => None,
    }
}

impl Endpoint {
    /// Reads the secrets that `headers` names; they are also given by themselves.
    pub(super) fn new(
        url: &Url,
        headers: &Headers,
        env: &dyn Fn(&str) -> Option<String>,
        client: &Arc<Outside>,
    ) -> Result<(Endpoint, Secrets), String> {
        let (headers, secrets) = outside::headers(headers, env)?;
        let endpoint =
            Endpoint { url: url.to_string().into(), client: Requests { client: Arc::clone(client), headers } };
        Ok((endpoint, secrets))
    }

    /// A connection that is not made yet.
    pub(super) fn transport(&self) -> StreamableHttpClientTransport<Requests> {
        let config = StreamableHttpClientTransportConfig::with_uri(Arc::clone(&self.url));
        StreamableHttpClientTransport::with_client(self.client.clone(), config)
    }
}

/// What rmcp expects of a client.
type Answer<T> = Result<T, StreamableHttpError<Error>>;

impl Requests {
    /// One request. `given` are the headers of rmcp; ours, with the secrets, never pass through it.
    async fn send(
        &self,
        method: Method,
        url: &str,
        session: Option<&str>,
        given: HashMap<HeaderName, HeaderValue>,
        body: Bytes,
    ) -> Result<Response<Incoming>, Error> {
        let mut request = Request::new(Full::new(body));
        *request.uri_mut() = url.parse().map_err(|_| Error::Unreachable("its url is none".to_owned()))?;
        let headers = request.headers_mut();
        headers.clone_from(&self.headers);
        headers.extend(given);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        if method == Method::POST {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        }
        if let Some(session) = session {
            let bad = |_| Error::Refused("its session id is no header value".to_owned());
            headers.insert(SESSION_ID, HeaderValue::try_from(session).map_err(bad)?);
        }
        *request.method_mut() = method;
        self.client.request(request).await.map_err(|e| match e.is_connect() {
            true => Error::Unreachable(chain(&e)),
            false => Error::Lost(format!("no answer: {}", chain(&e))),
        })
    }
}

impl StreamableHttpClient for Requests {
    type Error = Error;

    async fn post_message(
        &self,
        url: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Answer<StreamableHttpPostResponse> {
        let asked = match &message {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let body = serde_json::to_vec(&message)?.into();
        let sent = self.send(Method::POST, &url, session.as_deref(), headers, body).await;
        let response = sent.map_err(StreamableHttpError::Client)?;
        if !response.status().is_success() {
            return refused(response, session.is_some(), asked).await;
        }
        if asked.is_none() {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let session = response.headers().get(SESSION_ID).and_then(|v| v.to_str().ok()).map(str::to_owned);
        match media_type(response.headers()).as_str() {
            EVENTS => Ok(StreamableHttpPostResponse::Sse(events(response.into_body()), session)),
            JSON => {
                let body = whole(response.into_body()).await?;
                Ok(StreamableHttpPostResponse::Json(serde_json::from_slice(&body)?, session))
            }
            other => Err(StreamableHttpError::UnexpectedContentType(Some(other.to_owned()))),
        }
    }

    async fn delete_session(
        &self,
        url: Arc<str>,
        session: Arc<str>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Answer<()> {
        let sent = self.send(Method::DELETE, &url, Some(&session), headers, Bytes::new()).await;
        let response = sent.map_err(StreamableHttpError::Client)?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportDeleteSession),
            status if status.is_success() => Ok(()),
            status => Err(StreamableHttpError::Client(Error::Refused(status.to_string()))),
        }
    }

    async fn get_stream(
        &self,
        url: Arc<str>,
        session: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth: Option<String>,
        mut headers: HashMap<HeaderName, HeaderValue>,
    ) -> Answer<BoxStream<'static, Result<Sse, SseError>>> {
        if let Some(id) = last_event_id.and_then(|id| HeaderValue::try_from(id).ok()) {
            headers.insert(LAST_EVENT_ID, id);
        }
        let sent = self.send(Method::GET, &url, session.as_deref(), headers, Bytes::new()).await;
        let response = sent.map_err(StreamableHttpError::Client)?;
        match response.status() {
            status if status.is_success() && media_type(response.headers()) == EVENTS => {
                Ok(events(response.into_body()))
            }
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status => {
                let allowed = response.headers().get(ALLOW).and_then(|v| v.to_str().ok()).unwrap_or_default();
                Err(StreamableHttpError::Client(Error::Refused(format!("{status} {allowed}"))))
            }
        }
    }
}

/// An answer that is no success. An error that names our request is passed on. A refusal that does not is final: the
/// server has not looked into the message; within a session it means that the server has forgotten the session, which
/// the protocol says with 404 and some servers with 400. The rest is not known.
async fn refused(
    response: Response<Incoming>,
    in_session: bool,
    asked: Option<RequestId>,
) -> Answer<StreamableHttpPostResponse> {
    let status = response.status();
    let is_json = media_type(response.headers()) == JSON;
    let body = outside::body(response.into_body(), ERROR_BYTES_MAX).await.unwrap_or_default();
    if is_json
        && asked.is_some()
        && let Ok(ServerJsonRpcMessage::Error(error)) = serde_json::from_slice(&body)
        && error.id == asked
    {
        return Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), None));
    }
    if in_session && matches!(status, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST) {
        return Err(StreamableHttpError::SessionExpired);
    }
    let text = format!("{status} {}", String::from_utf8_lossy(&body));
    Err(StreamableHttpError::Client(match status.is_client_error() {
        true => Error::Refused(text),
        false => Error::Lost(format!("answered {text}")),
    }))
}

async fn whole(body: Incoming) -> Answer<Bytes> {
    outside::body(body, ANSWER_BYTES_MAX).await.map_err(|e| match e {
        BodyError::TooLarge => StreamableHttpError::ResponseBodyTooLarge { max_size: ANSWER_BYTES_MAX },
        BodyError::Lost(text) => StreamableHttpError::Client(Error::Lost(text)),
    })
}

/// The events of a body that has at most [`ANSWER_BYTES_MAX`] bytes between two of its chunks that end an event.
fn events(body: Incoming) -> BoxStream<'static, Result<Sse, SseError>> {
    let mut pending = 0_usize;
    let bounded = body.into_data_stream().map(move |chunk| {
        let chunk = chunk.map_err(std::io::Error::other)?;
        pending = if chunk.ends_with(b"\n\n") { 0 } else { pending.saturating_add(chunk.len()) };
        if pending > ANSWER_BYTES_MAX {
            return Err(std::io::Error::other(format!("an event is larger than {ANSWER_BYTES_MAX} bytes")));
        }
        Ok(chunk)
    });
    SseStream::from_bytes_stream(bounded).boxed()
}
