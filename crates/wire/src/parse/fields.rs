//! Which member of which message is what.

use std::collections::BTreeMap;

use prost_types::value::Kind;
use prost_types::{ListValue, NullValue, Struct, Value};

use super::Error;
use super::reader::{Decode, Reader};
use crate::v1::{self, event::Body, file_part::Source, part, reasoning_part::Opaque};

type Result<T = ()> = std::result::Result<T, Error>;

/// Sets a oneof; a second member of it is refused.
fn one_of<T>(slot: &mut Option<T>, r: &mut Reader<'_>, read: impl FnOnce(&mut Reader<'_>) -> Result<T>) -> Result {
    if r.null() {
        return Ok(());
    }
    if slot.is_some() {
        return Err(r.wrong("a second member of a set of which only one may be there"));
    }
    *slot = Some(read(r)?);
    Ok(())
}

/// The decoder of a message that is nothing but its fields.
macro_rules! decode {
    ($message:ty { $($name:literal => $field:ident: $read:ident $(($argument:expr))?),* $(,)? }) => {
        impl Decode for $message {
            fn member(&mut self, key: &str, r: &mut Reader<'_>) -> Result {
                match key {
                    $($name => self.$field = r.$read($($argument)?)?,)*
                    _ => r.skip()?,
                }
                Ok(())
            }
        }
    };
}

decode!(v1::IdentityRef { "principal" => principal: text, "issuer" => issuer: text, "subject" => subject: text });
decode!(v1::TextPart { "text" => text: text });
decode!(v1::DataPart { "data" => data: structure });
decode!(v1::Message { "role" => role: text, "parts" => parts: messages });
decode!(v1::ModelCall {
    "model" => model: text,
    "params" => params: strings,
    "input_hash" => input_hash: text,
    "id" => id: text,
    "messages" => messages: messages,
    "tools" => tools: messages,
    "tool_choice" => tool_choice: optional,
});
decode!(v1::ToolDefinition {
    "name" => name: text,
    "description" => description: text,
    "input_schema" => input_schema: structure,
});
decode!(v1::ToolChoice {
    "mode" => mode: enumeration(v1::tool_choice::Mode::from_str_name),
    "name" => name: text,
});
decode!(v1::Usage {
    "model" => model: text,
    "input_tokens" => input_tokens: integer,
    "output_tokens" => output_tokens: integer,
    "reasoning_tokens" => reasoning_tokens: integer,
});
decode!(v1::ToolCall {
    "id" => id: text,
    "tool" => tool: text,
    "args" => args: structure,
    "mediation" => mediation: enumeration(v1::Mediation::from_str_name),
    "idempotency_key" => idempotency_key: text,
});
decode!(v1::ToolResult {
    "id" => id: text,
    "output" => output: structure,
    "output_uri" => output_uri: text,
    "is_error" => is_error: flag,
    "error" => error: text,
    "output_digest" => output_digest: text,
    "content" => content: messages,
    "code" => code: enumeration(v1::tool_result::Code::from_str_name),
    "approval_request_seq" => approval_request_seq: integer,
    "approval_decision_seq" => approval_decision_seq: integer,
});
decode!(v1::ApprovalRequest { "tool_call_id" => tool_call_id: text, "reason" => reason: text });
decode!(v1::ApprovalResult {
    "tool_call_id" => tool_call_id: text,
    "approved" => approved: flag,
    "reason" => reason: text,
    "request_seq" => request_seq: integer,
});
decode!(v1::ApprovalRef {
    "execution_id" => execution_id: text,
    "tool_call_id" => tool_call_id: text,
    "request_seq" => request_seq: integer,
});
decode!(v1::Error { "code" => code: integer, "description" => description: text });
decode!(v1::HarnessEnd { "state" => state: text, "error" => error: optional });
decode!(v1::Lifecycle {
    "kind" => kind: enumeration(v1::lifecycle::Kind::from_str_name),
    "detail" => detail: text,
    "snapshot_local" => snapshot_local: text,
    "snapshot_external_uri" => snapshot_external_uri: text,
    "snapshot_memory" => snapshot_memory: flag,
    "snapshot_sealed" => snapshot_sealed: flag,
});

impl Decode for v1::ExecutionStart {
    fn member(&mut self, key: &str, r: &mut Reader<'_>) -> Result {
        match key {
            "config" => self.config = r.bytes()?,
            "resume_from_seq" => self.resume_from_seq = r.integer()?,
            "input_count" => one_of(&mut self.input_count, r, |r| r.integer())?,
            "harness" => self.harness = r.text()?,
            "harness_version" => self.harness_version = r.text()?,
            _ => r.skip()?,
        }
        Ok(())
    }
}

impl Decode for v1::FilePart {
    fn member(&mut self, key: &str, r: &mut Reader<'_>) -> Result {
        match key {
            "mime" => self.mime = r.text()?,
            "bytes" => one_of(&mut self.source, r, |r| r.bytes().map(Source::Bytes))?,
            "uri" => one_of(&mut self.source, r, |r| r.text().map(Source::Uri))?,
            "name" => self.name = r.text()?,
            "digest" => self.digest = r.text()?,
            _ => r.skip()?,
        }
        Ok(())
    }
}

impl Decode for v1::ReasoningPart {
    fn member(&mut self, key: &str, r: &mut Reader<'_>) -> Result {
        match key {
            "provider" => self.provider = r.text()?,
            "model_id" => self.model_id = r.text()?,
            "opaque_bytes" => one_of(&mut self.opaque, r, |r| r.bytes().map(Opaque::OpaqueBytes))?,
            "opaque_uri" => one_of(&mut self.opaque, r, |r| r.text().map(Opaque::OpaqueUri))?,
            "summary" => self.summary = r.messages()?,
            "item_id" => self.item_id = r.text()?,
            "ordinal" => self.ordinal = r.integer()?,
            "validity_scope" => self.validity_scope = r.text()?,
            "opaque_digest" => self.opaque_digest = r.text()?,
            _ => r.skip()?,
        }
        Ok(())
    }
}

impl Decode for v1::Part {
    fn member(&mut self, key: &str, r: &mut Reader<'_>) -> Result {
        let slot = &mut self.part;
        match key {
            "text" => one_of(slot, r, |r| r.message().map(part::Part::Text)),
            "file" => one_of(slot, r, |r| r.message().map(part::Part::File)),
            "data" => one_of(slot, r, |r| r.message().map(part::Part::Data)),
            "reasoning" => one_of(slot, r, |r| r.message().map(part::Part::Reasoning)),
            "tool_call" => one_of(slot, r, |r| r.message().map(part::Part::ToolCall)),
            "tool_result" => one_of(slot, r, |r| r.message().map(part::Part::ToolResult)),
            _ => r.skip(),
        }
    }
}

impl Decode for v1::Event {
    fn member(&mut self, key: &str, r: &mut Reader<'_>) -> Result {
        let body = &mut self.body;
        match key {
            "execution_id" => self.execution_id = r.text()?,
            "ts" => self.ts = r.timestamp()?,
            "schema_version" => self.schema_version = r.integer()?,
            "kind" => self.kind = r.enumeration(v1::EventKind::from_str_name)?,
            "actor" => self.actor = r.optional()?,
            "message" => one_of(body, r, |r| r.message().map(Body::Message))?,
            "model" => one_of(body, r, |r| r.message().map(Body::Model))?,
            "tool" => one_of(body, r, |r| r.message().map(Body::Tool))?,
            "result" => one_of(body, r, |r| r.message().map(Body::Result))?,
            "approval" => one_of(body, r, |r| r.message().map(Body::Approval))?,
            "approval_result" => one_of(body, r, |r| r.message().map(Body::ApprovalResult))?,
            "usage" => one_of(body, r, |r| r.message().map(Body::Usage))?,
            "lifecycle" => one_of(body, r, |r| r.message().map(Body::Lifecycle))?,
            "end" => one_of(body, r, |r| r.message().map(Body::End))?,
            "error" => one_of(body, r, |r| r.message().map(Body::Error))?,
            "execution_start" => one_of(body, r, |r| r.message().map(Body::ExecutionStart))?,
            "parked" => one_of(body, r, |r| r.message().map(Body::Parked))?,
            _ => r.skip()?,
        }
        Ok(())
    }
}

impl Reader<'_> {
    fn structure(&mut self) -> Result<Option<Struct>> {
        if self.null() { Ok(None) } else { self.fields().map(Some) }
    }

    fn fields(&mut self) -> Result<Struct> {
        let mut fields = BTreeMap::new();
        self.object(|r, key| {
            fields.insert(key.to_owned(), r.value()?);
            Ok(())
        })?;
        Ok(Struct { fields })
    }

    fn strings(&mut self) -> Result<BTreeMap<String, String>> {
        let mut strings = BTreeMap::new();
        if !self.null() {
            self.object(|r, key| {
                strings.insert(key.to_owned(), r.string()?.into_owned());
                Ok(())
            })?;
        }
        Ok(strings)
    }

    fn value(&mut self) -> Result<Value> {
        let kind = match self.peek() {
            b'{' => Kind::StructValue(self.fields()?),
            b'[' => Kind::ListValue(ListValue { values: self.elements(Self::value)? }),
            b'"' => Kind::StringValue(self.text()?),
            b't' | b'f' => Kind::BoolValue(self.flag()?),
            b'n' if self.null() => Kind::NullValue(NullValue::NullValue.into()),
            _ => Kind::NumberValue(self.number()?),
        };
        Ok(Value { kind: Some(kind) })
    }
}
