//! Neutral requests and the exact JSON that is sent.

use inspan_engine::Completion;
use inspan_testkit::provider::Reply;
use inspan_wire::v1;

use super::{anthropic, openai};
use crate::completion::{AnthropicDraft, Draft, OpenAiDraft};
use crate::config::Api;

/// Reads a request in proto3-JSON.
fn request(json: &str) -> v1::ModelCall {
    inspan_wire::json::from_slice(json.as_bytes()).unwrap_or_else(|e| panic!("{e}: {json}"))
}

fn render(api: Api, request: &v1::ModelCall) -> Result<String, String> {
    match api {
        Api::OpenAi => openai::body(request, super::model(request, "configured"), true),
        Api::Anthropic => anthropic::body(request, super::model(request, "configured"), true, 4096),
    }
    .map_err(|e| e.to_string())
}

/// `expected` is the body, or after `!` a part of the refusal.
#[track_caller]
fn check(api: Api, json: &str, expected: &str) {
    match (render(api, &request(json)), expected.strip_prefix('!')) {
        (Ok(body), None) => assert_eq!(body, expected, "{json}"),
        (Err(e), Some(part)) => assert!(e.contains(part), "{e}, expected {part:?}"),
        (got, _) => panic!("{got:?}, expected {expected:?}"),
    }
}

const CONVERSATION: &str = r#"{
    "model": "echo", "params": {"temperature": "0.50", "stop": "[\"x\"]", "user": "u-1"},
    "messages": [
        {"role": "system", "parts": [{"text": {"text": "be "}}, {"text": {"text": "brief"}}]},
        {"role": "", "parts": [{"text": {"text": "look <&> \u2028"}},
            {"file": {"mime": "image/png", "bytes": "AQI=", "name": "img"}},
            {"file": {"mime": "image/jpeg", "uri": "https://example.com/a.jpg"}},
            {"data": {"data": {"b": 1.5, "a": 2}}}]},
        {"role": "assistant", "parts": [{"text": {"text": "calling"}},
            {"tool_call": {"id": "c1", "tool": "weather", "args": {"days": 2, "city": "Paris"}}},
            {"tool_call": {"id": "c2", "tool": "clock"}}]},
        {"role": "tool", "parts": [{"tool_result": {"id": "c1", "content": [{"text": {"text": "sunny"}}]}}]},
        {"role": "tool", "parts": [{"tool_result": {"id": "c2", "is_error": true, "error": "no clock", "output": {"code": 7}}}]},
        {"role": "user", "parts": [{"text": {"text": "and?"}}]}
    ],
    "tools": [{"name": "weather", "description": "d", "input_schema": {"type": "object", "maxProperties": 2}}, {"name": "clock"}],
    "tool_choice": {"mode": "MODE_REQUIRED", "name": "clock"}
}"#;

#[test]
fn a_conversation_as_chat_completions() {
    let expected = [
        r#"{"model":"configured","messages":["#,
        r#"{"role":"system","content":"be brief"},"#,
        r#"{"role":"user","content":[{"text":"look <&> "#,
        "\u{2028}",
        r#"","type":"text"},"#,
        r#"{"image_url":{"url":"data:image/png;base64,AQI="},"type":"image_url"},"#,
        r#"{"image_url":{"url":"https://example.com/a.jpg"},"type":"image_url"},"#,
        r#"{"text":"{\"a\":2,\"b\":1.5}","type":"text"}]},"#,
        r#"{"role":"assistant","content":"calling","tool_calls":["#,
        r#"{"id":"c1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Paris\",\"days\":2}"}},"#,
        r#"{"id":"c2","type":"function","function":{"name":"clock","arguments":"{}"}}]},"#,
        r#"{"role":"tool","tool_call_id":"c1","content":"sunny"},"#,
        r#"{"role":"tool","tool_call_id":"c2","content":"error: no clock\n{\"code\":7}"},"#,
        r#"{"role":"user","content":"and?"}],"#,
        r#""tools":[{"type":"function","function":{"name":"weather","description":"d","parameters":{"maxProperties":2,"type":"object"}}},"#,
        r#"{"type":"function","function":{"name":"clock","parameters":{"properties":{},"type":"object"}}}],"#,
        r#""tool_choice":{"function":{"name":"clock"},"type":"function"},"#,
        r#""stream":true,"stream_options":{"include_usage":true},"stop":["x"],"temperature":0.50,"user":"u-1"}"#,
    ];
    check(Api::OpenAi, CONVERSATION, &expected.concat());
}

#[test]
fn a_conversation_as_messages() {
    let expected = [
        r#"{"model":"configured","max_tokens":4096,"system":[{"type":"text","text":"be "},{"type":"text","text":"brief"}],"messages":["#,
        r#"{"role":"user","content":[{"type":"text","text":"look <&> "#,
        "\u{2028}",
        r#""},"#,
        r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AQI="}},"#,
        r#"{"type":"image","source":{"type":"url","url":"https://example.com/a.jpg"}},"#,
        r#"{"type":"text","text":"{\"a\":2,\"b\":1.5}"}]},"#,
        r#"{"role":"assistant","content":[{"type":"text","text":"calling"},"#,
        r#"{"type":"tool_use","id":"c1","name":"weather","input":{"city":"Paris","days":2}},"#,
        r#"{"type":"tool_use","id":"c2","name":"clock","input":{}}]},"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"sunny"}]},"#,
        r#"{"type":"tool_result","tool_use_id":"c2","content":[{"type":"text","text":"no clock"},{"type":"text","text":"{\"code\":7}"}],"is_error":true},"#,
        r#"{"type":"text","text":"and?"}]}],"#,
        r#""tools":[{"name":"weather","description":"d","input_schema":{"maxProperties":2,"type":"object"}},"#,
        r#"{"name":"clock","input_schema":{"properties":{},"type":"object"}}],"#,
        r#""tool_choice":{"type":"tool","name":"clock"},"stream":true,"stop":["x"],"temperature":0.50,"user":"u-1"}"#,
    ];
    check(Api::Anthropic, CONVERSATION, &expected.concat());
}

#[test]
fn the_plainest_request() {
    let hello = r#"{"model":"","messages":[{"role":"user","parts":[{"text":{"text":"hi"}}]}]}"#;
    let openai = r#"{"model":"configured","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}"#;
    check(Api::OpenAi, hello, openai);
    check(Api::OpenAi, &hello.replace(r#""model":"""#, r#""model":"own""#), &openai.replace("configured", "own"));
    let anthropic = r#"{"model":"configured","max_tokens":4096,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"stream":true}"#;
    check(Api::Anthropic, hello, anthropic);
    let plain = openai::body(&request(hello), "m", false).expect("plain text");
    assert!(plain.ends_with(r#""stream":false}"#), "{plain}");
    let own_bound = hello.replace(r#""model":"""#, r#""params":{"max_tokens":"7"}"#);
    let body = render(Api::Anthropic, &request(&own_bound)).expect("a bound of its own");
    assert!(body.ends_with(r#""max_tokens":7}"#) && !body.contains("4096"), "{body}");
}

#[test]
fn tool_choices() {
    let tool = r#"{"tools":[{"name":"f"}],"tool_choice":{"mode":"MODE"},"messages":[]}"#;
    let table = [
        ("MODE_AUTO", r#""tool_choice":"auto""#, r#""tool_choice":{"type":"auto"}"#),
        ("MODE_NONE", r#""tool_choice":"none""#, r#""tool_choice":{"type":"none"}"#),
        ("MODE_REQUIRED", r#""tool_choice":"required""#, r#""tool_choice":{"type":"any"}"#),
    ];
    for (mode, for_openai, for_anthropic) in table {
        let json = tool.replace("\"MODE\"", &format!("\"{mode}\""));
        let rendered = |api| render(api, &request(&json)).expect("a choice");
        assert!(
            rendered(Api::OpenAi).contains(for_openai) && rendered(Api::Anthropic).contains(for_anthropic),
            "{mode}"
        );
    }
    for api in [Api::OpenAi, Api::Anthropic] {
        let rendered = |json: &str| render(api, &request(json)).expect("a choice");
        assert!(!rendered(&tool.replace("\"MODE\"", "\"MODE_UNSPECIFIED\"")).contains("tool_choice"));
        assert!(!rendered(r#"{"tool_choice":{"mode":"MODE_AUTO"}}"#).contains("tool_choice"));
        check(api, r#"{"tool_choice":{"mode":"MODE_REQUIRED"}}"#, "!there are no tools");
        check(api, &tool.replace("\"MODE\"", "\"MODE_REQUIRED\",\"name\":\"g\""), "!not among the tools");
        check(api, &tool.replace("\"MODE\"", "9"), "!unknown mode 9");
    }
}

/// A message in one part, as proto3-JSON.
fn message(role: &str, part: &str) -> String {
    format!(r#"{{"messages":[{{"role":"{role}","parts":[{part}]}}]}}"#)
}

#[test]
fn what_cannot_be_carried_is_refused() {
    let (text, file) = (r#"{"text":{"text":"a"}}"#, r#"{"file":{"mime":"image/png","bytes":"AQI="}}"#);
    let (call, result) = (r#"{"tool_call":{"id":"c","tool":"f"}}"#, r#"{"tool_result":{"id":"c"}}"#);
    for api in [Api::OpenAi, Api::Anthropic] {
        check(api, &message("developer", text), "!the role \"developer\"");
        check(api, &message("system", file), "!has a file");
        check(api, &message("user", call), "!has a tool call");
        check(api, &message("user", result), "!has a tool result");
        check(api, &message("assistant", file), "!has a file");
        check(api, &message("assistant", result), "!has a tool result");
        check(api, &message("assistant", r#"{"tool_call":{"tool":"f"}}"#), "!has no id");
        check(api, &message("tool", text), "!tool results only");
        check(api, &message("tool", ""), "!no tool result");
        check(api, &message("tool", r#"{"tool_result":{}}"#), "!has no id");
        check(api, &message("tool", r#"{"tool_result":{"id":"c","output_uri":"x:y"}}"#), "!is behind x:y");
        check(api, &message("user", r#"{"file":{"bytes":"AQI=","name":"n"}}"#), "!has no mime type");
        check(api, &message("user", r#"{"file":{"mime":"image/png","name":"n"}}"#), "!neither bytes nor a uri");
        check(api, &message("user", r#"{"file":{"mime":"image/png","uri":"inspan-blob:sha256:00"}}"#), "!cannot fetch");
        for reserved in ["model", "messages", "tools", "tool_choice", "stream"] {
            check(api, &format!(r#"{{"params":{{"{reserved}":"1"}}}}"#), "!is set by the request itself");
        }
    }
    check(Api::OpenAi, r#"{"params":{"n":"2"}}"#, "!is set by the request itself");
    check(Api::Anthropic, r#"{"params":{"system":"x"}}"#, "!is set by the request itself");
    check(
        Api::OpenAi,
        &message("user", r#"{"file":{"mime":"application/pdf","uri":"https://h/x.pdf"}}"#),
        "!only images can be",
    );
    check(
        Api::OpenAi,
        &message("tool", r#"{"tool_result":{"id":"c","content":[{"file":{"mime":"image/png","bytes":"AQI="}}]}}"#),
        "!takes text only",
    );
    check(
        Api::Anthropic,
        &message("user", r#"{"file":{"mime":"audio/wav","bytes":"AQI="}}"#),
        "!images, PDF and plain text",
    );
    let late = r#"{"messages":[{"role":"user","parts":[{"text":{"text":"a"}}]},{"role":"system","parts":[{"text":{"text":"b"}}]}]}"#;
    check(Api::Anthropic, late, "!put it first");
}

#[test]
fn files_of_each_kind() {
    let table = [
        (Api::OpenAi, "audio/wav", r#"{"input_audio":{"data":"AQI=","format":"wav"},"type":"input_audio"}"#),
        (
            Api::OpenAi,
            "application/pdf",
            r#"{"file":{"file_data":"data:application/pdf;base64,AQI=","filename":"n"},"type":"file"}"#,
        ),
        (
            Api::Anthropic,
            "application/pdf",
            r#"{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"AQI="},"title":"n"}"#,
        ),
        (
            Api::Anthropic,
            "text/plain",
            r#"{"type":"document","source":{"type":"text","media_type":"text/plain","data":"\u0001\u0002"},"title":"n"}"#,
        ),
    ];
    for (api, mime, expected) in table {
        let json = message("user", &format!(r#"{{"file":{{"mime":"{mime}","bytes":"AQI=","name":"n"}}}}"#));
        let body = render(api, &request(&json)).expect("a file");
        assert!(body.contains(expected), "{body}");
    }
}

fn completion(api: Api, body: &str) -> Completion {
    fn into(mut draft: impl Draft, body: &str) -> Completion {
        draft.whole(body.as_bytes(), &|_| {}).expect("a whole answer");
        draft.finish().expect("a completion")
    }
    match api {
        Api::OpenAi => into(OpenAiDraft::new("configured"), body),
        Api::Anthropic => into(AnthropicDraft::new("configured"), body),
    }
}

/// The request that follows an answer, for `model`.
fn next(api: Api, answer: &str, model: &str) -> String {
    let messages = vec![completion(api, answer).message];
    let request = v1::ModelCall { model: model.to_owned(), messages, ..Default::default() };
    render(api, &request).expect("an answer can be sent back")
}

#[test]
fn reasoning_goes_back_byte_for_byte_and_in_its_place() {
    let signature = "Zm9v+/".repeat(700);
    let blocks = [
        format!(
            r#"{{"signature":"{signature}","thinking":"a \u00e9 <&> 思","type":"thinking","later_field":{{"z":1.0,"a":[ ]}}}}"#
        ),
        r#"{"type":"tool_use","id":"c1","name":"f","input":{}}"#.to_owned(),
        r#"{"type":"redacted_thinking","data":"EmwKAhgB"}"#.to_owned(),
        r#"{"type":"thinking","thinking":"","signature":""}"#.to_owned(),
        r#"{"type":"text","text":"t"}"#.to_owned(),
        r#"{"type":"tool_use","id":"c2","name":"f","input":{},"signature":"own \u003d"}"#.to_owned(),
    ];
    let answer = format!(r#"{{"content":[{}],"stop_reason":"tool_use"}}"#, blocks.join(","));
    let same = next(Api::Anthropic, &answer, "");
    assert!(same.contains(&format!(r#""content":[{}]"#, blocks.join(","))), "{same}");
    // Switched away and back: nothing for the other model, everything for its own.
    let other = next(Api::Anthropic, &answer, "another");
    let kept = [&blocks[1], &blocks[4], r#"{"type":"tool_use","id":"c2","name":"f","input":{}}"#].join(",");
    assert!(other.contains(&format!(r#""content":[{kept}]"#)), "{other}");
    assert_eq!(next(Api::Anthropic, &answer, "configured"), same);
}

#[test]
fn streamed_reasoning_goes_back_as_the_plain_block() {
    let reply = Reply::text(&["a"]).signed("思考", &"A1+/".repeat(1024)).redacted("R==").signed("", "s");
    let mut draft = AnthropicDraft::new("configured");
    let mut events = Vec::new();
    crate::stream::sse::Decoder::new().push(reply.anthropic_events().as_bytes(), &mut events).expect("short");
    for event in &events {
        draft.event(event, &|_| {}).expect("a good event");
    }
    let streamed = draft.finish().expect("a completion").message;
    assert_eq!(streamed, completion(Api::Anthropic, &reply.anthropic_body()).message);
}

#[test]
fn openai_opaque_fields_return_to_where_they_were() {
    let answer = concat!(
        r#"{"choices":[{"message":{"content":null,"reasoning_content":"hm","reasoning_details":[{"data":"\u00e9", "n":1.0}],"#,
        r#""tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}","sig":"F"},"extra_content":{"google":{"thought_signature":"S"}}},"#,
        r#"{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#,
    );
    let same = concat!(
        r#"{"role":"assistant","content":null,"tool_calls":["#,
        r#"{"id":"a","type":"function","function":{"name":"f","arguments":"{}","sig":"F"},"extra_content":{"google":{"thought_signature":"S"}}},"#,
        r#"{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}],"reasoning_details":[{"data":"\u00e9", "n":1.0}]}"#,
    );
    let body = next(Api::OpenAi, answer, "");
    assert!(body.contains(same) && !body.contains("hm"), "{body}");
    let other = next(Api::OpenAi, answer, "another");
    assert!(!["extra_content", "sig", "reasoning"].iter().any(|f| other.contains(f)), "{other}");
    assert!(!next(Api::OpenAi, answer, "another").is_empty());
}

#[test]
fn a_signature_that_would_be_lost_is_refused() {
    for (api, provider) in [(Api::OpenAi, "openai"), (Api::Anthropic, "anthropic")] {
        let part =
            |rest: &str| format!(r#"{{"reasoning":{{"provider":"{provider}","model_id":"configured",{rest}}}}}"#);
        check(
            api,
            &message("assistant", &part(r#""item_id":"gone","opaque_bytes":"e30=""#)),
            "!belongs to tool call gone",
        );
        check(api, &message("assistant", &part(r#""opaque_uri":"x:y""#)), "!reasoning is behind x:y");
        check(api, &message("assistant", &part(r#""opaque_bytes":"/w==""#)), "!is not the text that it gave");
        check(api, &message("assistant", &part(r#""opaque_bytes":"ew==""#)), "!is not the JSON");
    }
}
