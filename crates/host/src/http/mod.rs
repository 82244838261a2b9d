//! The HTTP spelling: JSON in resource style, streams as server-sent events or as JSON lines.

mod body;
mod handle;
mod params;
mod refusal;
pub(crate) mod routes;
mod stream;

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, on};

use crate::Host;
use params::Path;
pub(crate) use refusal::Refusal;
use routes::{Route, TABLE, Verb};

/// Longest body of a request, in bytes: the bound of a gRPC message.
pub(crate) use crate::grpc::MESSAGE_IN_BYTES_MAX as BODY_BYTES_MAX;

/// What is wrong with a path or a method, in JSON; for a gRPC call, UNIMPLEMENTED.
pub(crate) async fn no_route(request: Request) -> Response {
    if is_grpc(&request) {
        return tonic::Status::unimplemented(format!("no method {}", request.uri().path()))
            .into_http::<axum::body::Body>();
    }
    Refusal::no_route(request.uri().path()).into_response()
}

/// Whether a request speaks gRPC.
pub(crate) fn is_grpc<B>(request: &axum::http::Request<B>) -> bool {
    let content_type = request.headers().get(header::CONTENT_TYPE);
    content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// Every route of the table.
pub(crate) fn router(host: Arc<Host>) -> Router {
    let mut router = Router::new();
    for route in TABLE {
        let handler = move |State(host): State<Arc<Host>>, path: PathParts, request: Request| async move {
            answer(route, &host, path, request).await
        };
        router = router.route(route.path, on(filter(route.verb), handler));
    }
    router.method_not_allowed_fallback(wrong_method).with_state(host)
}

fn filter(verb: Verb) -> MethodFilter {
    match verb {
        Verb::Get => MethodFilter::GET,
        Verb::Post => MethodFilter::POST,
        Verb::Delete => MethodFilter::DELETE,
    }
}

/// The variable parts of a path, when they are UTF-8.
type PathParts = Result<RawPathParams, RawPathParamsRejection>;

async fn answer(route: &'static Route, host: &Host, path: PathParts, request: Request) -> Response {
    let answer = match path {
        Ok(path) => handle::handle(host, route, Path::new(&path), request).await,
        Err(_) => Err(Refusal::invalid("the path is not UTF-8")),
    };
    answer.unwrap_or_else(Refusal::into_response)
}

async fn wrong_method(request: Request) -> Response {
    Refusal::wrong_method(request.method(), request.uri().path()).into_response()
}
