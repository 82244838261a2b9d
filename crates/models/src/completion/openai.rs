//! Chat Completions: a message, or deltas of one, to a completion.

use inspan_engine::{Completion, ModelError};
use inspan_wire::v1;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::calls::{Calls, Fragment};
use super::{Draft, OnText, Progress, Reasoning, assistant, bad_calls, call_part, count, malformed, text_part};
use super::{provider_error, stopped_short};
use crate::json::Fields;
use crate::request::openai::{MESSAGE_OPAQUE, PROVIDER};
use crate::stream::sse::Event;

/// An answer of Chat Completions in the making.
pub(crate) struct OpenAiDraft {
    asked: String,
    served: Option<String>,
    reasoning: String,
    /// Entries of `reasoning_details`, each as it came.
    details: Vec<Box<RawValue>>,
    /// Other fields of the message that only the provider understands.
    extra: Fields,
    text: String,
    calls: Calls,
    usage: Option<v1::Usage>,
    stop: Option<String>,
}

/// A chunk of a stream and a whole answer have the same outer form.
#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    model: Option<String>,
    usage: Option<Fields>,
    choices: Option<Vec<Choice<'a>>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    index: Option<i64>,
    delta: Option<Fields>,
    message: Option<Fields>,
    finish_reason: Option<String>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

impl OpenAiDraft {
    /// A draft of the answer to a request for model `asked`.
    pub(crate) fn new(asked: &str) -> OpenAiDraft {
        OpenAiDraft {
            asked: asked.to_owned(),
            served: None,
            reasoning: String::new(),
            details: Vec::new(),
            extra: Fields::default(),
            text: String::new(),
            calls: Calls::default(),
            usage: None,
            stop: None,
        }
    }

    fn chunk(&mut self, json: &[u8], on_text: OnText<'_>) -> Result<(), ModelError> {
        let chunk: Chunk<'_> =
            serde_json::from_slice(json).map_err(|e| malformed(format_args!("not a chat completion: {e}")))?;
        if let Some(error) = chunk.error {
            return Err(provider_error(error));
        }
        if chunk.model.as_ref().is_some_and(|m| !m.is_empty()) {
            self.served = chunk.model;
        }
        // Counts are running totals where they come more than once: the last ones hold.
        if let Some(usage) = chunk.usage.and_then(|u| self.usage(&u)) {
            self.usage = Some(usage);
        }
        for choice in chunk.choices.unwrap_or_default() {
            self.choice(choice, on_text)?;
        }
        Ok(())
    }

    fn choice(&mut self, choice: Choice<'_>, on_text: OnText<'_>) -> Result<(), ModelError> {
        if let Some(error) = choice.error {
            return Err(provider_error(error));
        }
        if choice.index.is_some_and(|i| i != 0) {
            return Err(malformed("more than one choice"));
        }
        if let Some(message) = choice.message {
            self.absorb(&message, true, on_text)?;
        }
        if let Some(delta) = choice.delta {
            self.absorb(&delta, false, on_text)?;
        }
        if let Some(reason) = choice.finish_reason.filter(|r| !r.is_empty()) {
            self.stop = Some(reason);
        }
        Ok(())
    }

    /// Takes a message (`whole`) or a delta of one.
    fn absorb(&mut self, delta: &Fields, whole: bool, on_text: OnText<'_>) -> Result<(), ModelError> {
        let reasoning = text_of(delta, "reasoning_content")?.or(text_of(delta, "reasoning")?).unwrap_or_default();
        let content = text_of(delta, "content")?.unwrap_or_default();
        let refusal = text_of(delta, "refusal")?.unwrap_or_default();
        let details: Vec<Box<RawValue>> = list_of(delta, "reasoning_details")?;
        let calls: Vec<Fields> = list_of(delta, "tool_calls")?;
        if delta.get("function_call").is_some() {
            return Err(malformed("it uses function_call, the form before tool_calls"));
        }
        let silent =
            reasoning.is_empty() && content.is_empty() && refusal.is_empty() && details.is_empty() && calls.is_empty();
        if self.stop.is_some() && !silent {
            return Err(malformed("content after its stop reason"));
        }
        self.reasoning.push_str(&reasoning);
        self.details.extend(details);
        for name in MESSAGE_OPAQUE {
            if let Some(value) = delta.get(name) {
                self.extra.set(name, value);
            }
        }
        for text in [content, refusal].iter().filter(|t| !t.is_empty()) {
            on_text(text);
            self.text.push_str(text);
        }
        for (position, call) in calls.iter().enumerate() {
            let fragment = fragment(call, whole.then_some(position))?;
            self.calls.absorb(fragment).map_err(malformed)?;
        }
        Ok(())
    }

    /// Prompt tokens include cached ones and completion tokens include reasoning, as in the API.
    fn usage(&self, usage: &Fields) -> Option<v1::Usage> {
        let details = usage.object("completion_tokens_details").unwrap_or_default();
        Some(v1::Usage {
            model: self.served.clone().unwrap_or_else(|| self.asked.clone()),
            input_tokens: count(usage, "prompt_tokens")?,
            output_tokens: count(usage, "completion_tokens")?,
            reasoning_tokens: count(&details, "reasoning_tokens").unwrap_or(0),
        })
    }
}

impl Draft for OpenAiDraft {
    fn event(&mut self, event: &Event, on_text: OnText<'_>) -> Result<Progress, ModelError> {
        let data = event.data.trim_ascii();
        if data == b"[DONE]" {
            // Without a stop reason the marker proves nothing: the answer counts as cut.
            return if self.stop.is_some() {
                Ok(Progress::Done)
            } else {
                Err(malformed("[DONE] before a stop reason"))
            };
        }
        if !data.is_empty() {
            self.chunk(data, on_text)?;
        }
        Ok(if self.stop.is_some() { Progress::Stopped } else { Progress::Open })
    }

    fn whole(&mut self, body: &[u8], on_text: OnText<'_>) -> Result<(), ModelError> {
        self.chunk(body, on_text)?;
        if self.stop.is_none() { Err(malformed("it has no finish_reason")) } else { Ok(()) }
    }

    fn finish(self) -> Result<Completion, ModelError> {
        match self.stop.as_deref() {
            None => return Err(malformed("it has no finish_reason")),
            Some("error") => return Err(malformed("its finish_reason is error")),
            Some("content_filter") => return Err(stopped_short("content_filter")),
            Some(_) => {}
        }
        let calls = self.calls.finish().map_err(|e| bad_calls(e, self.stop.as_deref()))?;
        let mut opaque = Fields::default();
        if !self.details.is_empty() {
            opaque.set("reasoning_details", &self.details);
        }
        opaque.merge(&self.extra);
        let reasoning = |opaque: &Fields, summary: String, item_id: &str, ordinal: usize| {
            let opaque = (!opaque.is_empty()).then(|| opaque.to_text());
            Reasoning { provider: PROVIDER, model: &self.asked, opaque, summary, item_id }.part(ordinal)
        };
        let mut parts = Vec::new();
        if !self.reasoning.is_empty() || !opaque.is_empty() {
            parts.push(reasoning(&opaque, self.reasoning, "", 0));
        }
        if !self.text.is_empty() {
            parts.push(text_part(self.text));
        }
        for call in calls {
            if !call.extra.is_empty() {
                parts.push(reasoning(&call.extra, String::new(), &call.id, parts.len()));
            }
            parts.push(call_part(call.id, call.name, call.args));
        }
        Ok(Completion { message: assistant(parts), usage: self.usage })
    }
}

/// A text field; `null` and absent are `None`.
fn text_of(fields: &Fields, name: &str) -> Result<Option<String>, ModelError> {
    let parse =
        |v: &RawValue| serde_json::from_str(v.get()).map_err(|_| malformed(format_args!("{name} is not a string")));
    fields.get(name).map(parse).transpose()
}

fn list_of<T: serde::de::DeserializeOwned>(fields: &Fields, name: &str) -> Result<Vec<T>, ModelError> {
    let parse = |v: &RawValue| {
        serde_json::from_str(v.get()).map_err(|_| malformed(format_args!("{name} is not a list of the expected form")))
    };
    Ok(fields.get(name).map(parse).transpose()?.unwrap_or_default())
}

/// Reads one entry of `tool_calls`. In a whole message its position is its index.
fn fragment(call: &Fields, position: Option<usize>) -> Result<Fragment, ModelError> {
    let function = match call.get("function") {
        None => Fields::default(),
        Some(f) => {
            Fields::parse(f.get().as_bytes()).map_err(|_| malformed("a tool call's function is not an object"))?
        }
    };
    let index = match (position, call.get("index")) {
        (Some(position), _) => i64::try_from(position).ok(),
        (None, None) => None,
        (None, Some(i)) => Some(i.get().parse().map_err(|_| malformed("a tool call's index is not a number"))?),
    };
    // Some servers give the arguments as the object itself.
    let arguments = match function.get("arguments") {
        Some(v) if v.get().starts_with('{') => v.get().to_owned(),
        _ => text_of(&function, "arguments")?.unwrap_or_default(),
    };
    let mut extra = call.without(&["index", "id", "type", "function"]);
    let function_extra = function.without(&["name", "arguments"]);
    if !function_extra.is_empty() {
        extra.set("function", &function_extra);
    }
    let id = text_of(call, "id")?.unwrap_or_default();
    let name = text_of(&function, "name")?.unwrap_or_default();
    Ok(Fragment { index, id, name, arguments, extra })
}
