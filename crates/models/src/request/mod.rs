//! From the neutral request to a provider's JSON. What a format cannot carry is refused here,
//! before anything is sent, with a text that says what and why.

pub(crate) mod anthropic;
mod file;
pub(crate) mod openai;
mod params;

use inspan_engine::ModelError;
use inspan_wire::v1;
use serde_json::Value;

use crate::json;

/// What the provider cannot be asked, as a fragment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(String);

impl From<Refused> for ModelError {
    fn from(refused: Refused) -> ModelError {
        let message = format!("the request cannot be sent to this provider: {refused}");
        ModelError { message, retryable: false }
    }
}

fn refused<T>(what: impl std::fmt::Display) -> Result<T, Refused> {
    Err(Refused(what.to_string()))
}

/// The model to ask for: the empty id and `echo` mean the configured one.
pub(crate) fn model<'a>(request: &'a v1::ModelCall, configured: &'a str) -> &'a str {
    match request.model.as_str() {
        "" | "echo" => configured,
        model => model,
    }
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    System,
    User,
    Assistant,
    Tool,
}

/// The role of message `number` (1-based, for the error text). An empty role is the user's.
fn role(message: &v1::Message, number: usize) -> Result<Role, Refused> {
    Ok(match message.role.as_str() {
        "system" => Role::System,
        "" | "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        other => {
            return refused(format_args!(
                "message {number} has the role {other:?}; use system, user, assistant or tool"
            ));
        }
    })
}

/// What a part is called in an error text.
fn kind_name(part: &v1::part::Part) -> &'static str {
    match part {
        v1::part::Part::Text(_) => "text",
        v1::part::Part::File(_) => "a file",
        v1::part::Part::Data(_) => "data",
        v1::part::Part::Reasoning(_) => "reasoning",
        v1::part::Part::ToolCall(_) => "a tool call",
        v1::part::Part::ToolResult(_) => "a tool result",
    }
}

/// A `Struct` as JSON, absent as an empty object.
fn object(data: Option<&prost_types::Struct>) -> Result<Value, Refused> {
    match data {
        None => Ok(Value::Object(serde_json::Map::new())),
        Some(data) => {
            json::from_struct(data).or_else(|_| refused("a number is NaN or infinite, which JSON cannot say"))
        }
    }
}

/// Text of a text or data part, data as JSON. `None` for any other part.
fn as_text(part: &v1::part::Part) -> Result<Option<String>, Refused> {
    Ok(match part {
        v1::part::Part::Text(t) => Some(t.text.clone()),
        v1::part::Part::Data(d) => Some(object(d.data.as_ref())?.to_string()),
        _ => None,
    })
}

/// The exact bytes that a provider gave as its own, when they may go back.
///
/// The rule: opaque reasoning goes back, byte for byte, to the API and model that made it. For any
/// other it is left out of the request; the journal keeps the original, so a session that switches
/// back sends it again.
fn opaque_for<'a>(part: &'a v1::ReasoningPart, provider: &str, model: &str) -> Result<Option<&'a str>, Refused> {
    if part.provider != provider || part.model_id != model {
        return Ok(None);
    }
    match &part.opaque {
        None => Ok(None),
        Some(v1::reasoning_part::Opaque::OpaqueBytes(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(text).filter(|t| !t.is_empty())),
            Err(_) => refused("a reasoning part of this provider is not the text that it gave"),
        },
        Some(v1::reasoning_part::Opaque::OpaqueUri(uri)) => {
            refused(format_args!("reasoning is behind {uri}; put its bytes into the part before the call"))
        }
    }
}

/// Fails when a reasoning part names a tool call that its message does not have: the signature
/// would be lost on the way.
fn check_bound(message: &v1::Message, part: &v1::ReasoningPart) -> Result<(), Refused> {
    let is_call = |p: &v1::Part| matches!(&p.part, Some(v1::part::Part::ToolCall(c)) if c.id == part.item_id);
    if part.item_id.is_empty() || message.parts.iter().any(is_call) {
        return Ok(());
    }
    refused(format_args!("a signature belongs to tool call {}, which its message does not have", part.item_id))
}

/// A tool choice, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice<'a> {
    /// The provider's default.
    Unset,
    Auto,
    None,
    Any,
    Tool(&'a str),
}

/// Reads the tool choice against the tools. Without tools, auto and none change nothing and
/// providers refuse them, so they are left out.
fn choice(request: &v1::ModelCall) -> Result<Choice<'_>, Refused> {
    use v1::tool_choice::Mode;
    let Some(choice) = &request.tool_choice else { return Ok(Choice::Unset) };
    let Ok(mode) = Mode::try_from(choice.mode) else {
        return refused(format_args!("tool choice has the unknown mode {}", choice.mode));
    };
    let has_tools = !request.tools.is_empty();
    match mode {
        Mode::Required if !has_tools => refused("a tool call is required and there are no tools"),
        Mode::Required if choice.name.is_empty() => Ok(Choice::Any),
        Mode::Required if request.tools.iter().any(|t| t.name == choice.name) => Ok(Choice::Tool(&choice.name)),
        Mode::Required => refused(format_args!("tool choice names {:?}, which is not among the tools", choice.name)),
        Mode::Auto if has_tools => Ok(Choice::Auto),
        Mode::None if has_tools => Ok(Choice::None),
        Mode::Auto | Mode::None | Mode::Unspecified => Ok(Choice::Unset),
    }
}

/// A tool's input schema; a tool without one takes an object without fields.
fn schema(tool: &v1::ToolDefinition) -> Result<Value, Refused> {
    match &tool.input_schema {
        Some(schema) => object(Some(schema)),
        None => Ok(serde_json::json!({"type": "object", "properties": {}})),
    }
}

/// A tool result's output as JSON text.
///
/// # Errors
/// The output is only an address: a provider would be shown nothing.
fn output(result: &v1::ToolResult) -> Result<Option<String>, Refused> {
    if result.id.is_empty() {
        return refused("a tool result has no id");
    }
    match &result.output {
        Some(output) => Ok(Some(object(Some(output))?.to_string())),
        None if !result.output_uri.is_empty() && result.content.is_empty() => {
            let (id, uri) = (&result.id, &result.output_uri);
            refused(format_args!(
                "the output of tool call {id} is behind {uri}; put it into the result before the call"
            ))
        }
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests;
