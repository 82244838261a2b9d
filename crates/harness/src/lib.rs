//! What a harness author links: the contract, and three reference harnesses to read.
//!
//! A harness is an agent behind two methods. [`Harness::describe`] says what it is and needs;
//! [`Harness::run`] drives one turn and does everything that the world should see through the
//! [`Sink`]. The host records each effect before it happens and serves the record when the turn
//! is run again, so a harness that takes its effects through the sink, and is otherwise
//! deterministic, is durable, replayable and forkable without a line of code for it.

mod contain;
pub mod contract;
pub mod gate;
pub mod history;
pub mod reference;
#[cfg(feature = "serve")]
pub mod serve;

pub use contain::contained;
pub use contract::{Failure, Harness, ModelRequest, ModelResponse, Sink, SinkError, Start, ToolReply};
pub use history::{History, HistorySource};

pub use async_trait::async_trait;
