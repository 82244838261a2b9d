//! Canonical form (RFC 8785 over proto3-JSON) and content hash.

use crate::id::Digest;
use crate::v1;
use sha2::{Digest as _, Sha256};

/// An event that has no canonical form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A `Struct` number is NaN or infinite (R-HASH-5).
    #[error("a number is NaN or infinite and has no JSON form")]
    NonFinite,
    /// A timestamp outside years 1 to 9999.
    #[error("a timestamp is out of range")]
    Timestamp,
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
    let v = crate::json::to_value(event).map_err(|_| Error::NonFinite)?;
    serde_json::to_writer(out, &v).map_err(|_| Error::NonFinite)
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
