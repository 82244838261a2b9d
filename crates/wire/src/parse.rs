//! Canonical JSON back to an event.

use crate::v1;

/// A record whose event cannot be decoded: not damage of the chain, but nothing to run on either.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);

/// Decodes an event. Fields and enum values of a newer protocol are left out of the result: the
/// caller keeps the canonical bytes, which stay what the hash covers.
///
/// # Errors
/// Malformed JSON or a known field of the wrong type.
pub fn event(canonical: &[u8]) -> Result<v1::Event, Error> {
    crate::json::from_slice(canonical).map_err(|e| Error(e.to_string()))
}
