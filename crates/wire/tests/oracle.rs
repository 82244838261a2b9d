//! Our own writers and parser against the generic path, over arbitrary messages.

mod common;

use inspan_wire::{canon, input, json, normal, parse, v1};
use proptest::prelude::*;
use serde_json::Value;

/// proto3-JSON by descriptor, then an RFC 8785 serialiser of somebody else.
fn oracle<M: prost::Message + prost::Name>(message: &M) -> Vec<u8> {
    let value = json::to_value(message).expect("a value");
    serde_json_canonicalizer::to_vec(&value).expect("canonical")
}

/// What a stranger's JSON reader sees in an input text, for the rules of shape (R-IN-2, R-IN-3, R-IN-7).
fn check_part_shape(part: &Value) {
    let part = part.as_object().expect("a part is an object");
    for name in ["Text", "File", "Data", "Reasoning"] {
        assert!(part.contains_key(name), "{name} is always there");
    }
    assert!(part.values().filter(|v| !v.is_null()).count() <= 1, "a part is one thing");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// R-HASH-2, R-HASH-3, R-HASH-4, R-HASH-5, R-HASH-6.
    #[test]
    fn the_writer_equals_the_generic_path(event in common::event()) {
        let canonical = canon::event(&event).expect("canonical");
        prop_assert_eq!(String::from_utf8(canonical), String::from_utf8(oracle(&event)));
    }

    #[test]
    fn the_generic_writer_equals_the_generic_path(call in common::model_call()) {
        prop_assert_eq!(String::from_utf8(canon::message(&call).expect("canonical")), String::from_utf8(oracle(&call)));
    }

    /// What is written is read back: as the same bytes, and as the same event once it is normal.
    #[test]
    fn parsing_inverts_writing(event in common::event()) {
        let canonical = canon::event(&event).expect("canonical");
        let parsed = parse::event(&canonical).expect("parses");
        prop_assert_eq!(canon::event(&parsed).expect("canonical"), canonical);
        let mut normal = event;
        normal::event(&mut normal);
        let canonical = canon::event(&normal).expect("canonical");
        prop_assert_eq!(parse::event(&canonical).expect("parses"), normal);
    }

    /// Members in any order and white space make no difference.
    #[test]
    fn parsing_takes_other_spellings(event in common::event()) {
        let canonical = canon::event(&event).expect("canonical");
        let value: Value = serde_json::from_slice(&canonical).expect("JSON");
        prop_assert_eq!(parse::event(reversed(&value).as_bytes()).expect("parses"), parse::event(&canonical).expect("parses"));
    }

    #[test]
    fn normalising_twice_is_normalising_once(event in common::event()) {
        let mut once = event;
        normal::event(&mut once);
        let mut twice = once.clone();
        normal::event(&mut twice);
        prop_assert_eq!(once, twice);
    }

    /// R-IN-1, R-IN-2, R-IN-9: JSON of the fixed shape, with no character that HTML or JavaScript would read.
    #[test]
    fn input_texts_are_json_of_the_fixed_shape(call in common::model_call()) {
        let text = input::text(&call).expect("a text");
        let unsafe_ones = ['<', '>', '&', '\u{2028}', '\u{2029}'];
        prop_assert!(!text.contains(unsafe_ones));
        let value: Value = serde_json::from_str(&text).expect("JSON");
        prop_assert_eq!(value["Model"].as_str(), Some(call.model.as_str()));
        for message in value["Messages"].as_array().into_iter().flatten() {
            message["Parts"].as_array().expect("never null").iter().for_each(check_part_shape);
        }
    }

    /// R-IN-10: what the conversions change has no part in the hash.
    #[test]
    fn input_texts_see_the_normal_request(call in common::model_call()) {
        let mut normal = call.clone();
        normal::model_call(&mut normal);
        prop_assert_eq!(input::text(&normal), input::text(&call));
    }

    /// Damage is an error or another event, never a panic.
    #[test]
    fn damaged_text_does_not_panic(event in common::event(), at: prop::sample::Index, byte: u8, cut: bool) {
        let mut text = canon::event(&event).expect("canonical");
        let at = at.index(text.len());
        if cut {
            text.truncate(at);
            prop_assert!(parse::event(&text).is_err(), "a cut object is no object");
        } else {
            text[at] = byte;
            let _ = parse::event(&text);
        }
    }
}

/// The value as text with the members of every object in falling order and white space everywhere.
fn reversed(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let members = map.iter().rev().map(|(k, v)| format!("\t{} :\r\n{}", Value::from(k.as_str()), reversed(v)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(" ,"))
        }
        Value::Array(values) => format!("[ {} ]", values.iter().map(reversed).collect::<Vec<_>>().join(" , ")),
        other => format!(" {other} "),
    }
}

#[test]
fn values_without_json_form_are_errors() {
    let with = |number: f64| {
        let value = prost_types::Value { kind: Some(prost_types::value::Kind::NumberValue(number)) };
        let args = prost_types::Struct { fields: [("n".to_owned(), value)].into() };
        v1::ToolCall { args: Some(args), ..Default::default() }
    };
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let event = v1::Event::new("e", v1::EventKind::EventToolCall, v1::event::Body::Tool(with(number)));
        assert_eq!(canon::event(&event), Err(canon::Error::NonFinite), "R-HASH-5");
        assert!(matches!(canon::message(&event), Err(canon::Error::Generic(_))), "R-HASH-5");
        let part = v1::Part { part: Some(v1::part::Part::ToolCall(with(number))) };
        let message = v1::Message { role: "assistant".into(), parts: vec![part] };
        let call = v1::ModelCall { messages: vec![message], ..Default::default() };
        assert_eq!(input::text(&call), Err(canon::Error::NonFinite));
    }
    for (seconds, nanos) in [(-62_135_596_801, 0), (253_402_300_800, 0), (0, -1), (0, 1_000_000_000), (i64::MAX, 0)] {
        let ts = prost_types::Timestamp { seconds, nanos };
        let event = v1::Event { ts: Some(ts), ..Default::default() };
        assert_eq!(canon::event(&event), Err(canon::Error::Timestamp));
    }
    let choice = v1::ToolChoice { mode: 9, ..Default::default() };
    let call = v1::ModelCall { tool_choice: Some(choice), ..Default::default() };
    assert_eq!(input::text(&call), Err(canon::Error::ToolChoiceMode(9)));
}

/// R-IN-8: unlike the canonical form, the input text keeps the sign of zero.
#[test]
fn minus_zero_keeps_its_sign_in_the_input_text_only() {
    let value = prost_types::Value { kind: Some(prost_types::value::Kind::NumberValue(-0.0)) };
    let data = prost_types::Struct { fields: [("n".to_owned(), value)].into() };
    let part = v1::Part { part: Some(v1::part::Part::Data(v1::DataPart { data: Some(data) })) };
    let message = v1::Message { role: "user".into(), parts: vec![part] };
    let call = v1::ModelCall { messages: vec![message.clone()], ..Default::default() };
    assert!(input::text(&call).expect("a text").contains(r#""Data":{"n":-0}"#));
    let event = v1::Event::new("e", v1::EventKind::EventInput, v1::event::Body::Message(message));
    assert!(String::from_utf8(canon::event(&event).expect("canonical")).unwrap().contains(r#"{"n":0}"#));
}

#[test]
fn nesting_has_one_bound_for_writer_and_parser() {
    let nested = |levels: u32| {
        let mut value = prost_types::Value { kind: Some(prost_types::value::Kind::BoolValue(true)) };
        for _ in 0..levels {
            let list = prost_types::ListValue { values: vec![value] };
            value = prost_types::Value { kind: Some(prost_types::value::Kind::ListValue(list)) };
        }
        let args = prost_types::Struct { fields: [("n".to_owned(), value)].into() };
        let call = v1::ToolCall { args: Some(args), ..Default::default() };
        v1::Event::new("e", v1::EventKind::EventToolCall, v1::event::Body::Tool(call))
    };
    // The event, the tool call and its args are objects around the lists.
    let deepest = nested(canon::DEPTH_MAX - 3);
    let canonical = canon::event(&deepest).expect("canonical");
    assert_eq!(parse::event(&canonical), Ok(deepest));
    assert_eq!(canon::event(&nested(canon::DEPTH_MAX - 2)), Err(canon::Error::TooDeep));
    let deeper = format!(r#"{{"future":{}{}}}"#, "[".repeat(128), "]".repeat(128));
    assert!(parse::event(deeper.as_bytes()).is_err());
    assert!(parse::event("[".repeat(1_000_000).as_bytes()).is_err());
}
