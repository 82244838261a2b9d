//! Harnesses that an operator registers while hosts run, and that outlive them (R-REG).
//!
//! In reading order: `spec` says what may be registered, [`Directory`] is the catalog of everything that a host serves,
//! `registrar` has the four operations, `grpc` is their spelling, `strict` refuses what this version does not know. The service is
//! the operator's: it has a listener of its own, on loopback, and is never on the port of the sessions.

mod directory;
mod grpc;
mod registrar;
mod spec;
mod strict;

pub use directory::{Directory, LoadError};

pub(crate) use grpc::router;
pub(crate) use registrar::Registrar;
