//! Canonical form and content hash: our own writer beside the generic path, one core each.

use std::time::Instant;

use inspan_wire::{Digest, canon, json, v1};

use crate::frame::{Bar, Bench, Context, Failure, Row};
use crate::stats::{Turns, median};

pub(crate) const BENCH: Bench =
    Bench { name: "canon", what: "canonical form and content hash beside the generic serde path", run };

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let events = turn_events();
    let rounds = context.size(15, 3);
    let repeats = context.size(2_000, 100);
    if chain(&events, ours)? != chain(&events, generic)? {
        return Err(Failure::new("the two paths do not give the same chain: nothing to compare"));
    }
    let turns = Turns::take(
        rounds,
        || records_per_second(&events, repeats, ours),
        // The slower path gets a tenth of the work, so that both take about as long.
        || records_per_second(&events, repeats / 10, generic),
    )?;
    Ok(vec![Row::paired(
        "canonical form + hash, one core / generic serde path",
        "records/s",
        median(&turns.figure),
        median(&turns.beside),
        turns.ratio(),
        Bar::AtLeast(8.0),
    )])
}

type Hash = fn(Option<Digest>, i64, &v1::Event, &mut Vec<u8>) -> Result<Digest, Failure>;

fn ours(prev: Option<Digest>, seq: i64, event: &v1::Event, scratch: &mut Vec<u8>) -> Result<Digest, Failure> {
    scratch.clear();
    canon::write_event(event, scratch)?;
    Ok(canon::content_hash(prev, seq, scratch))
}

/// What one would write first: reflection to a JSON value, a canonicalising serialiser, SHA-256.
fn generic(prev: Option<Digest>, seq: i64, event: &v1::Event, _: &mut Vec<u8>) -> Result<Digest, Failure> {
    let prev = prev.map(|digest| digest.to_string()).unwrap_or_default();
    let record = serde_json::json!({ "event": json::to_value(event)?, "prev_hash": prev, "seq": seq.to_string() });
    Ok(Digest::of(&serde_json_canonicalizer::to_vec(&record)?))
}

fn chain(events: &[v1::Event], hash: Hash) -> Result<Option<Digest>, Failure> {
    let mut scratch = Vec::new();
    let mut prev = None;
    for (event, seq) in events.iter().zip(1..) {
        prev = Some(hash(prev, seq, event, &mut scratch)?);
    }
    Ok(prev)
}

fn records_per_second(events: &[v1::Event], repeats: usize, hash: Hash) -> Result<f64, Failure> {
    let began = Instant::now();
    for _ in 0..repeats {
        std::hint::black_box(chain(std::hint::black_box(events), hash)?);
    }
    Ok((events.len() * repeats) as f64 / began.elapsed().as_secs_f64())
}

/// The records of one turn of an agent: start, a question, two model calls with a tool call between them, end.
/// About 1 KB each, as the journal's figures assume.
fn turn_events() -> Vec<v1::Event> {
    use v1::{EventKind as Kind, event::Body};
    let prose = |n: usize| "The harness asked for \"weather\" in Zürich – 21 °C.\n".repeat(n);
    let model = v1::ModelCall {
        model: "m-large".into(),
        input_hash: "5c".repeat(32),
        id: "0123456789abcdef".into(),
        ..Default::default()
    };
    let args = prost_struct(&[("city", "Zürich"), ("unit", "celsius"), ("note", &prose(8))]);
    let call =
        v1::ToolCall { id: "call_1".into(), tool: "weather".into(), args: Some(args.clone()), ..Default::default() };
    let result = v1::ToolResult { id: "call_1".into(), output: Some(args), ..Default::default() };
    let start = v1::ExecutionStart {
        harness: "chat".into(),
        harness_version: "1".into(),
        input_count: Some(1),
        config: vec![7; 256].into(),
        ..Default::default()
    };
    let usage = v1::Usage { model: "m-large".into(), input_tokens: 1234, output_tokens: 321, ..Default::default() };
    let end = v1::HarnessEnd { state: "COMPLETED".into(), error: None };
    [
        (Kind::EventExecutionStart, Body::ExecutionStart(start)),
        (Kind::EventInput, Body::Message(v1::Message::text("user", prose(24)))),
        (Kind::EventModelCall, Body::Model(model.clone())),
        (Kind::EventToolCall, Body::Tool(call)),
        (Kind::EventToolResult, Body::Result(result)),
        (Kind::EventModelCall, Body::Model(model)),
        (Kind::EventOutput, Body::Message(v1::Message::text("assistant", prose(48)))),
        (Kind::EventUsage, Body::Usage(usage)),
        (Kind::EventEnd, Body::End(end)),
    ]
    .map(|(kind, body)| v1::Event::new("fedcba9876543210", kind, body))
    .to_vec()
}

fn prost_struct(fields: &[(&str, &str)]) -> prost_types::Struct {
    let value = |text: &str| prost_types::Value { kind: Some(prost_types::value::Kind::StringValue(text.to_owned())) };
    prost_types::Struct { fields: fields.iter().map(|(name, text)| ((*name).to_owned(), value(text))).collect() }
}
