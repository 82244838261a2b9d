//! How inspan reaches a harness.
//!
//! One kind for now: a harness linked into the host. Whatever carries it, a harness that breaks
//! fails its turn and nothing else.

mod in_process;

pub use in_process::InProcess;
