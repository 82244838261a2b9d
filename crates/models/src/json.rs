//! JSON as it came: objects that keep their order and the exact text of their values.
//!
//! Reasoning must go back to its provider byte for byte, so a value that this crate does not need
//! to understand is carried as text and never decoded.

use std::fmt;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value as ProtoValue};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

/// Fields that an object may have. Those of the APIs have a few dozen; the bound keeps look-ups by name cheap
/// whatever a server sends. Arguments of tools are not read into [`Fields`].
const FIELDS_MAX: usize = 1000;

/// A JSON object: fields in the order in which they came, values as their exact text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    /// Reads an object. The error is fit to follow "not a JSON object: ".
    pub(crate) fn parse(text: &[u8]) -> Result<Fields, String> {
        serde_json::from_slice(text).map_err(|e| e.to_string())
    }

    /// The value of a field; an explicit `null` counts as absent.
    pub(crate) fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().rev().find(|(n, _)| n == name).map(|(_, v)| &**v).filter(|v| v.get() != "null")
    }

    /// The value of a field when it is a string.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// The value of a field when it is an object.
    pub(crate) fn object(&self, name: &str) -> Option<Fields> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// Sets a field: in its place when it is there, at the end when it is not.
    pub(crate) fn set(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        let value = raw(value);
        match self.0.iter_mut().rev().find(|(n, _)| n == name) {
            Some((_, v)) => *v = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// The same with `set`, for building an object in one expression.
    pub(crate) fn with(mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Fields {
        self.set(name, value);
        self
    }

    /// Every field that is not in `known` and not `null`.
    pub(crate) fn without(&self, known: &[&str]) -> Fields {
        let kept = self.0.iter().filter(|(n, v)| !known.contains(&n.as_str()) && v.get() != "null");
        Fields(kept.cloned().collect())
    }

    /// Sets every field of `other`.
    pub(crate) fn merge(&mut self, other: &Fields) {
        for (name, value) in &other.0 {
            self.set(name, value);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(n, _)| n.as_str())
    }

    /// The object as compact JSON text around the exact text of its values.
    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("an object of raw JSON always serialises")
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    if fields.len() == FIELDS_MAX {
                        return Err(serde::de::Error::custom(format_args!("an object has over {FIELDS_MAX} fields")));
                    }
                    fields.push(entry);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// Any plain value as raw JSON.
pub(crate) fn raw(value: &(impl Serialize + ?Sized)) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("plain data with string keys always serialises")
}

/// A `Struct` as JSON: whole numbers without a point, keys sorted.
///
/// # Errors
/// NaN and infinities have no JSON form.
pub(crate) fn from_struct(data: &Struct) -> Result<Value, NotFinite> {
    let mut object = Map::new();
    for (name, value) in &data.fields {
        object.insert(name.clone(), from_proto(value)?);
    }
    Ok(Value::Object(object))
}

/// A number that JSON cannot say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotFinite;

fn from_proto(value: &ProtoValue) -> Result<Value, NotFinite> {
    Ok(match &value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(b)) => Value::Bool(*b),
        Some(Kind::NumberValue(n)) => Value::Number(number(*n)?),
        Some(Kind::StringValue(s)) => Value::String(s.clone()),
        Some(Kind::StructValue(s)) => from_struct(s)?,
        Some(Kind::ListValue(l)) => Value::Array(l.values.iter().map(from_proto).collect::<Result<_, _>>()?),
    })
}

/// Doubles up to 2^53 hold every integer; beyond it the exponent form says that digits are missing.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

fn number(n: f64) -> Result<Number, NotFinite> {
    if n.fract() == 0.0 && n.abs() <= EXACT_MAX && !(n == 0.0 && n.is_sign_negative()) {
        #[expect(clippy::cast_possible_truncation, reason = "whole and at most 2^53, checked above")]
        return Ok(Number::from(n as i64));
    }
    Number::from_f64(n).ok_or(NotFinite)
}

/// Reads JSON text that must be an object, as a `Struct`. Empty text is an empty object: that is
/// how providers stream a call without arguments.
///
/// # Errors
/// A fragment that says what is wrong: not JSON, not an object, or an integer that a double
/// would change (an id of 19 digits, say) - running a tool with another number than the model
/// wrote would be a guess.
pub(crate) fn to_struct(text: &str) -> Result<Struct, String> {
    if text.trim().is_empty() {
        return Ok(Struct::default());
    }
    let value: Value = serde_json::from_str(text).map_err(|e| format!("not JSON: {e}"))?;
    if let Some(integer) = inexact_integer(text) {
        return Err(format!("the integer {integer} does not fit a double; have the schema ask for a string"));
    }
    match value {
        Value::Object(object) => Ok(object_to_struct(object)),
        _ => Err("not a JSON object".to_owned()),
    }
}

fn object_to_struct(object: Map<String, Value>) -> Struct {
    Struct { fields: object.into_iter().map(|(name, value)| (name, to_proto(value))).collect() }
}

fn to_proto(value: Value) -> ProtoValue {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(b) => Kind::BoolValue(b),
        Value::Number(n) => Kind::NumberValue(n.as_f64().unwrap_or(f64::NAN)),
        Value::String(s) => Kind::StringValue(s),
        Value::Array(values) => Kind::ListValue(ListValue { values: values.into_iter().map(to_proto).collect() }),
        Value::Object(object) => Kind::StructValue(object_to_struct(object)),
    };
    ProtoValue { kind: Some(kind) }
}

/// The first integer literal of valid JSON text that changes when it is read as a double.
fn inexact_integer(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let (mut at, mut in_string) = (0, false);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_string => at += 1,
            b'"' => in_string = !in_string,
            b'-' | b'0'..=b'9' if !in_string => {
                let rest = &text[at..];
                let end =
                    rest.find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E')).unwrap_or(rest.len());
                let literal = &rest[..end];
                if !is_exact(literal) {
                    return Some(literal);
                }
                at += end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

fn is_exact(literal: &str) -> bool {
    // Fifteen digits always fit; a point or an exponent announces a double.
    literal.len() <= 15
        || literal.contains(['.', 'e', 'E'])
        || literal.parse::<f64>().is_ok_and(|n| format!("{n:.0}") == literal)
}

#[cfg(test)]
mod tests {
    use super::{Fields, from_struct, to_struct};

    #[test]
    fn fields_keep_order_and_text() {
        let text = r#"{"b":1.50,"a":{"z":"\u00e9","y":[ 1 ]},"n":null}"#;
        let mut fields = Fields::parse(text.as_bytes()).expect("an object");
        assert_eq!(fields.to_text(), text);
        assert!(fields.get("n").is_none());
        fields.set("b", "x");
        fields.set("c", &7);
        assert_eq!(fields.to_text(), r#"{"b":"x","a":{"z":"\u00e9","y":[ 1 ]},"n":null,"c":7}"#);
        assert_eq!(fields.without(&["b", "c"]).to_text(), r#"{"a":{"z":"\u00e9","y":[ 1 ]}}"#);
    }

    #[test]
    fn an_object_has_a_bound() {
        let object = |n: usize| format!("{{{}}}", vec![r#""k":1"#; n].join(","));
        assert!(Fields::parse(object(1000).as_bytes()).is_ok());
        assert!(Fields::parse(object(1001).as_bytes()).expect_err("too many").contains("over 1000 fields"));
    }

    #[test]
    fn arguments_become_a_struct_or_an_error() {
        let ok = [
            ("", "{}"),
            (" {} ", "{}"),
            (r#"{"n":2,"f":2.50,"big":9007199254740992}"#, r#"{"big":9007199254740992,"f":2.5,"n":2}"#),
            (
                r#"{"s":"12345678901234567891 \" 12345678901234567891"}"#,
                r#"{"s":"12345678901234567891 \" 12345678901234567891"}"#,
            ),
            (r#"{"e":1e300,"l":[null,true,-3]}"#, r#"{"e":1e+300,"l":[null,true,-3]}"#),
        ];
        for (text, expected) in ok {
            let data = to_struct(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(from_struct(&data).expect("finite").to_string(), expected, "{text}");
        }
        for text in ["[]", "1", "{", r#"{"a":1}x"#, r#"{"a":1}{"b":2}"#, r#"{"id":9007199254740993}"#, "null", "\"{}\""]
        {
            assert!(to_struct(text).is_err(), "{text}");
        }
    }
}
