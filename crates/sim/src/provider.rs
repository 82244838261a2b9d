//! A model provider: slow, moody, and it knows what had to be on record before it was asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use inspan_engine::{Completion, Model, ModelError};
use inspan_harness::ModelRequest;
use inspan_wire::{Digest, input, v1};
use v1::{part::Part, reasoning_part::Opaque};

use crate::Promise;
use crate::oracle::short;
use crate::script::LARGE_BYTES;
use crate::world::{World, lock};

/// A provider; all hosts ask the same.
pub(crate) struct Provider {
    pub(crate) world: Arc<World>,
    pub(crate) streams: bool,
    pub(crate) calls: Arc<AtomicU64>,
}

/// The hash that the record of this request carries.
pub(crate) fn input_hash(request: &ModelRequest) -> String {
    let text = input::text(request).expect("the requests of this harness have a JSON form");
    Digest::of(text.as_bytes()).to_string()
}

impl Provider {
    /// Checks that this call may be made, and counts it.
    fn judge(&self, hash: &str, number: u64) {
        let Some(op) = self.world.op() else {
            return self.world.broke(Promise::ReplayCostsNothing, "the provider was asked outside of any operation");
        };
        let verdict = lock(&self.world.oracle).called(&op, hash);
        match verdict {
            Ok((session, seq)) => {
                self.world.note(format!("op {} host {} {}: call {number} for {seq}", op.id, op.host, short(&session)));
                self.world.with_op(|op| op.driven.insert((session, seq)));
            }
            Err(violation) => self.world.judge(Err(violation)),
        }
    }

    fn completion(&self, text: &str) -> v1::Message {
        let mut message = v1::Message::text("assistant", text);
        if self.world.chance(self.world.weather.large) {
            let opaque = Bytes::from(text.as_bytes().repeat(LARGE_BYTES / text.len() + 1));
            let reasoning = v1::ReasoningPart { opaque: Some(Opaque::OpaqueBytes(opaque)), ..Default::default() };
            message.parts.insert(0, v1::Part { part: Some(Part::Reasoning(reasoning)) });
        }
        message
    }

    async fn stream(&self, text: &str, on_text: &(dyn for<'t> Fn(&'t str) + Send + Sync)) -> Result<(), ModelError> {
        for chunk in text.split_inclusive(':') {
            if self.world.fault(self.world.weather.model_fails / 4) {
                return Err(says_no("the stream was cut"));
            }
            on_text(chunk);
            self.world.pause().await;
        }
        Ok(())
    }
}

fn says_no(message: &str) -> ModelError {
    ModelError { message: message.to_owned(), retryable: false }
}

#[async_trait]
impl Model for Provider {
    async fn call(
        &self,
        request: &ModelRequest,
        on_text: &(dyn for<'t> Fn(&'t str) + Send + Sync),
    ) -> Result<Completion, ModelError> {
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        let hash = input_hash(request);
        self.judge(&hash, number);
        self.world.delay(self.world.weather.latency_ns_max).await;
        if self.world.fault(self.world.weather.model_fails) {
            return Err(says_no("the provider is overloaded"));
        }
        if self.world.fault(self.world.weather.model_hangs) {
            std::future::pending::<()>().await;
        }
        // No two answers are alike: whatever is served later must be this very one.
        let text = format!("re:{number}:{}", request.messages.last().map(v1::Message::concat_text).unwrap_or_default());
        lock(&self.world.answers).insert(text.clone(), hash);
        if self.streams {
            self.stream(&text, on_text).await?;
        }
        Ok(Completion { message: self.completion(&text), usage: None })
    }

    fn streams(&self) -> bool {
        self.streams
    }
}
