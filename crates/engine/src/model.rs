//! What a model provider is to the engine.

use async_trait::async_trait;
use inspan_harness::ModelRequest;
use inspan_wire::v1;

/// A completion, as it will be journaled.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// The assistant's message: text, tool calls, reasoning with its opaque bytes.
    pub message: v1::Message,
    /// What the provider counted; `None` is unknown, never zero.
    pub usage: Option<v1::Usage>,
}

/// Why a model call gave no completion. The text reaches the caller and the journal: it says what
/// was wrong and what to do, and never holds a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What happened, as a sentence fragment.
    pub message: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
}

/// A model provider.
#[async_trait]
pub trait Model: Send + Sync + 'static {
    /// Asks once. Text of a streaming provider goes to `on_text` chunk by chunk, never empty. The
    /// implementation may try again by itself only while nothing was delivered. Dropping the
    /// future cancels the call at the provider.
    ///
    /// # Errors
    /// See [`ModelError`]. A stream that was cut before its end is an error, not a completion.
    async fn call(
        &self,
        request: &ModelRequest,
        on_text: &(dyn for<'t> Fn(&'t str) + Send + Sync),
    ) -> Result<Completion, ModelError>;

    /// Whether this provider streams: if so, one closing delta follows its chunks.
    fn streams(&self) -> bool;
}
