//! Sends the last input to the model `echo`; the completion is the output.

use async_trait::async_trait;
use inspan_wire::v1;

use crate::{Failure, Harness, ModelRequest, Sink, Start};

/// The smallest harness there is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Echo;

#[async_trait]
impl Harness for Echo {
    async fn describe(&self) -> Result<v1::HarnessDescriptor, Failure> {
        Ok(v1::HarnessDescriptor {
            id: "echo".to_owned(),
            version: "1".to_owned(),
            models: vec!["echo".to_owned()],
            capabilities: Some(v1::Capabilities {
                resumability: v1::Resumability::StatelessReplay.into(),
                fork_safe: true,
                ..Default::default()
            }),
            ..Default::default()
        })
    }

    async fn run(&self, start: Start, sink: &dyn Sink) -> Result<(), Failure> {
        let text = start.inputs.last().map(v1::Message::concat_text).unwrap_or_default();
        sink.model(ModelRequest {
            model: "echo".to_owned(),
            messages: vec![v1::Message::text("user", text)],
            ..Default::default()
        })
        .await?;
        Ok(())
    }
}
