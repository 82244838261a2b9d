//! From an answer's body to a draft, chunk by chunk, strict about where the answer ends.
//!
//! | the body | before the stop reason | after it |
//! |---|---|---|
//! | ends | cut: an error | complete |
//! | breaks off (reset, missing last chunk) | cut: an error | complete |
//! | is silent | an error after the idle bound | complete after 5 s |
//! | says `[DONE]` or `message_stop` | an error | complete |
//! | brings an error event | an error | an error |

pub mod sse;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use inspan_engine::ModelError;

use crate::completion::{Draft, OnText, Progress};
use crate::http::RESPONSE_BYTES_MAX;

/// How long to wait for token counts once the stop reason was seen.
const TAIL: Duration = Duration::from_secs(5);

/// What ends the reading of a body without an answer.
fn broken(what: impl std::fmt::Display) -> ModelError {
    ModelError { message: format!("the provider's answer {what}; nothing of it is used"), retryable: true }
}

fn too_long() -> ModelError {
    let message = format!("the provider's answer is longer than {RESPONSE_BYTES_MAX} bytes; ask for less");
    ModelError { message, retryable: false }
}

/// Reads a streamed answer into `draft`. Returns only once its stop reason was seen.
pub(crate) async fn read_events<B>(
    mut body: B,
    draft: &mut impl Draft,
    idle: Duration,
    on_text: OnText<'_>,
) -> Result<(), ModelError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let (mut decoder, mut events) = (sse::Decoder::new(), Vec::new());
    let (mut progress, mut received) = (Progress::Open, 0);
    loop {
        let patience = if progress == Progress::Stopped { TAIL.min(idle) } else { idle };
        let chunk = match tokio::time::timeout(patience, body.frame()).await {
            Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            Ok(None) => {
                // The last event may lack its end; when its JSON does too, it was cut and says nothing.
                if let Some(event) = decoder.finish().filter(is_entire) {
                    progress = draft.event(&event, on_text)?;
                }
                return ended(progress, "ended before its stop reason");
            }
            Ok(Some(Err(e))) => return ended(progress, format_args!("broke off before its stop reason: {e}")),
            Err(_) => return ended(progress, format_args!("was silent for {} s", idle.as_secs_f64())),
        };
        received += chunk.len();
        if received > RESPONSE_BYTES_MAX {
            return Err(too_long());
        }
        let framed = decoder.push(&chunk, &mut events);
        for event in events.drain(..) {
            progress = draft.event(&event, on_text)?;
            if progress == Progress::Done {
                return Ok(());
            }
        }
        framed.map_err(broken)?;
    }
}

fn is_entire(event: &sse::Event) -> bool {
    event.data.trim_ascii() == b"[DONE]" || serde_json::from_slice::<serde::de::IgnoredAny>(&event.data).is_ok()
}

fn ended(progress: Progress, what: impl std::fmt::Display) -> Result<(), ModelError> {
    match progress {
        Progress::Open => Err(broken(what)),
        Progress::Stopped | Progress::Done => Ok(()),
    }
}

/// Reads an answer that is not streamed.
pub(crate) async fn read_whole<B>(mut body: B, idle: Duration) -> Result<Bytes, ModelError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let mut whole = BytesMut::new();
    loop {
        match tokio::time::timeout(idle, body.frame()).await {
            Ok(Some(Ok(frame))) => whole.extend_from_slice(&frame.into_data().unwrap_or_default()),
            Ok(None) => return Ok(whole.freeze()),
            Ok(Some(Err(e))) => return Err(broken(format_args!("broke off: {e}"))),
            Err(_) => return Err(broken(format_args!("was silent for {} s", idle.as_secs_f64()))),
        }
        if whole.len() > RESPONSE_BYTES_MAX {
            return Err(too_long());
        }
    }
}

#[cfg(test)]
mod tests;
