//! One turn of a durable session, and everything that can happen to it.
//!
//! The engine decides; it performs nothing itself. Time and randomness come from [`Rim`], records
//! go to a [`Journal`](inspan_journal::Journal), model calls to a [`Model`], the agent is a
//! [`Harness`](inspan_harness::Harness), and whoever watches is an [`Observer`]. So the same code
//! runs in production, in replay and in the simulator.
//!
//! In reading order: `exec` starts a turn, `drive` runs its harness, `sink` is the one path of every
//! effect, `tool` says what runs tools and who may, `gate` folds the calls that wait for a decision, `tape` holds what the turn has recorded already, `writer` appends, `scan` folds the
//! journal's past; `ask` shows what waits, `approve` decides, `recover`, `rerun`, `fork` and `life` are what else happens to a session.

mod approve;
pub mod ask;
mod catalog;
mod drive;
mod engine;
mod error;
mod exec;
mod fork;
pub mod gate;
mod guard;
mod history;
mod late;
mod life;
mod model;
pub mod observe;
pub mod payload;
mod recover;
mod rerun;
mod rim;
pub mod scan;
mod sink;
pub mod tape;
mod tool;
mod warm;
mod writer;

pub use approve::Decided;
pub use ask::{Asked, AskedBy};
pub use catalog::{Agent, Catalog, Registered, Unserved};
pub use engine::{Engine, Limits};
pub use error::{Code, Error};
pub use exec::Turn;
pub use fork::ForkArgs;
pub use model::{Completion, Model, ModelError};
pub use observe::Observer;
pub use rerun::Rerun;
pub use rim::Rim;
pub use sink::{EXPIRY, POLICY};
pub use tool::{Action, Executor, Policy, ReplayRule, ToolError, ToolRun, Verdict};
