//! Large payloads leave the record and come back for the harness.
//!
//! A file, a tool output or opaque reasoning above 64 KiB is kept as a blob; the record names it by
//! uri and digest, so the chain covers it. The harness always sees the payload itself: live, on
//! resume and on replay the value is the same. Text stays in the record.

use std::collections::BTreeMap;

use bytes::Bytes;
use inspan_journal::Blobs;
use inspan_journal::blob::INLINE_BYTES_MAX;
use inspan_wire::blob::{SCHEME, named, parse_uri, uri};
use inspan_wire::v1::{self, event::Body, file_part::Source, part::Part as P, reasoning_part::Opaque};
use inspan_wire::{Digest, canon, json};
use prost_types::Struct;

use crate::Error;

/// The field for a payload's own digest; a caller's other digest is not ours to replace, so such a
/// payload stays in the record.
fn own_digest(field: &str, digest: Digest) -> bool {
    field.is_empty() || field.strip_prefix("sha256:").is_some_and(|hex| hex == digest.hex().as_str())
}

/// Walks every place of an event that a payload can be in.
fn visit(event: &mut v1::Event, f: &mut impl FnMut(Place<'_>)) {
    match &mut event.body {
        Some(Body::Message(m)) => m.parts.iter_mut().for_each(|p| visit_part(p, f)),
        Some(Body::Result(r)) => visit_result(r, f),
        _ => {}
    }
}

fn visit_part(part: &mut v1::Part, f: &mut impl FnMut(Place<'_>)) {
    match &mut part.part {
        Some(P::File(file)) => f(Place::File(file)),
        Some(P::Reasoning(r)) => {
            r.summary.iter_mut().for_each(|p| visit_part(p, f));
            f(Place::Reasoning(r));
        }
        Some(P::ToolResult(r)) => visit_result(r, f),
        _ => {}
    }
}

fn visit_result(result: &mut v1::ToolResult, f: &mut impl FnMut(Place<'_>)) {
    result.content.iter_mut().for_each(|p| visit_part(p, f));
    f(Place::Output(result));
}

enum Place<'a> {
    File(&'a mut v1::FilePart),
    Reasoning(&'a mut v1::ReasoningPart),
    Output(&'a mut v1::ToolResult),
}

fn may_hold_payload(event: &v1::Event) -> bool {
    match &event.body {
        Some(Body::Message(m)) => m.parts.iter().any(|p| !matches!(p.part, Some(P::Text(_)) | None)),
        Some(Body::Result(_)) => true,
        _ => false,
    }
}

/// Whether the event names a blob of this host.
pub fn is_named(event: &v1::Event) -> bool {
    let mut any = false;
    named(event, &mut |_| any = true);
    any
}

/// Whether a tool result names a blob of this host.
pub fn is_named_result(result: &v1::ToolResult) -> bool {
    is_named(&v1::Event { body: Some(Body::Result(result.clone())), ..Default::default() })
}

/// Refuses a message in which a caller names a blob itself: a uri must not reach what another
/// session holds.
///
/// # Errors
/// INVALID_ARGUMENT.
pub fn refuse_named(message: &v1::Message) -> Result<(), Error> {
    let event = v1::Event { body: Some(Body::Message(message.clone())), ..Default::default() };
    if is_named(&event) {
        return Err(Error::InvalidArgument(format!(
            "a part names a {SCHEME} uri, which only the host gives out: send the bytes, or a uri of your own"
        )));
    }
    Ok(())
}

/// Whether the event may hold a payload that is kept apart from it.
pub fn may_be_taken_out(event: &v1::Event) -> bool {
    may_hold_payload(event) && prost::Message::encoded_len(event) > INLINE_BYTES_MAX
}

/// Takes the large payloads out of `event`. `event` is then what is recorded; what is returned is
/// to be durable before it.
pub fn take_out(event: &mut v1::Event) -> Vec<(Digest, Bytes)> {
    if !may_be_taken_out(event) {
        return Vec::new();
    }
    let mut out = Vec::new();
    visit(event, &mut |place| match place {
        Place::File(file) => {
            let Some(Source::Bytes(bytes)) = &file.source else { return };
            if bytes.len() <= INLINE_BYTES_MAX {
                return;
            }
            let (digest, bytes) = (Digest::of(bytes), bytes.clone());
            if own_digest(&file.digest, digest) {
                file.source = Some(Source::Uri(uri(digest)));
                file.digest = format!("sha256:{digest}");
                out.push((digest, bytes));
            }
        }
        Place::Reasoning(r) => {
            let Some(Opaque::OpaqueBytes(bytes)) = &r.opaque else { return };
            if bytes.len() <= INLINE_BYTES_MAX {
                return;
            }
            let (digest, bytes) = (Digest::of(bytes), bytes.clone());
            if own_digest(&r.opaque_digest, digest) {
                r.opaque = Some(Opaque::OpaqueUri(uri(digest)));
                r.opaque_digest = format!("sha256:{digest}");
                out.push((digest, bytes));
            }
        }
        Place::Output(r) => {
            let Some(output) = &r.output else { return };
            if !r.output_uri.is_empty() || prost::Message::encoded_len(output) <= INLINE_BYTES_MAX {
                return;
            }
            let Some(bytes) = object_text(output) else { return };
            let (digest, bytes) = (Digest::of(&bytes), Bytes::from(bytes));
            if own_digest(&r.output_digest, digest) {
                r.output = None;
                r.output_uri = uri(digest);
                r.output_digest = format!("sha256:{digest}");
                out.push((digest, bytes));
            }
        }
    });
    out
}

/// Clears the caller's spelling of a payload's own digest: the harness sees the same value live as on
/// resume, where the record no longer tells whether the caller had given it.
pub fn clear_own_digests(event: &mut v1::Event, digest: Digest) {
    let own = format!("sha256:{digest}");
    visit(event, &mut |place| {
        let field = match place {
            Place::File(v1::FilePart { source: Some(Source::Bytes(_)), digest, .. }) => digest,
            Place::Reasoning(v1::ReasoningPart { opaque: Some(Opaque::OpaqueBytes(_)), opaque_digest, .. }) => {
                opaque_digest
            }
            Place::Output(v1::ToolResult { output: Some(_), output_digest, .. }) => output_digest,
            _ => return,
        };
        if *field == own {
            field.clear();
        }
    });
}

/// Puts the payloads back into a recorded event: the value that the harness sees.
///
/// # Errors
/// When a payload is missing or is not what its digest says.
pub async fn put_back(event: &mut v1::Event, blobs: &dyn Blobs) -> Result<(), Error> {
    let mut digests = Vec::new();
    named(event, &mut |place| digests.extend(parse_uri(place.uri)));
    if digests.is_empty() {
        return Ok(());
    }
    let mut payloads = BTreeMap::new();
    for digest in digests {
        let bytes = blobs.get(digest).await?;
        let bytes = bytes.ok_or_else(|| {
            Error::FailedPrecondition(format!("payload sha256:{digest} is missing from the blob store: restore it"))
        })?;
        payloads.insert(digest, bytes);
    }
    fill(event, &payloads)
}

fn fill(event: &mut v1::Event, payloads: &BTreeMap<Digest, Bytes>) -> Result<(), Error> {
    let payload = |uri: &str| payloads.get(&parse_uri(uri)?).cloned();
    let mut result = Ok(());
    visit(event, &mut |place| match place {
        Place::File(file) => {
            let Some(Source::Uri(uri)) = &file.source else { return };
            if let Some(bytes) = payload(uri) {
                file.source = Some(Source::Bytes(bytes));
                file.digest.clear();
            }
        }
        Place::Reasoning(r) => {
            let Some(Opaque::OpaqueUri(uri)) = &r.opaque else { return };
            if let Some(bytes) = payload(uri) {
                r.opaque = Some(Opaque::OpaqueBytes(bytes));
                r.opaque_digest.clear();
            }
        }
        Place::Output(r) => {
            if let Some(bytes) = payload(&r.output_uri) {
                match parse_output(&bytes) {
                    Ok(output) => r.output = Some(output),
                    Err(e) => result = Err(e),
                }
                r.output_uri.clear();
                r.output_digest.clear();
            }
        }
    });
    result
}

/// The name that a `DataPart` gives the object it holds; an object is written through one.
const DATA: (&[u8], &[u8]) = (b"{\"data\":", b"}");

/// An object, such as a tool's output or its arguments, as canonical JSON; `None` when it has no JSON form.
pub(crate) fn object_text(object: &Struct) -> Option<Vec<u8>> {
    let text = canon::message(&v1::DataPart { data: Some(object.clone()) }).ok()?;
    Some(text.strip_prefix(DATA.0)?.strip_suffix(DATA.1)?.to_vec())
}

fn parse_output(text: &[u8]) -> Result<Struct, Error> {
    let part: v1::DataPart = json::from_slice(&[DATA.0, text, DATA.1].concat())
        .map_err(|e| Error::FailedPrecondition(format!("a tool output in the blob store is not a JSON object: {e}")))?;
    Ok(part.data.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(len: usize, digest: &str) -> v1::Event {
        let file = v1::FilePart {
            mime: "application/octet-stream".to_owned(),
            source: Some(Source::Bytes(Bytes::from(vec![7; len]))),
            digest: digest.to_owned(),
            ..Default::default()
        };
        let part = v1::Part { part: Some(P::File(file)) };
        v1::Event::new(
            "e",
            v1::EventKind::EventInput,
            Body::Message(v1::Message { role: "user".to_owned(), parts: vec![part] }),
        )
    }

    #[test]
    fn a_large_file_leaves_and_comes_back() {
        let original = file(INLINE_BYTES_MAX + 1, "");
        let mut recorded = original.clone();
        let out = take_out(&mut recorded);
        assert_eq!(out.len(), 1);
        assert!(prost::Message::encoded_len(&recorded) < 1000);
        assert!(is_named(&recorded));
        fill(&mut recorded, &out.into_iter().collect()).unwrap();
        assert_eq!(recorded, original);
    }

    #[test]
    fn a_small_file_and_a_foreign_digest_stay() {
        for original in [file(INLINE_BYTES_MAX, ""), file(INLINE_BYTES_MAX + 1, "sha256:aa")] {
            let mut recorded = original.clone();
            assert!(take_out(&mut recorded).is_empty());
            assert_eq!(recorded, original);
        }
    }

    #[test]
    fn a_caller_cannot_name_a_blob() {
        let part = v1::Part {
            part: Some(P::File(v1::FilePart {
                source: Some(Source::Uri(uri(Digest::of(b"x")))),
                ..Default::default()
            })),
        };
        let message = v1::Message { role: "user".to_owned(), parts: vec![part] };
        assert!(matches!(refuse_named(&message), Err(Error::InvalidArgument(_))));
        assert_eq!(refuse_named(&v1::Message::text("user", SCHEME)), Ok(()));
    }
}
