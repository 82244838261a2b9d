//! What providers say, and the completion that it is.

use inspan_testkit::provider::Reply;

use crate::config::Api;
use crate::testing::{chunks, read, whole};

/// A stream of deltas as an OpenAI-compatible server sends them, stopped and done.
fn openai(deltas: &[&str], tail: &str) -> String {
    let mut body: String =
        deltas.iter().map(|d| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{d}}}]}}\n\n")).collect();
    body.push_str("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n");
    body + tail + "data: [DONE]\n\n"
}

/// `expected` is the completion, or after `!` a part of the error.
#[track_caller]
fn compare(got: Result<String, inspan_engine::ModelError>, expected: &str, input: &str) {
    match (got, expected.strip_prefix('!')) {
        (Ok(text), None) => assert_eq!(text, expected, "{input}"),
        (Err(e), Some(part)) => assert!(e.message.contains(part), "{e}, expected {part:?}: {input}"),
        (got, _) => panic!("{got:?}, expected {expected:?}: {input}"),
    }
}

async fn check(deltas: &[&str], expected: &str) {
    let body = openai(deltas, "");
    compare(read(Api::OpenAi, chunks(&[body.as_bytes()]), false).await, expected, &body);
}

/// Fragments of tool calls, one per delta.
async fn fragments(fragments: &[&str], expected: &str) {
    let deltas: Vec<String> = fragments.iter().map(|f| format!(r#"{{"tool_calls":[{f}]}}"#)).collect();
    let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
    check(&deltas, expected).await;
}

#[tokio::test]
async fn fragments_become_the_calls_that_were_meant() {
    let by_index = [
        r#"{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}"#,
        r#"{"index":0,"function":{"arguments":"{\"x\":"}}"#,
        r#"{"index":1,"id":"b","function":{"name":"g","arguments":"{\"y\":"}}"#,
        r#"{"index":2,"id":"c","function":{"name":"h"}}"#,
        r#"{"index":0,"function":{"arguments":"1}"}}"#,
        r#"{"index":1,"function":{"arguments":"2}"}}"#,
    ];
    fragments(&by_index, r#"call a f {"x":1} | call b g {"y":2} | call c h {}"#).await;
    let backwards = [by_index[2], by_index[5], by_index[0], by_index[1], by_index[4]];
    fragments(&backwards, r#"call a f {"x":1} | call b g {"y":2}"#).await;
    let no_index_whole = [
        r#"{"id":"a","function":{"name":"f","arguments":"{}"}}"#,
        r#"{"id":"b","function":{"name":"f","arguments":"{\"z\":3}"}}"#,
    ];
    fragments(&no_index_whole, r#"call a f {} | call b f {"z":3}"#).await;
    let no_index_pieces = [
        r#"{"id":"a","function":{"name":"f"}}"#,
        r#"{"function":{"arguments":"{\"x\""}}"#,
        r#"{"index":null,"id":"","function":{"name":"","arguments":":1}"}}"#,
        r#"{"id":"b","function":{"name":"g"}}"#,
        r#"{"id":"a","function":{"arguments":" "}}"#,
        r#"{"id":"b","function":{"arguments":"{}"}}"#,
    ];
    fragments(&no_index_pieces, r#"call a f {"x":1} | call b g {}"#).await;
    let late_id = [
        r#"{"index":0,"function":{"name":"f","arguments":"{\"x\":"}}"#,
        r#"{"index":0,"id":"a","function":{"arguments":"1}"}}"#,
    ];
    fragments(&late_id, r#"call a f {"x":1}"#).await;
    let late_id_no_index =
        [r#"{"function":{"name":"f","arguments":"{\"x\":"}}"#, r#"{"id":"a","function":{"arguments":"1}"}}"#];
    fragments(&late_id_no_index, r#"call a f {"x":1}"#).await;
    let one_index_two_ids = [
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}"#,
        r#"{"index":0,"id":"b","function":{"name":"f","arguments":"{\"x\":2}"}}"#,
    ];
    fragments(&one_index_two_ids, r#"call a f {"x":1} | call b f {"x":2}"#).await;
    let repeated = [
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}"#,
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":"1}"}}"#,
    ];
    fragments(&repeated, r#"call a f {"x":1}"#).await;
    let object = [r#"{"index":0,"id":"a","function":{"name":"f","arguments":{"x":1}}}"#];
    fragments(&object, r#"call a f {"x":1}"#).await;
}

#[tokio::test]
async fn fragments_that_cannot_be_told_apart_are_errors() {
    fragments(&[r#"{"index":0,"function":{"name":"f","arguments":"{}"}}"#], "!a call of tool f has no id").await;
    fragments(&[r#"{"index":0,"id":"a","function":{"arguments":"{}"}}"#], "!has no name").await;
    fragments(&[r#"{"function":{"arguments":"{}"}}"#], "!has no name").await;
    for bad in [r#"{\"x\":"#, "[]", r#"{}{}"#, "1", "nonsense"] {
        let one = format!(r#"{{"index":0,"id":"a","function":{{"name":"f","arguments":"{bad}"}}}}"#);
        fragments(&[&one], "!the arguments of tool call a (f) are not").await;
    }
    let long = r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"id\":12345678901234567891}"}}"#;
    fragments(&[long], "!the integer 12345678901234567891").await;
    let same_id = [
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}"#,
        r#"{"index":1,"id":"a","function":{"name":"f","arguments":"{}"}}"#,
    ];
    fragments(&same_id, "!two tool calls have the id a").await;
    let two_names = [r#"{"index":0,"id":"a","function":{"name":"f"}}"#, r#"{"index":0,"function":{"name":"g"}}"#];
    fragments(&two_names, "!named both f and g").await;
    let no_ids = [r#"{"function":{"name":"f","arguments":"{}"}}"#, r#"{"function":{"name":"g","arguments":"{}"}}"#];
    fragments(&no_ids, "!has no id").await;
    let merged = [
        r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}"#,
        r#"{"index":0,"id":"b","function":{"name":"f","arguments":"{\"x\":2}"}}"#,
        r#"{"index":0,"function":{"arguments":"1}"}}"#,
    ];
    fragments(&merged, "!the arguments of tool call").await;
    fragments(&[r#"{"index":"zero","id":"a"}"#], "!index is not a number").await;
    check(&[r#"{"function_call":{"name":"f","arguments":"{}"}}"#], "!function_call").await;
    check(&[r#"{"tool_calls":{"id":"a"}}"#], "!tool_calls is not a list").await;
    check(&[r#"{"content":[{"type":"text"}]}"#], "!content is not a string").await;
}

#[tokio::test]
async fn an_answer_has_so_many_calls() {
    let many: Vec<String> =
        (0..1025).map(|n| format!(r#"{{"index":{n},"id":"{n}","function":{{"name":"f"}}}}"#)).collect();
    check(&[&format!(r#"{{"tool_calls":[{}]}}"#, many.join(","))], "!over 1024 tool calls").await;
    let blocks = vec![r#"{"type":"text","text":"a"}"#; 1025].join(",");
    compare(
        whole(Api::Anthropic, &format!(r#"{{"content":[{blocks}],"stop_reason":"end_turn"}}"#)),
        "!over 1024 content blocks",
        "many blocks",
    );
}

#[tokio::test]
async fn signatures_stay_on_their_own_call() {
    let google = [
        r#"{"index":0,"id":"a","extra_content":{"google":{"thought_signature":"AAA+/=="}},"function":{"name":"f","arguments":"{}"}}"#,
        r#"{"index":1,"id":"b","function":{"name":"g","arguments":"{}","thought_signature":"BBB"}}"#,
        r#"{"index":2,"id":"c","function":{"name":"h","arguments":"{}"},"extra_content":null}"#,
    ];
    let expected = concat!(
        r#"reasoning openai m item=a {"extra_content":{"google":{"thought_signature":"AAA+/=="}}} [] | call a f {} | "#,
        r#"reasoning openai m item=b {"function":{"thought_signature":"BBB"}} [] | call b g {} | call c h {}"#,
    );
    fragments(&google, expected).await;
}

#[tokio::test]
async fn openai_reasoning_is_for_people_and_details_are_verbatim() {
    let deltas = [
        r#"{"reasoning_content":"let "}"#,
        r#"{"reasoning_content":"me see","reasoning_details":[{"type":"reasoning.encrypted","data":"x\u00e9","index":0}]}"#,
        r#"{"content":"ok","reasoning_details":[{ "index":1 }]}"#,
    ];
    let expected = concat!(
        r#"reasoning openai m item= {"reasoning_details":[{"type":"reasoning.encrypted","data":"x\u00e9","index":0},{ "index":1 }]} "#,
        r#"["text \"let me see\""] | text "ok""#,
    );
    check(&deltas, expected).await;
    check(&[r#"{"reasoning":"hm","content":"a"}"#], r#"reasoning openai m item= None ["text \"hm\""] | text "a""#)
        .await;
    check(&[r#"{"refusal":"I will not"}"#], r#"text "I will not""#).await;
    check(&[r#"{"content":null}"#, "{}"], "").await;
}

#[tokio::test]
async fn usage_is_counted_once_and_missing_is_unknown() {
    let table = [
        ("", r#"text "a""#),
        (r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#, r#"text "a" | usage m 3 4 0"#),
        (r#"{"choices":[],"usage":null}"#, r#"text "a""#),
        (r#"{"choices":[],"usage":{"prompt_tokens":3}}"#, r#"text "a""#),
        (r#"{"choices":[],"usage":{"prompt_tokens":-3,"completion_tokens":4}}"#, r#"text "a""#),
        (
            r#"{"model":"m-2","choices":[],"usage":{"prompt_tokens":30,"completion_tokens":40,"prompt_tokens_details":{"cached_tokens":20},"completion_tokens_details":{"reasoning_tokens":25}}}"#,
            r#"text "a" | usage m-2 30 40 25"#,
        ),
        (
            "{\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\n\ndata: {\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":9}}",
            r#"text "a" | usage m 3 9 0"#,
        ),
    ];
    for (usage, expected) in table {
        let tail = if usage.is_empty() { String::new() } else { format!("data: {usage}\n\n") };
        let body = openai(&[r#"{"content":"a"}"#], &tail);
        compare(read(Api::OpenAi, chunks(&[body.as_bytes()]), false).await, expected, &body);
    }
}

#[tokio::test]
async fn a_stop_that_is_no_answer_is_an_error() {
    let openai = |reason: &str| {
        format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"a\"}},\"finish_reason\":{reason}}}]}}\n\ndata: [DONE]\n\n"
        )
    };
    let table = [
        (r#""stop""#, r#"text "a""#),
        (r#""length""#, r#"text "a""#),
        (r#""content_filter""#, "!content_filter"),
        (r#""error""#, "!finish_reason is error"),
        (r#""""#, "![DONE] before a stop reason"),
        ("null", "![DONE] before a stop reason"),
    ];
    for (reason, expected) in table {
        let body = openai(reason);
        compare(read(Api::OpenAi, chunks(&[body.as_bytes()]), false).await, expected, &body);
    }
    let late = openai(r#""stop""#).replace("data: [DONE]", "data: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}");
    compare(read(Api::OpenAi, chunks(&[late.as_bytes()]), false).await, "!content after its stop reason", &late);
    for reason in ["refusal", "pause_turn"] {
        let body = Reply::text(&["a"]).anthropic_events().replace("end_turn", reason);
        compare(read(Api::Anthropic, chunks(&[body.as_bytes()]), false).await, &format!("!{reason}"), &body);
    }
}

/// Events of a Messages stream, each `kind` and the rest of its object.
async fn anthropic(events: &[(&str, &str)], expected: &str) {
    let body: String =
        events.iter().map(|(kind, rest)| format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{rest}}}\n\n")).collect();
    compare(read(Api::Anthropic, chunks(&[body.as_bytes()]), false).await, expected, &body);
}

#[tokio::test]
async fn messages_events_must_follow_their_order() {
    let start = ("message_start", r#","message":{"model":"m"}"#);
    let text = ("content_block_start", r#","index":0,"content_block":{"type":"text","text":""}"#);
    let delta = ("content_block_delta", r#","index":0,"delta":{"type":"text_delta","text":"a"}"#);
    let close = ("content_block_stop", r#","index":0"#);
    let stop = ("message_delta", r#","delta":{"stop_reason":"end_turn"}"#);
    let end = ("message_stop", "");
    anthropic(&[start, text, delta, close, stop, end], r#"text "a""#).await;
    anthropic(&[start, ("ping", ""), text, ("news", r#","x":1"#), delta, close, stop, end], r#"text "a""#).await;
    anthropic(&[start, stop, end], "").await;
    anthropic(&[("later", r#","message":"x","index":"y","delta":7"#), start, stop, end], "").await;
    anthropic(&[start, ("content_block_start", r#","index":"0","content_block":{}"#)], "!without an index").await;
    anthropic(&[text, delta, close, stop, end], "!before message_start").await;
    anthropic(&[start, start], "!began twice").await;
    anthropic(&[start, text, text], "!began twice").await;
    anthropic(&[start, delta], "!is not open").await;
    anthropic(&[start, text, close, delta], "!is not open").await;
    anthropic(&[start, text, delta, stop, end], "!was open").await;
    anthropic(&[start, text, delta, close, end], "!no stop_reason").await;
    anthropic(&[start, text, delta, close, stop], "!ended before its stop reason").await;
    anthropic(&[start, stop, text], "!content after its stop reason").await;
    let foreign = ("content_block_start", r#","index":0,"content_block":{"type":"server_tool_use"}"#);
    anthropic(&[start, foreign], r#"!type "server_tool_use" cannot be recorded"#).await;
    let misfit = ("content_block_delta", r#","index":0,"delta":{"type":"input_json_delta","partial_json":"{"}"#);
    anthropic(&[start, text, misfit], "!does not fit its block").await;
    anthropic(&[("error", "")], "!without an error").await;
}

#[tokio::test]
async fn messages_calls_and_counts() {
    let start = (
        "message_start",
        r#","message":{"model":"m-1","usage":{"input_tokens":5,"cache_creation_input_tokens":20,"cache_read_input_tokens":300,"output_tokens":1}}"#,
    );
    let call = (
        "content_block_start",
        r#","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{},"sig":"S"}"#,
    );
    let piece = |json: &str| format!(r#","index":0,"delta":{{"type":"input_json_delta","partial_json":"{json}"}}"#);
    let (one, two) = (piece(r#"{\"a\":"#), piece("[1,2]}"));
    let (one, two) = (("content_block_delta", one.as_str()), ("content_block_delta", two.as_str()));
    let close = ("content_block_stop", r#","index":0"#);
    let stop = ("message_delta", r#","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":44}"#);
    let end = ("message_stop", "");
    let signed = r#"reasoning anthropic m item=t {"sig":"S"} [] | "#;
    anthropic(
        &[start, call, one, two, close, stop, end],
        &format!(r#"{signed}call t f {{"a":[1,2]}} | usage m-1 325 44 0"#),
    )
    .await;
    let uncounted = ("message_delta", r#","delta":{"stop_reason":"tool_use"}"#);
    anthropic(&[start, call, close, uncounted, end], &format!("{signed}call t f {{}}")).await;
    let twice = ("message_delta", r#","usage":{"output_tokens":10}"#);
    anthropic(&[start, call, close, twice, stop, end], &format!("{signed}call t f {{}} | usage m-1 325 44 0")).await;
    anthropic(&[start, call, one, close, stop, end], "!the arguments of tool call t (f) are not JSON").await;
    let whole_input = (
        "content_block_start",
        r#","index":1,"content_block":{"type":"tool_use","id":"u","name":"g","input":{"k":1}}"#,
    );
    let close_1 = ("content_block_stop", r#","index":1"#);
    anthropic(
        &[start, call, whole_input, close, close_1, uncounted, end],
        &format!("{signed}call t f {{}} | call u g {{\"k\":1}}"),
    )
    .await;
    let same =
        ("content_block_start", r#","index":1,"content_block":{"type":"tool_use","id":"t","name":"g","input":{}}"#);
    anthropic(&[start, call, same, close, close_1, uncounted, end], "!two tool calls have the id t").await;
}

/// Streamed and plain are the same answer, to the last token and byte.
#[tokio::test]
async fn streamed_and_plain_give_the_same_completion() {
    let signature = "A1+/".repeat(1024);
    let replies = [
        Reply::text(&["Hel", "lo 👋"]).usage(3, 2),
        Reply::text(&["no counts"]),
        Reply::text(&["a"]).signed("think \"é\"", &signature).redacted("EncRypted==").signed("", "only-signed"),
        Reply::default().call("1", "f", r#"{"a":{"b":[1,2.5,null]}}"#).call("2", "g", "{}").usage(100, 0),
        Reply::default(),
    ];
    for reply in replies {
        let pairs = [
            (Api::OpenAi, reply.openai_events(), reply.openai_body()),
            (Api::Anthropic, reply.anthropic_events(), reply.anthropic_body()),
        ];
        for (api, streamed, plain) in pairs {
            let expected = whole(api, &plain).expect("a whole answer");
            compare(read(api, chunks(&[streamed.as_bytes()]), false).await, &expected, &plain);
        }
    }
}

#[test]
fn whole_answers_are_as_strict() {
    let table = [
        (Api::OpenAi, "{}", "!no finish_reason"),
        (Api::OpenAi, "nonsense", "!not a chat completion"),
        (Api::OpenAi, r#"{"error":{"message":"boom"}}"#, "!boom"),
        (Api::OpenAi, r#"{"choices":[{"message":{"content":"a"},"finish_reason":null}]}"#, "!no finish_reason"),
        (
            Api::OpenAi,
            r#"{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"},{"index":1,"message":{},"finish_reason":"stop"}]}"#,
            "!more than one choice",
        ),
        (
            Api::OpenAi,
            r#"{"choices":[{"message":{"content":null,"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"a","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#,
            "!two tool calls have the id a",
        ),
        (
            Api::OpenAi,
            r#"{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"x"}}]},"finish_reason":"length"}]}"#,
            "!stopped at its token limit",
        ),
        (
            Api::Anthropic,
            r#"{"content":[{"type":"tool_use","id":"a","name":"f","input":[]}],"stop_reason":"max_tokens"}"#,
            "!stopped at its token limit",
        ),
        (Api::Anthropic, "[]", "!not a message"),
        (Api::Anthropic, "{}", "!no content"),
        (Api::Anthropic, r#"{"content":[{"type":"text","text":"a"}]}"#, "!no stop_reason"),
        (Api::Anthropic, r#"{"type":"error","error":{"type":"api_error","message":"boom"}}"#, "!boom"),
    ];
    for (api, body, expected) in table {
        compare(whole(api, body), expected, body);
    }
}
