//! Killed and resumed, from the command line alone.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use crate::shell::{INSPAN, Shell};

/// The first call never answers; after the restart the script is another one, and the call does.
const SLOW: &str = "turns: [{text: \"done\", delay_ms: 600000}]\ncalls_log: calls.log\n";
const QUICK: &str = "turns: [{text: \"done\"}]\ncalls_log: calls.log\n";

/// R-MODEL-6: one call before the kill, one after, one MODEL_CALL and one OUTPUT in the journal.
#[test]
fn a_host_killed_in_a_model_call_is_picked_up() {
    let mut shell = Shell::new();
    std::fs::write(shell.file("s.yaml"), SLOW).expect("the script is written");
    shell.serve(&["--model-script", "s.yaml"]);
    let uid = shell.stdout("inspan create --server ADDR --harness chat").trim().to_owned();
    let mut exec = Command::new(INSPAN)
        .args(["exec", "--server", shell.address(), "--session", &uid, "--input", "go"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut lines = BufReader::new(exec.stdout.take().expect("piped")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "seq=3   EVENT_MODEL_CALL"));
    // The record comes before the call leaves: wait for the call itself.
    while !shell.file("calls.log").exists() {
        std::thread::yield_now();
    }
    shell.kill_host();
    let output = exec.wait_with_output().expect("the caller ends");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("rpc error: code = ") && said.contains("try: inspan resume --server"), "{said}");

    std::fs::write(shell.file("s.yaml"), QUICK).expect("the script is written");
    shell.serve(&["--model-script", "s.yaml"]);
    shell.named(uid.as_bytes());
    shell.check(
        "
$ inspan replay --server ADDR --session sess-A
seq=1   EVENT_EXECUTION_START
seq=2   EVENT_INPUT  user: go
seq=3   EVENT_MODEL_CALL
$ inspan resume --server ADDR --session sess-A
session sess-A resume compute=COMPUTE_LIVE last_seq=6
$ inspan replay --server ADDR --session sess-A --from 3
seq=3   EVENT_MODEL_CALL
seq=4   EVENT_OUTPUT  assistant: done
seq=5   EVENT_END
seq=6   EVENT_LIFECYCLE
$ inspan rerun --server ADDR --session sess-A
output done
session sess-A rerun executions=1 effects=2 outputs=1
",
    );
    let calls = std::fs::read_to_string(shell.file("calls.log")).expect("the model's log");
    assert_eq!(calls.lines().count(), 2, "{calls}");
}

/// A log that went bad in the middle: opening it would drop what was acknowledged, so only verification does.
#[test]
fn a_damaged_log_is_read_by_verify_alone() {
    let mut shell = Shell::new();
    shell.stdout("inspan exec --input safe");
    shell.serve(&[]);
    for text in ["one", "two"] {
        shell.stdout(&format!("inspan exec --server ADDR --input {text}"));
    }
    shell.kill_host();
    let log = shell.file("agentsessions.db-wal");
    let mut bytes = std::fs::read(&log).expect("the log of a killed host");
    let in_first_frame = 32 + 24 + 100;
    bytes[in_first_frame] ^= 1;
    std::fs::write(&log, &bytes).expect("the log is damaged");

    let output = shell.run("inspan list");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("agentsessions.db-wal is damaged: frame 1 "), "{said}");
    assert!(said.ends_with("try: inspan verify --journal agentsessions.db\n"), "{said}");

    let output = shell.run("inspan verify");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.starts_with("the journal is damaged and was opened for reading only: "), "{told}");
    assert!(told.contains("journal agentsessions.db sessions=1 records=5: everything that is left holds"), "{told}");
    assert_eq!(output.status.code(), Some(1), "what is lost is not nothing");
    assert_eq!(std::fs::read(&log).expect("the log"), bytes, "verification changes nothing");
}
