//! JSON schemas of protobuf messages in their proto3-JSON form.
//!
//! What goes in and what comes out are two schemas: in, a field may be null and an integer a
//! number or a string, and unknown fields are refused; out, a form is exact.

use std::collections::BTreeMap;

use inspan_wire::json::pool;
use prost_reflect::{EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

/// Which way a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    In,
    Out,
}

/// The schemas that the document refers to.
#[derive(Default)]
pub(super) struct Schemas(BTreeMap<String, Value>);

impl Schemas {
    /// A reference to the schema of a message, which is made when it is the first.
    pub(super) fn message(&mut self, full_name: &str, side: Side) -> Value {
        let message = pool().get_message_by_name(full_name).expect("routes name messages of the descriptors");
        self.refer(&message, side)
    }

    /// A reference to the schema of a message that comes in without one of its fields.
    pub(super) fn message_without(&mut self, full_name: &str, field: &str) -> Value {
        let message = pool().get_message_by_name(full_name).expect("routes name messages of the descriptors");
        let name = format!("{}Body", message.name());
        if !self.0.contains_key(&name) {
            let mut schema = self.object(&message, Side::In);
            if let Some(properties) = schema["properties"].as_object_mut() {
                properties.remove(field);
            }
            self.0.insert(name.clone(), schema);
        }
        reference(&name)
    }

    /// A reference to a schema that stands in the code.
    pub(super) fn fixed(&mut self, name: &str, schema: impl FnOnce() -> Value) -> Value {
        self.0.entry(name.to_owned()).or_insert_with(schema);
        reference(name)
    }

    pub(super) fn finish(self) -> Value {
        Value::Object(self.0.into_iter().collect())
    }

    fn refer(&mut self, message: &MessageDescriptor, side: Side) -> Value {
        match message.full_name() {
            "google.protobuf.Timestamp" => return json!({ "type": "string", "format": "date-time" }),
            "google.protobuf.Struct" => return json!({ "type": "object" }),
            _ => {}
        }
        let name = match side {
            Side::In => format!("{}Input", message.name()),
            Side::Out => message.name().to_owned(),
        };
        if !self.0.contains_key(&name) {
            // The place is taken before the fields are looked at: messages refer to themselves.
            self.0.insert(name.clone(), Value::Null);
            let schema = self.object(message, side);
            self.0.insert(name.clone(), schema);
        }
        reference(&name)
    }

    fn object(&mut self, message: &MessageDescriptor, side: Side) -> Value {
        let properties: Map<String, Value> =
            message.fields().map(|field| (field.name().to_owned(), self.field(&field, side))).collect();
        let mut schema = json!({ "type": "object", "properties": properties });
        describe(&mut schema, comment(&message.parent_file(), message.path()));
        if side == Side::In {
            schema["additionalProperties"] = json!(false);
            at_most_one_of_each(message, &mut schema);
        }
        schema
    }

    fn field(&mut self, field: &FieldDescriptor, side: Side) -> Value {
        let mut schema = if field.is_map() {
            let entry = field.kind().as_message().map(MessageDescriptor::map_entry_value_field);
            let value = self.single(&entry.expect("a map's kind is its entry"), side);
            json!({ "type": "object", "additionalProperties": value })
        } else if field.is_list() {
            let items = self.single(field, side);
            json!({ "type": "array", "items": items })
        } else {
            self.single(field, side)
        };
        if side == Side::In {
            schema = nullable(schema);
        }
        describe(&mut schema, comment(&field.parent_file(), field.path()));
        schema
    }

    fn single(&mut self, field: &FieldDescriptor, side: Side) -> Value {
        match (field.kind(), side) {
            (Kind::Message(message), side) => self.refer(&message, side),
            (Kind::Enum(values), side) => enumeration(&values, side),
            (Kind::String, _) => json!({ "type": "string" }),
            (Kind::Bytes, _) => {
                json!({ "type": "string", "format": "byte", "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$" })
            }
            (Kind::Bool, _) => json!({ "type": "boolean" }),
            (Kind::Double | Kind::Float, _) => json!({ "type": "number" }),
            (Kind::Int64 | Kind::Sint64 | Kind::Sfixed64, Side::In) => json!({
                "type": ["integer", "string"], "format": "int64",
                "minimum": i64::MIN, "maximum": i64::MAX, "pattern": "^-?(0|[1-9][0-9]{0,17})$",
            }),
            (Kind::Int64 | Kind::Sint64 | Kind::Sfixed64, Side::Out) => int64_out(),
            (_, Side::In) => json!({
                "type": ["integer", "string"], "format": "int32",
                "minimum": i32::MIN, "maximum": i32::MAX, "pattern": "^-?(0|[1-9][0-9]{0,8})$",
            }),
            (_, Side::Out) => json!({ "type": "integer", "format": "int32" }),
        }
    }
}

/// A 64-bit integer as it comes out.
pub(super) fn int64_out() -> Value {
    json!({ "type": "string", "format": "int64", "pattern": "^-?[0-9]{1,19}$" })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn enumeration(values: &EnumDescriptor, side: Side) -> Value {
    let names: Vec<_> = values.values().map(|value| value.name().to_owned()).collect();
    let number = json!({ "type": "integer", "minimum": i32::MIN, "maximum": i32::MAX });
    match side {
        Side::In => json!({ "anyOf": [{ "type": "string", "enum": names }, number] }),
        // A value of a newer protocol comes as its number.
        Side::Out => json!({ "anyOf": [{ "type": "string", "enum": names }, { "type": "integer" }] }),
    }
}

/// Null is proto3-JSON for unset.
fn nullable(mut schema: Value) -> Value {
    if let Some(kind) = schema.get_mut("type") {
        let mut kinds = match kind.take() {
            Value::Array(kinds) => kinds,
            one => vec![one],
        };
        kinds.push(json!("null"));
        *kind = Value::Array(kinds);
        return schema;
    }
    if let Some(Value::Array(any)) = schema.get_mut("anyOf") {
        any.push(json!({ "type": "null" }));
        return schema;
    }
    json!({ "anyOf": [schema, { "type": "null" }] })
}

fn at_most_one_of_each(message: &MessageDescriptor, schema: &mut Value) {
    let mut pairs = Vec::new();
    for oneof in message.oneofs().filter(|oneof| !oneof.is_synthetic()) {
        let names: Vec<_> = oneof.fields().map(|field| field.name().to_owned()).collect();
        if names.len() == message.fields().len() {
            schema["maxProperties"] = json!(1);
            return;
        }
        for (at, one) in names.iter().enumerate() {
            pairs.extend(names[at + 1..].iter().map(|other| json!({ "required": [one, other] })));
        }
    }
    if !pairs.is_empty() {
        schema["not"] = json!({ "anyOf": pairs });
    }
}

fn describe(schema: &mut Value, comment: Option<String>) {
    if let (Some(comment), Some(schema)) = (comment, schema.as_object_mut()) {
        schema.insert("description".to_owned(), Value::String(comment));
    }
}

/// The comment above a declaration in the .proto file.
fn comment(file: &FileDescriptor, path: &[i32]) -> Option<String> {
    let source = file.file_descriptor_proto().source_code_info.as_ref()?;
    let location = source.location.iter().find(|location| location.path == path)?;
    let text = location.leading_comments();
    let text = text.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
