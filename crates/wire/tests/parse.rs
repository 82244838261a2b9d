//! What the event parser takes and what it refuses, and why.

use inspan_wire::{parse, v1};

fn check(text: &str, expected: &str) {
    let found = match parse::event(text.as_bytes()) {
        Ok(event) => format!("{:?}", String::from_utf8(inspan_wire::canon::event(&event).unwrap()).unwrap()),
        Err(e) => e.to_string(),
    };
    assert_eq!(found, expected, "{text}");
}

#[test]
fn what_is_newer_is_left_out() {
    check(
        r#"{"kind":"EVENT_OF_TOMORROW","new":{"a":[1,{"b":null}]},"execution_id":"e"}"#,
        r#""{\"execution_id\":\"e\"}""#,
    );
    check(r#"{"message":{"parts":[{"hologram":{"x":1}}]}}"#, r#""{\"message\":{\"parts\":[{}]}}""#);
    check(r#"{"result":{"code":"NEW"},"kind":5}"#, r#""{\"kind\":\"EVENT_TOOL_RESULT\",\"result\":{}}""#);
    // A number that nobody knows keeps its value, as protobuf does.
    check(r#"{"kind":99}"#, r#""{\"kind\":99}""#);
}

#[test]
fn both_spellings_of_long_integers_are_read() {
    for spelling in [r#""9007199254740993""#, "9007199254740993"] {
        let text = format!(r#"{{"execution_start":{{"input_count":{spelling}}}}}"#);
        let event = parse::event(text.as_bytes()).expect("parses");
        let Some(v1::event::Body::ExecutionStart(start)) = event.body else { panic!("a start") };
        assert_eq!(start.input_count, Some(9_007_199_254_740_993));
    }
}

#[test]
fn wrong_types_and_malformed_text_are_named_with_their_place() {
    check("", "an object was expected at byte 0");
    check("[]", "an object was expected at byte 0");
    check("{}x", "text after the event at byte 2");
    check("{}\0", "text after the event at byte 2");
    check(r#"{"execution_id":1}"#, "execution_id: a string was expected at byte 16");
    check(r#"{"message":{"parts":{}}}"#, "message: parts: a list was expected at byte 20");
    check(r#"{"message":{"parts":[null]}}"#, "message: parts: an object was expected at byte 21");
    check(r#"{"schema_version":2147483648}"#, "schema_version: an integer was expected at byte 28");
    check(r#"{"schema_version":1.5}"#, "schema_version: an integer was expected at byte 21");
    check(r#"{"ts":"2023-02-29T00:00:00Z"}"#, "ts: a time like 2023-11-14T22:13:20Z was expected at byte 28");
    check(r#"{"ts":"2023-02-28T00:00:00+01:00"}"#, "ts: a time like 2023-11-14T22:13:20Z was expected at byte 33");
    check(r#"{"tool":{"args":{"n":01}}}"#, "tool: args: n: a number was expected at byte 21");
    check(r#"{"tool":{"args":{"n":1e999}}}"#, "tool: args: n: a number that no double can hold at byte 26");
    check(r#"{"tool":{"args":{"n":nul}}}"#, "tool: args: n: a number was expected at byte 21");
    check(r#"{"execution_id":"\ud83d"}"#, "execution_id: an escape that is not a character at byte 17");
    check(r#"{"execution_id":"\udc00"}"#, "execution_id: half a surrogate pair at byte 17");
    check(r#"{"execution_id":"\x"}"#, "execution_id: an unknown escape at byte 17");
    check("{\"execution_id\":\"a\nb\"}", "execution_id: a control character stands in a string at byte 18");
    check(r#"{"execution_id":"a"#, "execution_id: the text ends inside a string at byte 18");
    check(r#"{"execution_id":"a","#, "a string was expected at byte 20");
    assert_eq!(parse::event(b"{\"a\xff\":1}"), Err(parse::Error("not UTF-8 at byte 3".into())));
    let bad = parse::event(br#"{"execution_start":{"config":"AP8"}}"#).unwrap_err();
    assert!(bad.to_string().starts_with("execution_start: config: bad base64 at byte 29"), "{bad}");
}

#[test]
fn one_text_is_one_event_for_every_reader() {
    check(r#"{"a":1,"b":1,"a":2}"#, "the name \"a\" stands twice in one object at byte 16");
    check(r#"{"b":1,"a":{"x":[1]},"c":1,"b":2}"#, "the name \"b\" stands twice in one object at byte 30");
    check(r#"{"tool":{"args":{"x":1,"x":1}}}"#, "tool: args: the name \"x\" stands twice in one object at byte 26");
    check(r#"{"tool":{},"usage":{}}"#, "usage: a second member of a set of which only one may be there at byte 19");
    let escaped = r#"{"kind":1,"k\u0069nd":2}"#;
    check(escaped, "the name \"kind\" stands twice in one object at byte 21");
}

#[test]
fn null_is_unset_except_inside_a_struct() {
    check(r#"{"execution_id":null,"ts":null,"actor":null,"tool":null,"kind":null}"#, r#""{}""#);
    check(r#"{"tool":{"args":null}}"#, r#""{\"tool\":{}}""#);
    check(r#"{"tool":{"args":{"x":null}}}"#, r#""{\"tool\":{\"args\":{\"x\":null}}}""#);
}

#[test]
fn surrogate_pairs_and_short_escapes_are_characters() {
    let event = parse::event(br#"{"execution_id":"\ud83d\ude00\u00e9\/\b\f\n\r\t\"\\"}"#).expect("parses");
    assert_eq!(event.execution_id, "\u{1f600}é/\u{8}\u{c}\n\r\t\"\\");
}
