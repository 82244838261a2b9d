//! The models that need no provider.

use std::path::Path;
use std::sync::Mutex;

use inspan_engine::{Completion, Model, ModelError};
use inspan_models::{Echo, ScriptError, Scripted};
use inspan_wire::v1;

fn conversation(words: &[(&str, &str)]) -> v1::ModelCall {
    let messages = words.iter().map(|(role, text)| v1::Message::text(role, *text)).collect();
    v1::ModelCall { model: "m".to_owned(), messages, ..Default::default() }
}

async fn call(model: &dyn Model, request: &v1::ModelCall) -> (Result<Completion, ModelError>, Vec<String>) {
    let delivered = Mutex::new(Vec::new());
    let on_text = |text: &str| delivered.lock().expect("no test panicked here").push(text.to_owned());
    let outcome = model.call(request, &on_text).await;
    (outcome, delivered.into_inner().expect("as above"))
}

fn script(yaml: &str) -> Scripted {
    Scripted::parse(yaml, Path::new("")).unwrap_or_else(|e| panic!("{e}"))
}

#[tokio::test]
async fn echo_says_what_it_hears() {
    let (outcome, chunks) = call(&Echo, &conversation(&[("user", "a"), ("user", "hello")])).await;
    let expected = Completion { message: v1::Message::text("assistant", "echo:hello"), usage: None };
    assert_eq!((outcome, chunks), (Ok(expected), vec![]));
    let empty = call(&Echo, &v1::ModelCall::default()).await.0.expect("a completion");
    assert_eq!(empty.message.concat_text(), "echo:");
    assert!(!Echo.streams());
}

const EVERYTHING: &str = r#"
turns:
  - match: weather
    reasoning: [{text: think, opaque: sig}]
    chunks: ["let me ", "look"]
    tool_calls: [{id: c1, tool: weather, args: {city: Paris, days: 2}}]
    usage: {input_tokens: 3, output_tokens: 4, reasoning_tokens: 1}
  - match: weather
    text: sunny
  - text: first
  - text: second
"#;

#[tokio::test]
async fn a_turn_says_everything_that_a_provider_can() {
    let model = script(EVERYTHING);
    let (outcome, chunks) = call(&model, &conversation(&[("user", "the weather?")])).await;
    let completion = outcome.expect("a completion");
    assert_eq!(chunks, ["let me ", "look"]);
    let json = inspan_wire::json::to_value(&completion.message).expect("finite").to_string();
    let expected = concat!(
        r#"{"parts":[{"reasoning":{"model_id":"m","opaque_bytes":"c2ln","provider":"scripted","summary":[{"text":{"text":"think"}}]}},"#,
        r#"{"text":{"text":"let me look"}},{"tool_call":{"args":{"city":"Paris","days":2.0},"id":"c1","tool":"weather"}}],"role":"assistant"}"#,
    );
    assert_eq!(json, expected);
    let usage = v1::Usage { model: "m".to_owned(), input_tokens: 3, output_tokens: 4, reasoning_tokens: 1 };
    assert_eq!(completion.usage, Some(usage));
    assert!(model.streams());
}

#[tokio::test]
async fn the_same_request_gets_the_same_answer_from_a_new_process() {
    let requests = [
        (conversation(&[("user", "the weather?")]), "let me look"),
        (conversation(&[("user", "the weather?"), ("assistant", ""), ("tool", "")]), "sunny"),
        (conversation(&[("user", "hi")]), "first"),
        (conversation(&[("user", "hi"), ("assistant", "first"), ("user", "and?")]), "second"),
    ];
    // In any order, in one process or in many.
    let one = script(EVERYTHING);
    for (request, expected) in requests.iter().rev().chain(&requests) {
        for model in [&one, &script(EVERYTHING)] {
            let completion = call(model, request).await.0.expect("a completion");
            assert_eq!(completion.message.concat_text(), *expected);
            assert_eq!(completion.usage.is_some(), *expected == "let me look", "unknown is not zero");
        }
    }
    assert_eq!(one.calls(), 8);
    let beyond = conversation(&[("assistant", ""), ("assistant", ""), ("user", "x")]);
    let error = call(&one, &beyond).await.0.expect_err("used up");
    assert!(!error.retryable && error.message.contains("loop: true"), "{error}");
    assert_eq!(one.calls(), 8, "a request without a turn is no call");
}

#[tokio::test(start_paused = true)]
async fn delays_errors_and_cuts() {
    let model = script(
        r#"
turns:
  - {match: slow, chunks: [a, b, c], delay_ms: 60000, chunk_delay_ms: 1000}
  - {match: busy, text: at last, error: {message: too busy, retryable: true, times: 2}}
  - {match: broken, chunks: [half], error: {message: no such model}}
  - {match: cut, chunks: [a, b, c], cut_after_chunks: 2}
"#,
    );
    let ask = |word: &str| conversation(&[("user", word)]);
    let start = tokio::time::Instant::now();
    assert_eq!(call(&model, &ask("slow")).await.1, ["a", "b", "c"]);
    assert_eq!(start.elapsed().as_secs(), 62, "the clock of these tests moves only by what is slept");
    for _ in 0..2 {
        let error = call(&model, &ask("busy")).await.0.expect_err("busy twice");
        assert_eq!(error, ModelError { message: "too busy".to_owned(), retryable: true });
    }
    assert_eq!(call(&model, &ask("busy")).await.0.expect("at last").message.concat_text(), "at last");
    let (outcome, chunks) = call(&model, &ask("broken")).await;
    let error = ModelError { message: "no such model".to_owned(), retryable: false };
    assert_eq!((outcome, chunks), (Err(error), vec!["half".to_owned()]));
    let (outcome, chunks) = call(&model, &ask("cut")).await;
    assert_eq!(chunks, ["a", "b"]);
    assert!(outcome.expect_err("cut").retryable);
}

#[tokio::test]
async fn each_real_call_is_a_line_in_the_log() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("script.yaml");
    std::fs::write(&file, "{calls_log: calls.txt, stream: false, loop: true, turns: [{text: a}, {text: b}]}")
        .expect("writable");
    // Two processes, one log.
    for request in [conversation(&[("user", "x")]), conversation(&[("assistant", ""), ("user", "y")])] {
        let model = Scripted::from_file(&file).expect("a good script");
        assert!(!model.streams());
        let (outcome, chunks) = call(&model, &request).await;
        assert!(outcome.is_ok() && chunks.is_empty());
    }
    let log = std::fs::read_to_string(folder.path().join("calls.txt")).expect("a log");
    assert_eq!(log, "turn=1 assistant_messages=0\nturn=2 assistant_messages=1\n");
}

#[test]
fn a_wrong_script_says_where() {
    let table = [
        ("turns:\n  - {text: a}\n  - {tekst: b}\n", "unknown field `tekst`", "line 3"),
        ("turns:\n  - text: a\n    chunks: [b]\n", "text or chunks, not both", "line 2"),
        ("turns:\n  - {delay_ms: 5}\n", "says nothing", "line 2"),
        ("turns:\n  - {chunks: [a], cut_after_chunks: 2}\n", "has 1 chunks", "line 2"),
        ("turns:\n  - {chunks: [a, '']}\n", "a chunk is empty", "line 2"),
        ("turns:\n  - {text: a, delay_ms: soon}\n", "invalid type", "line 2"),
        ("turns:\n  - tool_calls: [{id: a, tool: t}, {id: a, tool: u}]\n", "have the id a", "line 2"),
        (
            "turns:\n  - tool_calls: [{id: a, tool: t, args: {n: 12345678901234567891}}]\n",
            "does not fit a double",
            "line 2",
        ),
        ("turns:\n  - {text: a, error: {message: b}, cut_after_chunks: 0}\n", "not both", "line 2"),
        ("turns: [", "", "line"),
        ("loop: true\n", "missing field `turns`", ""),
    ];
    for (yaml, what, place) in table {
        let error = Scripted::parse(yaml, Path::new("")).expect_err(yaml);
        assert!(error.contains(what) && error.contains(place), "{error}, expected {what:?} and {place:?}");
    }
    let missing = Scripted::from_file(Path::new("/nowhere/script.yaml")).expect_err("no such file");
    assert!(matches!(missing, ScriptError::Read { .. }) && missing.to_string().contains("/nowhere/script.yaml"));
}
