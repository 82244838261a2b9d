//! How inspan reaches a harness.
//!
//! Two ways: a harness linked into the host, and one that answers at an address. Whatever carries it, a harness that
//! breaks fails its turn and nothing else.

pub mod grpc;
mod in_process;

pub use in_process::InProcess;
