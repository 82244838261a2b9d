//! One POST to a provider: connect, send, ask again where that is safe, and say what went wrong.
//!
//! The connector is there for everyone who speaks HTTP to the outside: one TLS for the whole binary.

mod connect;
pub(crate) mod failure;
mod post;

pub use connect::{Connector, tls};
pub use failure::one_line;
pub(crate) use post::Post;
pub use post::{chain, media_type};

/// Bytes that an answer may have, streamed or not: 32 MiB.
pub const RESPONSE_BYTES_MAX: usize = 32 << 20;

#[cfg(test)]
mod tests;
