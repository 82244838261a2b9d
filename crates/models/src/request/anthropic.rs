//! The request body of Messages.

use inspan_wire::v1;
use inspan_wire::v1::part::Part;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::file::{self, File, Source};
use super::{
    Choice, Refused, Role, as_text, check_bound, choice, kind_name, object, opaque_for, params, refused, role, schema,
};
use crate::json::{Fields, raw};

/// The provider of reasoning parts that this API made.
pub(crate) const PROVIDER: &str = "anthropic";

const RESERVED: [&str; 6] = ["model", "messages", "system", "tools", "tool_choice", "stream"];

/// A content block, as the text that is sent.
type Block = Box<RawValue>;

/// Renders `request` for `model`. The API demands `max_tokens`: it is a parameter, or `max_tokens`.
///
/// # Errors
/// What Messages cannot carry.
pub(crate) fn body(request: &v1::ModelCall, model: &str, stream: bool, max_tokens: u32) -> Result<String, Refused> {
    let mut system: Vec<Block> = Vec::new();
    let mut turns: Vec<(&str, Vec<Block>)> = Vec::new();
    for (number, m) in (1..).zip(&request.messages) {
        let (who, blocks) = match role(m, number)? {
            Role::System if turns.is_empty() => {
                system.extend(said(m, number, "system", &[])?);
                continue;
            }
            Role::System => {
                return refused(format_args!(
                    "message {number} is a system message after the conversation began; put it first"
                ));
            }
            Role::User => ("user", said(m, number, "user", &["file"])?),
            Role::Assistant => ("assistant", assistant(m, number, model)?),
            Role::Tool => ("user", tool_results(m, number)?),
        };
        // Results of parallel calls must come in one turn, and an empty turn is refused.
        match turns.last_mut() {
            Some((last, content)) if *last == who => content.extend(blocks),
            _ if blocks.is_empty() => {}
            _ => turns.push((who, blocks)),
        }
    }
    let messages: Vec<Fields> =
        turns.iter().map(|(who, content)| Fields::default().with("role", who).with("content", content)).collect();
    let mut body = Fields::default().with("model", model);
    if !request.params.contains_key("max_tokens") {
        body.set("max_tokens", &max_tokens);
    }
    if !system.is_empty() {
        body.set("system", &system);
    }
    body.set("messages", &messages);
    if !request.tools.is_empty() {
        body.set("tools", &request.tools.iter().map(tool).collect::<Result<Vec<_>, _>>()?);
    }
    match choice(request)? {
        Choice::Unset => {}
        Choice::Auto => body.set("tool_choice", &json!({"type": "auto"})),
        Choice::None => body.set("tool_choice", &json!({"type": "none"})),
        Choice::Any => body.set("tool_choice", &json!({"type": "any"})),
        Choice::Tool(name) => body.set("tool_choice", &Fields::default().with("type", "tool").with("name", name)),
    }
    body.set("stream", &stream);
    params::add(&mut body, &request.params, &RESERVED)?;
    Ok(body.to_text())
}

fn tool(tool: &v1::ToolDefinition) -> Result<Fields, Refused> {
    let mut out = Fields::default().with("name", &tool.name);
    if !tool.description.is_empty() {
        out.set("description", &tool.description);
    }
    out.set("input_schema", &schema(tool)?);
    Ok(out)
}

/// A text block; the API refuses empty ones, so there is none for empty text.
fn text_block(text: &str) -> Option<Block> {
    (!text.is_empty()).then(|| raw(&Fields::default().with("type", "text").with("text", text)))
}

/// Text, data, and what `also` allows, of a message that is not the assistant's.
fn said(message: &v1::Message, number: usize, who: &str, also: &[&str]) -> Result<Vec<Block>, Refused> {
    let mut blocks = Vec::new();
    for part in message.parts.iter().filter_map(|p| p.part.as_ref()) {
        match (part, as_text(part)?) {
            (_, Some(text)) => blocks.extend(text_block(&text)),
            (Part::File(f), None) if also.contains(&"file") => blocks.push(file_block(f)?),
            _ => {
                return refused(format_args!(
                    "message {number} ({who}) has {}, which this role cannot carry here",
                    kind_name(part)
                ));
            }
        }
    }
    Ok(blocks)
}

fn file_block(part: &v1::FilePart) -> Result<Block, Refused> {
    let file = file::read(part)?;
    let source = |file: &File<'_>| match &file.source {
        Source::Base64(data) => {
            Fields::default().with("type", "base64").with("media_type", file.mime).with("data", data)
        }
        Source::Url(url) => Fields::default().with("type", "url").with("url", url),
    };
    let mut block = Fields::default();
    match file.mime {
        _ if file.is_image() => {
            return Ok(raw(&block.with("type", "image").with("source", &source(&file))));
        }
        "application/pdf" => block = block.with("type", "document").with("source", &source(&file)),
        "text/plain" => block = block.with("type", "document").with("source", &text_source(part)?),
        mime => {
            return refused(format_args!("file {:?} is {mime}; this API takes images, PDF and plain text", file.name));
        }
    }
    if !file.name.is_empty() {
        block.set("title", file.name);
    }
    Ok(raw(&block))
}

fn text_source(part: &v1::FilePart) -> Result<Fields, Refused> {
    let Some(v1::file_part::Source::Bytes(bytes)) = &part.source else {
        return refused(format_args!("file {:?} is plain text at an address; give its bytes", part.name));
    };
    let Ok(text) = std::str::from_utf8(bytes) else {
        return refused(format_args!("file {:?} is plain text and not UTF-8", part.name));
    };
    Ok(Fields::default().with("type", "text").with("media_type", "text/plain").with("data", text))
}

/// The assistant's blocks in their order: reasoning keeps its place among text and calls.
fn assistant(message: &v1::Message, number: usize, model: &str) -> Result<Vec<Block>, Refused> {
    let mut blocks = Vec::new();
    for part in message.parts.iter().filter_map(|p| p.part.as_ref()) {
        match part {
            Part::Reasoning(r) => {
                check_bound(message, r)?;
                if r.item_id.is_empty() {
                    blocks.extend(own_block(r, model)?);
                }
            }
            Part::ToolCall(call) => blocks.push(raw(&tool_use(message, call, model)?)),
            _ => match as_text(part)? {
                Some(text) => blocks.extend(text_block(&text)),
                None => {
                    return refused(format_args!(
                        "message {number} (assistant) has {}, which an assistant cannot say here",
                        kind_name(part)
                    ));
                }
            },
        }
    }
    Ok(blocks)
}

/// A reasoning block, exactly as the provider gave it.
fn own_block(part: &v1::ReasoningPart, model: &str) -> Result<Option<Block>, Refused> {
    let Some(text) = opaque_for(part, PROVIDER, model)? else { return Ok(None) };
    match RawValue::from_string(text.to_owned()) {
        Ok(block) => Ok(Some(block)),
        Err(_) => refused("a reasoning part of this provider is not the JSON that it gave"),
    }
}

fn tool_use(message: &v1::Message, call: &v1::ToolCall, model: &str) -> Result<Fields, Refused> {
    if call.id.is_empty() {
        return refused(format_args!("a call of tool {} has no id", call.tool));
    }
    let mut block = Fields::default().with("type", "tool_use").with("id", &call.id).with("name", &call.tool);
    block.set("input", &object(call.args.as_ref())?);
    for part in &message.parts {
        let Some(Part::Reasoning(r)) = &part.part else { continue };
        if r.item_id != call.id {
            continue;
        }
        if let Some(text) = opaque_for(r, PROVIDER, model)? {
            let fields = Fields::parse(text.as_bytes());
            block.merge(
                &fields.or_else(|_| refused("a signature of this provider is not the JSON object that it gave"))?,
            );
        }
    }
    Ok(block)
}

fn tool_results(message: &v1::Message, number: usize) -> Result<Vec<Block>, Refused> {
    if message.parts.is_empty() {
        return refused(format_args!("message {number} (tool) has no tool result"));
    }
    let mut blocks = Vec::new();
    for part in message.parts.iter().filter_map(|p| p.part.as_ref()) {
        let Part::ToolResult(result) = part else {
            return refused(format_args!(
                "message {number} (tool) has {}; it may have tool results only",
                kind_name(part)
            ));
        };
        blocks.push(raw(&tool_result(result)?));
    }
    Ok(blocks)
}

fn tool_result(result: &v1::ToolResult) -> Result<Fields, Refused> {
    let mut content = Vec::new();
    if result.is_error {
        content.extend(text_block(if result.error.is_empty() { "the tool failed" } else { &result.error }));
    }
    for part in result.content.iter().filter_map(|p| p.part.as_ref()) {
        match (part, as_text(part)?) {
            (_, Some(text)) => content.extend(text_block(&text)),
            (Part::File(f), None) => content.push(file_block(f)?),
            _ => return refused(format_args!("the result of tool call {} has {}", result.id, kind_name(part))),
        }
    }
    if let Some(output) = super::output(result)? {
        content.extend(text_block(&output));
    }
    let mut block = Fields::default().with("type", "tool_result").with("tool_use_id", &result.id);
    if !content.is_empty() {
        block.set("content", &content);
    }
    if result.is_error {
        block.set("is_error", &Value::Bool(true));
    }
    Ok(block)
}
