//! A harness that panics fails its turn and nothing else.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;

use crate::Failure;

/// Runs `work` and turns its panic into a failure. What the harness shares with its other turns it
/// must itself keep sound over a panic; whoever calls shares nothing with it but the sink.
///
/// # Errors
/// What `work` fails with, or the text of its panic.
pub async fn contained<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(outcome) => outcome,
        Err(payload) => Err(Failure::Failed(format!("the harness panicked: {}", panic_text(payload.as_ref())))),
    }
}

fn panic_text(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<&str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "without a text"
    }
}
