//! The inspan host: the Sessions and Journal services, over gRPC and as JSON over HTTP, on one port.
//!
//! [`server`] binds and serves; [`host`] holds every operation once; `grpc` and `http` are its two
//! spellings; [`hub`] lets any number of viewers follow a session; `guard` refuses who must not
//! drive this host; [`openapi`] writes down the HTTP spelling. [`catalog`], [`tools`] and [`system`] are what
//! the engine is given: harnesses, tools, time and randomness; [`registry`] adds the harnesses that operators register.
//! [`config`] reads `inspan.toml`.

mod asks;
pub mod catalog;
pub mod config;
mod exec;
mod expiry;
pub mod fault;
mod grpc;
mod guard;
pub mod host;
mod http;
pub mod hub;
pub mod openapi;
mod page;
pub mod proto;
pub mod registry;
pub mod server;
pub mod system;
pub mod tools;
mod trace;
pub mod transfer;
mod update;
mod watch;
pub mod webhook;

pub use host::{Host, Settings};

// Who puts a server together needs the stores, the models and the contracts that they meet.
pub use {inspan_engine as engine, inspan_journal as journal, inspan_models as models};
