//! The conformance kit: the rules of `agentsessions.v1` against anyone's harness and anyone's host.
//!
//! [`harness::run`] plays the host's end of `Harness.Connect` against a harness at an address; [`host::run`] is a client of the
//! Sessions service at an address. Both know nothing of what is behind it: what is judged is what can be seen on the wire,
//! and each judgement names the rule that it is about. A check that had nothing to judge, because the peer never did
//! what the rule is about, is skipped with the reason; it never counts as passed.
//!
//! In reading order: `report` is what comes out, `harness` and `host` are the two sides, each with its table of checks.

pub mod harness;
pub mod host;
mod report;

/// The generated clients of the services that are judged.
#[allow(missing_docs, clippy::all, unreachable_pub, reason = "generated: their documentation is the .proto files")]
mod proto {
    pub mod agentsessions_v1 {
        include!("gen/agentsessions.v1.rs");
    }
    pub mod inspan_v1 {
        include!("gen/inspan.v1.rs");
    }
}

pub use inspan_attach::grpc::{Address, BadAddress};
pub use report::{Check, Finding, Report, Verdict};

/// Nobody answers at the address, so there is nothing to judge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreachable(String);

impl std::fmt::Display for Unreachable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreachable {}

/// Bytes of one message in either direction, as the protocol's peers take them.
const MESSAGE_BYTES_MAX: usize = inspan_attach::grpc::MESSAGE_BYTES_MAX;
