//! What an MCP tool answers, as a result of ours.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use inspan_wire::v1;
use inspan_wire::v1::file_part::Source;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use super::super::http::file;
use super::super::json;

/// The result that `answered` stands for.
pub(super) fn of(answered: CallToolResult) -> v1::ToolResult {
    let mut result = v1::ToolResult { is_error: answered.is_error.unwrap_or_default(), ..Default::default() };
    result.content = answered.content.into_iter().map(part).collect();
    match answered.structured_content {
        None => {}
        Some(Value::Object(fields)) => match json::to_struct(fields.clone()) {
            Some(output) => result.output = Some(output),
            None => result.content.push(v1::Part::text(Value::Object(fields).to_string())),
        },
        Some(other) => result.content.push(v1::Part::text(other.to_string())),
    }
    if result.is_error {
        result.error = error_text(&result.content);
    }
    result
}

/// A result that is only an error.
pub(super) fn error(error: String) -> v1::ToolResult {
    v1::ToolResult { is_error: true, error, ..Default::default() }
}

/// What a failed tool says: its texts.
fn error_text(content: &[v1::Part]) -> String {
    let texts = content.iter().filter_map(|part| match &part.part {
        Some(v1::part::Part::Text(text)) => Some(text.text.as_str()),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    if text.is_empty() { "the tool failed and did not say why".to_owned() } else { text }
}

fn part(block: ContentBlock) -> v1::Part {
    match block {
        ContentBlock::Text(text) => v1::Part::text(text.text),
        ContentBlock::Image(image) => encoded(&image.mime_type, image.data),
        ContentBlock::Audio(audio) => encoded(&audio.mime_type, audio.data),
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
                let mime = mime_type.as_deref().unwrap_or("text/plain");
                named(file(mime, Bytes::from(text)), uri)
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                named(encoded(mime_type.as_deref().unwrap_or_default(), blob), uri)
            }
            other => as_it_came(&other),
        },
        ContentBlock::ResourceLink(link) => {
            let file = v1::FilePart {
                mime: link.mime_type.unwrap_or_default(),
                source: Some(Source::Uri(link.uri)),
                name: link.name,
                ..Default::default()
            };
            v1::Part { part: Some(v1::part::Part::File(file)) }
        }
        other => as_it_came(&other),
    }
}

/// A kind of a later protocol: kept as the server sent it, for whoever understands it.
fn as_it_came(value: &impl serde::Serialize) -> v1::Part {
    v1::Part::text(serde_json::to_string(value).unwrap_or_default())
}

/// A file from its Base64 form; what is none is kept as text, since it is all that there is.
fn encoded(mime: &str, data: String) -> v1::Part {
    match STANDARD.decode(&data) {
        Ok(bytes) => file(mime, bytes.into()),
        Err(_) => v1::Part::text(data),
    }
}

fn named(mut part: v1::Part, name: String) -> v1::Part {
    if let Some(v1::part::Part::File(file)) = &mut part.part {
        file.name = name;
    }
    part
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(answer: Value) -> v1::ToolResult {
        of(serde_json::from_value(answer).expect("an answer of MCP"))
    }

    #[test]
    fn every_kind_of_content_becomes_a_part() {
        let result = read(json!({"content": [
            {"type": "text", "text": "hi"},
            {"type": "image", "data": "iVBO", "mimeType": "image/png"},
            {"type": "audio", "data": "not base64", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "a:1", "text": "t", "mimeType": "text/x"}},
            {"type": "resource", "resource": {"uri": "a:2", "blob": "AAE="}},
            {"type": "resource_link", "uri": "file:///x", "name": "x"},
        ]}));
        let uri =
            v1::FilePart { source: Some(Source::Uri("file:///x".into())), name: "x".into(), ..Default::default() };
        let expected = vec![
            v1::Part::text("hi"),
            file("image/png", Bytes::from_static(b"\x89\x50\x4e")),
            v1::Part::text("not base64"),
            named(file("text/x", Bytes::from_static(b"t")), "a:1".into()),
            named(file("", Bytes::from_static(&[0, 1])), "a:2".into()),
            v1::Part { part: Some(v1::part::Part::File(uri)) },
        ];
        assert_eq!(result, v1::ToolResult { content: expected, ..Default::default() });
    }

    #[test]
    fn structured_content_is_the_output_when_nothing_of_it_would_change() {
        let exact = read(json!({"content": [], "structuredContent": {"n": 1}}));
        assert_eq!(exact.output.expect("an output").fields.len(), 1);
        let long = read(json!({"content": [], "structuredContent": {"n": 12_345_678_901_234_567_890_u64}}));
        assert_eq!((long.output, long.content), (None, vec![v1::Part::text(r#"{"n":12345678901234567890}"#)]));
        assert_eq!(read(json!({"content": [], "structuredContent": [1]})).content, [v1::Part::text("[1]")]);
    }

    #[test]
    fn a_failed_tool_says_why() {
        let failed = read(json!({"content": [{"type": "text", "text": "no such file"}], "isError": true}));
        assert!(failed.is_error);
        assert_eq!(failed.error, "no such file");
        assert!(!read(json!({"content": [], "isError": true})).error.is_empty());
    }
}
