//! The committed description says what this build does.

mod support;

use std::path::Path;

use hyper::StatusCode;
use inspan_host::openapi;
use serde_json::Value;
use support::{http, start};

#[test]
fn the_committed_document_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let current = serde_json::to_string_pretty(&openapi::document()).expect("a document is JSON") + "\n";
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    if committed != current {
        let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openapi.json");
        std::fs::write(&fresh, current).expect("the target folder can be written");
        panic!("docs/openapi.json is stale: copy {} there", fresh.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_serves_it() {
    let running = start().await;
    let answer = http::get(&running, "/v1/openapi.json").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.json(), openapi::document());
}

#[test]
fn every_reference_leads_somewhere() {
    fn walk(value: &Value, document: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref") {
                    let path = reference.strip_prefix('#').expect("a reference within the document");
                    assert!(document.pointer(path).is_some_and(Value::is_object), "{reference}");
                }
                fields.values().for_each(|value| walk(value, document));
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, document)),
            _ => {}
        }
    }
    let document = openapi::document();
    walk(&document, &document);
}

#[test]
fn fields_are_described_by_the_comments_of_the_protocol() {
    let document = openapi::document();
    let about = document.pointer("/components/schemas/ListSessionsResponse/properties/sessions/items/$ref");
    assert_eq!(about, Some(&Value::from("#/components/schemas/Session")));
    let about = document.pointer("/components/schemas/ForkRequestBody/properties/at_seq/description");
    assert_eq!(about, Some(&Value::from("Zero or less means the head.")));
}

#[test]
fn a_refusal_is_not_the_protocols_error() {
    let document = openapi::document();
    let has = |path: &str| document.pointer(path).is_some();
    assert!(has("/components/schemas/Refusal/properties/message"));
    assert!(has("/components/schemas/Error/properties/description"));
}
