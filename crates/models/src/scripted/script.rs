//! The file: what may be in it, checked while it is read so that an error has its line.

use inspan_engine::Completion;
use inspan_wire::v1;
use serde::Deserialize;

use crate::json;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Script {
    pub(super) turns: Vec<Turn>,
    #[serde(default, rename = "loop")]
    pub(super) repeat: bool,
    #[serde(default = "yes")]
    pub(super) stream: bool,
    pub(super) calls_log: Option<String>,
}

fn yes() -> bool {
    true
}

/// One answer.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Entry")]
pub(super) struct Turn {
    pub(super) pattern: Option<String>,
    pub(super) chunks: Vec<String>,
    pub(super) delay_ms: u64,
    pub(super) chunk_delay_ms: u64,
    pub(super) fault: Option<Fault>,
    reasoning: Vec<Thought>,
    calls: Vec<v1::ToolCall>,
    usage: Option<Tokens>,
}

/// How a turn goes wrong.
#[derive(Debug)]
pub(super) enum Fault {
    /// After everything was said.
    Error(ErrorEntry),
    /// In the middle.
    Cut { after_chunks: usize },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(rename = "match")]
    pattern: Option<String>,
    text: Option<String>,
    chunks: Option<Vec<String>>,
    #[serde(default)]
    reasoning: Vec<Thought>,
    #[serde(default)]
    tool_calls: Vec<CallEntry>,
    usage: Option<Tokens>,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    chunk_delay_ms: u64,
    error: Option<ErrorEntry>,
    cut_after_chunks: Option<usize>,
}

/// A failure that the provider reports.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ErrorEntry {
    pub(super) message: String,
    #[serde(default)]
    pub(super) retryable: bool,
    /// Only the first so many calls of this turn fail.
    pub(super) times: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Thought {
    #[serde(default)]
    text: String,
    #[serde(default)]
    opaque: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallEntry {
    id: String,
    tool: String,
    #[serde(default)]
    args: serde_json::Map<String, serde_json::Value>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tokens {
    #[serde(default)]
    input_tokens: u32,
    #[serde(default)]
    output_tokens: u32,
    #[serde(default)]
    reasoning_tokens: u32,
}

impl TryFrom<Entry> for Turn {
    type Error = String;

    fn try_from(entry: Entry) -> Result<Turn, String> {
        let chunks = match (entry.text, entry.chunks) {
            (Some(_), Some(_)) => return Err("a turn has text or chunks, not both".to_owned()),
            (Some(text), None) => Vec::from_iter(Some(text).filter(|t| !t.is_empty())),
            (None, chunks) => chunks.unwrap_or_default(),
        };
        if chunks.iter().any(String::is_empty) {
            return Err("a chunk is empty".to_owned());
        }
        let fault = match (entry.error, entry.cut_after_chunks) {
            (Some(_), Some(_)) => return Err("a turn has error or cut_after_chunks, not both".to_owned()),
            (Some(error), None) => Some(Fault::Error(error)),
            (None, Some(n)) if n > chunks.len() => {
                return Err(format!("cut_after_chunks is {n} and the turn has {} chunks", chunks.len()));
            }
            (None, cut) => cut.map(|after_chunks| Fault::Cut { after_chunks }),
        };
        if chunks.is_empty() && entry.reasoning.is_empty() && entry.tool_calls.is_empty() && fault.is_none() {
            return Err("a turn says nothing: give text, chunks, tool_calls, reasoning or error".to_owned());
        }
        Ok(Turn {
            pattern: entry.pattern,
            chunks,
            delay_ms: entry.delay_ms,
            chunk_delay_ms: entry.chunk_delay_ms,
            fault,
            reasoning: entry.reasoning,
            calls: calls(entry.tool_calls)?,
            usage: entry.usage,
        })
    }
}

fn calls(entries: Vec<CallEntry>) -> Result<Vec<v1::ToolCall>, String> {
    let mut calls: Vec<v1::ToolCall> = Vec::new();
    for CallEntry { id, tool, args } in entries {
        if id.is_empty() || tool.is_empty() {
            return Err("a tool call needs an id and a tool".to_owned());
        }
        if calls.iter().any(|c| c.id == id) {
            return Err(format!("two tool calls of a turn have the id {id}"));
        }
        let args = json::to_struct(&serde_json::Value::Object(args).to_string());
        let args = args.map_err(|e| format!("the arguments of tool call {id} are {e}"))?;
        calls.push(v1::ToolCall { id, tool, args: Some(args), ..Default::default() });
    }
    Ok(calls)
}

impl Turn {
    /// The completion of a request for `model`: reasoning, text, tool calls.
    pub(super) fn completion(&self, model: &str) -> Completion {
        let mut parts = Vec::new();
        for (ordinal, thought) in (0..).zip(&self.reasoning) {
            let opaque = thought.opaque.clone().into_bytes();
            let opaque = (!opaque.is_empty()).then(|| v1::reasoning_part::Opaque::OpaqueBytes(opaque.into()));
            let reasoning = v1::ReasoningPart {
                provider: "scripted".to_owned(),
                model_id: model.to_owned(),
                opaque,
                summary: if thought.text.is_empty() { Vec::new() } else { vec![v1::Part::text(&thought.text)] },
                ordinal,
                ..Default::default()
            };
            parts.push(v1::part::Part::Reasoning(reasoning));
        }
        if !self.chunks.is_empty() {
            parts.push(v1::part::Part::Text(v1::TextPart { text: self.chunks.concat() }));
        }
        parts.extend(self.calls.iter().cloned().map(v1::part::Part::ToolCall));
        let usage = self.usage.map(|tokens| v1::Usage {
            model: model.to_owned(),
            input_tokens: tokens.input_tokens.into(),
            output_tokens: tokens.output_tokens.into(),
            reasoning_tokens: tokens.reasoning_tokens.into(),
        });
        let parts = parts.into_iter().map(|part| v1::Part { part: Some(part) }).collect();
        Completion { message: v1::Message { role: "assistant".to_owned(), parts }, usage }
    }
}
