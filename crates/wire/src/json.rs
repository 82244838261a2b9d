//! proto3-JSON by descriptor: what HTTP bodies, files and tables use.
//!
//! Out: proto field names (snake_case), enum value names, unpopulated fields left out. In: both
//! spellings of a field, unknown fields refused by name. It is the generic path; records that are
//! hashed go through [`crate::canon`].

use std::sync::LazyLock;

use prost::{Message, Name};
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, Kind, MessageDescriptor, SerializeOptions};

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(crate::DESCRIPTORS).expect("the committed descriptors decode"));

/// The descriptors of both packages.
pub fn pool() -> &'static DescriptorPool {
    &POOL
}

/// JSON that is not the message it should be; the text says what and where.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

fn descriptor<M: Name>() -> prost_reflect::MessageDescriptor {
    let name = M::full_name();
    POOL.get_message_by_name(&name).expect("every generated message is in the committed descriptors")
}

/// The message as a JSON value.
///
/// # Errors
/// A `Struct` number that is NaN or infinite has no JSON form.
pub fn to_value<M: Message + Name>(message: &M) -> Result<serde_json::Value, Error> {
    value_with(message, &SerializeOptions::new().use_proto_field_name(true))
}

/// The message as a JSON value with the names of fields in camelCase, as proto3-JSON has them by default: for the
/// few places where scripts of other tools of this protocol expect them.
///
/// # Errors
/// As [`to_value`].
pub fn to_camel_value<M: Message + Name>(message: &M) -> Result<serde_json::Value, Error> {
    value_with(message, &SerializeOptions::new().use_proto_field_name(false))
}

fn value_with<M: Message + Name>(message: &M, options: &SerializeOptions) -> Result<serde_json::Value, Error> {
    let mut dynamic = DynamicMessage::new(descriptor::<M>());
    dynamic.transcode_from(message).map_err(|e| Error(e.to_string()))?;
    let options = options.clone().skip_default_fields(true);
    dynamic.serialize_with_options(serde_json::value::Serializer, &options).map_err(|e| Error(e.to_string()))
}

/// Reads a message from JSON text; an unknown field is an error that names it.
///
/// # Errors
/// Malformed JSON, a wrong type, an unknown field, an integer that a double cannot hold exactly, or
/// text after the value.
pub fn from_slice<M: Message + Name + Default>(json: &[u8]) -> Result<M, Error> {
    let value = serde_json::from_slice(json).map_err(|e| Error(e.to_string()))?;
    refuse_rounded(&value, &descriptor::<M>())?;
    let mut de = serde_json::Deserializer::from_slice(json);
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    let dynamic = DynamicMessage::deserialize_with_options(descriptor::<M>(), &mut de, &options)
        .map_err(|e| Error(e.to_string()))?;
    de.end().map_err(|e| Error(e.to_string()))?;
    dynamic.transcode_to().map_err(|e| Error(e.to_string()))
}

/// Refuses a number in an integer field that has been rounded on its way: beyond the 64 bits, JSON
/// numbers are doubles, and the generic reader takes the nearest integer for what was written.
fn refuse_rounded(value: &serde_json::Value, message: &MessageDescriptor) -> Result<(), Error> {
    let serde_json::Value::Object(object) = value else { return Ok(()) };
    for (name, value) in object {
        let field = message.get_field_by_name(name).or_else(|| message.get_field_by_json_name(name));
        let Some(field) = field else { continue };
        match (value, field.kind()) {
            (serde_json::Value::Object(entries), Kind::Message(entry)) if field.is_map() => {
                let kind = entry.map_entry_value_field().kind();
                entries.values().try_for_each(|v| refuse_rounded_field(name, v, &kind))?;
            }
            (serde_json::Value::Array(items), kind) if field.is_list() => {
                items.iter().try_for_each(|v| refuse_rounded_field(name, v, &kind))?;
            }
            (value, kind) => refuse_rounded_field(name, value, &kind)?,
        }
    }
    Ok(())
}

fn refuse_rounded_field(name: &str, value: &serde_json::Value, kind: &Kind) -> Result<(), Error> {
    // 2^53: up to there every integer is a double of its own.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    match (kind, value) {
        (Kind::Message(message), value) if message.parent_file().package_name() != "google.protobuf" => {
            refuse_rounded(value, message)
        }
        (Kind::Int32 | Kind::Int64 | Kind::Uint32 | Kind::Uint64 | Kind::Enum(_), serde_json::Value::Number(n))
            if n.as_f64().is_some_and(|f| n.is_f64() && f.abs() > EXACT_MAX) =>
        {
            Err(Error(format!("{name}: {n} is not a 64-bit integer: write integers beyond 2^53 as strings")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1;

    #[test]
    fn a_rounded_integer_is_refused_by_name() {
        let read = |json: &str| from_slice::<v1::ExecRequest>(json.as_bytes());
        for bad in ["-9223372036854775809", "9223372036854775808", "1e300"] {
            assert!(read(&format!(r#"{{"resume_from_seq":{bad}}}"#)).is_err(), "{bad}");
        }
        let rounded = read(r#"{"resume_from_seq":-9223372036854775809}"#).unwrap_err();
        assert!(rounded.to_string().starts_with("resume_from_seq: "), "{rounded}");
        assert_eq!(read(r#"{"resume_from_seq":"-9223372036854775808"}"#).unwrap().resume_from_seq, i64::MIN);
        assert_eq!(read(r#"{"resume_from_seq":9223372036854775807}"#).unwrap().resume_from_seq, i64::MAX);
        let nested = r#"{"inputs":[{"parts":[{"reasoning":{"ordinal":1e300}}]}]}"#;
        assert!(read(nested).unwrap_err().to_string().contains("ordinal"));
        let data = r#"{"inputs":[{"parts":[{"data":{"data":{"x":1e300}}}]}]}"#;
        assert!(read(data).is_ok(), "a number of a Struct is a double");
    }
}
