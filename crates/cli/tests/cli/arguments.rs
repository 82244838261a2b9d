//! Command lines that make no sense, and what is said about them.

use crate::shell::Shell;

#[track_caller]
fn check(transcript: &str) {
    Shell::new().check(transcript);
}

#[test]
fn a_missing_or_unknown_verb_is_told_the_verbs() {
    check(
        "
$ inspan
! usage: inspan <serve|harness|create|list|get|exec|replay|watch|fork|suspend|resume|asks|approve|deny|cancel|delete|rerun|export|import|verify|tools|conformance|demo|completions|version> [flags]
! try: inspan --help
? 2
$ inspan bogus
! inspan: unrecognized subcommand 'bogus'
! usage: inspan <serve|harness|create|list|get|exec|replay|watch|fork|suspend|resume|asks|approve|deny|cancel|delete|rerun|export|import|verify|tools|conformance|demo|completions|version> [flags]
! try: inspan --help
? 2
",
    );
}

#[test]
fn bad_flags_exit_with_2_and_name_the_help() {
    check(
        "
$ inspan get
! inspan: the following required arguments were not provided: --session <UID>
! try: inspan get --help
? 2
$ inspan get --sesion x
! inspan: unexpected argument '--sesion' found; a similar argument exists: '--session'
! try: inspan get --help
? 2
$ inspan get -bogus x
! inspan: unexpected argument '--bogus' found
! try: inspan get --help
? 2
$ inspan fork --session x --count many
! inspan: invalid value 'many' for '--count <N>': invalid digit found in string
! try: inspan fork --help
? 2
$ inspan exec --label x
! inspan: invalid value 'x' for '--label <KEY=VALUE>': a label is written key=value
! try: inspan exec --help
? 2
$ inspan exec --deadline soon
! inspan: invalid value 'soon' for '--deadline <WHEN>': write a duration such as 30s or 1h30m, or a time such as TIME
! try: inspan exec --help
? 2
$ inspan exec --session x --label a=b
! inspan: --name, --model and --label describe a new session: leave --session out, or leave them out
! try: inspan exec --help
? 2
$ inspan verify --expect-head 5
! inspan: invalid value '5' for '--expect-head <SEQ:HASH>': a head is written SEQ:HASH, the hash as 64 lowercase hex digits
! try: inspan verify --help
? 2
$ inspan list --server bad:address:x
! inspan: \"bad:address:x\" is no address: write HOST:PORT or unix:/path
! try: inspan --help
? 2
",
    );
}

#[test]
fn a_verb_of_verbs_wants_one() {
    check(
        "
$ inspan harness
! inspan: a verb is missing
! try: inspan harness --help
? 2
$ inspan harness bogus
! inspan: unrecognized subcommand 'bogus'
! try: inspan harness --help
? 2
",
    );
}

/// Scripts take wrong flags of these three verbs for an ordinary failure.
#[test]
fn wrong_flags_of_a_few_verbs_end_with_1() {
    check(
        "
$ inspan harness get --bogus
! inspan: unexpected argument '--bogus' found
! try: inspan harness --help
? 1
$ inspan harness list
! inspan: the following required arguments were not provided: --server <IP:PORT>
! try: inspan harness --help
? 1
$ inspan harness register --server 127.0.0.1:9 --spec x
! inspan: the following required arguments were not provided: --name <NAME>
! try: inspan harness --help
? 1
$ inspan approve
! inspan: the following required arguments were not provided: <UID>
! try: inspan approve --help
? 1
$ inspan deny a --session b
! inspan: the argument '[UID]' cannot be used with '--session <UID>'
! try: inspan deny --help
? 1
",
    );
}

#[test]
fn go_style_flags_are_accepted() {
    check(
        "
$ inspan create -journal j.db -name one
sess-A
$ inspan get -journal=j.db -session=sess-A -json=false
session sess-A project=default name=one harness= last_seq=0 compute=NONE
$ inspan exec --journal j.db --session sess-A --input -input
seq=1   EVENT_EXECUTION_START
seq=2   EVENT_INPUT  user: -input
seq=3   EVENT_MODEL_CALL
seq=4   EVENT_OUTPUT  assistant: echo:-input
seq=5   EVENT_END
",
    );
}

#[test]
fn serve_refuses_before_it_opens_the_journal() {
    let mut shell = Shell::new();
    shell.check(
        "
$ inspan serve --harness mine=127.0.0.1:9
! inspan: --harness mine: its model calls go through this host, which has no model: add --model
! try: inspan serve --help
? 2
$ inspan serve --model m --harness mine=127.0.0.1
! inspan: --harness mine=127.0.0.1: \"127.0.0.1\" is no address of a harness: it has no port: write HOST:PORT
! try: inspan serve --help
? 2
$ inspan serve --model m --harness a=127.0.0.1:9 --harness a=127.0.0.1:8
! inspan: --harness a=127.0.0.1:8: a is there already: each name is for one harness
! try: inspan serve --help
? 2
$ inspan serve --registry-addr localhost:9
! inspan: --registry-addr: \"localhost:9\" is no address for a registry: it is a literal loopback IP and a port, such as 127.0.0.1:8081
! try: inspan serve --help
? 2
$ inspan serve --insecure --registry-addr 0.0.0.0:9
! inspan: --registry-addr: \"0.0.0.0:9\" is no address for a registry: it is a literal loopback IP and a port, such as 127.0.0.1:8081
! try: inspan serve --help
? 2
$ inspan serve --addr 127.0.0.1:9 --registry-addr 127.0.0.1:9
! inspan: --registry-addr: 127.0.0.1:9 is the address of the sessions: the registry is never on their port, give it another one
! try: inspan serve --help
? 2
$ inspan serve --addr 0.0.0.0:8080
! inspan: 0.0.0.0:8080 can be reached from other machines and there is no authentication: use a loopback address, or say --insecure
! try: inspan serve --addr 127.0.0.1:8080
? 1
$ inspan serve --addr nonsense
! inspan: invalid value 'nonsense' for '--addr <ADDRESS>': \"nonsense\" is neither ADDRESS:PORT nor unix:/path
! try: inspan serve --help
? 2
$ inspan serve --model m --model-base-url http://user:secret@host
! inspan: invalid value 'http://user:secret@host' for '--model-base-url <URL>': the base URL has user info; give the key in the environment or in a file
! try: inspan serve --help
? 2
$ inspan serve --model-base-url http://127.0.0.1:9
! inspan: the --model-… flags describe the provider of a model: name it with --model
! try: inspan serve --help
? 2
$ inspan serve --model-script missing.yaml
! inspan: cannot read the script missing.yaml: No such file or directory (os error 2)
! try: ls -l missing.yaml
? 1
$ inspan serve --model m --model-key-file missing.key
! inspan: cannot read the key file missing.key: No such file or directory (os error 2)
! try: ls -l missing.key
? 1
$ inspan serve --log =nonsense=
! inspan: --log \"=nonsense=\": invalid filter directive
! try: inspan serve --help
? 2
",
    );
    let left: Vec<_> = std::fs::read_dir(shell.dir()).expect("the folder").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn version_and_help_are_no_errors() {
    let version = env!("CARGO_PKG_VERSION");
    check(&format!(
        "
$ inspan version
inspan {version}
$ inspan --version
inspan {version}
$ inspan serve --version
inspan {version}
$ inspan version --json
{{\"version\":\"{version}\"}}
"
    ));
    let mut shell = Shell::new();
    assert!(shell.stdout("inspan --help").contains("Start here: inspan demo"));
    assert!(shell.stdout("inspan exec --help").contains("--expected-seq"));
}

#[test]
fn completions_know_the_verbs() {
    let mut shell = Shell::new();
    for name in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = shell.stdout(&format!("inspan completions {name}"));
        assert!(script.contains("rerun") && script.contains("expected-seq"), "{name}");
    }
}
