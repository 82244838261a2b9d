//! One POST to a provider: connect, send, ask again where that is safe, and say what went wrong.

mod connect;
pub(crate) mod failure;
mod post;

pub(crate) use post::{Post, media_type};

/// Bytes that an answer may have, streamed or not: 32 MiB.
pub const RESPONSE_BYTES_MAX: usize = 32 << 20;

#[cfg(test)]
mod tests;
