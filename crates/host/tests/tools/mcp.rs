//! MCP over stdio: `server-everything` and `server-filesystem` from npm, `mcp-server-time` and the Python SDK from PyPI.

use inspan_host::engine::{Executor as _, ReplayRule, ToolError};
use inspan_host::tools::Tools;
use inspan_wire::v1::{self, file_part::Source, part::Part};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;

use crate::support::{SECRET, everything, installed, output, run, run_of, text, tools};

fn effects(more: &str) -> Tools {
    let (python, script) = (installed(".venv/bin/python"), installed("effects.py"));
    tools(&format!("[[tools.mcp]]\nname = \"effects\"\ncommand = [{python}, {script}]\n{more}"))
}

fn stdio(more: &str) -> Tools {
    tools(&format!("[[tools.mcp]]\nname = \"all\"\ncommand = [\"node\", {}]\n{more}", everything()))
}

#[tokio::test]
async fn tools_are_listed_as_sessions_see_them() {
    let tools =
        stdio("prefix = \"all/\"\nexpose = [\"echo\", \"get-s*\"]\nreplay = \"safe\"\nrules = { echo = \"keyed\" }");
    let listings = tools.list().await;
    assert_eq!(listings.len(), 1);
    let listed = listings[0].tools.as_ref().expect("it answers");
    let names: Vec<_> = listed.iter().map(|tool| (tool.name.as_str(), tool.replay)).collect();
    let expected = [
        ("all/echo", ReplayRule::Keyed),
        ("all/get-structured-content", ReplayRule::Safe),
        ("all/get-sum", ReplayRule::Safe),
    ];
    assert_eq!(names, expected);
    assert!(listed.iter().all(|tool| !tool.description.is_empty() && tool.input_schema.is_some()));
    for hidden in ["all/get-env", "get-sum"] {
        let error = run(&tools, hidden, &json!({})).await.expect_err("not exposed");
        assert!(matches!(&error, ToolError::NotSent(text) if text.contains("all/echo")), "{error:?}");
    }
    tools.close().await;
}

#[tokio::test]
async fn every_kind_of_answer_becomes_a_result() {
    let tools = stdio("");
    let echo = run(&tools, "echo", &json!({"message": "hállo"})).await.expect("an answer");
    assert_eq!(text(&echo), "Echo: hállo");
    let sum = run(&tools, "get-sum", &json!({"a": 2, "b": 3})).await.expect("an answer");
    assert!(text(&sum).contains('5'), "{sum:?}");
    let weather = run(&tools, "get-structured-content", &json!({"location": "Chicago"})).await.expect("an answer");
    assert_eq!(output(&weather)["temperature"], json!(36.0));
    let image = run(&tools, "get-tiny-image", &json!({})).await.expect("an answer");
    let png = image.content.iter().find_map(|part| match &part.part {
        Some(Part::File(v1::FilePart { mime, source: Some(Source::Bytes(bytes)), .. })) => Some((mime, bytes)),
        _ => None,
    });
    assert!(png.is_some_and(|(mime, bytes)| mime == "image/png" && bytes.starts_with(b"\x89PNG")));
    let wrong = run(&tools, "get-sum", &json!({"a": "two"})).await.expect("an answer");
    assert!(wrong.is_error && !wrong.error.is_empty(), "{wrong:?}");
    tools.close().await;
}

/// The server sees what the configuration lists, and a secret that it repeats does not come back.
#[tokio::test]
async fn the_environment_is_what_is_listed() {
    let tools = stdio("env = { MODE = \"test\" }\nenv_from = [\"TOKEN\"]");
    let answer = run(&tools, "get-env", &json!({})).await.expect("an answer");
    let env: Value = serde_json::from_str(&text(&answer)).expect("the environment");
    assert_eq!((&env["MODE"], &env["TOKEN"]), (&json!("test"), &json!("[secret]")));
    let names: Vec<_> = env.as_object().expect("names").keys().map(String::as_str).collect();
    assert!(names.iter().all(|name| ["HOME", "MODE", "PATH", "TOKEN"].contains(name)), "{names:?}");
    assert!(!format!("{answer:?}").contains(SECRET));
    tools.close().await;
}

#[tokio::test]
async fn files_are_read_and_written_where_the_server_allows_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().canonicalize().expect("it is there");
    let server = installed("node_modules/@modelcontextprotocol/server-filesystem/dist/index.js");
    let tools = tools(&format!(
        "[[tools.mcp]]\nname = \"fs\"\ncommand = [\"node\", {server}, {:?}]\nprefix = \"fs/\"",
        path.display().to_string()
    ));
    let file = path.join("a.txt").display().to_string();
    let written = run(&tools, "fs/write_file", &json!({"path": file, "content": "one\n"})).await.expect("an answer");
    assert!(!written.is_error, "{written:?}");
    let read = run(&tools, "fs/read_text_file", &json!({"path": file})).await.expect("an answer");
    assert_eq!(text(&read), "one\n");
    let outside = run(&tools, "fs/read_text_file", &json!({"path": "/etc/hostname"})).await.expect("an answer");
    assert!(outside.is_error && outside.error.to_lowercase().contains("denied"), "{outside:?}");
    tools.close().await;
}

#[tokio::test]
async fn a_server_from_pypi_answers() {
    let python = installed(".venv/bin/python");
    let tools = tools(&format!(
        "[[tools.mcp]]\nname = \"time\"\ncommand = [{python}, \"-m\", \"mcp_server_time\"]\nprefix = \"time/\""
    ));
    let args = json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let converted = run(&tools, "time/convert_time", &args).await.expect("an answer");
    let seen = format!("{} {}", output(&converted), text(&converted));
    assert!(seen.contains("21:00"), "{converted:?}");
    tools.close().await;
}

/// R-TOOL-16: a server can tell repetitions apart by `_meta`.
#[tokio::test]
async fn the_keys_of_a_call_are_in_its_meta() {
    let tools = effects("");
    let asked = run_of("meta", &json!({}), "key-1");
    let meta = output(&tools.run(asked.clone()).await.expect("an answer"));
    let found = |name: &str| meta[name].as_str().or_else(|| meta["result"][name].as_str()).map(str::to_owned);
    assert_eq!(found("inspan/effect-key"), Some(asked.effect_key()), "{meta}");
    assert_eq!(found("inspan/idempotency-key").as_deref(), Some("key-1"), "{meta}");
    tools.close().await;
}

/// Lines that a call says on a socket of ours.
async fn told(listener: TcpListener) -> tokio::io::Lines<BufReader<tokio::net::TcpStream>> {
    let (stream, _) = listener.accept().await.expect("the tool connects");
    BufReader::new(stream).lines()
}

/// Whether the turn was cancelled or the time is over, the server is told.
#[tokio::test]
async fn a_call_that_is_given_up_is_cancelled() {
    for timeout in ["24h", "500ms"] {
        let tools = effects(&format!("timeout = \"{timeout}\""));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let args = json!({"port": listener.local_addr().expect("an address").port()});
        let call = tokio::spawn({
            let tools = tools.clone();
            async move { run(&tools, "wait", &args).await }
        });
        let mut lines = told(listener).await;
        assert_eq!(lines.next_line().await.expect("readable").as_deref(), Some("started"));
        if timeout == "24h" {
            call.abort();
        } else {
            let error = call.await.expect("it ends").expect_err("the time is over");
            assert!(matches!(error, ToolError::Unknown(_)), "{error:?}");
        }
        assert_eq!(lines.next_line().await.expect("readable").as_deref(), Some("cancelled"), "{timeout}");
        tools.close().await;
    }
}

/// A server that dies in the middle of a call leaves its outcome unknown; the next call starts it again.
#[tokio::test]
async fn a_server_that_died_is_started_again() {
    let tools = effects("");
    let first = text(&run(&tools, "pid", &json!({})).await.expect("an answer"));
    let same = text(&run(&tools, "pid", &json!({})).await.expect("an answer"));
    assert_eq!(first, same, "one process serves many calls");
    let error = run(&tools, "die", &json!({})).await.expect_err("it died");
    assert!(matches!(error, ToolError::Unknown(_)), "{error:?}");
    let second = text(&run(&tools, "pid", &json!({})).await.expect("an answer"));
    assert_ne!(first, second);
    tools.close().await;
}

/// A runner that starts the server and babbles on standard output and standard error before it.
#[tokio::test]
async fn noise_before_the_first_message_is_no_failure() {
    let script = format!(
        "printf '\\033[1mWelcome!\\033[0m\\nhalf'; head -c 300000 /dev/zero | tr '\\0' x >&2; echo; exec node {}",
        everything()
    );
    let tools = tools(&format!("[[tools.mcp]]\nname = \"noisy\"\ncommand = [\"sh\", \"-c\", {script:?}]"));
    let echo = run(&tools, "echo", &json!({"message": "hi"})).await.expect("an answer");
    assert_eq!(text(&echo), "Echo: hi");
    tools.close().await;
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why_and_nothing_was_sent() {
    let gone = tools("[[tools.mcp]]\nname = \"gone\"\ncommand = [\"no-such-program-here\"]");
    let error = run(&gone, "any", &json!({})).await.expect_err("no program");
    assert!(matches!(&error, ToolError::NotSent(text) if text.contains("no-such-program-here")), "{error:?}");
    let mute = tools("[[tools.mcp]]\nname = \"mute\"\ncommand = [\"true\"]");
    let error = run(&mute, "any", &json!({})).await.expect_err("it ends at once");
    assert!(matches!(&error, ToolError::NotSent(text) if text.contains("mute did not start")), "{error:?}");
    let slow = tools("[[tools.mcp]]\nname = \"slow\"\ncommand = [\"cat\", \"/dev/tty\"]\nstart_timeout = \"200ms\"");
    assert!(slow.list().await[0].tools.is_err());
}

/// Its last user gone, a server is gone too, with whatever it started.
#[tokio::test]
async fn no_server_outlives_the_executors() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let tools = effects("");
    let args = json!({"port": port});
    let call = tokio::spawn({
        let tools = tools.clone();
        async move { run(&tools, "wait", &args).await }
    });
    let mut lines = told(listener).await;
    assert_eq!(lines.next_line().await.expect("readable").as_deref(), Some("started"));
    tools.close().await;
    let error = call.await.expect("it ends").expect_err("the server was ended");
    assert!(matches!(error, ToolError::Unknown(_)), "{error:?}");
    // The socket of the tool closes with its process.
    while lines.next_line().await.is_ok_and(|line| line.is_some()) {}
}
