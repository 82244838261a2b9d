//! Refuses a registration that says more than this version understands (R-REG-2).
//!
//! The generated types forget fields that they do not know. A spec is kept for ever under its digest, so one that was read without
//! a part of it would be another spec than the operator's, and would stand in the way of the real one.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use inspan_wire::{json, v1};
use prost::Name as _;
use prost_reflect::{DynamicMessage, Value};
use tonic::Status;

/// Bytes of a message to the registry.
pub(super) const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// The flag and the length before a message.
const FRAME_HEAD: usize = 5;
const REGISTER: &str = "/agentsessions.v1.HarnessRegistry/RegisterHarness";

/// Looks at a registration before it is decoded.
pub(super) async fn refuse_unknown_fields(request: Request, next: Next) -> Response {
    if request.uri().path() != REGISTER {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let Ok(bytes) = to_bytes(body, FRAME_HEAD + MESSAGE_BYTES_MAX).await else {
        let text = format!("the request broke off, or is longer than {MESSAGE_BYTES_MAX} bytes");
        return Status::invalid_argument(text).into_http();
    };
    if let Some(field) = unknown_in(&bytes) {
        let text = format!("{field} is not known to this host: leave it out, or use the version that knows it");
        return Status::invalid_argument(text).into_http();
    }
    next.run(Request::from_parts(parts, Body::from(bytes))).await
}

/// The first unknown field of a framed request. A frame that is none, or a message that does not decode, is the server's to
/// refuse; so is a compressed one, since none was offered.
fn unknown_in(frame: &[u8]) -> Option<String> {
    let (head, rest) = frame.split_first_chunk::<FRAME_HEAD>()?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    let message = rest.get(..usize::try_from(length).ok()?).filter(|_| head[0] == 0)?;
    let descriptor = json::pool().get_message_by_name(&v1::RegisterHarnessRequest::full_name())?;
    first_unknown(&DynamicMessage::decode(descriptor, message).ok()?, "the request")
}

fn first_unknown(message: &DynamicMessage, path: &str) -> Option<String> {
    if let Some(unknown) = message.unknown_fields().next() {
        return Some(format!("field {} of {path}", unknown.number()));
    }
    message.fields().find_map(|(field, value)| match value {
        Value::Message(inner) => first_unknown(inner, field.name()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    fn framed(message: &[u8]) -> Vec<u8> {
        let length = u32::try_from(message.len()).expect("it is short").to_be_bytes();
        [&[0][..], &length, message].concat()
    }

    fn request(capabilities: &[u8]) -> Vec<u8> {
        // spec = 2, capabilities = 3.
        let spec = [&[0x1a, u8::try_from(capabilities.len()).expect("it is short")][..], capabilities].concat();
        [&[0x12, u8::try_from(spec.len()).expect("it is short")][..], &spec].concat()
    }

    /// R-REG-2: unknown fields are found at every depth.
    #[test]
    fn what_is_not_known_is_found() {
        let known = v1::RegisterHarnessRequest { name: "mine".to_owned(), ..Default::default() }.encode_to_vec();
        assert_eq!(unknown_in(&framed(&known)), None);
        assert_eq!(unknown_in(&framed(&request(&[0x08, 1]))), None, "resumability");
        // Field 9, a varint.
        let more = [&known[..], &[0x48, 1]].concat();
        assert_eq!(unknown_in(&framed(&more)).as_deref(), Some("field 9 of the request"));
        assert_eq!(unknown_in(&framed(&request(&[0x48, 1]))).as_deref(), Some("field 9 of capabilities"));
        for other in [&b""[..], b"\0\0\0", &[0, 0, 0, 0, 9, 1], &framed(&[0xff])] {
            assert_eq!(unknown_in(other), None, "{other:?} is the server's to refuse");
        }
    }
}
