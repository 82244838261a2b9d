//! The conversions C-1 to C-7, one test each.

use bytes::Bytes;
use inspan_wire::v1::{self, event::Body, file_part::Source, part, reasoning_part::Opaque};
use inspan_wire::{input, normal};

fn normalised(mut event: v1::Event) -> v1::Event {
    normal::event(&mut event);
    event
}

fn tool_call(mediation: i32) -> v1::ToolCall {
    v1::ToolCall { id: "c".into(), mediation, ..Default::default() }
}

fn part(part: part::Part) -> v1::Part {
    v1::Part { part: Some(part) }
}

/// C-1, also for a call inside a message inside a tool result.
#[test]
fn unknown_numbers_become_zero_but_result_codes_stay() {
    assert_eq!(normalised(v1::Event { kind: 99, ..Default::default() }).kind, 0);
    assert_eq!(normalised(v1::Event { kind: 13, ..Default::default() }).kind, 13);
    let lifecycle = |kind| v1::Event::lifecycle(v1::Lifecycle { kind, ..Default::default() });
    assert_eq!(normalised(lifecycle(6)), lifecycle(0));
    assert_eq!(normalised(lifecycle(5)), lifecycle(5));
    let event = |mediation| {
        let content = vec![part(part::Part::ToolCall(tool_call(mediation)))];
        let result = v1::ToolResult { content, code: 77, ..Default::default() };
        v1::Event::new("e", v1::EventKind::EventToolResult, Body::Result(result))
    };
    assert_eq!(normalised(event(4)), event(0));
    assert_eq!(normalised(event(3)), event(3));
    let call = |mediation| v1::Event::new("e", v1::EventKind::EventToolCall, Body::Tool(tool_call(mediation)));
    assert_eq!(normalised(call(-1)), call(0));
}

/// C-2, also inside a reasoning summary.
#[test]
fn empty_sources_are_no_sources() {
    let event = |file: Option<Source>, opaque: Option<Opaque>| {
        let file = part(part::Part::File(v1::FilePart { mime: "m".into(), source: file, ..Default::default() }));
        let reasoning = v1::ReasoningPart { opaque, summary: vec![file.clone()], ..Default::default() };
        let parts = vec![file, part(part::Part::Reasoning(reasoning))];
        let message = v1::Message { role: "user".into(), parts };
        v1::Event::new("e", v1::EventKind::EventInput, Body::Message(message))
    };
    let none = event(None, None);
    assert_eq!(normalised(event(Some(Source::Uri(String::new())), Some(Opaque::OpaqueBytes(Bytes::new())))), none);
    assert_eq!(normalised(event(Some(Source::Bytes(Bytes::new())), Some(Opaque::OpaqueUri(String::new())))), none);
    let some = event(Some(Source::Uri("u".into())), Some(Opaque::OpaqueBytes(Bytes::from_static(b"x"))));
    assert_eq!(normalised(some.clone()), some);
}

/// C-3.
#[test]
fn an_actor_that_says_nothing_is_absent() {
    let event = |actor| v1::Event { actor, ..Default::default() };
    assert_eq!(normalised(event(Some(v1::IdentityRef::default()))), event(None));
    let named = v1::IdentityRef { subject: "s".into(), ..Default::default() };
    assert_eq!(normalised(event(Some(named.clone()))), event(Some(named)));
}

/// C-4.
#[test]
fn absent_and_empty_stay_apart() {
    let event = |args| {
        let call = v1::ToolCall { args, ..Default::default() };
        v1::Event::new("e", v1::EventKind::EventToolCall, Body::Tool(call))
    };
    for args in [None, Some(prost_types::Struct::default())] {
        assert_eq!(normalised(event(args.clone())), event(args));
    }
}

/// C-5, R-HASH-11.
#[test]
fn a_journaled_model_call_keeps_model_hash_and_id() {
    let short = v1::ModelCall { model: "m".into(), input_hash: "h".into(), id: "i".into(), ..Default::default() };
    let full = v1::ModelCall {
        params: [("a".to_owned(), "b".to_owned())].into(),
        messages: vec![v1::Message::text("user", "hi")],
        tools: vec![v1::ToolDefinition::default()],
        tool_choice: Some(v1::ToolChoice::default()),
        ..short.clone()
    };
    let event = |call| v1::Event::new("e", v1::EventKind::EventModelCall, Body::Model(call));
    assert_eq!(normalised(event(full)), event(short));
}

/// C-7.
#[test]
fn messages_that_hold_nothing_are_dropped_and_order_is_kept() {
    let (a, b) = (v1::Message::text("user", "a"), v1::Message { role: "user".into(), ..Default::default() });
    let nothing = v1::Message::default();
    let messages = vec![nothing.clone(), a.clone(), nothing.clone(), b.clone()];
    let mut call = v1::ModelCall { messages, ..Default::default() };
    let text = input::text(&call);
    normal::model_call(&mut call);
    assert_eq!(call.messages, [a, b]);
    assert_eq!(input::text(&call), text, "the input text never saw them");
    let empty = v1::ModelCall { messages: vec![nothing], ..Default::default() };
    assert_eq!(input::text(&empty), input::text(&v1::ModelCall::default()));
}
