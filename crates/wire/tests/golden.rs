//! Every group of the interoperability vectors, byte for byte.

use inspan_wire::event::{ToolField, tool_difference};
use inspan_wire::{Digest, canon, input, json, parse, v1};
use prost::{Message, Name};
use serde_json::{Value, json};

fn vectors() -> Value {
    serde_json::from_str(include_str!("vectors/golden-vectors.json")).expect("the vectors are JSON")
}

fn group<'v>(vectors: &'v Value, name: &str) -> &'v [Value] {
    let group = vectors[name].as_array().unwrap_or_else(|| panic!("group {name} is there"));
    assert!(!group.is_empty());
    group
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

fn decode<M: Message + Name + Default>(value: &Value) -> M {
    json::from_slice(value.to_string().as_bytes()).unwrap_or_else(|e| panic!("{value}: {e}"))
}

fn digest(value: &Value) -> Option<Digest> {
    match text(value) {
        "" => None,
        hex => Some(hex.parse().expect("a digest")),
    }
}

/// The event of a vector, decoded twice: by descriptor and by our own parser.
fn event(value: &Value) -> v1::Event {
    let event: v1::Event = decode(value);
    assert_eq!(parse::event(value.to_string().as_bytes()).expect("parses"), event);
    event
}

#[test]
fn every_group_is_tested_here() {
    let known = [
        "about",
        "record_hash_rule",
        "record_vectors",
        "event_byte_vectors",
        "message_byte_vectors",
        "chain_vectors",
        "protobuf_binary_vectors",
        "model_input_hash_vectors",
        "model_input_hash_relations",
        "tool_argument_identity",
        "legacy_execution_id_vectors",
        "number_and_timestamp_rendering",
    ];
    for name in vectors().as_object().expect("an object").keys() {
        assert!(known.contains(&name.as_str()), "{name} has no test");
    }
}

/// R-HASH-1, R-HASH-2, R-HASH-3, R-HASH-4, R-HASH-5, R-HASH-6, R-HASH-10.
#[test]
fn records_have_the_published_bytes_and_hashes() {
    for vector in group(&vectors(), "record_vectors") {
        let (prev, seq) = (digest(&vector["prev_hash"]), vector["seq"].as_i64().expect("a seq"));
        let canonical = canon::event(&event(&vector["event"])).expect("canonical");
        let whole = format!(
            r#"{{"event":{},"prev_hash":"{}","seq":"{seq}"}}"#,
            String::from_utf8_lossy(&canonical),
            text(&vector["prev_hash"])
        );
        assert_eq!(whole, text(&vector["canonical"]), "{}", vector["name"]);
        assert_eq!(canon::content_hash(prev, seq, &canonical).to_string(), text(&vector["content_hash"]));
        assert_eq!(canon::event(&parse::event(&canonical).expect("parses")).expect("canonical"), canonical);
    }
}

/// R-HASH-2, R-HASH-3.
#[test]
fn events_have_the_published_bytes() {
    for vector in group(&vectors(), "event_byte_vectors") {
        let canonical = canon::event(&event(&vector["event"])).expect("canonical");
        assert_eq!(String::from_utf8_lossy(&canonical), text(&vector["canonical_event"]));
        assert_eq!(canon::content_hash(None, 1, &canonical).to_string(), text(&vector["record_hash_prev_empty_seq_1"]));
    }
}

/// R-REG-1 for the spec digest.
#[test]
fn other_messages_have_the_published_bytes() {
    for vector in group(&vectors(), "message_byte_vectors") {
        let canonical = match text(&vector["message_type"]) {
            "agentsessions.v1.Session" => canon::message(&decode::<v1::Session>(&vector["json"])),
            "agentsessions.v1.HarnessSpec" => {
                let spec: v1::HarnessSpec = decode(&vector["json"]);
                assert_eq!(canon::spec_digest(&spec).expect("a digest"), text(&vector["spec_digest"]));
                canon::message(&spec)
            }
            other => panic!("{other} has no test"),
        };
        assert_eq!(String::from_utf8_lossy(&canonical.expect("canonical")), text(&vector["canonical"]));
    }
}

/// R-HASH-8: the same event in another place has another hash.
#[test]
fn chains_bind_each_record_to_the_one_before() {
    for vector in group(&vectors(), "chain_vectors") {
        let canonical = canon::event(&event(&vector["event"])).expect("canonical");
        let mut prev = None;
        for (i, record) in vector["records"].as_array().expect("records").iter().enumerate() {
            assert_eq!(record["seq"], json!(i + 1));
            assert_eq!(digest(&record["prev_hash"]), prev);
            let hash = canon::content_hash(prev, record["seq"].as_i64().expect("a seq"), &canonical);
            assert_eq!(hash.to_string(), text(&record["content_hash"]));
            prev = Some(hash);
        }
    }
}

#[test]
fn protobuf_bytes_are_those_of_existing_clients() {
    for vector in group(&vectors(), "protobuf_binary_vectors") {
        let bytes = match text(&vector["message_type"]) {
            "agentsessions.v1.Event" => event(&vector["json"]).encode_to_vec(),
            "agentsessions.v1.ControllerFrame" => decode::<v1::ControllerFrame>(&vector["json"]).encode_to_vec(),
            other => panic!("{other} has no test"),
        };
        assert_eq!(inspan_wire::id::hex(&bytes), text(&vector["hex"]), "{}", vector["name"]);
    }
}

fn model_call(vectors: &Value, name: &str) -> v1::ModelCall {
    let found = group(vectors, "model_input_hash_vectors").iter().find(|v| v["name"] == name);
    decode(&found.expect("the vector is there")["model_call"])
}

/// R-IN-1, R-IN-2, R-IN-3, R-IN-4, R-IN-5, R-IN-6, R-IN-7, R-IN-8, R-IN-9.
#[test]
fn model_requests_have_the_published_text_and_hash() {
    for vector in group(&vectors(), "model_input_hash_vectors") {
        let request: v1::ModelCall = decode(&vector["model_call"]);
        let found = input::text(&request).expect("a text");
        assert_eq!(found, text(&vector["hash_input"]), "{}", vector["name"]);
        assert_eq!(input::hash(&found).to_string(), text(&vector["input_hash"]), "{}", vector["name"]);
    }
}

/// A change of a request, named as the vectors name it.
type Change = (&'static str, fn(&mut v1::ModelCall));

fn tool_call_part(call: &mut v1::ModelCall) -> &mut v1::ToolCall {
    let parts = call.messages.iter_mut().flat_map(|m| &mut m.parts);
    let mut found = parts.filter_map(|p| match &mut p.part {
        Some(v1::part::Part::ToolCall(x)) => Some(x),
        _ => None,
    });
    found.next().expect("the base has a tool call")
}

fn tool_result_part(call: &mut v1::ModelCall) -> &mut v1::ToolResult {
    let parts = call.messages.iter_mut().flat_map(|m| &mut m.parts);
    let mut found = parts.filter_map(|p| match &mut p.part {
        Some(v1::part::Part::ToolResult(x)) => Some(x),
        _ => None,
    });
    found.next().expect("the base has a tool result")
}

fn number(value: f64) -> prost_types::Value {
    prost_types::Value { kind: Some(prost_types::value::Kind::NumberValue(value)) }
}

/// R-IN-10.
#[test]
fn the_input_hash_covers_what_it_should_and_nothing_else() {
    let changes: [Change; 14] = [
        ("tool name", |c| c.tools[0].name.push('x')),
        ("tool description", |c| c.tools[0].description.push('x')),
        ("tool input schema value", |c| {
            let schema = c.tools[0].input_schema.as_mut().expect("a schema");
            schema.fields.insert("maxProperties".into(), number(3.0));
        }),
        ("extra tool placed first (order counts)", |c| {
            let other = v1::ToolDefinition { name: "other".into(), ..Default::default() };
            c.tools.insert(0, other);
        }),
        ("tools removed", |c| c.tools.clear()),
        ("tool_choice mode", |c| c.tool_choice.as_mut().expect("a choice").mode = 2),
        ("tool_choice name", |c| c.tool_choice.as_mut().expect("a choice").name.push('x')),
        ("tool_choice removed", |c| c.tool_choice = None),
        ("tool_call part id", |c| tool_call_part(c).id.push('x')),
        ("tool_call part tool", |c| tool_call_part(c).tool.push('x')),
        ("tool_call part args value", |c| {
            tool_call_part(c).args.as_mut().expect("args").fields.insert("days".into(), number(3.0));
        }),
        ("tool_result part id", |c| tool_result_part(c).id.push('x')),
        ("tool_result part content", |c| tool_result_part(c).content.push(v1::Part::text("x"))),
        ("tool_result part is_error", |c| tool_result_part(c).is_error = true),
    ];
    let vectors = vectors();
    let relations = &vectors["model_input_hash_relations"];
    let base = model_call(&vectors, text(&relations["base"]));
    let base_text = input::text(&base).expect("a text");
    for named in relations["must_differ_from_base"].as_array().expect("a list") {
        let (_, change) = changes.iter().find(|(name, _)| named == name).expect("every named change is tested");
        let mut changed = base.clone();
        change(&mut changed);
        assert_ne!(input::text(&changed).expect("a text"), base_text, "{named}");
    }
    // Key order and the spelling of whole numbers are gone once JSON became a Struct.
    let mut same = base.clone();
    let reordered: v1::ToolCall = decode(
        &serde_json::from_str(r#"{"id":"c1","tool":"get_weather","args":{"days":2.0,"city":"Paris"}}"#).unwrap(),
    );
    *tool_call_part(&mut same) = reordered;
    assert_eq!(input::text(&same).expect("a text"), base_text);
    // Neither the host's own id nor a recorded hash is part of what was asked.
    same.id = "0123456789abcdef".into();
    same.input_hash = "x".into();
    assert_eq!(input::text(&same).expect("a text"), base_text);
}

/// R-TOOL-7, R-TOOL-8, R-TOOL-9.
#[test]
fn tool_calls_are_the_same_by_value_and_presence() {
    let vectors = vectors();
    let identity = &vectors["tool_argument_identity"];
    let recorded: v1::ToolCall = decode(&identity["recorded"]);
    for case in identity["same_identity"].as_array().expect("a list") {
        assert_eq!(tool_difference(&recorded, &decode(&case["emitted"])), None, "{}", case["name"]);
    }
    for case in identity["different_identity"].as_array().expect("a list") {
        let expected = match text(&case["name"]) {
            "id" => ToolField::Id,
            "tool" => ToolField::Tool,
            "key" => ToolField::IdempotencyKey,
            name if name.starts_with("mediation") => ToolField::Mediation,
            _ => ToolField::Args,
        };
        assert_eq!(tool_difference(&recorded, &decode(&case["emitted"])), Some(expected), "{}", case["name"]);
    }
    for pair in identity["presence_pairs_that_differ"].as_array().expect("a list") {
        let with_args = |args: &Value| {
            let call = if args.is_null() { json!({}) } else { json!({ "args": args }) };
            decode::<v1::ToolCall>(&call)
        };
        let (recorded, emitted) = (with_args(&pair["recorded_args"]), with_args(&pair["emitted_args"]));
        assert_eq!(tool_difference(&recorded, &emitted), Some(ToolField::Args), "{}", pair["name"]);
        assert_eq!(tool_difference(&recorded, &recorded), None);
    }
    let mut nan = recorded;
    nan.args.as_mut().expect("args").fields.insert("count".into(), number(f64::NAN));
    assert_eq!(tool_difference(&nan, &nan), Some(ToolField::Args), "what cannot be represented equals nothing");
}

/// R-LEGACY-6, R-LEGACY-8.
#[test]
fn legacy_turns_have_the_published_ids() {
    for vector in group(&vectors(), "legacy_execution_id_vectors") {
        let canonical = canon::event(&event(&vector["event"])).expect("canonical");
        let seq = vector["seq"].as_i64().expect("a seq");
        let id = canon::legacy_execution_id(text(&vector["session_uid"]), seq, &canonical);
        assert_eq!(id, text(&vector["execution_id"]));
        assert_eq!(id, format!("legacy-{}", Digest::of(text(&vector["hash_input"]).as_bytes())));
    }
}

/// R-HASH-4, R-HASH-5.
#[test]
fn numbers_and_timestamps_read_as_published() {
    let vectors = vectors();
    let rendering = &vectors["number_and_timestamp_rendering"];
    for pair in rendering["struct_numbers"].as_array().expect("a list") {
        let args = prost_types::Struct { fields: [("n".into(), number(pair[0].as_f64().expect("a number")))].into() };
        let call = v1::ToolCall { args: Some(args), ..Default::default() };
        let event = v1::Event { body: Some(v1::event::Body::Tool(call)), ..Default::default() };
        let expected = format!(r#"{{"tool":{{"args":{{"n":{}}}}}}}"#, text(&pair[1]));
        assert_eq!(String::from_utf8(canon::event(&event).expect("canonical")).unwrap(), expected);
    }
    for time in rendering["timestamps"].as_array().expect("a list") {
        let seconds = time["seconds"].as_i64().expect("seconds");
        let nanos = i32::try_from(time["nanos"].as_i64().expect("nanos")).expect("nanos");
        let ts = prost_types::Timestamp { seconds, nanos };
        let event = v1::Event { ts: Some(ts), ..Default::default() };
        let canonical = canon::event(&event).expect("canonical");
        assert_eq!(String::from_utf8_lossy(&canonical), format!(r#"{{"ts":{}}}"#, time["json"]));
        assert_eq!(parse::event(&canonical).expect("parses"), event);
    }
}
