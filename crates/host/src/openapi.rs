//! openapi.json.

/// The description of the HTTP spelling.
pub fn document() -> serde_json::Value {
    serde_json::Value::Null
}
