//! The direct writer: every message spells out its members in the order that RFC 8785 sorts them.
//!
//! All names are ASCII, where UTF-16 order is byte order; only the keys of maps are sorted at run
//! time. A member is written with the comma before it, and the comma of the first one turns into
//! the opening brace when the object closes: no state, and nothing is ever moved.

use std::collections::BTreeMap;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};

use super::{DEPTH_MAX, Error};
use crate::v1::{self, event::Body, file_part::Source, part, reasoning_part::Opaque};
use crate::{emit, time};

type Result<T = ()> = std::result::Result<T, Error>;

/// The comma, the name and the colon of a member.
macro_rules! key {
    ($name:literal) => {
        concat!(",\"", $name, "\":")
    };
}

/// A canonical writer over a byte buffer.
pub(super) struct Canon<'o> {
    out: &'o mut Vec<u8>,
    depth: u32,
}

impl<'o> Canon<'o> {
    pub(super) fn new(out: &'o mut Vec<u8>) -> Canon<'o> {
        Canon { out, depth: 0 }
    }

    /// A container whose `body` writes members or elements, each after its comma.
    fn nested(&mut self, [open, close]: [u8; 2], body: impl FnOnce(&mut Self) -> Result) -> Result {
        if self.depth == DEPTH_MAX {
            return Err(Error::TooDeep);
        }
        self.depth += 1;
        let start = self.out.len();
        body(self)?;
        match self.out.get_mut(start) {
            Some(comma) => *comma = open,
            None => self.out.push(open),
        }
        self.out.push(close);
        self.depth -= 1;
        Ok(())
    }

    fn object(&mut self, body: impl FnOnce(&mut Self) -> Result) -> Result {
        self.nested([b'{', b'}'], body)
    }

    fn key(&mut self, key: &'static str) {
        self.out.extend_from_slice(key.as_bytes());
    }

    /// A member of message type, written when present.
    fn member<T>(&mut self, key: &'static str, value: Option<&T>, write: fn(&mut Self, &T) -> Result) -> Result {
        let Some(value) = value else { return Ok(()) };
        self.key(key);
        write(self, value)
    }

    /// A list, left out when empty.
    fn list<T>(&mut self, key: &'static str, values: &[T], write: fn(&mut Self, &T) -> Result) -> Result {
        if values.is_empty() {
            return Ok(());
        }
        self.key(key);
        self.nested([b'[', b']'], |w| {
            values.iter().try_for_each(|value| {
                w.out.push(b',');
                write(w, value)
            })
        })
    }

    fn text(&mut self, key: &'static str, value: &str) {
        if !value.is_empty() {
            self.key(key);
            emit::string(value, self.out);
        }
    }

    fn flag(&mut self, key: &'static str, value: bool) {
        if value {
            self.key(key);
            self.out.extend_from_slice(b"true");
        }
    }

    /// A 32-bit integer is a JSON number (R-HASH-3).
    fn int32(&mut self, key: &'static str, value: i32) {
        if value != 0 {
            self.key(key);
            emit::integer(value, self.out);
        }
    }

    /// A 64-bit integer is a JSON string (R-HASH-3).
    fn int64(&mut self, key: &'static str, value: i64) {
        if value != 0 {
            self.present_int64(key, value);
        }
    }

    fn present_int64(&mut self, key: &'static str, value: i64) {
        self.key(key);
        self.out.push(b'"');
        emit::integer(value, self.out);
        self.out.push(b'"');
    }

    /// An enum value by name, an unknown one by number (R-HASH-3).
    fn enumeration<E: TryFrom<i32>>(&mut self, key: &'static str, number: i32, name: fn(&E) -> &'static str) {
        match E::try_from(number) {
            _ if number == 0 => {}
            Ok(value) => self.text(key, name(&value)),
            Err(_) => self.int32(key, number),
        }
    }

    pub(super) fn event(&mut self, e: &v1::Event) -> Result {
        self.object(|w| {
            w.member(key!("actor"), e.actor.as_ref(), Self::identity)?;
            w.body_before_execution_id(e)?;
            w.text(key!("execution_id"), &e.execution_id);
            if let Some(Body::ExecutionStart(start)) = &e.body {
                w.key(key!("execution_start"));
                w.execution_start(start)?;
            }
            w.enumeration(key!("kind"), e.kind, v1::EventKind::as_str_name);
            w.body_before_schema_version(e)?;
            w.int32(key!("schema_version"), e.schema_version);
            if let Some(Body::Tool(call)) = &e.body {
                w.key(key!("tool"));
                w.tool_call(call)?;
            }
            if let Some(ts) = &e.ts {
                w.key(key!("ts"));
                w.timestamp(ts)?;
            }
            if let Some(Body::Usage(usage)) = &e.body {
                w.key(key!("usage"));
                w.usage(usage)?;
            }
            Ok(())
        })
    }

    fn body_before_execution_id(&mut self, e: &v1::Event) -> Result {
        match &e.body {
            Some(Body::Approval(x)) => self.member(key!("approval"), Some(x), Self::approval_request),
            Some(Body::ApprovalResult(x)) => self.member(key!("approval_result"), Some(x), Self::approval_result),
            Some(Body::End(x)) => self.member(key!("end"), Some(x), Self::end),
            Some(Body::Error(x)) => self.member(key!("error"), Some(x), Self::error),
            _ => Ok(()),
        }
    }

    fn body_before_schema_version(&mut self, e: &v1::Event) -> Result {
        match &e.body {
            Some(Body::Lifecycle(x)) => self.member(key!("lifecycle"), Some(x), Self::lifecycle),
            Some(Body::Message(x)) => self.member(key!("message"), Some(x), Self::message),
            Some(Body::Model(x)) => self.member(key!("model"), Some(x), Self::model_call),
            Some(Body::Parked(x)) => self.member(key!("parked"), Some(x), Self::approval_ref),
            Some(Body::Result(x)) => self.member(key!("result"), Some(x), Self::tool_result),
            _ => Ok(()),
        }
    }

    fn identity(&mut self, x: &v1::IdentityRef) -> Result {
        self.object(|w| {
            w.text(key!("issuer"), &x.issuer);
            w.text(key!("principal"), &x.principal);
            w.text(key!("subject"), &x.subject);
            Ok(())
        })
    }

    fn approval_request(&mut self, x: &v1::ApprovalRequest) -> Result {
        self.object(|w| {
            w.text(key!("reason"), &x.reason);
            w.text(key!("tool_call_id"), &x.tool_call_id);
            Ok(())
        })
    }

    fn approval_result(&mut self, x: &v1::ApprovalResult) -> Result {
        self.object(|w| {
            w.flag(key!("approved"), x.approved);
            w.text(key!("reason"), &x.reason);
            w.int64(key!("request_seq"), x.request_seq);
            w.text(key!("tool_call_id"), &x.tool_call_id);
            Ok(())
        })
    }

    fn approval_ref(&mut self, x: &v1::ApprovalRef) -> Result {
        self.object(|w| {
            w.text(key!("execution_id"), &x.execution_id);
            w.int64(key!("request_seq"), x.request_seq);
            w.text(key!("tool_call_id"), &x.tool_call_id);
            Ok(())
        })
    }

    fn end(&mut self, x: &v1::HarnessEnd) -> Result {
        self.object(|w| {
            w.member(key!("error"), x.error.as_ref(), Self::error)?;
            w.text(key!("state"), &x.state);
            Ok(())
        })
    }

    fn error(&mut self, x: &v1::Error) -> Result {
        self.object(|w| {
            w.int32(key!("code"), x.code);
            w.text(key!("description"), &x.description);
            Ok(())
        })
    }

    fn execution_start(&mut self, x: &v1::ExecutionStart) -> Result {
        self.object(|w| {
            if !x.config.is_empty() {
                w.key(key!("config"));
                emit::base64(&x.config, w.out);
            }
            w.text(key!("harness"), &x.harness);
            w.text(key!("harness_version"), &x.harness_version);
            if let Some(count) = x.input_count {
                w.present_int64(key!("input_count"), count);
            }
            w.int64(key!("resume_from_seq"), x.resume_from_seq);
            Ok(())
        })
    }

    fn lifecycle(&mut self, x: &v1::Lifecycle) -> Result {
        self.object(|w| {
            w.text(key!("detail"), &x.detail);
            w.enumeration(key!("kind"), x.kind, v1::lifecycle::Kind::as_str_name);
            w.text(key!("snapshot_external_uri"), &x.snapshot_external_uri);
            w.text(key!("snapshot_local"), &x.snapshot_local);
            w.flag(key!("snapshot_memory"), x.snapshot_memory);
            w.flag(key!("snapshot_sealed"), x.snapshot_sealed);
            Ok(())
        })
    }

    fn usage(&mut self, x: &v1::Usage) -> Result {
        self.object(|w| {
            w.int64(key!("input_tokens"), x.input_tokens);
            w.text(key!("model"), &x.model);
            w.int64(key!("output_tokens"), x.output_tokens);
            w.int64(key!("reasoning_tokens"), x.reasoning_tokens);
            Ok(())
        })
    }

    fn model_call(&mut self, x: &v1::ModelCall) -> Result {
        self.object(|w| {
            w.text(key!("id"), &x.id);
            w.text(key!("input_hash"), &x.input_hash);
            w.list(key!("messages"), &x.messages, Self::message)?;
            w.text(key!("model"), &x.model);
            if !x.params.is_empty() {
                w.key(key!("params"));
                w.map(&x.params, |w, value| {
                    emit::string(value, w.out);
                    Ok(())
                })?;
            }
            w.member(key!("tool_choice"), x.tool_choice.as_ref(), Self::tool_choice)?;
            w.list(key!("tools"), &x.tools, Self::tool_definition)
        })
    }

    fn tool_choice(&mut self, x: &v1::ToolChoice) -> Result {
        self.object(|w| {
            w.enumeration(key!("mode"), x.mode, v1::tool_choice::Mode::as_str_name);
            w.text(key!("name"), &x.name);
            Ok(())
        })
    }

    fn tool_definition(&mut self, x: &v1::ToolDefinition) -> Result {
        self.object(|w| {
            w.text(key!("description"), &x.description);
            w.member(key!("input_schema"), x.input_schema.as_ref(), Self::structure)?;
            w.text(key!("name"), &x.name);
            Ok(())
        })
    }

    fn tool_call(&mut self, x: &v1::ToolCall) -> Result {
        self.object(|w| {
            w.member(key!("args"), x.args.as_ref(), Self::structure)?;
            w.text(key!("id"), &x.id);
            w.text(key!("idempotency_key"), &x.idempotency_key);
            w.enumeration(key!("mediation"), x.mediation, v1::Mediation::as_str_name);
            w.text(key!("tool"), &x.tool);
            Ok(())
        })
    }

    fn tool_result(&mut self, x: &v1::ToolResult) -> Result {
        self.object(|w| {
            w.int64(key!("approval_decision_seq"), x.approval_decision_seq);
            w.int64(key!("approval_request_seq"), x.approval_request_seq);
            w.enumeration(key!("code"), x.code, v1::tool_result::Code::as_str_name);
            w.list(key!("content"), &x.content, Self::part)?;
            w.text(key!("error"), &x.error);
            w.text(key!("id"), &x.id);
            w.flag(key!("is_error"), x.is_error);
            w.member(key!("output"), x.output.as_ref(), Self::structure)?;
            w.text(key!("output_digest"), &x.output_digest);
            w.text(key!("output_uri"), &x.output_uri);
            Ok(())
        })
    }

    fn message(&mut self, x: &v1::Message) -> Result {
        self.object(|w| {
            w.list(key!("parts"), &x.parts, Self::part)?;
            w.text(key!("role"), &x.role);
            Ok(())
        })
    }

    fn part(&mut self, x: &v1::Part) -> Result {
        self.object(|w| match &x.part {
            None => Ok(()),
            Some(part::Part::Text(x)) => w.member(key!("text"), Some(x), Self::text_part),
            Some(part::Part::File(x)) => w.member(key!("file"), Some(x), Self::file_part),
            Some(part::Part::Data(x)) => w.member(key!("data"), Some(x), Self::data_part),
            Some(part::Part::Reasoning(x)) => w.member(key!("reasoning"), Some(x), Self::reasoning_part),
            Some(part::Part::ToolCall(x)) => w.member(key!("tool_call"), Some(x), Self::tool_call),
            Some(part::Part::ToolResult(x)) => w.member(key!("tool_result"), Some(x), Self::tool_result),
        })
    }

    fn text_part(&mut self, x: &v1::TextPart) -> Result {
        self.object(|w| {
            w.text(key!("text"), &x.text);
            Ok(())
        })
    }

    fn data_part(&mut self, x: &v1::DataPart) -> Result {
        self.object(|w| w.member(key!("data"), x.data.as_ref(), Self::structure))
    }

    fn file_part(&mut self, x: &v1::FilePart) -> Result {
        self.object(|w| {
            if let Some(Source::Bytes(bytes)) = &x.source {
                w.key(key!("bytes"));
                emit::base64(bytes, w.out);
            }
            w.text(key!("digest"), &x.digest);
            w.text(key!("mime"), &x.mime);
            w.text(key!("name"), &x.name);
            if let Some(Source::Uri(uri)) = &x.source {
                w.key(key!("uri"));
                emit::string(uri, w.out);
            }
            Ok(())
        })
    }

    fn reasoning_part(&mut self, x: &v1::ReasoningPart) -> Result {
        self.object(|w| {
            w.text(key!("item_id"), &x.item_id);
            w.text(key!("model_id"), &x.model_id);
            if let Some(Opaque::OpaqueBytes(bytes)) = &x.opaque {
                w.key(key!("opaque_bytes"));
                emit::base64(bytes, w.out);
            }
            w.text(key!("opaque_digest"), &x.opaque_digest);
            if let Some(Opaque::OpaqueUri(uri)) = &x.opaque {
                w.key(key!("opaque_uri"));
                emit::string(uri, w.out);
            }
            w.int32(key!("ordinal"), x.ordinal);
            w.text(key!("provider"), &x.provider);
            w.list(key!("summary"), &x.summary, Self::part)?;
            w.text(key!("validity_scope"), &x.validity_scope);
            Ok(())
        })
    }

    fn timestamp(&mut self, x: &prost_types::Timestamp) -> Result {
        self.out.push(b'"');
        if !time::write(x, self.out) {
            return Err(Error::Timestamp);
        }
        self.out.push(b'"');
        Ok(())
    }

    fn number(&mut self, x: f64) -> Result {
        if emit::number(x, self.out) { Ok(()) } else { Err(Error::NonFinite) }
    }

    fn structure(&mut self, x: &Struct) -> Result {
        self.map(&x.fields, Self::value)
    }

    fn value(&mut self, x: &Value) -> Result {
        match &x.kind {
            None | Some(Kind::NullValue(_)) => self.out.extend_from_slice(b"null"),
            Some(Kind::BoolValue(true)) => self.out.extend_from_slice(b"true"),
            Some(Kind::BoolValue(false)) => self.out.extend_from_slice(b"false"),
            Some(Kind::NumberValue(x)) => self.number(*x)?,
            Some(Kind::StringValue(x)) => emit::string(x, self.out),
            Some(Kind::ListValue(x)) => self.list_value(x)?,
            Some(Kind::StructValue(x)) => self.structure(x)?,
        }
        Ok(())
    }

    fn list_value(&mut self, x: &ListValue) -> Result {
        self.nested([b'[', b']'], |w| {
            x.values.iter().try_for_each(|value| {
                w.out.push(b',');
                w.value(value)
            })
        })
    }

    /// A map's members in UTF-16 order (R-HASH-6). The map itself is in UTF-8 order, which differs
    /// only when some key has a character beyond the basic plane, whose first byte is at least f0.
    fn map<V>(&mut self, map: &BTreeMap<String, V>, write: fn(&mut Self, &V) -> Result) -> Result {
        self.object(|w| {
            let mut entry = |key: &String, value: &V| {
                w.out.push(b',');
                emit::string(key, w.out);
                w.out.push(b':');
                write(w, value)
            };
            if map.keys().all(|key| key.bytes().all(|b| b < 0xf0)) {
                return map.iter().try_for_each(|(key, value)| entry(key, value));
            }
            let mut sorted: Vec<_> = map.iter().collect();
            sorted.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            sorted.into_iter().try_for_each(|(key, value)| entry(key, value))
        })
    }

    /// Any JSON value, for the messages that have no writer of their own.
    pub(super) fn json(&mut self, x: &serde_json::Value) -> Result {
        use serde_json::Value as Json;
        match x {
            Json::Null => self.out.extend_from_slice(b"null"),
            Json::Bool(x) => self.out.extend_from_slice(if *x { b"true" } else { b"false" }),
            Json::Number(x) => self.number(x.as_f64().ok_or(Error::NonFinite)?)?,
            Json::String(x) => emit::string(x, self.out),
            Json::Array(values) => self.nested([b'[', b']'], |w| {
                values.iter().try_for_each(|value| {
                    w.out.push(b',');
                    w.json(value)
                })
            })?,
            Json::Object(map) => {
                let mut sorted: Vec<_> = map.iter().collect();
                sorted.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
                self.object(|w| {
                    sorted.into_iter().try_for_each(|(key, value)| {
                        w.out.push(b',');
                        emit::string(key, w.out);
                        w.out.push(b':');
                        w.json(value)
                    })
                })?;
            }
        }
        Ok(())
    }
}
