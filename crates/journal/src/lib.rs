//! The journal: the append-only, hash-chained record of every session.
//!
//! [`Journal`] is the contract. Every store passes the same suite and means the same by it: what is
//! acknowledged is durable, a record once written never changes, and one writer at a time holds a
//! session. The stores know nothing of turns: what a record means is the engine's business, and it
//! hands over the projections ([`State`]) that move in the same commit as the records.

pub mod blob;
pub mod contract;
pub mod error;
pub mod export;
pub mod foreign;
pub mod keys;
pub mod memory;
pub mod record;
pub mod registration;
pub mod session;
pub mod sqlite;
pub mod verify;

mod admit;
mod delta;
mod lineage;
mod pool;

pub use blob::Blobs;
pub use contract::{
    Append, Appended, Ask, AskPage, AskQuery, Asks, FenceRule, Fork, ForkChild, Import, ImportBatch, Journal,
    KeptRequest, ListQuery, Page, TurnMark,
};
pub use error::Error;
pub use keys::{KeyChange, KeyUse};
pub use record::{NewRecord, Record};
pub use registration::{NewRegistration, Registered, Registration, RegistrationQuery, Registrations, Retired};
pub use session::{Head, NewSession, Session, State};

/// Wall-clock time, given to the stores so that tests and the simulator own it.
pub trait Clock: Send + Sync + 'static {
    /// Nanoseconds since the Unix epoch, UTC.
    fn now_ns(&self) -> i64;
}
