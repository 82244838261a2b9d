//! Correct answers of each API, plain and streamed, from one description.

use serde_json::{Value, json};

use super::Answer;

/// A block of reasoning.
#[derive(Debug, Clone)]
pub enum Thinking {
    /// Readable, signed.
    Signed {
        /// What it says.
        text: String,
        /// The provider's signature.
        signature: String,
    },
    /// Encrypted.
    Redacted {
        /// The provider's data.
        data: String,
    },
}

impl Thinking {
    fn block(&self) -> String {
        match self {
            Thinking::Signed { text, signature } => thinking_block(text, signature),
            Thinking::Redacted { data } => json!({"type": "redacted_thinking", "data": data}).to_string(),
        }
    }
}

/// In the API's own order of fields, which `Value` would not keep.
fn thinking_block(text: &str, signature: &str) -> String {
    format!(r#"{{"type":"thinking","thinking":{},"signature":{}}}"#, json!(text), json!(signature))
}

/// What an assistant says. `Default` says nothing, as model `m`, and counts nothing.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    /// Text, in the chunks of a stream.
    pub text: Vec<String>,
    /// Reasoning before the text. OpenAI streams its texts as `reasoning_content`.
    pub thinking: Vec<Thinking>,
    /// Tool calls after the text: id, tool, arguments as JSON text.
    pub calls: Vec<(String, String, String)>,
    /// Input and output tokens.
    pub usage: Option<(i64, i64)>,
}

impl Reply {
    /// Text in chunks.
    pub fn text(chunks: &[&str]) -> Reply {
        Reply { text: chunks.iter().map(|c| (*c).to_owned()).collect(), ..Reply::default() }
    }

    /// Adds a tool call.
    #[must_use]
    pub fn call(mut self, id: &str, tool: &str, arguments: &str) -> Reply {
        self.calls.push((id.to_owned(), tool.to_owned(), arguments.to_owned()));
        self
    }

    /// Adds a signed block of reasoning.
    #[must_use]
    pub fn signed(mut self, text: &str, signature: &str) -> Reply {
        self.thinking.push(Thinking::Signed { text: text.to_owned(), signature: signature.to_owned() });
        self
    }

    /// Adds an encrypted block of reasoning.
    #[must_use]
    pub fn redacted(mut self, data: &str) -> Reply {
        self.thinking.push(Thinking::Redacted { data: data.to_owned() });
        self
    }

    /// Counts tokens.
    #[must_use]
    pub fn usage(mut self, input: i64, output: i64) -> Reply {
        self.usage = Some((input, output));
        self
    }

    /// Chat Completions, in one piece.
    pub fn openai_plain(&self) -> Answer {
        Answer::json(200, self.openai_body())
    }

    /// The body of [`Reply::openai_plain`].
    pub fn openai_body(&self) -> String {
        let mut message = json!({"role": "assistant", "content": self.text.concat()});
        if let Some(reasoning) = self.reasoning_text() {
            message["reasoning_content"] = json!(reasoning);
        }
        if !self.calls.is_empty() {
            message["tool_calls"] = self.calls.iter().map(openai_call).collect();
        }
        let mut body = json!({"id": "c", "object": "chat.completion", "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": self.finish_reason()}]});
        if let Some(usage) = self.openai_usage() {
            body["usage"] = usage;
        }
        body.to_string()
    }

    /// Chat Completions, streamed.
    pub fn openai_sse(&self) -> Answer {
        Answer::sse(self.openai_events())
    }

    /// The body of [`Reply::openai_sse`].
    pub fn openai_events(&self) -> String {
        let mut events = String::new();
        let mut say = |choices: Value, usage: Option<Value>| {
            let mut chunk = json!({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": choices});
            if let Some(usage) = usage {
                chunk["usage"] = usage;
            }
            events.push_str(&format!("data: {chunk}\n\n"));
        };
        let choice = |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        say(choice(json!({"role": "assistant", "content": ""}), Value::Null), None);
        if let Some(reasoning) = self.reasoning_text() {
            say(choice(json!({"reasoning_content": reasoning}), Value::Null), None);
        }
        for text in &self.text {
            say(choice(json!({"content": text}), Value::Null), None);
        }
        for (index, call) in self.calls.iter().enumerate() {
            let start = json!({"index": index, "id": call.0, "type": "function", "function": {"name": call.1, "arguments": ""}});
            say(choice(json!({"tool_calls": [start]}), Value::Null), None);
            for piece in halves(&call.2) {
                let more = json!({"index": index, "function": {"arguments": piece}});
                say(choice(json!({"tool_calls": [more]}), Value::Null), None);
            }
        }
        say(choice(json!({}), json!(self.finish_reason())), None);
        if let Some(usage) = self.openai_usage() {
            say(json!([]), Some(usage));
        }
        events + "data: [DONE]\n\n"
    }

    /// Messages, in one piece.
    pub fn anthropic_plain(&self) -> Answer {
        Answer::json(200, self.anthropic_body())
    }

    /// The body of [`Reply::anthropic_plain`].
    ///
    /// # Panics
    /// When the arguments of a call are not JSON.
    pub fn anthropic_body(&self) -> String {
        let mut content: Vec<String> = self.thinking.iter().map(Thinking::block).collect();
        if !self.text.is_empty() {
            content.push(json!({"type": "text", "text": self.text.concat()}).to_string());
        }
        for (id, tool, arguments) in &self.calls {
            let input: Value = serde_json::from_str(arguments).expect("scripted arguments are JSON");
            content.push(json!({"type": "tool_use", "id": id, "name": tool, "input": input}).to_string());
        }
        let (stop, usage) = (json!(self.stop_reason()), self.anthropic_usage());
        format!(
            r#"{{"id":"m","type":"message","role":"assistant","model":"m","content":[{}],"stop_reason":{stop}{usage}}}"#,
            content.join(",")
        )
    }

    /// Messages, streamed.
    pub fn anthropic_sse(&self) -> Answer {
        Answer::sse(self.anthropic_events())
    }

    /// The body of [`Reply::anthropic_sse`].
    pub fn anthropic_events(&self) -> String {
        let mut events = String::new();
        let mut say = |kind: &str, rest: String| {
            events.push_str(&format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{rest}}}\n\n"));
        };
        let started = match self.usage {
            Some((input, _)) => format!(r#","usage":{{"input_tokens":{input},"output_tokens":1}}"#),
            None => String::new(),
        };
        say(
            "message_start",
            format!(r#","message":{{"id":"m","type":"message","role":"assistant","model":"m","content":[]{started}}}"#),
        );
        for (index, (start, deltas)) in self.blocks().into_iter().enumerate() {
            say("content_block_start", format!(r#","index":{index},"content_block":{start}"#));
            for delta in deltas {
                say("content_block_delta", format!(r#","index":{index},"delta":{delta}"#));
            }
            say("content_block_stop", format!(r#","index":{index}"#));
        }
        let counted =
            self.usage.map_or_else(String::new, |(_, output)| format!(r#","usage":{{"output_tokens":{output}}}"#));
        say(
            "message_delta",
            format!(r#","delta":{{"stop_reason":"{}","stop_sequence":null}}{counted}"#, self.stop_reason()),
        );
        say("message_stop", String::new());
        events
    }

    /// Start and deltas of each block.
    fn blocks(&self) -> Vec<(String, Vec<Value>)> {
        let mut blocks = Vec::new();
        for thinking in &self.thinking {
            blocks.push(match thinking {
                Thinking::Signed { text, signature } => {
                    let mut deltas: Vec<Value> =
                        halves(text).iter().map(|t| json!({"type": "thinking_delta", "thinking": t})).collect();
                    deltas.push(json!({"type": "signature_delta", "signature": signature}));
                    (thinking_block("", ""), deltas)
                }
                Thinking::Redacted { data } => {
                    (json!({"type": "redacted_thinking", "data": data}).to_string(), Vec::new())
                }
            });
        }
        if !self.text.is_empty() {
            let deltas = self.text.iter().map(|t| json!({"type": "text_delta", "text": t})).collect();
            blocks.push((json!({"type": "text", "text": ""}).to_string(), deltas));
        }
        for (id, tool, arguments) in &self.calls {
            let delta = |piece: &&str| json!({"type": "input_json_delta", "partial_json": piece});
            let deltas = halves(arguments).iter().map(delta).collect();
            blocks.push((json!({"type": "tool_use", "id": id, "name": tool, "input": {}}).to_string(), deltas));
        }
        blocks
    }

    fn reasoning_text(&self) -> Option<String> {
        let texts = self.thinking.iter().filter_map(|t| match t {
            Thinking::Signed { text, .. } => Some(text.as_str()),
            Thinking::Redacted { .. } => None,
        });
        Some(texts.collect::<String>()).filter(|t| !t.is_empty())
    }

    fn openai_usage(&self) -> Option<Value> {
        self.usage.map(|(i, o)| json!({"prompt_tokens": i, "completion_tokens": o, "total_tokens": i + o}))
    }

    fn anthropic_usage(&self) -> String {
        self.usage.map_or_else(String::new, |(i, o)| format!(r#","usage":{{"input_tokens":{i},"output_tokens":{o}}}"#))
    }

    fn finish_reason(&self) -> &'static str {
        if self.calls.is_empty() { "stop" } else { "tool_calls" }
    }

    fn stop_reason(&self) -> &'static str {
        if self.calls.is_empty() { "end_turn" } else { "tool_use" }
    }
}

fn openai_call((id, tool, arguments): &(String, String, String)) -> Value {
    json!({"id": id, "type": "function", "function": {"name": tool, "arguments": arguments}})
}

/// The text in two pieces, so that a stream has to join them.
fn halves(text: &str) -> Vec<&str> {
    let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
    [&text[..middle], &text[middle..]].into_iter().filter(|t| !t.is_empty()).collect()
}
