//! MCP over streamable HTTP: `server-everything` as a server of its own.

use inspan_host::engine::ToolError;
use inspan_host::tools::Tools;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::support::{everything, output, run, text, tools};

/// A running server; killed when it is dropped.
struct Running {
    process: Child,
}

impl Running {
    /// Starts on `port` and waits until it listens.
    async fn start(port: u16) -> Running {
        let script: String = serde_json::from_str(&everything()).expect("a path");
        let mut command = Command::new("node");
        command.args([&script, "streamableHttp"]).env("PORT", port.to_string());
        command.stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::null()).kill_on_drop(true);
        let mut process = command.spawn().expect("node is there");
        let mut lines = BufReader::new(process.stderr.take().expect("it is piped")).lines();
        while let Some(line) = lines.next_line().await.expect("readable") {
            if line.contains("listening") {
                // What it says later must not fill the pipe.
                tokio::spawn(async move { while lines.next_line().await.is_ok_and(|line| line.is_some()) {} });
                return Running { process };
            }
        }
        panic!("the server ended without listening");
    }

    async fn stop(mut self) {
        self.process.kill().await.expect("it can be killed");
    }
}

async fn free_port() -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    listener.local_addr().expect("an address").port()
}

fn remote(port: u16, more: &str) -> Tools {
    tools(&format!("[[tools.mcp]]\nname = \"far\"\nurl = \"http://127.0.0.1:{port}/mcp\"\n{more}"))
}

#[tokio::test]
async fn a_remote_server_is_listed_and_called() {
    let port = free_port().await;
    let server = Running::start(port).await;
    let tools = remote(port, "prefix = \"far/\"");
    let listed = tools.list().await[0].tools.clone().expect("it answers");
    assert!(listed.iter().any(|tool| tool.name == "far/echo"), "{listed:?}");
    let echo = run(&tools, "far/echo", &json!({"message": "hi"})).await.expect("an answer");
    assert_eq!(text(&echo), "Echo: hi");
    let weather = run(&tools, "far/get-structured-content", &json!({"location": "Chicago"})).await.expect("an answer");
    assert_eq!(output(&weather)["temperature"], json!(36.0));
    let long = run(&tools, "far/trigger-long-running-operation", &json!({"duration": 0.2, "steps": 2})).await;
    assert!(text(&long.expect("an answer after progress")).contains("completed"));
    tools.close().await;
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_is_not_there_was_sent_nothing() {
    let tools = remote(free_port().await, "");
    let error = run(&tools, "echo", &json!({"message": "hi"})).await.expect_err("nobody listens");
    assert!(matches!(error, ToolError::NotSent(_)), "{error:?}");
}

#[tokio::test]
async fn a_server_lost_in_a_call_leaves_an_unknown_outcome_and_is_found_again() {
    let port = free_port().await;
    let server = Running::start(port).await;
    let tools = remote(port, "timeout = \"5s\"");
    run(&tools, "echo", &json!({"message": "hi"})).await.expect("an answer");
    let call = tokio::spawn({
        let tools = tools.clone();
        async move { run(&tools, "trigger-long-running-operation", &json!({"duration": 60, "steps": 600})).await }
    });
    // The call before is answered, so the server is up; whether this one has arrived does not change what is known.
    tokio::task::yield_now().await;
    server.stop().await;
    let error = call.await.expect("it ends").expect_err("the server is gone");
    assert!(matches!(error, ToolError::Unknown(_) | ToolError::NotSent(_)), "{error:?}");
    let server = Running::start(port).await;
    let echo = run(&tools, "echo", &json!({"message": "again"})).await.expect("an answer");
    assert_eq!(text(&echo), "Echo: again");
    tools.close().await;
    server.stop().await;
}
