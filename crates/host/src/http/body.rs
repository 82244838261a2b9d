//! Bodies: proto3-JSON in, proto3-JSON out.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use inspan_wire::json;
use prost::{Message, Name};
use tonic::Code;

use super::routes::IMPORT_TYPES;
use super::{BODY_BYTES_MAX, Refusal};
use crate::fault::Fault;

/// The message of a request whose body must be there.
///
/// # Errors
/// 413, 415, or 400 with what is wrong and where.
pub(super) async fn required<M: Message + Name + Default>(request: Request) -> Result<M, Refusal> {
    let (parts, body) = request.into_parts();
    if !is_json(&parts.headers) {
        // A web page can send every other type without asking: none of them drives a session.
        return Err(Refusal::not_json());
    }
    message(&read(body).await?)
}

/// The message of a request whose body may be left out.
///
/// # Errors
/// As [`required`] for a body that is there.
pub(super) async fn optional<M: Message + Name + Default>(request: Request) -> Result<M, Refusal> {
    let (parts, body) = request.into_parts();
    let body = read(body).await?;
    if body.is_empty() {
        return Ok(M::default());
    }
    if !is_json(&parts.headers) {
        return Err(Refusal::not_json());
    }
    message(&body)
}

/// The pieces of a request's body that is a file.
///
/// # Errors
/// 415 for a content type that a web page may send without asking.
pub(super) fn file(request: Request) -> Result<impl Stream<Item = Result<Bytes, Fault>> + Send, Refusal> {
    if !is_one_of(request.headers(), IMPORT_TYPES) {
        return Err(Refusal::not_a_file());
    }
    let pieces = request.into_body().into_data_stream();
    Ok(pieces.map(|piece| piece.map_err(|_| Fault::invalid("the body broke off"))))
}

fn is_json(headers: &HeaderMap) -> bool {
    is_one_of(headers, &["application/json"])
}

fn is_one_of(headers: &HeaderMap, types: &[&str]) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) else { return false };
    let essence = value.split(';').next().unwrap_or_default().trim();
    types.iter().any(|known| essence.eq_ignore_ascii_case(known))
}

async fn read(body: Body) -> Result<Bytes, Refusal> {
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Refusal::too_large()),
        Err(_) => Err(Refusal::invalid("the body broke off")),
    }
}

fn message<M: Message + Name + Default>(body: &[u8]) -> Result<M, Refusal> {
    json::from_slice(body).map_err(|e| Refusal::invalid(format!("the body is not a {}: {e}", M::NAME)))
}

/// A message as the answer.
pub(super) fn answer<M: Message + Name>(message: &M) -> Result<Response, Refusal> {
    let value = json::to_value(message)
        .map_err(|e| Fault::new(Code::Internal, format!("the {} has no JSON form: {e}", M::NAME)))?;
    Ok(axum::Json(value).into_response())
}
