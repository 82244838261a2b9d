//! Between `Struct`s and JSON text, without a digit lost.

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value as ProtoValue};
use serde_json::{Map, Number, Value};

/// Integers up to here are told apart by a double.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// The deepest nesting of an answer that becomes a `Struct`: a record may not be nested deeper than the
/// canonical form allows, and the record's own levels come on top.
const DEPTH_MAX: usize = 100;

/// Arguments as a JSON object: whole numbers without a point. Absent arguments are an empty object.
///
/// # Errors
/// A number is NaN or infinite, which JSON cannot say.
pub(super) fn arguments(args: Option<&Struct>) -> Result<Map<String, Value>, String> {
    args.map_or_else(|| Ok(Map::new()), object)
}

fn object(data: &Struct) -> Result<Map<String, Value>, String> {
    data.fields.iter().map(|(name, value)| Ok((name.clone(), from_proto(value)?))).collect()
}

/// One value as JSON.
///
/// # Errors
/// As [`arguments`].
pub(super) fn from_proto(value: &ProtoValue) -> Result<Value, String> {
    Ok(match &value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::NumberValue(number)) => Value::Number(from_double(*number)?),
        Some(Kind::StringValue(text)) => Value::String(text.clone()),
        Some(Kind::BoolValue(flag)) => Value::Bool(*flag),
        Some(Kind::StructValue(data)) => Value::Object(object(data)?),
        Some(Kind::ListValue(list)) => Value::Array(list.values.iter().map(from_proto).collect::<Result<_, _>>()?),
    })
}

#[expect(clippy::cast_possible_truncation, reason = "a whole number within EXACT_MAX is an i64")]
fn from_double(number: f64) -> Result<Number, String> {
    if number.fract() == 0.0 && number.abs() <= EXACT_MAX {
        return Ok((number as i64).into());
    }
    Number::from_f64(number)
        .ok_or_else(|| "an argument is NaN or infinite, which JSON cannot say: send a number".into())
}

/// A JSON object as a `Struct`; `None` when that would lose something: a number that no double holds, or nesting that
/// a record cannot have.
pub(super) fn to_struct(fields: Map<String, Value>) -> Option<Struct> {
    struct_at(fields, DEPTH_MAX)
}

fn struct_at(fields: Map<String, Value>, depth: usize) -> Option<Struct> {
    let depth = depth.checked_sub(1)?;
    let fields = fields.into_iter().map(|(name, value)| Some((name, to_proto(value, depth)?)));
    Some(Struct { fields: fields.collect::<Option<_>>()? })
}

fn to_proto(value: Value, depth: usize) -> Option<ProtoValue> {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(flag) => Kind::BoolValue(flag),
        Value::Number(number) => Kind::NumberValue(to_double(&number)?),
        Value::String(text) => Kind::StringValue(text),
        Value::Array(items) => {
            let depth = depth.checked_sub(1)?;
            let values = items.into_iter().map(|item| to_proto(item, depth)).collect::<Option<_>>()?;
            Kind::ListValue(ListValue { values })
        }
        Value::Object(fields) => Kind::StructValue(struct_at(fields, depth)?),
    };
    Some(ProtoValue { kind: Some(kind) })
}

/// The double that stands for exactly this integer, or for this number with a fraction.
#[expect(clippy::cast_precision_loss, reason = "what would be lost is refused in the same line")]
fn to_double(number: &Number) -> Option<f64> {
    let exact = |double: f64| (double.abs() <= EXACT_MAX).then_some(double);
    match (number.as_i64(), number.as_u64()) {
        (Some(integer), _) => exact(integer as f64),
        (None, Some(integer)) => exact(integer as f64),
        (None, None) => number.as_f64(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{arguments, to_struct};

    fn through(value: &Value) -> Option<Value> {
        let data = to_struct(value.as_object().expect("an object").clone())?;
        Some(Value::Object(arguments(Some(&data)).expect("finite")))
    }

    #[test]
    fn what_goes_in_comes_out() {
        let value = json!({"a": 1, "b": [1.5, null, true, {"c": "é"}], "d": -9_007_199_254_740_991_i64, "e": {}});
        assert_eq!(through(&value), Some(value));
        assert_eq!(arguments(None), Ok(serde_json::Map::new()));
    }

    #[test]
    fn what_a_double_would_change_is_no_struct() {
        assert_eq!(through(&json!({"n": 12_345_678_901_234_567_890_u64})), None);
        assert_eq!(through(&json!({"n": [i64::MIN]})), None);
        let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(through(&json!({ "n": deep })), None);
    }

    #[test]
    fn what_json_cannot_say_is_refused() {
        let number = prost_types::Value { kind: Some(prost_types::value::Kind::NumberValue(f64::NAN)) };
        let data = prost_types::Struct { fields: [("n".to_owned(), number)].into() };
        assert!(arguments(Some(&data)).is_err());
    }
}
