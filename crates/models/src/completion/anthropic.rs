//! Messages: content blocks, whole or in deltas, to a completion.

use std::collections::BTreeMap;

use inspan_engine::{Completion, ModelError};
use inspan_wire::v1;
use serde_json::value::RawValue;

use super::{
    Draft, OnText, PIECES_MAX, Progress, Reasoning, assistant, bad_calls, call_part, count, malformed, provider_error,
    stopped_short, text_part,
};
use crate::json::{Fields, to_struct};
use crate::request::anthropic::PROVIDER;
use crate::stream::sse::Event;

/// An answer of Messages in the making.
pub(crate) struct AnthropicDraft {
    asked: String,
    served: Option<String>,
    started: bool,
    blocks: BTreeMap<i64, Block>,
    /// Token counts by name, the last of each.
    counts: Fields,
    /// Whether the final counts came: the first event counts only what was read.
    counted: bool,
    stop: Option<String>,
}

struct Block {
    kind: Kind,
    /// The block as its start gave it, exactly.
    start: Box<RawValue>,
    fields: Fields,
    /// What the deltas added: text, thinking, or a call's arguments.
    added: String,
    signature: String,
    open: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Redacted,
    ToolUse,
}

impl AnthropicDraft {
    /// A draft of the answer to a request for model `asked`.
    pub(crate) fn new(asked: &str) -> AnthropicDraft {
        AnthropicDraft {
            asked: asked.to_owned(),
            served: None,
            started: false,
            blocks: BTreeMap::new(),
            counts: Fields::default(),
            counted: false,
            stop: None,
        }
    }

    fn start_block(&mut self, index: i64, block: Box<RawValue>, on_text: OnText<'_>) -> Result<(), ModelError> {
        let fields =
            Fields::parse(block.get().as_bytes()).map_err(|_| malformed("a content block is not an object"))?;
        let kind = match fields.text("type").unwrap_or_default().as_str() {
            "text" => Kind::Text,
            "thinking" => Kind::Thinking,
            "redacted_thinking" => Kind::Redacted,
            "tool_use" => Kind::ToolUse,
            other => return Err(malformed(format_args!("a content block of type {other:?} cannot be recorded"))),
        };
        if self.blocks.len() == PIECES_MAX {
            return Err(malformed(format_args!("it has over {PIECES_MAX} content blocks")));
        }
        if kind == Kind::Text {
            deliver(&fields.text("text").unwrap_or_default(), on_text);
        }
        let block = Block { kind, start: block, fields, added: String::new(), signature: String::new(), open: true };
        match self.blocks.insert(index, block) {
            None => Ok(()),
            Some(_) => Err(malformed(format_args!("content block {index} began twice"))),
        }
    }

    fn open_block(&mut self, index: Option<i64>) -> Result<&mut Block, ModelError> {
        let index = index.ok_or_else(|| malformed("a block event without an index"))?;
        let block = self.blocks.get_mut(&index).filter(|b| b.open);
        block.ok_or_else(|| malformed(format_args!("content block {index} is not open")))
    }

    fn delta(&mut self, index: Option<i64>, delta: &Fields, on_text: OnText<'_>) -> Result<(), ModelError> {
        let block = self.open_block(index)?;
        let kind = delta.text("type").unwrap_or_default();
        let (field, target) = match (kind.as_str(), block.kind) {
            ("text_delta", Kind::Text) => ("text", &mut block.added),
            ("thinking_delta", Kind::Thinking) => ("thinking", &mut block.added),
            ("signature_delta", Kind::Thinking) => ("signature", &mut block.signature),
            ("input_json_delta", Kind::ToolUse) => ("partial_json", &mut block.added),
            // Sources of a text are no part of the record.
            ("citations_delta", Kind::Text) => return Ok(()),
            _ => return Err(malformed(format_args!("a delta of type {kind:?} does not fit its block"))),
        };
        let added = delta.text(field).ok_or_else(|| malformed(format_args!("a {kind} without {field}")))?;
        target.push_str(&added);
        if field == "text" {
            deliver(&added, on_text);
        }
        Ok(())
    }

    fn message_start(&mut self, message: Option<Fields>) -> Result<(), ModelError> {
        if std::mem::replace(&mut self.started, true) {
            return Err(malformed("it began twice"));
        }
        let message = message.unwrap_or_default();
        self.served = message.text("model").filter(|m| !m.is_empty());
        if let Some(usage) = message.object("usage") {
            self.counts.merge(&usage.without(&[]));
        }
        Ok(())
    }

    fn message_delta(&mut self, delta: Option<Fields>, usage: Option<Fields>) {
        if let Some(reason) = delta.and_then(|d| d.text("stop_reason")).filter(|r| !r.is_empty()) {
            self.stop = Some(reason);
        }
        if let Some(usage) = usage {
            self.counted |= count(&usage, "output_tokens").is_some();
            self.counts.merge(&usage.without(&[]));
        }
    }

    /// Everything before the stop must have ended properly.
    fn check_stop(&self) -> Result<(), ModelError> {
        if let Some((index, _)) = self.blocks.iter().find(|(_, b)| b.open) {
            return Err(malformed(format_args!("it stopped while content block {index} was open")));
        }
        if self.stop.is_none() { Err(malformed("it has no stop_reason")) } else { Ok(()) }
    }

    /// Takes one event; only the fields of its own type are looked at.
    fn frame(&mut self, frame: &Fields, on_text: OnText<'_>) -> Result<Progress, ModelError> {
        let kind = frame.text("type").ok_or_else(|| malformed("an event without a type"))?;
        let index = frame.get("index").and_then(|i| i.get().parse().ok());
        match kind.as_str() {
            "error" => {
                let error = frame.get("error");
                return Err(error.map_or_else(|| malformed("an error event without an error"), provider_error));
            }
            "message_start" => self.message_start(frame.object("message"))?,
            "content_block_start" | "content_block_delta" | "content_block_stop" | "message_delta" | "message_stop"
                if !self.started =>
            {
                return Err(malformed(format_args!("{kind} before message_start")));
            }
            "content_block_start" => {
                if self.stop.is_some() {
                    return Err(malformed("content after its stop reason"));
                }
                let (Some(index), Some(block)) = (index, frame.get("content_block")) else {
                    return Err(malformed("a block start without an index or a block"));
                };
                self.start_block(index, block.to_owned(), on_text)?;
            }
            "content_block_delta" => {
                let delta = frame.object("delta").ok_or_else(|| malformed("a block delta without a delta"))?;
                self.delta(index, &delta, on_text)?;
            }
            "content_block_stop" => self.open_block(index)?.open = false,
            "message_delta" => self.message_delta(frame.object("delta"), frame.object("usage")),
            "message_stop" => {
                self.check_stop()?;
                return Ok(Progress::Done);
            }
            // Pings, and events that a later revision of the API adds.
            _ => {}
        }
        Ok(Progress::Open)
    }

    /// Cached tokens were read like all others: the API counts them apart, the record does not.
    fn usage(&self) -> Option<v1::Usage> {
        let cached = ["cache_creation_input_tokens", "cache_read_input_tokens"];
        let cached: i64 = cached.iter().filter_map(|name| count(&self.counts, name)).sum();
        let details = self.counts.object("output_tokens_details").unwrap_or_default();
        let usage = v1::Usage {
            model: self.served.clone().unwrap_or_else(|| self.asked.clone()),
            input_tokens: count(&self.counts, "input_tokens")?.saturating_add(cached),
            output_tokens: count(&self.counts, "output_tokens")?,
            reasoning_tokens: count(&details, "thinking_tokens").unwrap_or(0),
        };
        self.counted.then_some(usage)
    }
}

impl Draft for AnthropicDraft {
    fn event(&mut self, event: &Event, on_text: OnText<'_>) -> Result<Progress, ModelError> {
        if event.data.trim_ascii().is_empty() {
            return Ok(Progress::Open);
        }
        let frame = Fields::parse(&event.data)
            .map_err(|e| malformed(format_args!("event {:?} is not a JSON object: {e}", event.name)))?;
        self.frame(&frame, on_text)
    }

    fn whole(&mut self, body: &[u8], on_text: OnText<'_>) -> Result<(), ModelError> {
        let message = Fields::parse(body).map_err(|e| malformed(format_args!("not a message: {e}")))?;
        if let Some(error) = message.get("error") {
            return Err(provider_error(error));
        }
        let content = message.get("content").ok_or_else(|| malformed("it has no content"))?;
        let blocks: Vec<Box<RawValue>> =
            serde_json::from_str(content.get()).map_err(|_| malformed("its content is not a list of blocks"))?;
        self.message_start(None)?;
        self.served = message.text("model").filter(|m| !m.is_empty());
        for (index, block) in (0..).zip(blocks) {
            self.start_block(index, block, on_text)?;
            self.open_block(Some(index))?.open = false;
        }
        self.message_delta(Some(message.clone()), message.object("usage"));
        self.check_stop()
    }

    fn finish(self) -> Result<Completion, ModelError> {
        self.check_stop()?;
        if let Some(reason @ ("refusal" | "pause_turn")) = self.stop.as_deref() {
            return Err(stopped_short(reason));
        }
        let usage = self.usage();
        let mut parts: Vec<v1::Part> = Vec::new();
        let mut ids = Vec::new();
        for block in self.blocks.into_values() {
            match block.kind {
                Kind::Text => {
                    let text = block.fields.text("text").unwrap_or_default() + &block.added;
                    if !text.is_empty() {
                        parts.push(text_part(text));
                    }
                }
                Kind::Thinking | Kind::Redacted => parts.push(block.reasoning(&self.asked, parts.len())),
                Kind::ToolUse => {
                    let (signature, id, call) = block.call(&self.asked, parts.len(), self.stop.as_deref())?;
                    if ids.contains(&id) {
                        return Err(malformed(format_args!("two tool calls have the id {id}")));
                    }
                    ids.push(id);
                    parts.extend(signature);
                    parts.push(call);
                }
            }
        }
        Ok(Completion { message: assistant(parts), usage })
    }
}

impl Block {
    /// The whole block as exact JSON text: as it came, or with what its deltas added.
    fn reasoning(mut self, asked: &str, ordinal: usize) -> v1::Part {
        let thinking = self.fields.text("thinking").unwrap_or_default() + &self.added;
        let opaque = if self.added.is_empty() && self.signature.is_empty() {
            self.start.get().to_owned()
        } else {
            let signature = self.fields.text("signature").unwrap_or_default() + &self.signature;
            self.fields.set("thinking", &thinking);
            if !signature.is_empty() {
                self.fields.set("signature", &signature);
            }
            self.fields.to_text()
        };
        Reasoning { provider: PROVIDER, model: asked, opaque: Some(opaque), summary: thinking, item_id: "" }
            .part(ordinal)
    }

    /// The call, and before it what the provider attached to it.
    fn call(
        self,
        asked: &str,
        ordinal: usize,
        stop: Option<&str>,
    ) -> Result<(Option<v1::Part>, String, v1::Part), ModelError> {
        let id = self.fields.text("id").filter(|i| !i.is_empty());
        let id = id.ok_or_else(|| malformed("a tool call without an id"))?;
        let name = self.fields.text("name").filter(|n| !n.is_empty());
        let name = name.ok_or_else(|| malformed(format_args!("tool call {id} without a name")))?;
        let arguments = match self.fields.get("input") {
            Some(input) if self.added.is_empty() => input.get(),
            _ => &self.added,
        };
        let args = to_struct(arguments)
            .map_err(|e| bad_calls(format_args!("the arguments of tool call {id} ({name}) are {e}"), stop))?;
        let extra = self.fields.without(&["type", "id", "name", "input"]);
        let signature = (!extra.is_empty()).then(|| {
            let opaque = Some(extra.to_text());
            Reasoning { provider: PROVIDER, model: asked, opaque, summary: String::new(), item_id: &id }.part(ordinal)
        });
        Ok((signature, id.clone(), call_part(id, name, args)))
    }
}

fn deliver(text: &str, on_text: OnText<'_>) {
    if !text.is_empty() {
        on_text(text);
    }
}
