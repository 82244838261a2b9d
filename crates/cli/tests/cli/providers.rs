//! A conversation with a provider over real HTTP: the flags and the environment reach it.

use inspan_testkit::provider::{Call, Provider, Reply};
use tokio::runtime::Runtime;

use crate::shell::Shell;

const TRANSCRIPT: &str = "
$ inspan create --server ADDR --harness chat
sess-A
$ inspan exec --server ADDR --session sess-A --input hi
seq=1   EVENT_EXECUTION_START
seq=2   EVENT_INPUT  user: hi
seq=3   EVENT_MODEL_CALL
Hello there.
seq=4   EVENT_OUTPUT  assistant: Hello there.
seq=5   EVENT_END
$ inspan exec --server ADDR --session sess-A --input bye
seq=6   EVENT_EXECUTION_START
seq=7   EVENT_INPUT  user: bye
seq=8   EVENT_MODEL_CALL
Goodbye.
seq=9   EVENT_OUTPUT  assistant: Goodbye.
seq=10  EVENT_END
$ inspan rerun --server ADDR --session sess-A
output Hello there.
output Goodbye.
session sess-A rerun executions=2 effects=4 outputs=2
";

/// Holds the conversation with a provider that streams `replies`, and gives the calls that reached it.
fn converse(flags: &[&str], env: &[(&str, &str)], replies: impl Fn(&Provider)) -> (Shell, Vec<Call>, String) {
    let runtime = Runtime::new().expect("a runtime");
    let provider = runtime.block_on(Provider::start());
    replies(&provider);
    let url = provider.url();
    let mut shell = Shell::new();
    std::fs::write(shell.file("key"), "from-file\n").expect("the key is written");
    shell.serve_with(&[&["--model", "m-1", "--model-base-url", &url], flags].concat(), env);
    shell.check(TRANSCRIPT);
    let (code, log) = shell.stop_host();
    assert_eq!(code, Some(0), "{log}");
    (shell, provider.calls(), log)
}

/// The key went to the provider and nowhere else.
fn key_is_nowhere(shell: &Shell, log: &str, key: &str) {
    assert!(!log.contains(key), "{log}");
    for entry in std::fs::read_dir(shell.dir()).expect("the folder").filter_map(Result::ok) {
        if entry.file_name() != "key" && entry.path().is_file() {
            let bytes = std::fs::read(entry.path()).expect("a file of the host");
            assert!(!bytes.windows(key.len()).any(|w| w == key.as_bytes()), "{}", entry.path().display());
        }
    }
}

#[test]
fn chat_completions() {
    let env = [("OPENAI_API_KEY", "second"), ("MODEL_API_KEY", "first-choice")];
    let (shell, calls, log) = converse(&[], &env, |provider| {
        provider.then(Reply::text(&["Hello ", "there."]).openai_sse()).then(Reply::text(&["Goodbye."]).openai_sse());
    });
    assert_eq!(calls.len(), 2, "a re-run asks nobody");
    assert_eq!(calls[0].target, "/chat/completions");
    assert_eq!(calls[0].header("authorization"), Some("Bearer first-choice"));
    let asked: serde_json::Value = serde_json::from_str(calls[1].text()).expect("JSON");
    assert_eq!(asked["model"], "m-1");
    let roles: Vec<_> = asked["messages"].as_array().expect("messages").iter().map(|m| m["role"].clone()).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    key_is_nowhere(&shell, &log, "first-choice");
}

#[test]
fn chat_completions_by_other_flags() {
    let flags = ["--model-path", "/other?v=1", "--model-auth-header", "api-key", "--model-key-file", "key"];
    let (shell, calls, log) = converse(&flags, &[("MODEL_API_KEY", "from-env")], |provider| {
        provider.then(Reply::text(&["Hello ", "there."]).openai_sse()).then(Reply::text(&["Goodbye."]).openai_sse());
    });
    assert_eq!(calls[0].target, "/other?v=1");
    assert_eq!((calls[0].header("api-key"), calls[0].header("authorization")), (Some("from-file"), None));
    key_is_nowhere(&shell, &log, "from-file");
}

#[test]
fn messages() {
    let env = [("OPENAI_API_KEY", "of another provider"), ("ANTHROPIC_API_KEY", "anthropic-key")];
    let (shell, calls, log) = converse(&["--model-api", "anthropic"], &env, |provider| {
        let (first, second) = (Reply::text(&["Hello ", "there."]), Reply::text(&["Goodbye."]));
        provider.then(first.anthropic_sse()).then(second.anthropic_sse());
    });
    assert_eq!(calls.len(), 2, "a re-run asks nobody");
    assert_eq!(calls[0].target, "/messages");
    assert_eq!(calls[0].header("x-api-key"), Some("anthropic-key"));
    key_is_nowhere(&shell, &log, "anthropic-key");
}
