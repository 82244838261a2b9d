//! One log line for each request, and its id.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body as AxumBody;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use inspan_engine::Rim as _;
use inspan_models::request_id;
use inspan_wire::id::hex;
use tonic::Code;

use crate::fault::code_name;
use crate::system::{Stopwatch, System};

/// Longest id that is taken from a caller.
const REQUEST_ID_LEN_MAX: usize = 128;

/// What will be said of a request when its answer is complete. No header, query or body is logged:
/// they may hold what must not be repeated.
pub(crate) struct Line {
    method: Method,
    path: String,
    id: HeaderValue,
    watch: Stopwatch,
}

impl Line {
    /// Begins the line of a request and settles its id.
    pub(crate) fn begin<B>(request: &mut Request<B>) -> Line {
        let given = request.headers().get(request_id::HEADER).filter(|id| is_acceptable(id)).cloned();
        let id = given.unwrap_or_else(new_id);
        request.headers_mut().insert(request_id::HEADER, id.clone());
        Line { method: request.method().clone(), path: request.uri().path().to_owned(), id, watch: Stopwatch::start() }
    }

    /// The request's id.
    pub(crate) fn id(&self) -> &HeaderValue {
        &self.id
    }

    /// Puts the id on the answer; the line is written when its body has been sent or given up.
    pub(crate) fn follow(self, mut response: Response<AxumBody>) -> Response<AxumBody> {
        let mut id = self.id.clone();
        // It never comes again: HTTP/2 is to keep it out of the table of what does.
        id.set_sensitive(true);
        response.headers_mut().insert(request_id::HEADER, id);
        let status = response.status().as_u16();
        let grpc = grpc_status(response.headers());
        response.map(|body| AxumBody::new(Followed { body, line: self, status, grpc, ended: false }))
    }

    fn write(&self, status: u16, grpc: Option<Code>, complete: bool) {
        let Line { method, path, id, watch } = self;
        let id = id.to_str().unwrap_or_default();
        let ms = watch.elapsed_ms();
        match grpc {
            Some(code) => {
                tracing::info!(%method, path, code = code_name(code), complete, ms, request_id = id, "request")
            }
            None => tracing::info!(%method, path, code = status, complete, ms, request_id = id, "request"),
        }
    }
}

fn is_acceptable(id: &HeaderValue) -> bool {
    let id = id.as_bytes();
    (1..=REQUEST_ID_LEN_MAX).contains(&id.len())
        && id.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

fn new_id() -> HeaderValue {
    let mut bytes = [0; 12];
    System.fill(&mut bytes);
    HeaderValue::from_str(&hex(&bytes)).expect("hex digits are a header value")
}

fn grpc_status(headers: &HeaderMap) -> Option<Code> {
    let value = headers.get("grpc-status")?;
    Some(Code::from_bytes(value.as_bytes()))
}

/// A body that writes its request's line when it is over.
struct Followed {
    body: AxumBody,
    line: Line,
    status: u16,
    grpc: Option<Code>,
    ended: bool,
}

impl Body for Followed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        match &frame {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(code) = frame.trailers_ref().and_then(grpc_status) {
                    self.grpc = Some(code);
                }
            }
            Poll::Ready(None) => self.ended = true,
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        // A body whose end is known from its headers is not asked for it.
        let complete = self.ended || self.body.is_end_stream() || self.grpc.is_some();
        self.line.write(self.status, self.grpc, complete);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_taken_or_replaced() {
        let settled = |given: Option<&[u8]>| {
            let mut request = Request::new(());
            if let Some(given) = given {
                request
                    .headers_mut()
                    .insert(request_id::HEADER, HeaderValue::from_bytes(given).expect("a header value"));
            }
            let line = Line::begin(&mut request);
            assert_eq!(request.headers().get(request_id::HEADER), Some(&line.id));
            line.id.as_bytes().to_vec()
        };
        let longest = [b'a'; 128];
        for given in [b"a".as_slice(), b"Az09._-", &longest] {
            assert_eq!(settled(Some(given)), given);
        }
        let replaced = |id: Vec<u8>| id.len() == 24 && id.iter().all(|b| b"0123456789abcdef".contains(b));
        for given in [None, Some(b"".as_slice()), Some(b"a b"), Some(b"a/b"), Some(b"\xff"), Some(&[b'a'; 129])] {
            assert!(replaced(settled(given)), "{given:?}");
        }
        assert_ne!(settled(None), settled(None));
    }
}
