//! The conversions that every event passes before it is hashed (C-1 to C-7).
//!
//! C-4 (absent and present-but-empty stay apart) is what the generated types do by themselves;
//! C-6 (the decision that travels with a tool reply is never stored) is the engine's.

use prost_types::value::Kind;
use prost_types::{NullValue, Struct, Value};

use crate::v1::{self, event::Body, file_part::Source, part, reasoning_part::Opaque};

/// Brings an event into the form that is journaled.
///
/// * Unknown numbers of event kind, mediation and lifecycle kind become zero; `ToolResult.code` stays (C-1).
/// * A file or reasoning part whose source is empty loses it (C-2).
/// * An actor that says nothing becomes absent (C-3).
/// * A model call keeps model, input hash and id only (C-5).
/// * In a `Struct`, a value that says nothing is a null and minus zero is zero, as their canonical form reads:
///   what is served live equals what is served from the journal.
pub fn event(event: &mut v1::Event) {
    known::<v1::EventKind>(&mut event.kind);
    if event.actor.as_ref().is_some_and(|actor| *actor == v1::IdentityRef::default()) {
        event.actor = None;
    }
    match &mut event.body {
        Some(Body::Message(message)) => parts(&mut message.parts, structure),
        Some(Body::Model(call)) => {
            call.params.clear();
            call.messages.clear();
            call.tools.clear();
            call.tool_choice = None;
        }
        Some(Body::Tool(call)) => tool_call(call, structure),
        Some(Body::Result(result)) => tool_result(result, structure),
        Some(Body::Lifecycle(lifecycle)) => known::<v1::lifecycle::Kind>(&mut lifecycle.kind),
        _ => {}
    }
}

/// Brings a model request into the form that is hashed and sent: messages that hold nothing are
/// dropped in place (C-7), and the parts of the others are converted as those of an event. `Struct`s are left
/// alone: the input hash tells minus zero from zero (R-IN-8).
pub fn model_call(call: &mut v1::ModelCall) {
    call.messages.retain(|message| !is_nothing(message));
    for message in &mut call.messages {
        parts(&mut message.parts, |_| {});
    }
}

/// A message that has neither role nor parts (C-7).
pub(crate) fn is_nothing(message: &v1::Message) -> bool {
    message.role.is_empty() && message.parts.is_empty()
}

/// Zero for a number that names no value of `E` (C-1).
fn known<E: TryFrom<i32>>(number: &mut i32) {
    if E::try_from(*number).is_err() {
        *number = 0;
    }
}

/// Converts a `Struct` in place.
type OnStruct = fn(&mut Struct);

fn parts(parts: &mut [v1::Part], on_struct: OnStruct) {
    for part in parts {
        match &mut part.part {
            Some(part::Part::File(file)) => {
                let empty = match &file.source {
                    Some(Source::Bytes(bytes)) => bytes.is_empty(),
                    Some(Source::Uri(uri)) => uri.is_empty(),
                    None => false,
                };
                if empty {
                    file.source = None;
                }
            }
            Some(part::Part::Reasoning(reasoning)) => reasoning_part(reasoning, on_struct),
            Some(part::Part::Data(data)) => data.data.iter_mut().for_each(on_struct),
            Some(part::Part::ToolCall(call)) => tool_call(call, on_struct),
            Some(part::Part::ToolResult(result)) => tool_result(result, on_struct),
            Some(part::Part::Text(_)) | None => {}
        }
    }
}

fn reasoning_part(reasoning: &mut v1::ReasoningPart, on_struct: OnStruct) {
    let empty = match &reasoning.opaque {
        Some(Opaque::OpaqueBytes(bytes)) => bytes.is_empty(),
        Some(Opaque::OpaqueUri(uri)) => uri.is_empty(),
        None => false,
    };
    if empty {
        reasoning.opaque = None;
    }
    parts(&mut reasoning.summary, on_struct);
}

fn tool_call(call: &mut v1::ToolCall, on_struct: OnStruct) {
    known::<v1::Mediation>(&mut call.mediation);
    call.args.iter_mut().for_each(on_struct);
}

fn tool_result(result: &mut v1::ToolResult, on_struct: OnStruct) {
    result.output.iter_mut().for_each(on_struct);
    parts(&mut result.content, on_struct);
}

fn structure(structure: &mut Struct) {
    structure.fields.values_mut().for_each(value);
}

fn value(value: &mut Value) {
    match &mut value.kind {
        None | Some(Kind::NullValue(_)) => value.kind = Some(Kind::NullValue(NullValue::NullValue.into())),
        // The canonical form has one zero; the event in memory must read like the one decoded from it.
        Some(Kind::NumberValue(number)) if *number == 0.0 => *number = 0.0,
        Some(Kind::StructValue(nested)) => structure(nested),
        Some(Kind::ListValue(list)) => list.values.iter_mut().for_each(self::value),
        _ => {}
    }
}
