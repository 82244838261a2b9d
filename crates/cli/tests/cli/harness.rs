//! A harness in a process of its own, and a host that drives it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use inspan_testkit::provider::{Answer, Gate, Provider, Reply};
use tokio::runtime::Runtime;

use crate::shell::{INSPAN, Shell};

/// `inspan harness serve` in a process of its own. Killed when it is dropped.
pub(crate) struct Node {
    child: Child,
    addr: String,
    readyz: String,
}

impl Node {
    /// Starts one in `dir` and waits until it listens.
    pub(crate) fn start(dir: &Path, kind: &str, addr: &str) -> Node {
        let mut child = Command::new(INSPAN)
            .args(["harness", "serve"])
            .envs([("HARNESS_KIND", kind), ("HARNESS_MODEL", "m"), ("HARNESS_ADDR", addr)])
            .env("HARNESS_READYZ", "127.0.0.1:0")
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let mut log = String::new();
        let (addr, readyz) = loop {
            let line = lines.next().unwrap_or_else(|| panic!("the harness ended before it listened: {log}"));
            if let Some((_, rest)) = line.split_once(" harness serving harnesswire on ") {
                let (addr, readyz) = rest.split_once(", readyz on ").expect("the line names both addresses");
                break (addr.to_owned(), readyz.trim_end_matches('"').to_owned());
            }
            log.push_str(&line);
        };
        // Somebody has to read on, or the harness would block on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Node { child, addr, readyz }
    }

    /// SIGKILL: no goodbye.
    fn kill(mut self) {
        self.child.kill().expect("the harness can be killed");
        self.child.wait().expect("the harness has ended");
    }

    /// SIGTERM, then the exit code.
    fn stop(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
        self.child.wait().expect("the harness ends").code()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const SCRIPT: &str = "turns: [{text: \"Hello there.\"}, {text: \"Goodbye.\"}]\n";

/// A folder with a host that knows a harness `mine` at the socket `h.sock`.
fn host() -> Shell {
    let mut shell = Shell::new();
    std::fs::write(shell.file("s.yaml"), SCRIPT).expect("the script is written");
    shell.serve(&["--model", "m", "--model-script", "s.yaml", "--harness", "mine=unix:h.sock"]);
    shell
}

/// The quick start, with a harness of one's own: create, turns, read, run again from the record.
#[test]
fn sessions_run_on_a_harness_in_another_process() {
    let mut shell = host();
    let node = Node::start(shell.dir(), "chat", "unix:h.sock");
    shell.check(
        "
$ inspan create --server ADDR --harness mine
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
$ inspan fork --server ADDR --session sess-A
child sess-B parent=sess-A fork_seq=10 name=
",
    );
    let start = shell.stdout("inspan replay --server ADDR --session sess-A --json");
    assert!(start.contains("\"harness\":\"mine\",\"harness_version\":\"1\""), "{start}");
    assert_eq!(node.stop(), Some(0));
    assert!(!shell.file("h.sock").exists() && shell.file("h.sock.lock").exists());
}

/// R-REMOTE-2: a harness that does not answer refuses the turn before anything is journaled; it is safe to try again, and works
/// once the harness is there. A socket that a killed harness left behind is in nobody's way.
#[test]
fn a_harness_that_is_away_is_unavailable() {
    let mut shell = host();
    Node::start(shell.dir(), "chat", "unix:h.sock").kill();
    assert!(shell.file("h.sock").exists(), "a killed harness leaves its socket");
    let uid = shell.stdout("inspan create --server ADDR --harness mine").trim().to_owned();
    shell.named(uid.as_bytes());
    for verb in ["exec --input hi", "fork", "resume"] {
        let output = shell.run(&format!("inspan {verb} --server ADDR --session sess-A"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{verb}: {said}");
        assert!(said.contains("code = Unavailable") && said.contains("no harness answers"), "{verb}: {said}");
    }
    assert_eq!(shell.stdout("inspan replay --server ADDR --session sess-A"), "", "nothing was journaled");
    let _node = Node::start(shell.dir(), "chat", "unix:h.sock");
    let told = shell.stdout("inspan exec --server ADDR --session sess-A --input hi");
    assert!(told.ends_with("seq=4   EVENT_OUTPUT  assistant: Hello there.\nseq=5   EVENT_END\n"), "{told}");
}

/// R-CAP-1, R-CAP-2: a harness that needs its memory kept is refused on every Exec, Resume and Fork, before compute, fence and
/// journal; also when it took the place of another one. R-CAP-4: one that does not is not.
#[test]
fn a_memory_harness_is_refused_before_anything_is_journaled() {
    let mut shell = host();
    let node = Node::start(shell.dir(), "counter", "unix:h.sock");
    let uid = shell.stdout("inspan create --server ADDR --harness mine").trim().to_owned();
    shell.named(uid.as_bytes());
    let refused = |shell: &mut Shell, verb: &str| {
        let output = shell.run(&format!("inspan {verb} --server ADDR --session sess-A"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("code = FailedPrecondition") && said.contains("memory"), "{verb}: {said}");
    };
    refused(&mut shell, "exec --input hi");
    refused(&mut shell, "resume");
    refused(&mut shell, "fork");
    assert_eq!(shell.stdout("inspan replay --server ADDR --session sess-A"), "");
    drop(node);

    let node = Node::start(shell.dir(), "chat", "unix:h.sock");
    shell.stdout("inspan exec --server ADDR --session sess-A --input hi");
    drop(node);
    let _node = Node::start(shell.dir(), "counter", "unix:h.sock");
    refused(&mut shell, "resume");
    refused(&mut shell, "exec --input bye");
    let records = shell.stdout("inspan replay --server ADDR --session sess-A");
    assert_eq!(records.lines().count(), 5, "{records}");
}

/// R-REMOTE-5: the harness is killed while its model call is open. The call's outcome is kept, the turn fails with INTERNAL, and
/// Resume drives it to its end on the restarted harness without asking the provider again.
#[test]
fn a_harness_killed_in_a_turn_is_resumed() {
    let runtime = Runtime::new().expect("a runtime");
    let provider = runtime.block_on(Provider::start());
    let gate = Gate::default();
    let answer: Answer = Reply::text(&["Hello there."]).openai_sse();
    provider.then(answer.held(&gate));

    let mut shell = Shell::new();
    let url = provider.url();
    let flags = ["--model", "m", "--model-base-url", &url, "--harness", "mine=unix:h.sock"];
    shell.serve_with(&flags, &[]);
    let node = Node::start(shell.dir(), "chat", "unix:h.sock");
    let uid = shell.stdout("inspan create --server ADDR --harness mine").trim().to_owned();
    let exec = Command::new(INSPAN)
        .args(["exec", "--server", shell.address(), "--session", &uid, "--input", "hi"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    runtime.block_on(provider.called(1));
    node.kill();
    gate.open();
    let output = exec.wait_with_output().expect("the caller ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("code = Internal"), "{said}");

    let _node = Node::start(shell.dir(), "chat", "unix:h.sock");
    shell.named(uid.as_bytes());
    shell.check(
        "
$ inspan resume --server ADDR --session sess-A
session sess-A resume compute=COMPUTE_LIVE last_seq=7
$ inspan replay --server ADDR --session sess-A
seq=1   EVENT_EXECUTION_START
seq=2   EVENT_INPUT  user: hi
seq=3   EVENT_MODEL_CALL
seq=4   EVENT_OUTPUT  assistant: Hello there.
seq=5   EVENT_ERROR
seq=6   EVENT_END
seq=7   EVENT_LIFECYCLE
",
    );
    assert_eq!(provider.count(), 1, "the recorded completion was served");
}

/// Any path of the readiness port answers `ok`, also to a client that says little.
#[test]
fn readiness_is_answered() {
    let shell = Shell::new();
    let node = Node::start(shell.dir(), "echo", "127.0.0.1:0");
    assert!(!node.addr.ends_with(":0"), "{}", node.addr);
    for asked in ["GET /any/path HTTP/1.1\r\nhost: x\r\n\r\n", "GET / HTTP/1.0\n\n"] {
        let mut stream = TcpStream::connect(&node.readyz).expect("it listens");
        stream.write_all(asked.as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nok"), "{answer}");
    }
    assert_eq!(node.stop(), Some(0));
}

#[test]
fn a_harness_that_cannot_be_served_says_why() {
    let shell = Shell::new();
    let run = |env: &[(&str, &str)]| {
        let output = Command::new(INSPAN)
            .args(["harness", "serve"])
            .env("HARNESS_READYZ", "127.0.0.1:0")
            .envs(env.iter().copied())
            .current_dir(shell.dir())
            .output()
            .expect("the binary runs");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let chat = run(&[("HARNESS_KIND", "chat"), ("HARNESS_ADDR", "nonsense")]);
    assert!(chat.starts_with("inspan: harness serve: chat needs the model"), "the model is checked first: {chat}");
    let bad = run(&[("HARNESS_ADDR", "nonsense")]);
    assert!(bad.starts_with("inspan: harness serve: \"nonsense\" is no address"), "{bad}");
    let _node = Node::start(shell.dir(), "echo", "unix:h.sock");
    let taken = run(&[("HARNESS_ADDR", "unix:h.sock")]);
    assert!(taken.starts_with("inspan: harness serve: unix:h.sock is in use"), "{taken}");
    let socket = run(&[("HARNESS_ADDR", "127.0.0.1:0"), ("HARNESS_READYZ", "unix:r.sock")]);
    assert!(socket.contains("readiness is asked for over TCP"), "{socket}");
}
