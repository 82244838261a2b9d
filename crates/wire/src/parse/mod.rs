//! Canonical JSON back to an event.

mod fields;
mod reader;

use crate::v1;
use reader::Reader;

/// A record whose event cannot be decoded: not damage of the chain, but nothing to run on either.
/// The text names the members on the way, what was wrong and the byte.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);

/// Decodes an event. Fields and enum values of a newer protocol are left out of the result: the
/// caller keeps the canonical bytes, which stay what the hash covers.
///
/// Takes what [`crate::canon`] writes, in any order of members and with white space, 64-bit
/// integers as strings or as numbers, and enum values by name or by number.
///
/// # Errors
/// Text that is not UTF-8 or not JSON, a name given twice in one object, two bodies, a known field
/// of the wrong type, nesting deeper than [`crate::canon::DEPTH_MAX`], text after the event.
pub fn event(canonical: &[u8]) -> Result<v1::Event, Error> {
    let text = std::str::from_utf8(canonical).map_err(|e| Error(format!("not UTF-8 at byte {}", e.valid_up_to())))?;
    let mut reader = Reader::new(text);
    let event = reader.message()?;
    reader.end()?;
    Ok(event)
}
