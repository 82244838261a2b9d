//! Models: one that echoes, one that does what the test says when the test says it.

use async_trait::async_trait;
use inspan_engine::{Completion, Model, ModelError};
use inspan_harness::ModelRequest;
use inspan_wire::v1;
use tokio::sync::{Mutex, mpsc};

/// Completes with the last message's text, in two chunks.
pub struct Echoing;

#[async_trait]
impl Model for Echoing {
    async fn call(
        &self,
        request: &ModelRequest,
        on_text: &(dyn for<'t> Fn(&'t str) + Send + Sync),
    ) -> Result<Completion, ModelError> {
        let text = request.messages.last().map(v1::Message::concat_text).unwrap_or_default();
        let middle = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        for chunk in [&text[..middle], &text[middle..]].into_iter().filter(|chunk| !chunk.is_empty()) {
            on_text(chunk);
        }
        Ok(completion(text))
    }

    fn streams(&self) -> bool {
        true
    }
}

fn completion(text: String) -> Completion {
    Completion { message: v1::Message::text("assistant", text), usage: None }
}

/// What a held model does next.
pub enum Step {
    Chunk(String),
    Finish(String),
    Fail(String),
}

/// A model that waits for the test at every step.
pub struct Gated {
    steps: Mutex<mpsc::UnboundedReceiver<Step>>,
    asked: mpsc::UnboundedSender<String>,
}

/// The test's side of a [`Gated`] model.
pub struct Gates {
    steps: mpsc::UnboundedSender<Step>,
    asked: Mutex<mpsc::UnboundedReceiver<String>>,
}

impl Gated {
    pub fn new() -> (Gated, Gates) {
        let (steps, steps_in) = mpsc::unbounded_channel();
        let (asked_out, asked) = mpsc::unbounded_channel();
        (Gated { steps: Mutex::new(steps_in), asked: asked_out }, Gates { steps, asked: Mutex::new(asked) })
    }
}

impl Gates {
    /// Waits until the model is asked; answers with the text of the last message.
    pub async fn asked(&self) -> String {
        self.asked.lock().await.recv().await.expect("the host holds the model")
    }

    pub fn chunk(&self, text: &str) {
        self.step(Step::Chunk(text.to_owned()));
    }

    pub fn finish(&self, text: &str) {
        self.step(Step::Finish(text.to_owned()));
    }

    pub fn fail(&self, text: &str) {
        self.step(Step::Fail(text.to_owned()));
    }

    fn step(&self, step: Step) {
        assert!(self.steps.send(step).is_ok(), "the host holds the model");
    }
}

#[async_trait]
impl Model for Gated {
    async fn call(
        &self,
        request: &ModelRequest,
        on_text: &(dyn for<'t> Fn(&'t str) + Send + Sync),
    ) -> Result<Completion, ModelError> {
        let text = request.messages.last().map(v1::Message::concat_text).unwrap_or_default();
        // A test that does not count the calls has let go of its end.
        drop(self.asked.send(text));
        let mut steps = self.steps.lock().await;
        loop {
            match steps.recv().await {
                Some(Step::Chunk(text)) => on_text(&text),
                Some(Step::Finish(text)) => return Ok(completion(text)),
                Some(Step::Fail(message)) => return Err(ModelError { message, retryable: false }),
                None => std::future::pending().await,
            }
        }
    }

    fn streams(&self) -> bool {
        true
    }
}
