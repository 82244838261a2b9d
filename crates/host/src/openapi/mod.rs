//! openapi.json: the HTTP spelling, written down.
//!
//! Made from the route table and the protobuf descriptors, so that it cannot say anything else than the
//! host does. The committed copy is `docs/openapi.json`; a test compares the two.

mod schema;

use serde_json::{Map, Value, json};

use crate::http::BODY_BYTES_MAX;
use crate::http::routes::{Answer, Body, EXPORT_TYPE, Event, IMPORT_TYPES, Kind, Op, Param, Route, Shape, TABLE, Verb};
use schema::{Schemas, Side};

/// Statuses that every operation may refuse with.
const REFUSALS_COMMON: [u16; 4] = [400, 403, 500, 503];

/// The OpenAPI 3.1 document of the HTTP spelling.
pub fn document() -> Value {
    let mut schemas = Schemas::default();
    let mut paths = Map::new();
    for route in TABLE {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[verb(route.verb)] = operation(route, &mut schemas);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "inspan",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Durable agent sessions. Bodies are proto3-JSON: fields in snake_case (camelCase is \
                understood too), 64-bit integers as strings, fields that are unset left out, unknown fields \
                refused. The same services are served as gRPC on the same port.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": { "schemas": schemas.finish() },
    })
}

fn verb(verb: Verb) -> &'static str {
    match verb {
        Verb::Get => "get",
        Verb::Post => "post",
        Verb::Delete => "delete",
    }
}

fn operation(route: &Route, schemas: &mut Schemas) -> Value {
    let mut operation = json!({
        "operationId": operation_id(route.op),
        "summary": route.summary,
        "responses": responses(route, schemas),
    });
    let parameters = parameters(route);
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
    if let Body::Required(message) | Body::Optional(message) = route.body {
        operation["requestBody"] = json!({
            "required": matches!(route.body, Body::Required(_)),
            "description": format!("At most {BODY_BYTES_MAX} bytes."),
            "content": { "application/json": { "schema": body_schema(route, message, schemas) } },
        });
    }
    if route.body == Body::File {
        let file = json!({ "schema": { "type": "string", "format": "binary" } });
        let content: Map<String, Value> = IMPORT_TYPES.iter().map(|kind| ((*kind).to_owned(), file.clone())).collect();
        operation["requestBody"] = json!({ "required": true, "content": content });
    }
    operation
}

/// Where the path names the session, the body need not; it may repeat it, which no schema can say.
fn body_schema(route: &Route, message: &str, schemas: &mut Schemas) -> Value {
    if route.path.contains("{uid}") {
        schemas.message_without(message, "session")
    } else {
        schemas.message(message, Side::In)
    }
}

fn operation_id(op: Op) -> String {
    let name = format!("{op:?}");
    name[..1].to_ascii_lowercase() + &name[1..]
}

fn parameters(route: &Route) -> Vec<Value> {
    let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let path = in_path.map(|name| json!({ "name": name, "in": "path", "required": true, "schema": path_schema(name) }));
    let query = route.query.iter().map(query_parameter);
    let resumes = matches!(route.op, Op::Records | Op::Watch).then(|| {
        json!({
            "name": "Last-Event-ID",
            "in": "header",
            "required": false,
            "description": "Go on behind this record; stronger than `from`.",
            "schema": { "type": "integer", "format": "int64", "minimum": 0, "maximum": i64::MAX - 1 },
        })
    });
    path.chain(query).chain(resumes).collect()
}

fn path_schema(name: &str) -> Value {
    match name {
        "seq" => json!({ "type": "integer", "format": "int64" }),
        "digest" => json!({ "type": "string", "pattern": "^(sha256:)?[0-9a-f]{64}$" }),
        _ => json!({ "type": "string", "minLength": 1 }),
    }
}

fn query_parameter(param: &Param) -> Value {
    let schema = match param.kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Int32 => json!({ "type": "integer", "format": "int32", "minimum": i32::MIN, "maximum": i32::MAX }),
        Kind::Int64 => json!({ "type": "integer", "format": "int64", "minimum": i64::MIN, "maximum": i64::MAX }),
    };
    json!({ "name": param.name, "in": "query", "required": false, "description": param.about, "schema": schema })
}

fn responses(route: &Route, schemas: &mut Schemas) -> Value {
    let mut responses = json!({ "200": success(route, schemas) });
    let mut refusals = [&REFUSALS_COMMON, route.refusals].concat();
    refusals.sort_unstable();
    for status in refusals {
        responses[status.to_string()] = json!({
            "description": about_status(status),
            "content": { "application/json": { "schema": schemas.fixed("Refusal", error_schema) } },
        });
    }
    responses
}

fn success(route: &Route, schemas: &mut Schemas) -> Value {
    match route.answer {
        Answer::Message(message) => {
            let schema = schemas.message(message, Side::Out);
            json!({ "description": "Done.", "content": { "application/json": { "schema": schema } } })
        }
        Answer::Stream(events) => stream(events, schemas),
        Answer::Json(shape) => {
            let schema = shape_schema(shape);
            json!({ "description": "Done.", "content": { "application/json": { "schema": schema } } })
        }
        Answer::Kept => json!({
            "description": "The text, byte for byte.",
            "content": { "application/json": { "schema": {} } },
        }),
        Answer::File => json!({
            "description": "The file: one JSON object in a line.",
            "content": { EXPORT_TYPE: { "schema": { "type": "string" } } },
        }),
        Answer::Bytes => json!({
            "description": "The payload, byte for byte.",
            "content": { "application/octet-stream": { "schema": { "type": "string", "format": "binary" } } },
        }),
    }
}

/// Neither form of a stream is one JSON text, so what its frames hold stands beside the schema.
fn stream(events: &[Event], schemas: &mut Schemas) -> Value {
    let frames: Map<String, Value> =
        events.iter().map(|event| (event.name().to_owned(), frame(*event, schemas))).collect();
    let names: Vec<_> = events.iter().map(|event| event.name()).collect();
    let event = json!({
        "type": "object",
        "description": "One event of the stream.",
        "properties": {
            "event": { "type": "string", "enum": names },
            "id": { "type": "string", "description": "The seq of a record." },
            "data": { "type": "string", "contentMediaType": "application/json" },
        },
        "required": ["event", "data"],
    });
    json!({
        "description": "Server-sent events, named and with JSON data as in x-frames; records carry their seq as \
            id. With `Accept: application/x-ndjson`, one JSON object in a line, whose only field is the name.",
        "content": {
            "text/event-stream": { "schema": event, "x-frames": frames },
            "application/x-ndjson": { "schema": { "type": "string" }, "x-frames": frames },
        },
    })
}

fn frame(event: Event, schemas: &mut Schemas) -> Value {
    match event {
        Event::Session => schemas.message("agentsessions.v1.Session", Side::Out),
        Event::Delta => schemas.message("agentsessions.v1.Delta", Side::Out),
        Event::Record => {
            let event = schemas.message("agentsessions.v1.Event", Side::Out);
            schemas.fixed("RecordFrame", || record_schema(&event))
        }
        Event::Heartbeat | Event::End => schemas.fixed("Cursor", || {
            json!({
                "type": "object",
                "description": "The last record that was sent.",
                "properties": { "last_seq": schema::int64_out() },
                "required": ["last_seq"],
            })
        }),
        Event::Error => schemas.fixed("Refusal", error_schema),
    }
}

fn record_schema(event: &Value) -> Value {
    json!({
        "type": "object",
        "description": "A journal record. `event` is the canonical text that content_hash covers, byte for byte, \
            also where this host does not know a field of it.",
        "properties": {
            "seq": schema::int64_out(),
            "prev_hash": { "type": "string", "pattern": "^([0-9a-f]{64})?$" },
            "content_hash": { "type": "string", "pattern": "^[0-9a-f]{64}$" },
            "fence": schema::int64_out(),
            "ts": { "type": "string", "format": "date-time" },
            "event": event,
        },
        "required": ["seq", "prev_hash", "content_hash", "fence", "ts", "event"],
    })
}

fn error_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "code": { "type": "integer", "minimum": 1, "maximum": 16, "description": "The gRPC status code." },
            "status": { "type": "string", "description": "Its name." },
            "message": { "type": "string", "description": "What was wrong, where, and what to do next." },
        },
        "required": ["code", "status", "message"],
        "additionalProperties": false,
    })
}

fn shape_schema(shape: Shape) -> Value {
    match shape {
        Shape::Harnesses => json!({
            "type": "object",
            "properties": {
                "harnesses": { "type": "array", "items": { "type": "string" }, "description": "Sorted." },
                "default": { "type": "string", "description": "The one of sessions that name none." },
            },
            "required": ["harnesses", "default"],
        }),
        Shape::Health => json!({
            "type": "object",
            "properties": { "status": { "const": "SERVING" } },
            "required": ["status"],
        }),
        Shape::OpenApi => json!({ "type": "object" }),
    }
}

fn about_status(status: u16) -> &'static str {
    match status {
        400 => "INVALID_ARGUMENT, FAILED_PRECONDITION or OUT_OF_RANGE: the same request will not succeed.",
        403 => "PERMISSION_DENIED: the Host or Origin header is not this host's.",
        404 => "NOT_FOUND.",
        409 => "ABORTED or ALREADY_EXISTS: another writer was here; read the session and decide again.",
        413 => "The body is too large.",
        415 => "The body is not application/json.",
        429 => "RESOURCE_EXHAUSTED: the disk is full, or a bound was reached.",
        499 => "CANCELLED.",
        503 => "UNAVAILABLE: the host is stopping, or something that it needs is away; try again.",
        504 => "DEADLINE_EXCEEDED.",
        _ => "INTERNAL or DATA_LOSS.",
    }
}
