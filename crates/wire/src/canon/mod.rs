//! Canonical form (RFC 8785 over proto3-JSON) and content hash.
//!
//! Events, which are hashed all day, have a writer of their own (`write`); the few other messages
//! that need a canonical form take the generic path and are sorted afterwards.

mod write;

use prost::{Message, Name};
use sha2::{Digest as _, Sha256};

use crate::id::Digest;
use crate::v1;
use write::Canon;

/// The deepest nesting of JSON objects and arrays that an event may have, its own braces included.
/// What is written is always readable again, and no recursion here can exhaust a stack.
pub const DEPTH_MAX: u32 = 128;

/// An event that has no canonical form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A `Struct` number is NaN or infinite (R-HASH-5).
    #[error("a number is NaN or infinite and has no JSON form")]
    NonFinite,
    /// A timestamp outside years 1 to 9999.
    #[error("a timestamp is out of range")]
    Timestamp,
    /// Objects and lists nested deeper than [`DEPTH_MAX`].
    #[error("values are nested more than {DEPTH_MAX} deep; flatten them")]
    TooDeep,
    /// A tool choice mode outside the known set, which nobody may take for the default.
    #[error("tool choice mode {0} is not a known mode")]
    ToolChoiceMode(i32),
    /// A message of the generic path that has no proto3-JSON; the text says why.
    #[error("{0}")]
    Generic(String),
}

/// The canonical bytes of `event` (R-HASH-2 to R-HASH-6).
///
/// # Errors
/// See [`Error`].
pub fn event(event: &v1::Event) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(256);
    write_event(event, &mut out)?;
    Ok(out)
}

/// Appends the canonical bytes of `event` to `out`.
///
/// # Errors
/// See [`Error`]; `out` then holds a useless tail.
pub fn write_event(event: &v1::Event, out: &mut Vec<u8>) -> Result<(), Error> {
    Canon::new(out).event(event)
}

/// The canonical bytes of any message of the two packages, by the generic path.
///
/// # Errors
/// [`Error::Generic`], [`Error::TooDeep`].
pub fn message<M: Message + Name>(message: &M) -> Result<Vec<u8>, Error> {
    let value = crate::json::to_value(message).map_err(|e| Error::Generic(e.to_string()))?;
    let mut out = Vec::new();
    Canon::new(&mut out).json(&value)?;
    Ok(out)
}

/// The digest by which a harness registration is known: `sha256:` and the hex SHA-256 of the
/// spec's canonical form (R-REG-1).
///
/// # Errors
/// None in practice: a spec holds neither numbers nor timestamps.
pub fn spec_digest(spec: &v1::HarnessSpec) -> Result<String, Error> {
    Ok(format!("sha256:{}", Digest::of(&message(spec)?)))
}

/// The content hash of a record: SHA-256 of `{"event":…,"prev_hash":"…","seq":"…"}` (R-HASH-1).
/// `prev` is `None` for the first record.
pub fn content_hash(prev: Option<Digest>, seq: i64, canonical_event: &[u8]) -> Digest {
    let mut h = Sha256::new();
    h.update(b"{\"event\":");
    h.update(canonical_event);
    h.update(b",\"prev_hash\":\"");
    if let Some(prev) = prev {
        h.update(prev.hex().as_str());
    }
    h.update(b"\",\"seq\":\"");
    h.update(itoa::Buffer::new().format(seq));
    h.update(b"\"}");
    Digest(h.finalize().into())
}

/// The id under which a turn of a journal without execution ids is driven: `legacy-` and the hex
/// SHA-256 of `{"session_uid":…,"seq":"…","event":…}`, in that order (R-LEGACY-6). Never journaled.
pub fn legacy_execution_id(session_uid: &str, seq: i64, canonical_event: &[u8]) -> String {
    let mut text = Vec::with_capacity(canonical_event.len() + session_uid.len() + 64);
    text.extend_from_slice(b"{\"session_uid\":");
    crate::emit::string(session_uid, &mut text);
    text.extend_from_slice(b",\"seq\":\"");
    crate::emit::integer(seq, &mut text);
    text.extend_from_slice(b"\",\"event\":");
    text.extend_from_slice(canonical_event);
    text.push(b'}');
    format!("legacy-{}", Digest::of(&text))
}
