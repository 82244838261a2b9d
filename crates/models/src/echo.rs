//! The model that says what it hears.

use async_trait::async_trait;
use inspan_engine::{Completion, Model, ModelError};
use inspan_wire::v1;

use crate::completion::OnText;

/// Completes with `echo:` and the text of the last message. Does not stream and counts no tokens.
#[derive(Debug, Clone, Copy, Default)]
pub struct Echo;

#[async_trait]
impl Model for Echo {
    async fn call(&self, request: &v1::ModelCall, _: OnText<'_>) -> Result<Completion, ModelError> {
        let text = request.messages.last().map(v1::Message::concat_text).unwrap_or_default();
        Ok(Completion { message: v1::Message::text("assistant", format!("echo:{text}")), usage: None })
    }

    fn streams(&self) -> bool {
        false
    }
}
