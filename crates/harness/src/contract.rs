//! Describe, run, and the sink.

use async_trait::async_trait;
use bytes::Bytes;
use inspan_wire::v1;

use crate::History;

/// A model request: model, params, messages, tools and tool choice count; `id` and `input_hash` are
/// the host's and ignored.
pub type ModelRequest = v1::ModelCall;

/// A completion as the provider gave it, opaque reasoning included: hand it back unchanged in
/// the next request.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelResponse {
    /// The assistant's message.
    pub message: v1::Message,
}

/// Everything a turn starts from.
#[derive(Clone)]
pub struct Start {
    /// The session's uid.
    pub session: String,
    /// This turn's execution id.
    pub execution_id: String,
    /// Opaque bytes of the caller, journaled and restored as they came. Not a place for secrets.
    pub config: Bytes,
    /// Every earlier event of the session (R-START-4). Empty after a memory restore.
    pub history: History,
    /// The turn's messages.
    pub inputs: Vec<v1::Message>,
    /// On whose behalf the turn runs, when the host knows.
    pub identity: Option<v1::IdentityContext>,
    /// The harness's own cursor.
    pub resume_from_seq: i64,
}

/// Why a sink operation did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SinkError {
    /// This operation failed and the turn may go on: a provider or a tool said no.
    #[error("{0}")]
    Handleable(String),
    /// The turn waits for a person and goes on when the decision is there: return, and call nothing further.
    /// What follows is driven from the journal, in this process or in another one.
    #[error("the turn waits for a decision on tool call {}", .0.tool_call_id)]
    Parked(v1::ApprovalRef),
    /// The turn is over, whatever the harness does next: it diverged from its record, was
    /// cancelled, or its journal could not be written.
    #[error("{0}")]
    Fatal(String),
}

/// Why a turn failed. The text goes to the caller and into the journal: no secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The harness failed.
    #[error("{0}")]
    Failed(String),
    /// The harness cannot be reached now, and a later try may succeed: before a turn the host answers UNAVAILABLE.
    #[error("{0}")]
    Unavailable(String),
    /// It did not fail: it stopped at a gate, as [`SinkError::Parked`] asked.
    #[error("the turn waits for a decision")]
    Parked,
}

impl From<SinkError> for Failure {
    fn from(e: SinkError) -> Failure {
        match e {
            SinkError::Parked(_) => Failure::Parked,
            SinkError::Handleable(text) | SinkError::Fatal(text) => Failure::Failed(text),
        }
    }
}

/// What the host answers to a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolReply {
    /// The result; a tool that failed says so with `is_error`.
    pub result: v1::ToolResult,
    /// The decision that the result followed, for a call that asked for one.
    pub decision: Option<v1::ApprovalResult>,
}

impl From<v1::ToolResult> for ToolReply {
    fn from(result: v1::ToolResult) -> ToolReply {
        ToolReply { result, decision: None }
    }
}

/// An agent.
#[async_trait]
pub trait Harness: Send + Sync + 'static {
    /// What this harness is and needs. Static: the host may call it at any time.
    ///
    /// # Errors
    /// When the harness cannot be reached or cannot say.
    async fn describe(&self) -> Result<v1::HarnessDescriptor, Failure>;

    /// Drives one turn. `Ok` is COMPLETED, `Err` is FAILED. The future may be dropped at any await
    /// point when the turn is cancelled.
    ///
    /// # Errors
    /// Whatever made the turn fail.
    async fn run(&self, start: Start, sink: &dyn Sink) -> Result<(), Failure>;

    /// Drives a turn that was admitted on what `admitted` says: what the host calls. A harness that is linked in cannot
    /// have become another one since, so its authors have nothing to do here; the way to one at an address makes sure
    /// of it (R-REMOTE-3).
    ///
    /// # Errors
    /// As [`Harness::run`], or because another harness answers now.
    async fn run_admitted(
        &self,
        admitted: &v1::HarnessDescriptor,
        start: Start,
        sink: &dyn Sink,
    ) -> Result<(), Failure> {
        let _ = admitted;
        self.run(start, sink).await
    }
}

/// The one way to the world. Operations run one after another; each is durable before it returns.
#[async_trait]
pub trait Sink: Send + Sync {
    /// Asks a model. Live, the host calls the provider; on replay it serves the record.
    async fn model(&self, request: ModelRequest) -> Result<ModelResponse, SinkError>;

    /// Records output that no model made. Do not repeat a completion here: it is recorded already.
    async fn output(&self, text: &str) -> Result<(), SinkError>;

    /// Has the host run a tool and waits for its result. With [`v1::Mediation::RequiresApproval`], or when the
    /// host's policy says so, the first answer is [`SinkError::Parked`].
    async fn tool(&self, call: v1::ToolCall) -> Result<ToolReply, SinkError>;

    /// Records the result of a tool that the harness ran itself.
    async fn report(&self, result: v1::ToolResult) -> Result<(), SinkError>;

    /// Records token counts.
    async fn usage(&self, usage: v1::Usage) -> Result<(), SinkError>;
}
