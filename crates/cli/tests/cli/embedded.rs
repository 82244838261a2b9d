//! Verbs without `--server`: a host in the command's own process.

use crate::shell::Shell;

#[test]
fn a_session_lives_from_command_to_command() {
    Shell::new().check(
        "
$ inspan create --name one --label team=blue
sess-A
$ inspan exec --session sess-A --input hello
seq=1   EVENT_EXECUTION_START
seq=2   EVENT_INPUT  user: hello
seq=3   EVENT_MODEL_CALL
seq=4   EVENT_OUTPUT  assistant: echo:hello
seq=5   EVENT_END
$ inspan get --session sess-A
session sess-A project=default name=one harness= last_seq=5 compute=LIVE
$ inspan replay --session sess-A --from 4
seq=4   EVENT_OUTPUT  assistant: echo:hello
seq=5   EVENT_END
$ inspan replay --session sess-A --from 2 --to 3
seq=2   EVENT_INPUT  user: hello
seq=3   EVENT_MODEL_CALL
$ inspan rerun --session sess-A
output echo:hello
session sess-A rerun executions=1 effects=2 outputs=1
$ inspan list
sess-A\tlast_seq=5\tcompute=LIVE\tharness=\tname=one
",
    );
}

#[test]
fn exec_creates_a_session_and_names_it() {
    Shell::new().check(
        "
$ inspan exec --input - <<< \"two\\nlines\\n\"
session sess-A
seq=1   EVENT_EXECUTION_START
seq=2   EVENT_INPUT  user: two
lines
seq=3   EVENT_MODEL_CALL
seq=4   EVENT_OUTPUT  assistant: echo:two
lines
seq=5   EVENT_END
$ inspan exec --label team=blue --name named --project p
session sess-B
seq=1   EVENT_EXECUTION_START
seq=2   EVENT_INPUT  user: 
seq=3   EVENT_MODEL_CALL
seq=4   EVENT_OUTPUT  assistant: echo:
seq=5   EVENT_END
$ inspan list --project p
sess-B\tlast_seq=5\tcompute=LIVE\tharness=\tname=named
$ inspan list
sess-A\tlast_seq=5\tcompute=LIVE\tharness=\tname=
",
    );
}

#[test]
fn only_echo_is_there() {
    Shell::new().check(
        "
$ inspan exec --harness chat --input x
! inspan: rpc error: code = InvalidArgument desc = no harness chat; this host has: echo
! try: inspan exec --help
? 1
",
    );
}

#[test]
fn every_refusal_names_the_next_command() {
    Shell::new().check(
        "
$ inspan get --session nope
! inspan: rpc error: code = NotFound desc = no session nope
! try: inspan list
? 1
$ inspan create --journal other.db
sess-A
$ inspan exec --journal other.db --session sess-A --expected-seq 7
! inspan: rpc error: code = Aborted desc = the journal of sess-A is at seq 0, not 7: another writer was here; read it again
! try: inspan get --journal other.db --session sess-A
? 1
$ inspan fork --journal other.db --session sess-A --at 9
! inspan: rpc error: code = OutOfRange desc = fork: at_seq is 9, the journal of sess-A ends at 0
! try: inspan get --journal other.db --session sess-A
? 1
$ inspan cancel --journal other.db --session sess-A
! inspan: rpc error: code = FailedPrecondition desc = cancel: session sess-A has no unfinished turn to cancel
! try: inspan replay --journal other.db --session sess-A
? 1
$ inspan exec --journal other.db --config @missing
! inspan: reading --config missing failed: No such file or directory (os error 2)
! try: ls -l missing
? 1
",
    );
}

#[test]
fn a_journal_that_is_open_elsewhere_is_not_opened_twice() {
    let mut shell = Shell::new();
    shell.serve(&[]);
    let output = shell.run("inspan list");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("is open in another process") && said.contains("try: inspan list --server"), "{said}");
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let mut shell = Shell::new();
    let uid = shell.stdout("inspan create").trim().to_owned();
    for _ in 0..3 {
        shell.stdout(&format!("inspan exec --session {uid} --input x"));
    }
    let mut child = std::process::Command::new(crate::shell::INSPAN)
        .args(["replay", "--session", &uid])
        .current_dir(shell.dir())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the binary starts");
    // The pipe is closed before the first line can be written.
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the binary ends");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn nothing_stays_in_the_temporary_folder() {
    let mut shell = Shell::new();
    let temp = tempfile::tempdir().expect("a temporary folder");
    let output = std::process::Command::new(crate::shell::INSPAN)
        .arg("create")
        .current_dir(shell.dir())
        .env("TMPDIR", temp.path())
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(std::fs::read_dir(temp.path()).expect("the folder").count(), 0);
    shell.stdout("inspan list");
}
