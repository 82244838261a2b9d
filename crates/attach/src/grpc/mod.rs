//! A harness in another process, behind `agentsessions.v1.Harness`.
//!
//! In reading order: `address` says where it is, `dial` gets there, `remote` is the harness as the engine sees it, `turn`
//! drives one turn over one stream.

use std::time::Duration;

mod address;
mod dial;
mod remote;
mod turn;

/// The generated client of `agentsessions.v1.Harness`.
#[allow(missing_docs, clippy::all, unreachable_pub, reason = "generated: its documentation is the .proto files")]
mod proto {
    include!("../gen/agentsessions.v1.rs");
}

pub use address::{Address, BadAddress};
pub use dial::channel;
pub use proto::harness_client::HarnessClient;
pub use remote::Remote;

/// Bytes of one message on the stream, in both directions: Start carries the whole history of a session, which is far
/// more than gRPC's usual 4 MiB.
pub const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// How patient a host is with a harness in another process.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a connection may take to be made.
    pub connect_within: Duration,
    /// Silence of a connection that carries a turn after which it is asked whether somebody is there.
    pub ping_after: Duration,
    /// How long the answer to that may take.
    pub ping_within: Duration,
    /// How long a harness may take to stop at a gate.
    pub park_within: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            connect_within: Duration::from_secs(5),
            ping_after: Duration::from_secs(310),
            ping_within: Duration::from_secs(20),
            park_within: Duration::from_secs(30),
        }
    }
}
