//! Tools that the host runs for a harness, and who may have them run.

use std::time::Duration;

use async_trait::async_trait;
use inspan_wire::{Digest, SessionUid, v1};

/// One run of a tool. Its TOOL_CALL is durable.
#[derive(Debug, Clone)]
pub struct ToolRun {
    /// The session that asks: effects are told apart by it (R-TOOL-16).
    pub session: SessionUid,
    /// The call: as the harness made it when it is new, as it was recorded when it is driven again (R-TOOL-6).
    pub call: v1::ToolCall,
    /// Seq of its TOOL_CALL.
    pub seq: i64,
    /// An earlier run of this call may have reached the tool; how it ended is not known.
    pub again: bool,
}

impl ToolRun {
    /// The name of this effect for the outside: 64 hex digits of session and idempotency key. The same in every
    /// run of the call and in no other call, in no other session.
    pub fn effect_key(&self) -> String {
        let text = format!("{}\0{}", self.session, self.call.idempotency_key);
        Digest::of(text.as_bytes()).hex().as_str().to_owned()
    }
}

/// Why there is no result. A tool that ran and says that it failed has one, with `is_error`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// Nothing has left the host.
    #[error("{0}")]
    NotSent(String),
    /// It was sent, and whether the tool did its work is not known.
    #[error("{0}")]
    Unknown(String),
}

/// What may be done with a call that was sent and whose outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReplayRule {
    /// Running it again changes nothing: it is run again.
    Safe,
    /// The tool tells repetitions apart by the effect key: it is run again with it.
    Keyed,
    /// A person decides whether it is run again.
    Ask,
    /// It is never run again: the call is closed as unknown.
    Never,
}

/// Runs tools.
#[async_trait]
pub trait Executor: Send + Sync + 'static {
    /// What holds for the tool of this name, whether this executor has it or not.
    fn replay_rule(&self, tool: &str) -> ReplayRule;

    /// Runs a tool once. The future may be dropped when the turn is cancelled.
    ///
    /// # Errors
    /// [`ToolError`]: also for a tool that this executor does not have, as not sent.
    async fn run(&self, run: ToolRun) -> Result<v1::ToolResult, ToolError>;
}

/// What a policy says of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// It runs.
    Allow,
    /// A person decides.
    Ask,
    /// It does not run.
    Deny,
}

/// A policy's word on one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What is to happen.
    pub action: Action,
    /// The name of the rule that says so; it is recorded.
    pub rule: String,
    /// How long a person has to decide; `None` for ever. Of use with [`Action::Ask`] only.
    pub expires: Option<Duration>,
}

/// Who may have which tool run: asked for every call that the host mediates, before anything is recorded.
pub trait Policy: Send + Sync + 'static {
    /// The word on `call`, by a turn on `harness` in `session`; `None` when no rule speaks of it.
    fn decide(&self, session: &v1::Session, harness: &str, call: &v1::ToolCall) -> Option<Verdict>;
}
