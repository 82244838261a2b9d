//! From what a provider said to a [`Completion`]: one draft per API, which takes a whole answer or
//! a stream of fragments through the same functions, so that both give the same completion.

mod anthropic;
mod calls;
mod openai;

use inspan_engine::{Completion, ModelError};
use inspan_wire::v1;
use serde_json::value::RawValue;

use crate::http::failure::{message_of, one_line};
use crate::json::Fields;
use crate::stream::sse::Event;

pub(crate) use anthropic::AnthropicDraft;
pub(crate) use openai::OpenAiDraft;

/// Where a stream stands after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The answer goes on: a body that ends here was cut.
    Open,
    /// The stop reason was seen. Token counts may follow; the body may end at any time.
    Stopped,
    /// Nothing follows.
    Done,
}

/// Tool calls, or content blocks, that one answer may have.
const PIECES_MAX: usize = 1024;

/// Receives text as it arrives.
pub(crate) type OnText<'a> = &'a (dyn for<'t> Fn(&'t str) + Send + Sync);

/// An answer in the making.
pub(crate) trait Draft: Send {
    /// Takes one event of a stream.
    fn event(&mut self, event: &Event, on_text: OnText<'_>) -> Result<Progress, ModelError>;

    /// Takes a whole answer that was not streamed. Its text goes to `on_text` in one piece.
    fn whole(&mut self, body: &[u8], on_text: OnText<'_>) -> Result<(), ModelError>;

    /// The completion. Call it only once a stop reason was seen.
    fn finish(self) -> Result<Completion, ModelError>;
}

/// An answer that is not what its API promises. The same request may well succeed next time.
fn malformed(what: impl std::fmt::Display) -> ModelError {
    let what = one_line(&what.to_string());
    ModelError { message: format!("the provider's answer cannot be used: {what}"), retryable: true }
}

/// Calls that cannot be used; one that the token limit cut will be cut again.
fn bad_calls(what: impl std::fmt::Display, stop: Option<&str>) -> ModelError {
    match stop {
        Some("length" | "max_tokens") => {
            let cut = malformed(format_args!("{what}; it stopped at its token limit: allow more tokens"));
            ModelError { retryable: false, ..cut }
        }
        _ => malformed(what),
    }
}

/// The error inside a body or an event that came under status 200.
fn provider_error(error: &RawValue) -> ModelError {
    let message = message_of(error.get().as_bytes());
    let kind = Fields::parse(error.get().as_bytes()).ok().and_then(|f| f.text("type")).unwrap_or_default();
    let retryable = !matches!(
        kind.as_str(),
        "invalid_request_error" | "authentication_error" | "permission_error" | "not_found_error" | "request_too_large"
    );
    ModelError { message: format!("the provider reported an error in its answer: {message}"), retryable }
}

/// A stop that is no answer: the text so far must not pass for one.
fn stopped_short(reason: &str) -> ModelError {
    ModelError {
        message: format!(
            "the provider stopped the answer (stop reason {reason}); rephrase the request or ask another model"
        ),
        retryable: false,
    }
}

fn text_part(text: String) -> v1::Part {
    v1::Part { part: Some(v1::part::Part::Text(v1::TextPart { text })) }
}

/// A call as the model made it: mediation and idempotency key are the host's to set.
fn call_part(id: String, tool: String, args: prost_types::Struct) -> v1::Part {
    let call = v1::ToolCall { id, tool, args: Some(args), ..Default::default() };
    v1::Part { part: Some(v1::part::Part::ToolCall(call)) }
}

/// A reasoning part: `opaque` is exact JSON text for the provider, `summary` is for people.
struct Reasoning<'a> {
    provider: &'a str,
    model: &'a str,
    opaque: Option<String>,
    summary: String,
    /// Empty, or the id of the tool call that the opaque fields belong to.
    item_id: &'a str,
}

impl Reasoning<'_> {
    /// The part at position `ordinal` of its message.
    fn part(self, ordinal: usize) -> v1::Part {
        let summary = if self.summary.is_empty() { Vec::new() } else { vec![text_part(self.summary)] };
        let reasoning = v1::ReasoningPart {
            provider: self.provider.to_owned(),
            model_id: self.model.to_owned(),
            opaque: self.opaque.map(|o| v1::reasoning_part::Opaque::OpaqueBytes(o.into_bytes().into())),
            summary,
            item_id: self.item_id.to_owned(),
            ordinal: i32::try_from(ordinal).unwrap_or(i32::MAX),
            ..Default::default()
        };
        v1::Part { part: Some(v1::part::Part::Reasoning(reasoning)) }
    }
}

/// The assistant's message of these parts.
fn assistant(parts: Vec<v1::Part>) -> v1::Message {
    v1::Message { role: "assistant".to_owned(), parts }
}

/// A token count: a whole number, not negative. Anything else is unknown.
fn count(fields: &Fields, name: &str) -> Option<i64> {
    fields.get(name)?.get().parse().ok().filter(|n| *n >= 0)
}

#[cfg(test)]
mod tests;
