//! `inspan.toml`: what `inspan tools` and `inspan serve` make of it.

use crate::shell::Shell;

const CHARGE: &str = r#"
[[tools.http]]
name = "charge"
url = "http://127.0.0.1:9/charge"
replay = "keyed"
description = """
Charges
a card."""
input_schema = { type = "object" }

[[tools.http]]
name = "balance"
url = "http://127.0.0.1:9/balance"

[[policy]]
name = "rest"
action = "allow"
"#;

fn with(config: &str) -> Shell {
    let shell = Shell::new();
    std::fs::write(shell.file("inspan.toml"), config).expect("the folder is writable");
    shell
}

#[test]
fn endpoints_are_listed_without_being_asked() {
    with(CHARGE).check(
        "
$ inspan tools
balance\tserver=http\treplay=ask\tdescription=
charge\tserver=http\treplay=keyed\tdescription=Charges a card.
$ inspan tools --config inspan.toml --json
{\"errors\":[],\"tools\":[{\"description\":\"\",\"name\":\"balance\",\"replay\":\"ask\",\"server\":\"http\"},{\"description\":\"Charges\\na card.\",\"input_schema\":{\"type\":\"object\"},\"name\":\"charge\",\"replay\":\"keyed\",\"server\":\"http\"}]}
",
    );
}

#[test]
fn a_missing_or_wrong_file_is_said_with_its_line() {
    Shell::new().check(
        "
$ inspan tools
! inspan: there is no inspan.toml in this folder
! try: inspan tools --config FILE
? 1
$ inspan serve --config nowhere.toml
! inspan: nowhere.toml: cannot be read: No such file or directory (os error 2)
! try: inspan tools --config nowhere.toml
? 2
",
    );
    with("\n[[policy]]\nname = \"a\"\naction = \"perhaps\"\n").check(
        "
$ inspan serve
! inspan: inspan.toml line 4: unknown variant `perhaps`, expected one of `allow`, `ask`, `deny`
! try: inspan tools --config inspan.toml
? 2
",
    );
}

#[test]
fn a_secret_that_is_not_there_stops_the_host_before_it_starts() {
    let mut shell = with(
        "[[tools.http]]\nname = \"a\"\nurl = \"http://127.0.0.1:9\"\nheaders_env = { x-key = \"INSPAN_TEST_UNSET\" }\n",
    );
    shell.check(
        "
$ inspan serve
! inspan: tool a: the environment variable INSPAN_TEST_UNSET is not set: set it and start again
! try: inspan tools --config inspan.toml
? 1
",
    );
    assert!(!shell.file("inspan.db").exists(), "the journal was opened");
}

/// The others are listed all the same.
#[test]
fn a_server_that_cannot_be_asked_is_an_error_after_the_list() {
    let mut shell = with(&format!("{CHARGE}\n[[tools.mcp]]\nname = \"gone\"\ncommand = [\"no-such-program-here\"]\n"));
    let output = shell.run("inspan tools");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 2);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("tool server gone cannot be started: no-such-program-here"), "{said}");
}

#[test]
fn the_host_says_which_file_it_read() {
    let mut shell = with(CHARGE);
    shell.serve(&[]);
    let (code, log) = shell.stop_host();
    assert_eq!(code, Some(0));
    let line = log.lines().find(|line| line.contains("configuration read")).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("file=inspan.toml servers=0 endpoints=2 rules=1"), "{line}");
}
