//! proto3-JSON by descriptor: what HTTP bodies, files and tables use.
//!
//! Out: proto field names (snake_case), enum value names, unpopulated fields left out. In: both
//! spellings of a field, unknown fields refused by name. It is the generic path; records that are
//! hashed go through [`crate::canon`].

use std::sync::LazyLock;

use prost::{Message, Name};
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, SerializeOptions};

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
    let mut dynamic = DynamicMessage::new(descriptor::<M>());
    dynamic.transcode_from(message).map_err(|e| Error(e.to_string()))?;
    let options = SerializeOptions::new().use_proto_field_name(true).skip_default_fields(true);
    dynamic.serialize_with_options(serde_json::value::Serializer, &options).map_err(|e| Error(e.to_string()))
}

/// Reads a message from JSON text; an unknown field is an error that names it.
///
/// # Errors
/// Malformed JSON, a wrong type, an unknown field, or text after the value.
pub fn from_slice<M: Message + Name + Default>(json: &[u8]) -> Result<M, Error> {
    let mut de = serde_json::Deserializer::from_slice(json);
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    let dynamic = DynamicMessage::deserialize_with_options(descriptor::<M>(), &mut de, &options)
        .map_err(|e| Error(e.to_string()))?;
    de.end().map_err(|e| Error(e.to_string()))?;
    dynamic.transcode_to().map_err(|e| Error(e.to_string()))
}
