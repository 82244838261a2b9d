//! A harness that is linked into the host.

use std::sync::Arc;

use async_trait::async_trait;
use inspan_harness::{Failure, Harness, Sink, Start, contained};
use inspan_wire::v1;

/// A harness in the host's own process. Its panic is its own turn's failure, never the host's
/// death.
#[derive(Clone)]
pub struct InProcess {
    harness: Arc<dyn Harness>,
}

impl InProcess {
    /// Attaches `harness`.
    pub fn new(harness: impl Harness) -> InProcess {
        InProcess { harness: Arc::new(harness) }
    }
}

#[async_trait]
impl Harness for InProcess {
    async fn describe(&self) -> Result<v1::HarnessDescriptor, Failure> {
        contained(self.harness.describe()).await
    }

    async fn run(&self, start: Start, sink: &dyn Sink) -> Result<(), Failure> {
        contained(self.harness.run(start, sink)).await
    }
}

#[cfg(test)]
mod tests {
    use inspan_harness::{History, ModelRequest, ModelResponse, SinkError, ToolReply};

    use super::*;

    /// Refuses everything: these tests never get that far.
    struct NoSink;

    #[async_trait]
    impl Sink for NoSink {
        async fn model(&self, _: ModelRequest) -> Result<ModelResponse, SinkError> {
            Err(SinkError::Fatal("no model".to_owned()))
        }
        async fn output(&self, _: &str) -> Result<(), SinkError> {
            Ok(())
        }
        async fn tool(&self, _: v1::ToolCall) -> Result<ToolReply, SinkError> {
            Err(SinkError::Fatal("no tool".to_owned()))
        }
        async fn report(&self, _: v1::ToolResult) -> Result<(), SinkError> {
            Ok(())
        }
        async fn usage(&self, _: v1::Usage) -> Result<(), SinkError> {
            Ok(())
        }
    }

    /// Panics after its first await, as real code does; fails or succeeds when told.
    struct Fragile(&'static str);

    #[async_trait]
    impl Harness for Fragile {
        async fn describe(&self) -> Result<v1::HarnessDescriptor, Failure> {
            assert_ne!(self.0, "describe", "no description today");
            Ok(v1::HarnessDescriptor { id: "fragile".to_owned(), ..Default::default() })
        }

        async fn run(&self, _: Start, sink: &dyn Sink) -> Result<(), Failure> {
            sink.output("before").await?;
            match self.0 {
                "literal" => panic!("a plain text"),
                "formatted" => panic!("turn {} broke", 7),
                "value" => std::panic::panic_any(7_u8),
                "failure" => Err(Failure::Failed("said no".to_owned())),
                _ => Ok(()),
            }
        }
    }

    async fn run(how: &'static str) -> Result<(), Failure> {
        let start = Start {
            session: "sess-1".to_owned(),
            execution_id: "1".to_owned(),
            config: Default::default(),
            history: History::empty(),
            inputs: Vec::new(),
            identity: None,
            resume_from_seq: 0,
        };
        InProcess::new(Fragile(how)).run(start, &NoSink).await
    }

    #[tokio::test]
    async fn a_panic_is_the_turns_failure() {
        let failed = |text: &str| Err(Failure::Failed(text.to_owned()));
        assert_eq!(run("literal").await, failed("the harness panicked: a plain text"));
        assert_eq!(run("formatted").await, failed("the harness panicked: turn 7 broke"));
        assert_eq!(run("value").await, failed("the harness panicked: without a text"));
        assert_eq!(run("failure").await, failed("said no"));
        assert_eq!(run("").await, Ok(()));
    }

    #[tokio::test]
    async fn a_panic_in_describe_is_a_failure_too() {
        let failed = InProcess::new(Fragile("describe")).describe().await.expect_err("it panicked");
        assert!(failed.to_string().starts_with("the harness panicked: "), "{failed}");
        assert_eq!(InProcess::new(Fragile("")).describe().await.expect("it is well").id, "fragile");
    }
}
