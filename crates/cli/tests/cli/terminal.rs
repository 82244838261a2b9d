//! What a person sees, who has a terminal and no pipe.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::shell::{INSPAN, Shell};

/// Runs one command with its stdout on a pseudo-terminal that is wide enough for its lines, and gives what
/// came to the other end.
fn on_a_terminal(shell: &Shell, args: &[&str]) -> String {
    let (screen, terminal) = pseudo_terminal().expect("the system has pseudo-terminals");
    let mut child = Command::new(INSPAN)
        .args(args)
        .current_dir(shell.dir())
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null())
        .stdout(terminal)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let (mut seen, mut screen) = (Vec::new(), File::from(screen));
    // The terminal hangs up when its last user has gone: Linux says so with an error.
    match screen.read_to_end(&mut seen) {
        Ok(_) => {}
        Err(e) => assert_eq!(Errno::from_io_error(&e), Some(Errno::IO), "{e}"),
    }
    let mut errors = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut errors).expect("text");
    assert!(child.wait().expect("the binary ends").success(), "{args:?}: {errors}");
    String::from_utf8(seen).expect("text")
}

/// Both ends: ours and the one to give away.
fn pseudo_terminal() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    tcsetwinsize(&ours, Winsize { ws_row: 24, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 })?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs = rustix::fs::open(ptsname(&ours, Vec::new())?, flags, Mode::empty())?;
    Ok((ours, theirs))
}

/// A list is a table for eyes and lines of tab-separated fields for scripts; JSON where it was asked for. Text
/// of others cannot command the terminal.
#[test]
fn a_list_is_a_table_on_a_terminal_and_lines_in_a_pipe() {
    let mut shell = Shell::new();
    shell.stdout("inspan create --name plain --harness echo");
    shell.stdout("inspan create --name \"wipe\x1b[2J\"");

    let piped = shell.stdout("inspan list");
    let rows: Vec<Vec<&str>> = piped.lines().map(|line| line.split('\t').collect()).collect();
    assert!(rows.len() == 2 && rows.iter().all(|row| row.len() == 5), "{piped:?}");
    assert_eq!((rows[1][1], rows[1][3], rows[1][4]), ("last_seq=0", "harness=echo", "name=plain"));
    assert_eq!(rows[0][4], "name=wipe\x1b[2J", "a pipe gets the text as it is");

    let seen = on_a_terminal(&shell, &["list"]);
    let table: Vec<Vec<&str>> = seen.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(table.len(), 3, "{seen:?}");
    assert_eq!(table[0], ["SESSION", "SEQ", "STATE", "COMPUTE", "HARNESS", "UPDATED", "NAME"]);
    assert_eq!((table[1][0], table[1].last()), (rows[0][0], Some(&"wipe\\u{1b}[2J")));
    assert_eq!((table[2][0], table[2][1], table[2].last()), (rows[1][0], "0", Some(&"plain")));
    let names = seen.lines().zip(["NAME", "wipe", "plain"]).map(|(line, name)| line.find(name));
    assert!(names.clone().all(|at| at == names.clone().next().flatten()), "the columns line up: {seen:?}");
    assert!(!seen.contains(['\t', '\x1b']), "{seen:?}");

    let json = on_a_terminal(&shell, &["list", "--json"]);
    assert_eq!(json.replace("\r\n", "\n"), shell.stdout("inspan list --json"));
}

/// R-REG-9: the registry's answers are tables for eyes, and JSON for scripts and where it was asked for.
#[test]
fn the_registry_is_a_table_on_a_terminal() {
    let mut shell = Shell::new();
    std::fs::write(shell.file("s.yaml"), "turns: []\n").expect("the script is written");
    let spec = r#"{"remote": {"address": "127.0.0.1:9"}, "capabilities": {"resumability": 1}}"#;
    std::fs::write(shell.file("spec.json"), spec).expect("the spec is written");
    shell.serve(&["--model-script", "s.yaml", "--registry-addr", "127.0.0.1:0"]);
    let registry = shell.registry().to_owned();
    let ask = |verb: &[&str]| on_a_terminal(&shell, &[&["harness"], verb, &["--server", &registry]].concat());
    assert_eq!(ask(&["register", "--name", "mine", "--spec", "spec.json"]), "harness mine created\r\n");
    assert_eq!(ask(&["register", "--name", "mine", "--spec", "spec.json"]), "harness mine unchanged\r\n");
    let retired = ask(&["retire", "--name", "mine", "--reason", "wipe\x1b[2J"]);
    assert!(retired.contains("wipe\\u{1b}[2J"), "{retired:?}");
    let seen = ask(&["list", "--include-retired"]);
    let table: Vec<Vec<&str>> = seen.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(table[0], ["HARNESS", "STATE", "FROM", "AT", "SINCE", "NOTE"]);
    assert_eq!(table[1..3], [["chat", "ACTIVE", "STATIC"], ["echo", "ACTIVE", "STATIC"]]);
    assert_eq!(table[3][..4], ["mine", "RETIRED", "REGISTERED", "127.0.0.1:9"]);
    assert!(ask(&["get", "--name", "mine", "--json"]).starts_with("{\"metadata\":"));
}
