//! Arbitrary events: every field, every body, odd strings, odd numbers, nested values.

use std::collections::BTreeMap;

use inspan_wire::v1::{self, event::Body, file_part::Source, part, reasoning_part::Opaque};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Timestamp, Value};

/// Text with everything that JSON escapes, and characters on both sides of the surrogates.
pub(crate) fn text() -> BoxedStrategy<String> {
    let character = prop_oneof![
        4 => proptest::char::range(' ', '~'),
        2 => proptest::char::range('\u{0}', '\u{1f}'),
        1 => proptest::sample::select(vec!['"', '\\', '<', '&', '\u{7f}', '\u{2028}', '\u{2029}', '\u{20ac}']),
        1 => proptest::char::range('\u{e000}', '\u{ffff}'),
        1 => proptest::char::range('\u{10000}', '\u{10ffff}'),
    ];
    prop_oneof![
        2 => Just(String::new()),
        3 => "[a-z]{1,12}",
        3 => vec(character, 0..24).prop_map(String::from_iter),
    ]
    .boxed()
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<i16>().prop_map(f64::from),
        proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL | proptest::num::f64::ZERO,
        proptest::sample::select(vec![
            0.0,
            -0.0,
            1e21,
            -1e21,
            999_999_999_999_999_900_000.0,
            1e-6,
            1e-7,
            9_007_199_254_740_991.0,
            9_007_199_254_740_992.0,
            9_007_199_254_740_994.0,
            -9_007_199_254_740_993.0,
            f64::MAX,
            f64::MIN_POSITIVE,
            5e-324,
        ]),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Some(Kind::NullValue(0))),
        Just(None),
        any::<bool>().prop_map(|x| Some(Kind::BoolValue(x))),
        number().prop_map(|x| Some(Kind::NumberValue(x))),
        text().prop_map(|x| Some(Kind::StringValue(x))),
    ]
    .prop_map(|kind| Value { kind });
    leaf.prop_recursive(6, 40, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(|values| Kind::ListValue(ListValue { values })),
            btree_map(text(), inner, 0..5).prop_map(|fields| Kind::StructValue(Struct { fields })),
        ]
        .prop_map(|kind| Value { kind: Some(kind) })
    })
}

pub(crate) fn structure() -> BoxedStrategy<Struct> {
    btree_map(text(), value(), 0..5).prop_map(|fields| Struct { fields }).boxed()
}

fn int64() -> impl Strategy<Value = i64> {
    prop_oneof![Just(0), 0_i64..100, any::<i64>()]
}

/// Known numbers, and some that no build knows yet.
fn enumeration(known: i32) -> impl Strategy<Value = i32> {
    prop_oneof![4 => 0..=known, 1 => any::<i32>()]
}

fn bytes() -> impl Strategy<Value = bytes::Bytes> {
    vec(any::<u8>(), 0..20).prop_map(bytes::Bytes::from)
}

fn texts() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(text(), text(), 0..4)
}

fn tool_call() -> impl Strategy<Value = v1::ToolCall> {
    (text(), text(), option::of(structure()), enumeration(3), text()).prop_map(
        |(id, tool, args, mediation, idempotency_key)| v1::ToolCall { id, tool, args, mediation, idempotency_key },
    )
}

fn tool_result(part: BoxedStrategy<v1::Part>) -> impl Strategy<Value = v1::ToolResult> {
    let texts = (text(), text(), text(), text());
    let rest = (option::of(structure()), any::<bool>(), vec(part, 0..3), enumeration(2), int64(), int64());
    (texts, rest).prop_map(
        |((id, output_uri, error, output_digest), (output, is_error, content, code, request, decision))| {
            v1::ToolResult {
                id,
                output,
                output_uri,
                is_error,
                error,
                output_digest,
                content,
                code,
                approval_request_seq: request,
                approval_decision_seq: decision,
            }
        },
    )
}

fn file() -> impl Strategy<Value = v1::FilePart> {
    let source = prop_oneof![bytes().prop_map(Source::Bytes), text().prop_map(Source::Uri)];
    (text(), text(), text(), option::of(source)).prop_map(|(mime, name, digest, source)| v1::FilePart {
        mime,
        name,
        digest,
        source,
    })
}

fn reasoning(part: BoxedStrategy<v1::Part>) -> impl Strategy<Value = v1::ReasoningPart> {
    let opaque = prop_oneof![bytes().prop_map(Opaque::OpaqueBytes), text().prop_map(Opaque::OpaqueUri)];
    ((text(), text(), text(), text(), text()), vec(part, 0..3), any::<i32>(), option::of(opaque)).prop_map(
        |((provider, model_id, item_id, validity_scope, opaque_digest), summary, ordinal, opaque)| v1::ReasoningPart {
            provider,
            model_id,
            summary,
            item_id,
            ordinal,
            validity_scope,
            opaque_digest,
            opaque,
        },
    )
}

pub(crate) fn part() -> BoxedStrategy<v1::Part> {
    let leaf = prop_oneof![
        3 => text().prop_map(|text| Some(part::Part::Text(v1::TextPart { text }))),
        2 => file().prop_map(|x| Some(part::Part::File(x))),
        2 => option::of(structure()).prop_map(|data| Some(part::Part::Data(v1::DataPart { data }))),
        2 => tool_call().prop_map(|x| Some(part::Part::ToolCall(x))),
        1 => Just(None),
    ]
    .prop_map(|part| v1::Part { part });
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            reasoning(inner.clone().boxed()).prop_map(part::Part::Reasoning),
            tool_result(inner.boxed()).prop_map(part::Part::ToolResult),
        ]
        .prop_map(|part| v1::Part { part: Some(part) })
    })
    .boxed()
}

pub(crate) fn message() -> BoxedStrategy<v1::Message> {
    (text(), vec(part(), 0..4)).prop_map(|(role, parts)| v1::Message { role, parts }).boxed()
}

pub(crate) fn model_call() -> BoxedStrategy<v1::ModelCall> {
    let tool = (text(), text(), option::of(structure()))
        .prop_map(|(name, description, input_schema)| v1::ToolDefinition { name, description, input_schema });
    let choice = (0..=3_i32, text()).prop_map(|(mode, name)| v1::ToolChoice { mode, name });
    ((text(), text(), text()), texts(), vec(message(), 0..4), vec(tool, 0..3), option::of(choice))
        .prop_map(|((model, input_hash, id), params, messages, tools, tool_choice)| v1::ModelCall {
            model,
            params,
            input_hash,
            id,
            messages,
            tools,
            tool_choice,
        })
        .boxed()
}

fn error() -> impl Strategy<Value = v1::Error> {
    (any::<i32>(), text()).prop_map(|(code, description)| v1::Error { code, description })
}

fn lifecycle() -> impl Strategy<Value = v1::Lifecycle> {
    (enumeration(5), text(), text(), text(), any::<bool>(), any::<bool>()).prop_map(
        |(kind, detail, snapshot_local, snapshot_external_uri, snapshot_memory, snapshot_sealed)| v1::Lifecycle {
            kind,
            detail,
            snapshot_local,
            snapshot_external_uri,
            snapshot_memory,
            snapshot_sealed,
        },
    )
}

fn execution_start() -> impl Strategy<Value = v1::ExecutionStart> {
    (bytes(), int64(), option::of(int64()), text(), text()).prop_map(
        |(config, resume_from_seq, input_count, harness, harness_version)| v1::ExecutionStart {
            config,
            resume_from_seq,
            input_count,
            harness,
            harness_version,
        },
    )
}

fn body() -> impl Strategy<Value = Body> {
    prop_oneof![
        message().prop_map(Body::Message),
        model_call().prop_map(Body::Model),
        tool_call().prop_map(Body::Tool),
        tool_result(part()).prop_map(Body::Result),
        (text(), text())
            .prop_map(|(tool_call_id, reason)| Body::Approval(v1::ApprovalRequest { tool_call_id, reason })),
        (text(), any::<bool>(), text(), int64()).prop_map(|(tool_call_id, approved, reason, request_seq)| {
            Body::ApprovalResult(v1::ApprovalResult { tool_call_id, approved, reason, request_seq })
        }),
        (text(), int64(), int64(), int64()).prop_map(|(model, input_tokens, output_tokens, reasoning_tokens)| {
            Body::Usage(v1::Usage { model, input_tokens, output_tokens, reasoning_tokens })
        }),
        lifecycle().prop_map(Body::Lifecycle),
        (text(), option::of(error())).prop_map(|(state, error)| Body::End(v1::HarnessEnd { state, error })),
        error().prop_map(Body::Error),
        execution_start().prop_map(Body::ExecutionStart),
        (text(), text(), int64()).prop_map(|(execution_id, tool_call_id, request_seq)| {
            Body::Parked(v1::ApprovalRef { execution_id, tool_call_id, request_seq })
        }),
    ]
}

pub(crate) fn event() -> BoxedStrategy<v1::Event> {
    let nanos = prop_oneof![Just(0), (0..1_000).prop_map(|ms| ms * 1_000_000), 0..1_000_000_000];
    let ts = (-62_135_596_800..253_402_300_800_i64, nanos).prop_map(|(seconds, nanos)| Timestamp { seconds, nanos });
    let actor = (text(), text(), text()).prop_map(|(principal, issuer, subject)| v1::IdentityRef {
        principal,
        issuer,
        subject,
    });
    (text(), option::of(ts), any::<i32>(), enumeration(13), option::of(actor), option::weighted(0.95, body()))
        .prop_map(|(execution_id, ts, schema_version, kind, actor, body)| v1::Event {
            execution_id,
            ts,
            schema_version,
            kind,
            actor,
            body,
        })
        .boxed()
}
