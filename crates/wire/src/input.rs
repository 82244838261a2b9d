//! The input hash of a model request (R-IN).
//!
//! Not RFC 8785: the members stand in a fixed order, absent values are spelled `null`, and strings
//! are escaped so that they are safe inside HTML. Journals move between hosts, so every byte counts.

use std::collections::BTreeMap;

use prost_types::value::Kind;
use prost_types::{Struct, Value};

use crate::canon::{DEPTH_MAX, Error};
use crate::v1::{self, file_part::Source, part, reasoning_part::Opaque};
use crate::{Digest, emit};

type Result<T = ()> = std::result::Result<T, Error>;

/// The exact JSON text whose SHA-256 is the recorded `input_hash` (R-IN-1 to R-IN-10).
///
/// The request is taken as [`crate::normal`] would leave it: unknown mediations count as unset (C-1),
/// empty file and reasoning sources as absent (C-2), and messages that hold nothing are not there (C-7).
///
/// # Errors
/// A `Struct` number that is NaN or infinite, values nested deeper than [`DEPTH_MAX`], a tool choice mode that is not known.
pub fn text(request: &v1::ModelCall) -> Result<String> {
    let mut writer = Input { out: Vec::with_capacity(1024), depth: 0 };
    writer.request(request)?;
    Ok(String::from_utf8(writer.out).expect("only strings, ASCII and escapes were written"))
}

/// The input hash of `text`: its SHA-256 (R-IN-1).
pub fn hash(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}

struct Input {
    out: Vec<u8>,
    depth: u32,
}

impl Input {
    fn raw(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn string(&mut self, key: &str, value: &str) {
        self.raw(key);
        emit::html_safe_string(value, &mut self.out);
    }

    fn integer(&mut self, key: &str, value: impl itoa::Integer) {
        self.raw(key);
        emit::integer(value, &mut self.out);
    }

    /// Bytes in base64, `null` when there are none (R-IN-7).
    fn bytes(&mut self, key: &str, value: &[u8]) {
        self.raw(key);
        if value.is_empty() { self.raw("null") } else { emit::base64(value, &mut self.out) }
    }

    /// Elements with commas between them.
    fn elements<T>(
        &mut self,
        values: impl Iterator<Item = T>,
        mut write: impl FnMut(&mut Self, T) -> Result,
    ) -> Result {
        self.raw("[");
        for (i, value) in values.enumerate() {
            if i > 0 {
                self.raw(",");
            }
            write(self, value)?;
        }
        self.raw("]");
        Ok(())
    }

    /// A map in the order of its keys' bytes, which is the order of a `BTreeMap` (R-IN-8).
    fn map<V>(&mut self, map: &BTreeMap<String, V>, write: fn(&mut Self, &V) -> Result) -> Result {
        self.raw("{");
        for (i, (key, value)) in map.iter().enumerate() {
            self.string(if i > 0 { "," } else { "" }, key);
            self.raw(":");
            write(self, value)?;
        }
        self.raw("}");
        Ok(())
    }

    fn deeper(&mut self, write: impl FnOnce(&mut Self) -> Result) -> Result {
        if self.depth == DEPTH_MAX {
            return Err(Error::TooDeep);
        }
        self.depth += 1;
        write(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn request(&mut self, x: &v1::ModelCall) -> Result {
        self.string("{\"Model\":", &x.model);
        self.raw(",\"Messages\":");
        let mut messages = x.messages.iter().filter(|m| !crate::normal::is_nothing(m)).peekable();
        if messages.peek().is_none() {
            self.raw("null");
        } else {
            self.elements(messages, Self::message)?;
        }
        self.raw(",\"Params\":");
        if x.params.is_empty() {
            self.raw("null");
        } else {
            self.map(&x.params, |w, value| {
                w.string("", value);
                Ok(())
            })?;
        }
        if !x.tools.is_empty() {
            self.raw(",\"Tools\":");
            self.elements(x.tools.iter(), Self::tool_definition)?;
        }
        if let Some(choice) = &x.tool_choice {
            self.raw(",\"ToolChoice\":");
            self.tool_choice(choice)?;
        }
        self.raw("}");
        Ok(())
    }

    fn message(&mut self, x: &v1::Message) -> Result {
        self.string("{\"Role\":", &x.role);
        self.raw(",\"Parts\":");
        self.elements(x.parts.iter(), Self::part)?;
        self.raw("}");
        Ok(())
    }

    /// Four members always, the two of tools only when set (R-IN-2).
    fn part(&mut self, x: &v1::Part) -> Result {
        self.deeper(|w| {
            match &x.part {
                Some(part::Part::Text(x)) => {
                    w.string("{\"Text\":{\"Text\":", &x.text);
                    w.raw("},\"File\":null,\"Data\":null,\"Reasoning\":null");
                }
                Some(part::Part::File(x)) => {
                    w.raw("{\"Text\":null,\"File\":");
                    w.file(x);
                    w.raw(",\"Data\":null,\"Reasoning\":null");
                }
                Some(part::Part::Data(x)) => {
                    w.raw("{\"Text\":null,\"File\":null,\"Data\":");
                    w.structure(x.data.as_ref())?;
                    w.raw(",\"Reasoning\":null");
                }
                Some(part::Part::Reasoning(x)) => {
                    w.raw("{\"Text\":null,\"File\":null,\"Data\":null,\"Reasoning\":");
                    w.reasoning(x)?;
                }
                Some(part::Part::ToolCall(x)) => {
                    w.raw("{\"Text\":null,\"File\":null,\"Data\":null,\"Reasoning\":null,\"ToolCall\":");
                    w.tool_call(x)?;
                }
                Some(part::Part::ToolResult(x)) => {
                    w.raw("{\"Text\":null,\"File\":null,\"Data\":null,\"Reasoning\":null,\"ToolResult\":");
                    w.tool_result(x)?;
                }
                None => w.raw("{\"Text\":null,\"File\":null,\"Data\":null,\"Reasoning\":null"),
            }
            w.raw("}");
            Ok(())
        })
    }

    fn file(&mut self, x: &v1::FilePart) {
        let (bytes, uri): (&[u8], &str) = match &x.source {
            Some(Source::Bytes(bytes)) => (bytes, ""),
            Some(Source::Uri(uri)) => (&[], uri),
            None => (&[], ""),
        };
        self.string("{\"MIME\":", &x.mime);
        self.bytes(",\"Bytes\":", bytes);
        self.string(",\"URI\":", uri);
        self.string(",\"Digest\":", &x.digest);
        self.string(",\"Name\":", &x.name);
        self.raw("}");
    }

    fn reasoning(&mut self, x: &v1::ReasoningPart) -> Result {
        let (bytes, uri): (&[u8], &str) = match &x.opaque {
            Some(Opaque::OpaqueBytes(bytes)) => (bytes, ""),
            Some(Opaque::OpaqueUri(uri)) => (&[], uri),
            None => (&[], ""),
        };
        self.string("{\"Provider\":", &x.provider);
        self.string(",\"ModelID\":", &x.model_id);
        self.bytes(",\"Opaque\":", bytes);
        self.string(",\"OpaqueURI\":", uri);
        self.string(",\"OpaqueDigest\":", &x.opaque_digest);
        self.raw(",\"Summary\":");
        if x.summary.is_empty() {
            self.raw("null");
        } else {
            self.elements(x.summary.iter(), Self::part)?;
        }
        self.string(",\"ItemID\":", &x.item_id);
        self.integer(",\"Ordinal\":", x.ordinal);
        self.string(",\"ValidityScope\":", &x.validity_scope);
        self.raw("}");
        Ok(())
    }

    fn tool_call(&mut self, x: &v1::ToolCall) -> Result {
        let mediation = match v1::Mediation::try_from(x.mediation) {
            Ok(v1::Mediation::InHarnessReported) => "IN_HARNESS_REPORTED",
            Ok(v1::Mediation::ControllerMediated) => "CONTROLLER_MEDIATED",
            Ok(v1::Mediation::RequiresApproval) => "REQUIRES_APPROVAL",
            Ok(v1::Mediation::Unspecified) | Err(_) => "",
        };
        self.string("{\"ID\":", &x.id);
        self.string(",\"Tool\":", &x.tool);
        self.raw(",\"Args\":");
        self.structure(x.args.as_ref())?;
        self.string(",\"Mediation\":", mediation);
        self.string(",\"IdempotencyKey\":", &x.idempotency_key);
        self.raw("}");
        Ok(())
    }

    /// The four members of newer hosts only when they say something, so that older hashes hold (R-IN-5).
    fn tool_result(&mut self, x: &v1::ToolResult) -> Result {
        self.string("{\"ID\":", &x.id);
        self.raw(",\"Output\":");
        self.structure(x.output.as_ref())?;
        self.string(",\"OutputURI\":", &x.output_uri);
        self.string(",\"OutputDigest\":", &x.output_digest);
        self.raw(if x.is_error { ",\"IsError\":true" } else { ",\"IsError\":false" });
        self.string(",\"Error\":", &x.error);
        if !x.content.is_empty() {
            self.raw(",\"Content\":");
            self.elements(x.content.iter(), Self::part)?;
        }
        if x.code != 0 {
            self.integer(",\"Code\":", x.code);
        }
        if x.approval_request_seq != 0 {
            self.integer(",\"ApprovalRequestSeq\":", x.approval_request_seq);
        }
        if x.approval_decision_seq != 0 {
            self.integer(",\"ApprovalDecisionSeq\":", x.approval_decision_seq);
        }
        self.raw("}");
        Ok(())
    }

    fn tool_definition(&mut self, x: &v1::ToolDefinition) -> Result {
        self.string("{\"Name\":", &x.name);
        self.string(",\"Description\":", &x.description);
        self.raw(",\"InputSchema\":");
        self.structure(x.input_schema.as_ref())?;
        self.raw("}");
        Ok(())
    }

    fn tool_choice(&mut self, x: &v1::ToolChoice) -> Result {
        let mode = match v1::tool_choice::Mode::try_from(x.mode) {
            Ok(v1::tool_choice::Mode::Unspecified) => "",
            Ok(v1::tool_choice::Mode::Auto) => "AUTO",
            Ok(v1::tool_choice::Mode::None) => "NONE",
            Ok(v1::tool_choice::Mode::Required) => "REQUIRED",
            Err(_) => return Err(Error::ToolChoiceMode(x.mode)),
        };
        self.string("{\"Mode\":", mode);
        self.string(",\"Name\":", &x.name);
        self.raw("}");
        Ok(())
    }

    /// An absent map is `null`, a present empty one is `{}` (R-IN-7).
    fn structure(&mut self, x: Option<&Struct>) -> Result {
        match x {
            None => self.raw("null"),
            Some(x) => self.deeper(|w| w.map(&x.fields, Self::value))?,
        }
        Ok(())
    }

    fn value(&mut self, x: &Value) -> Result {
        match &x.kind {
            None | Some(Kind::NullValue(_)) => self.raw("null"),
            Some(Kind::BoolValue(x)) => self.raw(if *x { "true" } else { "false" }),
            Some(Kind::NumberValue(x)) => self.number(*x)?,
            Some(Kind::StringValue(x)) => self.string("", x),
            Some(Kind::ListValue(x)) => self.deeper(|w| w.elements(x.values.iter(), Self::value))?,
            Some(Kind::StructValue(x)) => self.structure(Some(x))?,
        }
        Ok(())
    }

    /// As the canonical form, but minus zero keeps its sign (R-IN-8).
    fn number(&mut self, x: f64) -> Result {
        if x == 0.0 && x.is_sign_negative() {
            self.raw("-");
        }
        if emit::number(x, &mut self.out) { Ok(()) } else { Err(Error::NonFinite) }
    }
}
