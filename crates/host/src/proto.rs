//! The generated clients and servers of both packages. A client is made from a channel:
//! `SessionsClient::new(channel)`.

/// Package `agentsessions.v1`.
#[allow(missing_docs, clippy::all, unreachable_pub, reason = "generated: its documentation is the .proto files")]
pub mod agentsessions_v1 {
    include!("gen/agentsessions.v1.rs");
}

/// Package `inspan.v1`.
#[allow(missing_docs, clippy::all, unreachable_pub, reason = "generated: its documentation is the .proto files")]
pub mod inspan_v1 {
    include!("gen/inspan.v1.rs");
}

pub use agentsessions_v1::{
    harness_registry_client::HarnessRegistryClient, harness_registry_server::HarnessRegistryServer,
    sessions_client::SessionsClient, sessions_server::SessionsServer,
};
pub use inspan_v1::{
    asks_client::AsksClient, asks_server::AsksServer, journal_client::JournalClient, journal_server::JournalServer,
};
