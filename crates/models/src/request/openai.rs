//! The request body of Chat Completions.

use inspan_wire::v1;
use inspan_wire::v1::part::Part;
use serde_json::{Value, json};

use super::file::{self, Source};
use super::{
    Choice, Refused, Role, as_text, check_bound, choice, kind_name, object, opaque_for, params, refused, role, schema,
};
use crate::json::Fields;

/// The provider of reasoning parts that this API made.
pub(crate) const PROVIDER: &str = "openai";

/// Fields of an assistant message that only its provider understands. They come back as they were.
pub(crate) const MESSAGE_OPAQUE: [&str; 1] = ["extra_content"];

/// Parameters that would change the meaning of the answer or of fields that the request sets.
const RESERVED: [&str; 9] =
    ["model", "messages", "tools", "tool_choice", "functions", "function_call", "stream", "stream_options", "n"];

/// Renders `request` for `model`.
///
/// # Errors
/// What Chat Completions cannot carry.
pub(crate) fn body(request: &v1::ModelCall, model: &str, stream: bool) -> Result<String, Refused> {
    let mut messages = Vec::new();
    for (number, m) in (1..).zip(&request.messages) {
        match role(m, number)? {
            Role::System => messages.push(Fields::default().with("role", "system").with("content", &plain(m, number)?)),
            Role::User => messages.push(Fields::default().with("role", "user").with("content", &user(m, number)?)),
            Role::Assistant => messages.push(assistant(m, number, model)?),
            Role::Tool => tool_results(m, number, &mut messages)?,
        }
    }
    let mut body = Fields::default().with("model", model).with("messages", &messages);
    if !request.tools.is_empty() {
        body.set("tools", &request.tools.iter().map(tool).collect::<Result<Vec<_>, _>>()?);
    }
    match choice(request)? {
        Choice::Unset => {}
        Choice::Auto => body.set("tool_choice", "auto"),
        Choice::None => body.set("tool_choice", "none"),
        Choice::Any => body.set("tool_choice", "required"),
        Choice::Tool(name) => body.set("tool_choice", &json!({"type": "function", "function": {"name": name}})),
    }
    body.set("stream", &stream);
    if stream {
        body.set("stream_options", &json!({"include_usage": true}));
    }
    params::add(&mut body, &request.params, &RESERVED)?;
    Ok(body.to_text())
}

fn tool(tool: &v1::ToolDefinition) -> Result<Fields, Refused> {
    let mut function = Fields::default().with("name", &tool.name);
    if !tool.description.is_empty() {
        function.set("description", &tool.description);
    }
    function.set("parameters", &schema(tool)?);
    Ok(Fields::default().with("type", "function").with("function", &function))
}

/// A message of text and data only.
fn plain(message: &v1::Message, number: usize) -> Result<String, Refused> {
    let mut text = String::new();
    for part in message.parts.iter().filter_map(|p| p.part.as_ref()) {
        match as_text(part)? {
            Some(t) => text.push_str(&t),
            None => {
                return refused(format_args!(
                    "message {number} ({}) has {}, which this role cannot carry here",
                    message.role,
                    kind_name(part)
                ));
            }
        }
    }
    Ok(text)
}

/// One string when there is text only, a list of content parts otherwise.
fn user(message: &v1::Message, number: usize) -> Result<Value, Refused> {
    let parts: Vec<&Part> = message.parts.iter().filter_map(|p| p.part.as_ref()).collect();
    if parts.iter().all(|p| matches!(p, Part::Text(_))) {
        return Ok(Value::String(message.concat_text()));
    }
    let mut content = Vec::new();
    for part in parts {
        content.push(match (part, as_text(part)?) {
            (_, Some(text)) => json!({"type": "text", "text": text}),
            (Part::File(f), None) => file_content(f)?,
            _ => {
                return refused(format_args!(
                    "message {number} (user) has {}, which a user cannot say",
                    kind_name(part)
                ));
            }
        });
    }
    Ok(Value::Array(content))
}

fn file_content(part: &v1::FilePart) -> Result<Value, Refused> {
    let file = file::read(part)?;
    if file.is_image() {
        return Ok(json!({"type": "image_url", "image_url": {"url": file.url()}}));
    }
    let Source::Base64(data) = &file.source else {
        return refused(format_args!(
            "file {:?} ({}) is an address, and only images can be; give its bytes",
            file.name, file.mime
        ));
    };
    Ok(match file.mime {
        "audio/wav" | "audio/x-wav" => json!({"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}),
        "audio/mpeg" | "audio/mp3" => json!({"type": "input_audio", "input_audio": {"data": data, "format": "mp3"}}),
        _ => json!({"type": "file", "file": {"filename": file.name, "file_data": file.url()}}),
    })
}

fn assistant(message: &v1::Message, number: usize, model: &str) -> Result<Fields, Refused> {
    let (mut text, mut opaque) = (String::new(), Fields::default());
    let mut calls: Vec<(&str, Fields)> = Vec::new();
    for part in message.parts.iter().filter_map(|p| p.part.as_ref()) {
        match part {
            Part::ToolCall(call) => calls.push((&call.id, tool_call(call)?)),
            Part::Reasoning(r) => {
                check_bound(message, r)?;
                if r.item_id.is_empty() {
                    opaque.merge(&opaque_fields(r, model)?);
                }
            }
            _ => match as_text(part)? {
                Some(t) => text.push_str(&t),
                None => {
                    return refused(format_args!(
                        "message {number} (assistant) has {}, which an assistant cannot say here",
                        kind_name(part)
                    ));
                }
            },
        }
    }
    attach_signatures(message, model, &mut calls)?;
    let mut out = Fields::default().with("role", "assistant");
    match text.is_empty() && !calls.is_empty() {
        true => out.set("content", &Value::Null),
        false => out.set("content", &text),
    }
    if !calls.is_empty() {
        out.set("tool_calls", &calls.iter().map(|(_, c)| c).collect::<Vec<_>>());
    }
    out.merge(&opaque);
    Ok(out)
}

fn tool_call(call: &v1::ToolCall) -> Result<Fields, Refused> {
    if call.id.is_empty() {
        return refused(format_args!("a call of tool {} has no id", call.tool));
    }
    let arguments = object(call.args.as_ref())?.to_string();
    let function = Fields::default().with("name", &call.tool).with("arguments", &arguments);
    Ok(Fields::default().with("id", &call.id).with("type", "function").with("function", &function))
}

/// Puts what the provider attached to a call back on that call.
fn attach_signatures(message: &v1::Message, model: &str, calls: &mut [(&str, Fields)]) -> Result<(), Refused> {
    for part in &message.parts {
        let Some(Part::Reasoning(r)) = &part.part else { continue };
        let Some((_, call)) = calls.iter_mut().find(|(id, _)| !id.is_empty() && *id == r.item_id) else { continue };
        let fields = opaque_fields(r, model)?;
        call.merge(&fields.without(&["function"]));
        if let (Some(extra), Some(mut function)) = (fields.object("function"), call.object("function")) {
            function.merge(&extra);
            call.set("function", &function);
        }
    }
    Ok(())
}

fn opaque_fields(part: &v1::ReasoningPart, model: &str) -> Result<Fields, Refused> {
    match opaque_for(part, PROVIDER, model)? {
        None => Ok(Fields::default()),
        Some(text) => Fields::parse(text.as_bytes())
            .or_else(|_| refused("a reasoning part of this provider is not the JSON object that it gave")),
    }
}

fn tool_results(message: &v1::Message, number: usize, messages: &mut Vec<Fields>) -> Result<(), Refused> {
    if message.parts.is_empty() {
        return refused(format_args!("message {number} (tool) has no tool result"));
    }
    for part in message.parts.iter().filter_map(|p| p.part.as_ref()) {
        let Part::ToolResult(result) = part else {
            return refused(format_args!(
                "message {number} (tool) has {}; it may have tool results only",
                kind_name(part)
            ));
        };
        let content = result_text(result)?;
        messages
            .push(Fields::default().with("role", "tool").with("tool_call_id", &result.id).with("content", &content));
    }
    Ok(())
}

/// A tool's result as text: the API has no mark for a failure, so its text begins with `error: `.
fn result_text(result: &v1::ToolResult) -> Result<String, Refused> {
    let mut pieces = Vec::new();
    if result.is_error {
        pieces.push(format!("error: {}", if result.error.is_empty() { "the tool failed" } else { &result.error }));
    }
    for part in result.content.iter().filter_map(|p| p.part.as_ref()) {
        match as_text(part)? {
            Some(text) => pieces.push(text),
            None => {
                return refused(format_args!(
                    "the result of tool call {} has {}; this API takes text only",
                    result.id,
                    kind_name(part)
                ));
            }
        }
    }
    pieces.extend(super::output(result)?);
    Ok(pieces.join("\n"))
}
