//! Request parameters: text in the neutral request, JSON in the provider's.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{Refused, refused};
use crate::json::{Fields, raw};

/// Adds every parameter to `body`, sorted by name. A value that is JSON - a number, `true`, an object, a
/// quoted string - goes as it is written; anything else is a string.
///
/// # Errors
/// A parameter that would overwrite a field of the body, or one of `reserved`.
pub(super) fn add(body: &mut Fields, params: &BTreeMap<String, String>, reserved: &[&str]) -> Result<(), Refused> {
    for (name, value) in params {
        if reserved.contains(&name.as_str()) || body.names().any(|n| n == name) {
            return refused(format_args!("the parameter {name:?} is set by the request itself; leave it out"));
        }
        body.set(name, &json(value));
    }
    Ok(())
}

fn json(value: &str) -> Box<RawValue> {
    match serde_json::from_str::<Box<RawValue>>(value) {
        Ok(json) if json.get() != "null" => json,
        _ => raw(value),
    }
}

#[cfg(test)]
mod tests {
    use super::json;

    #[test]
    fn json_stays_json_and_the_rest_is_a_string() {
        let table = [
            ("0.70", "0.70"),
            (" 12 ", "12"),
            ("true", "true"),
            ("null", r#""null""#),
            ("high", r#""high""#),
            ("", r#""""#),
            (r#""5""#, r#""5""#),
            (r#"{"type":"enabled", "budget_tokens":1024}"#, r#"{"type":"enabled", "budget_tokens":1024}"#),
            ("[\"a\"]", "[\"a\"]"),
            ("{oops", r#""{oops""#),
            ("1e", r#""1e""#),
        ];
        for (given, expected) in table {
            assert_eq!(json(given).get(), expected, "{given}");
        }
    }
}
