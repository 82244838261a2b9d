//! The bytes of inspan: protobuf types, canonical form, content hash, input hash.
//!
//! Everything here is a pure function of its arguments: no I/O, no clock, no randomness, no runtime.
//! A journal is only as good as these bytes are exact, so each rule (R-HASH-*, R-IN-*) is pinned by
//! golden vectors in `tests/`.

/// Package `agentsessions.v1`, generated.
#[allow(missing_docs, clippy::all, unreachable_pub, reason = "generated: its documentation is the .proto files")]
pub mod v1 {
    include!("gen/agentsessions.v1.rs");
}

/// Package `inspan.v1`, generated.
#[allow(missing_docs, clippy::all, unreachable_pub, reason = "generated: its documentation is the .proto files")]
pub mod inspan_v1 {
    include!("gen/inspan.v1.rs");
}

pub mod blob;
pub mod canon;
mod decide;
mod emit;
pub mod event;
pub mod id;
pub mod input;
pub mod json;
pub mod normal;
pub mod parse;
pub mod time;

pub use id::{Digest, SessionUid, hex};

/// The serialised `FileDescriptorSet` of both packages, for reflection and for documentation.
pub const DESCRIPTORS: &[u8] = include_bytes!("gen/descriptors.bin");
