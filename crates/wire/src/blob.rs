//! Blobs that an event names by uri: payloads kept outside the record, by content.

use crate::Digest;
use crate::v1::{self, event::Body, file_part::Source, part, reasoning_part::Opaque};

/// The scheme of a uri that names a blob beside the journal.
pub const SCHEME: &str = "inspan-blob:";

/// The uri of a blob: `inspan-blob:sha256:` and 64 hex digits.
pub fn uri(digest: Digest) -> String {
    format!("{SCHEME}sha256:{digest}")
}

/// The digest in a blob's uri; `None` for any other uri.
pub fn parse_uri(uri: &str) -> Option<Digest> {
    uri.strip_prefix(SCHEME)?.strip_prefix("sha256:")?.parse().ok()
}

/// A place in an event that names a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named<'e> {
    /// A uri of our scheme; [`parse_uri`] gives `None` when the rest of it is malformed.
    pub uri: &'e str,
    /// The digest field beside it.
    pub digest: &'e str,
}

impl Named<'_> {
    /// The digest of the blob, if the uri is well formed and the digest field says the same or nothing.
    pub fn blob(&self) -> Option<Digest> {
        let blob = parse_uri(self.uri)?;
        let same = self.digest.strip_prefix("sha256:").is_some_and(|hex| hex == blob.hex().as_str());
        (self.digest.is_empty() || same).then_some(blob)
    }
}

/// Calls `found` for every place of `event` that names a blob, in order.
pub fn named<'e>(event: &'e v1::Event, found: &mut dyn FnMut(Named<'e>)) {
    match &event.body {
        Some(Body::Message(message)) => parts(&message.parts, found),
        Some(Body::Result(result)) => tool_result(result, found),
        _ => {}
    }
}

fn parts<'e>(parts: &'e [v1::Part], found: &mut dyn FnMut(Named<'e>)) {
    for part in parts {
        match &part.part {
            Some(part::Part::File(file)) => {
                if let Some(Source::Uri(uri)) = &file.source {
                    place(uri, &file.digest, found);
                }
            }
            Some(part::Part::Reasoning(reasoning)) => {
                self::parts(&reasoning.summary, found);
                if let Some(Opaque::OpaqueUri(uri)) = &reasoning.opaque {
                    place(uri, &reasoning.opaque_digest, found);
                }
            }
            Some(part::Part::ToolResult(result)) => tool_result(result, found),
            _ => {}
        }
    }
}

fn tool_result<'e>(result: &'e v1::ToolResult, found: &mut dyn FnMut(Named<'e>)) {
    parts(&result.content, found);
    place(&result.output_uri, &result.output_digest, found);
}

fn place<'e>(uri: &'e str, digest: &'e str, found: &mut dyn FnMut(Named<'e>)) {
    if uri.starts_with(SCHEME) {
        found(Named { uri, digest });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_found_and_foreign_uris_are_not() {
        let blob = Digest::of(b"x");
        let file = |uri: String, digest: &str| {
            let source = Some(Source::Uri(uri));
            v1::Part {
                part: Some(part::Part::File(v1::FilePart { source, digest: digest.into(), ..Default::default() })),
            }
        };
        let reasoning = v1::Part {
            part: Some(part::Part::Reasoning(v1::ReasoningPart {
                opaque: Some(Opaque::OpaqueUri(uri(blob))),
                summary: vec![file("https://example.com/x".into(), ""), file(uri(blob), &format!("sha256:{blob}"))],
                ..Default::default()
            })),
        };
        let result = v1::ToolResult {
            content: vec![reasoning, file(uri(blob), "sha256:aa"), file("inspan-blob:md5:aa".into(), "")],
            output_uri: uri(blob),
            ..Default::default()
        };
        let message =
            v1::Message { role: "tool".into(), parts: vec![v1::Part { part: Some(part::Part::ToolResult(result)) }] };
        let event = v1::Event::new("e", v1::EventKind::EventInput, Body::Message(message));
        let mut blobs = Vec::new();
        named(&event, &mut |place| blobs.push(place.blob()));
        assert_eq!(blobs, [Some(blob), Some(blob), None, None, Some(blob)]);
    }
}
