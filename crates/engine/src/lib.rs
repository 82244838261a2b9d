//! One turn of a durable session, and everything that can happen to it.
//!
//! The engine decides; it performs nothing itself. Time and randomness come from [`Rim`], records
//! go to a [`Journal`](inspan_journal::Journal), model calls to a [`Model`], the agent is a
//! [`Harness`](inspan_harness::Harness), and whoever watches is an [`Observer`]. So the same code
//! runs in production, in replay and in the simulator. Files in reading order: `exec` starts a
//! turn, `scan` folds the journal's past, `tape` holds what a turn has recorded already, `sink` is
//! the one path of every effect, `writer` appends, `end` closes the turn.

pub mod catalog;
pub mod engine;
pub mod error;
pub mod model;
pub mod observe;
pub mod rim;

pub use catalog::{Agent, Catalog};
pub use engine::{Engine, ForkArgs, Limits, Rerun, Turn};
pub use error::{Code, Error};
pub use model::{Completion, Model, ModelError};
pub use observe::Observer;
pub use rim::Rim;
