//! Every verb against a host of its own, in a pipe.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use crate::shell::{INSPAN, Shell};

const SCRIPT: &str = "
turns:
  - chunks: [\"Hello \", \"there.\"]
  - text: \"And bye.\"
  - match: \"wait\"
    text: \"late\"
    delay_ms: 600000
";

fn shell() -> Shell {
    let mut shell = Shell::new();
    std::fs::write(shell.file("s.yaml"), SCRIPT).expect("the script is written");
    shell.serve(&["--model-script", "s.yaml"]);
    shell
}

#[test]
fn a_conversation() {
    shell().check(
        "
$ inspan create --server ADDR --harness chat --name talk
sess-A
$ inspan exec --server ADDR --session sess-A --input hi
seq=1   EVENT_EXECUTION_START
seq=2   EVENT_INPUT  user: hi
seq=3   EVENT_MODEL_CALL
Hello there.
seq=4   EVENT_OUTPUT  assistant: Hello there.
seq=5   EVENT_END
$ inspan exec --server ADDR --session sess-A --input bye --expected-seq 5 --deadline 1h
seq=6   EVENT_EXECUTION_START
seq=7   EVENT_INPUT  user: bye
seq=8   EVENT_MODEL_CALL
And bye.
seq=9   EVENT_OUTPUT  assistant: And bye.
seq=10  EVENT_END
$ inspan rerun --server ADDR --session sess-A
output Hello there.
output And bye.
session sess-A rerun executions=2 effects=4 outputs=2
$ inspan verify --server ADDR --session sess-A
session sess-A records=10 last_seq=10 head=hash-A blobs=0 requests=2: everything holds
checked: every record's hash, its link to the one before it, payloads and model requests by their digests
no anchor: records cut off after seq 10 would not show; keep this head and compare with --expect-head 10:hash-A
$ inspan verify --server ADDR --session sess-A --expect-head 10:hash-A
session sess-A records=10 last_seq=10 head=hash-A blobs=0 requests=2: everything holds
checked: every record's hash, its link to the one before it, payloads and model requests by their digests
anchor: the record at seq 10 has the expected hash
",
    );
}

#[test]
fn a_session_forks_sleeps_wakes_and_goes() {
    shell().check(
        "
$ inspan exec --server ADDR --harness chat --input hi
session sess-A
seq=1   EVENT_EXECUTION_START
seq=2   EVENT_INPUT  user: hi
seq=3   EVENT_MODEL_CALL
Hello there.
seq=4   EVENT_OUTPUT  assistant: Hello there.
seq=5   EVENT_END
$ inspan fork --server ADDR --session sess-A --count 2 --names left,right --label side=b
child sess-B parent=sess-A fork_seq=5 name=left
child sess-C parent=sess-A fork_seq=5 name=right
$ inspan replay --server ADDR --session sess-B --from 5
seq=5   EVENT_END
seq=6   EVENT_LIFECYCLE
$ inspan fork --server ADDR --session sess-A --at 2
child sess-D parent=sess-A fork_seq=2 name=
$ inspan suspend --server ADDR --session sess-A
session sess-A suspend compute=COMPUTE_COLD last_seq=6
$ inspan resume --server ADDR --session sess-A
session sess-A resume compute=COMPUTE_LIVE last_seq=7
$ inspan resume --server ADDR --session sess-A
session sess-A resume compute=COMPUTE_LIVE last_seq=7
$ inspan delete --server ADDR --session sess-A
session sess-A delete compute=COMPUTE_LIVE last_seq=7
$ inspan get --server ADDR --session sess-A
! inspan: rpc error: code = NotFound desc = no session sess-A
! try: inspan list --server ADDR
? 1
$ inspan replay --server ADDR --session sess-B --from 4
seq=4   EVENT_OUTPUT  assistant: Hello there.
seq=5   EVENT_END
seq=6   EVENT_LIFECYCLE
",
    );
}

#[test]
fn a_turn_is_watched_and_cancelled() {
    let mut shell = shell();
    let uid = shell.stdout("inspan create --server ADDR --harness chat").trim().to_owned();
    let address = shell.address().to_owned();
    let spawn = |verb: &str, more: &[&str]| {
        let mut command = Command::new(INSPAN);
        command.args([verb, "--server", &address, "--session", &uid]).args(more);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts")
    };
    let mut watch = spawn("watch", &[]);
    let mut seen = BufReader::new(watch.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let exec = spawn("exec", &["--input", "wait"]);
    assert!(seen.any(|line| line == "seq=3   EVENT_MODEL_CALL"), "the call is seen while it is open");

    shell.named(uid.as_bytes());
    shell.check(
        "
$ inspan cancel --server ADDR --session sess-A
session sess-A cancel compute=COMPUTE_LIVE last_seq=5
$ inspan cancel --server ADDR --session sess-A
! inspan: rpc error: code = FailedPrecondition desc = cancel: session sess-A has no unfinished turn to cancel
! try: inspan replay --server ADDR --session sess-A
? 1
",
    );
    let output = exec.wait_with_output().expect("the turn's caller ends");
    let want = "inspan: rpc error: code = Canceled desc = the turn was cancelled: USER\n\
                try: inspan replay --server ADDR --session sess-A\n";
    assert_eq!(shell.named(&output.stderr), want);
    assert_eq!(output.status.code(), Some(1));
    let end = format!("session {uid} state=EXEC_CANCELED last_seq=5");
    assert!(seen.any(|line| line == end), "the watcher sees the end");
    watch.kill().expect("the watcher runs until it is stopped");
    watch.wait().expect("it has ended");
}

#[test]
fn a_long_list_is_whole() {
    let mut shell = shell();
    for _ in 0..5 {
        shell.stdout("inspan create --server ADDR");
    }
    assert_eq!(shell.stdout("inspan list --server ADDR --page-size 2").lines().count(), 5);
    let json = shell.stdout("inspan list --server ADDR --page-size 2 --json");
    let json: serde_json::Value = serde_json::from_str(&json).expect("one JSON object over all pages");
    assert_eq!(json["sessions"].as_array().map(Vec::len), Some(5));
}

#[test]
fn a_host_on_a_socket_answers() {
    let mut shell = Shell::new();
    let socket = format!("unix:{}", shell.file("host.sock").display());
    shell.serve_at(&socket, &[]);
    shell.check(
        "
$ inspan exec --server unix:DIR/host.sock --input hi
session sess-A
seq=1   EVENT_EXECUTION_START
seq=2   EVENT_INPUT  user: hi
seq=3   EVENT_MODEL_CALL
seq=4   EVENT_OUTPUT  assistant: echo:hi
seq=5   EVENT_END
",
    );
}

#[test]
fn a_host_that_is_asked_to_stop_says_so() {
    let mut shell = shell();
    shell.stdout("inspan create --server ADDR");
    let (code, log) = shell.stop_host();
    assert_eq!(code, Some(0), "{log}");
    let first = log.lines().next().unwrap_or_default();
    for field in [
        "level=INFO",
        "journal=agentsessions.db",
        "project=default",
        "harnesses=\"[chat echo]\"",
        "default_harness=echo",
    ] {
        assert!(first.contains(field), "{field}: {first}");
    }
    assert!(first.ends_with("model=\"scripted @ s.yaml\""), "{first}");
    assert!(log.contains("msg=\"shutting down\"") && log.trim_end().ends_with("msg=stopped"), "{log}");
}

#[test]
fn nobody_at_the_address() {
    Shell::new().check(
        "
$ inspan list --server 127.0.0.1:1
! inspan: rpc error: code = Unavailable desc = no host answers at 127.0.0.1:1: Connection refused (os error 111)
! try: inspan serve --addr 127.0.0.1:1
? 1
",
    );
}
