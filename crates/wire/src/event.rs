//! Small helpers over the generated event types, so that callers do not spell out every level.

use prost_types::value::Kind;
use prost_types::{Struct, Value};

use crate::v1;

/// Whom the host names as `actor.principal` where it has something to say about a record itself.
pub mod principal {
    /// The harness made this OUTPUT or TOOL_RESULT itself: it is not the outcome of the call before it.
    pub const HARNESS: &str = "harness";
    /// A policy's rule has spoken of this call, or made this decision; `subject` is the rule's name.
    pub const POLICY: &str = "policy";
}

impl v1::Part {
    /// A text part.
    pub fn text(text: impl Into<String>) -> v1::Part {
        v1::Part { part: Some(v1::part::Part::Text(v1::TextPart { text: text.into() })) }
    }
}

impl v1::Message {
    /// A message of `role` with one text part.
    pub fn text(role: &str, text: impl Into<String>) -> v1::Message {
        v1::Message { role: role.to_owned(), parts: vec![v1::Part::text(text)] }
    }

    /// The texts of all text parts, concatenated (R-OUT-1).
    pub fn concat_text(&self) -> String {
        self.parts
            .iter()
            .filter_map(|p| match &p.part {
                Some(v1::part::Part::Text(t)) => Some(t.text.as_str()),
                _ => None,
            })
            .collect()
    }
}

impl v1::Event {
    /// An event of `kind` in `execution_id` with `body`; everything else is unset (R-HASH-10).
    pub fn new(execution_id: &str, kind: v1::EventKind, body: v1::event::Body) -> v1::Event {
        v1::Event { execution_id: execution_id.to_owned(), kind: kind.into(), body: Some(body), ..Default::default() }
    }

    /// A lifecycle event, which belongs to no execution.
    pub fn lifecycle(lifecycle: v1::Lifecycle) -> v1::Event {
        v1::Event::new("", v1::EventKind::EventLifecycle, v1::event::Body::Lifecycle(lifecycle))
    }
}

/// A field that tells two tool calls apart, in the order in which they are compared (R-TOOL-7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolField {
    /// The call's id.
    Id,
    /// The tool's name.
    Tool,
    /// Who runs it.
    Mediation,
    /// The idempotency key.
    IdempotencyKey,
    /// The arguments.
    Args,
}

impl std::fmt::Display for ToolField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ToolField::Id => "id",
            ToolField::Tool => "tool",
            ToolField::Mediation => "mediation",
            ToolField::IdempotencyKey => "idempotency_key",
            ToolField::Args => "args",
        })
    }
}

/// The first field in which two tool calls differ, `None` when they are the same call.
///
/// Arguments are compared as values: the order of keys and the spelling of numbers do not matter,
/// the order of lists does, absent is not `{}`, a missing key is not a null (R-TOOL-8). A number
/// that has no JSON form equals nothing.
pub fn tool_difference(recorded: &v1::ToolCall, emitted: &v1::ToolCall) -> Option<ToolField> {
    if recorded.id != emitted.id {
        return Some(ToolField::Id);
    }
    if recorded.tool != emitted.tool {
        return Some(ToolField::Tool);
    }
    if recorded.mediation != emitted.mediation {
        return Some(ToolField::Mediation);
    }
    if recorded.idempotency_key != emitted.idempotency_key {
        return Some(ToolField::IdempotencyKey);
    }
    let same_args = match (&recorded.args, &emitted.args) {
        (Some(recorded), Some(emitted)) => same_struct(recorded, emitted),
        (None, None) => true,
        _ => false,
    };
    (!same_args).then_some(ToolField::Args)
}

fn same_struct(a: &Struct, b: &Struct) -> bool {
    a.fields.len() == b.fields.len()
        && a.fields.iter().zip(&b.fields).all(|((ak, av), (bk, bv))| ak == bk && same_value(av, bv))
}

/// A value that says nothing reads as a null.
fn same_value(a: &Value, b: &Value) -> bool {
    match (&a.kind, &b.kind) {
        (None | Some(Kind::NullValue(_)), None | Some(Kind::NullValue(_))) => true,
        (Some(Kind::StructValue(a)), Some(Kind::StructValue(b))) => same_struct(a, b),
        (Some(Kind::ListValue(a)), Some(Kind::ListValue(b))) => {
            a.values.len() == b.values.len() && a.values.iter().zip(&b.values).all(|(a, b)| same_value(a, b))
        }
        (Some(Kind::NumberValue(a)), Some(Kind::NumberValue(b))) => a == b && a.is_finite(),
        (a, b) => a == b,
    }
}
