//! The operator's registry, from the command line.

use crate::shell::Shell;

const SPEC: &str = r#"{"remote": {"address": "127.0.0.1:9"}, "descriptorId": "chat",
 "capabilities": {"resumability": "RESUMABILITY_STATELESS_REPLAY"}}"#;

fn host() -> Shell {
    let mut shell = Shell::new();
    std::fs::write(shell.file("spec.json"), SPEC).expect("the spec is written");
    std::fs::write(shell.file("other.json"), SPEC.replace(":9", ":10")).expect("the spec is written");
    std::fs::write(shell.file("later.json"), SPEC.replacen('{', "{\"colour\": 1,", 1)).expect("the spec is written");
    std::fs::write(shell.file("s.yaml"), "turns: []\n").expect("the script is written");
    shell.serve(&["--model", "m", "--model-script", "s.yaml", "--registry-addr", "127.0.0.1:0"]);
    shell
}

/// R-REG-1, R-REG-3, R-REG-9: what each verb says in a pipe, and which command each refusal names.
#[test]
fn a_harness_is_registered_listed_and_retired() {
    host().check(
        r#"
$ inspan harness register --server REGISTRY --name mine --spec spec.json
{"harness":{"metadata":{"create_time":"TIME","name":"mine","uid":"harness-A","update_time":"TIME"},"source":"HARNESS_SOURCE_REGISTERED","spec":{"capabilities":{"resumability":"RESUMABILITY_STATELESS_REPLAY"},"descriptor_id":"chat","remote":{"address":"127.0.0.1:9"}},"spec_digest":"sha256:hash-A","state":"HARNESS_STATE_ACTIVE"},"outcome":"REGISTER_OUTCOME_CREATED"}
$ inspan harness register -server REGISTRY -name other -spec other.json
{"harness":{"metadata":{"create_time":"TIME","name":"other","uid":"harness-B","update_time":"TIME"},"source":"HARNESS_SOURCE_REGISTERED","spec":{"capabilities":{"resumability":"RESUMABILITY_STATELESS_REPLAY"},"descriptor_id":"chat","remote":{"address":"127.0.0.1:10"}},"spec_digest":"sha256:hash-B","state":"HARNESS_STATE_ACTIVE"},"outcome":"REGISTER_OUTCOME_CREATED"}
$ inspan harness register --server REGISTRY --name mine --spec other.json
! inspan: rpc error: code = AlreadyExists desc = harness mine is registered with another spec (sha256:hash-A), and a spec never changes under its name: choose another name
! try: inspan harness get --server REGISTRY --name mine
? 1
$ inspan create --server ADDR --harness mine
sess-A
$ inspan harness retire --server REGISTRY --name mine --reason old
{"metadata":{"create_time":"TIME","name":"mine","uid":"harness-A","update_time":"TIME"},"retire_reason":"old","retire_time":"TIME","source":"HARNESS_SOURCE_REGISTERED","spec":{"capabilities":{"resumability":"RESUMABILITY_STATELESS_REPLAY"},"descriptor_id":"chat","remote":{"address":"127.0.0.1:9"}},"spec_digest":"sha256:hash-A","state":"HARNESS_STATE_RETIRED"}
$ inspan create --server ADDR --harness mine
! inspan: rpc error: code = FailedPrecondition desc = harness mine is retired and takes no new sessions (old): name another one, or register it again
! try: inspan create --help
? 1
$ inspan harness list --server REGISTRY --page-size 1
{"harnesses":[{"metadata":{"name":"chat"},"source":"HARNESS_SOURCE_STATIC","state":"HARNESS_STATE_ACTIVE"},{"metadata":{"name":"echo"},"source":"HARNESS_SOURCE_STATIC","state":"HARNESS_STATE_ACTIVE"},{"metadata":{"create_time":"TIME","name":"other","uid":"harness-B","update_time":"TIME"},"source":"HARNESS_SOURCE_REGISTERED","spec":{"capabilities":{"resumability":"RESUMABILITY_STATELESS_REPLAY"},"descriptor_id":"chat","remote":{"address":"127.0.0.1:10"}},"spec_digest":"sha256:hash-B","state":"HARNESS_STATE_ACTIVE"}]}
$ inspan harness get --server REGISTRY --name echo --observe
{"metadata":{"name":"echo"},"observed":{"capabilities":{"fork_safe":true,"resumability":"RESUMABILITY_STATELESS_REPLAY"},"id":"echo","models":["echo"],"version":"1"},"source":"HARNESS_SOURCE_STATIC","state":"HARNESS_STATE_ACTIVE"}
"#,
    );
}

#[test]
fn a_refusal_names_the_next_command() {
    host().check(
        r#"
$ inspan harness get --server REGISTRY --name nobody
! inspan: rpc error: code = NotFound desc = no harness nobody: ListHarnesses gives the names
! try: inspan harness list --server REGISTRY --include-retired
? 1
$ inspan harness retire --server REGISTRY --name echo
! inspan: rpc error: code = FailedPrecondition desc = echo is a harness of the host itself: start the host without it instead
! try: inspan serve --help
? 1
$ inspan harness register --server REGISTRY --name My --spec spec.json
! inspan: rpc error: code = InvalidArgument desc = name "My" is no label: write 1 to 63 of a-z, 0-9 and -, with no - at either end
! try: inspan harness register --help
? 1
$ inspan harness register --server REGISTRY --name mine --spec none.json
! inspan: cannot read the spec none.json: No such file or directory (os error 2)
! try: ls -l none.json
? 1
$ inspan harness register --server REGISTRY --name mine --spec s.yaml
! inspan: s.yaml is no harness spec: expected ident at line 1 column 2
! try: inspan harness register --help
? 1
$ inspan harness list --server REGISTRY --page-size -1
! inspan: rpc error: code = InvalidArgument desc = page_size is negative: leave it out for the default
! try: inspan harness list --help
? 1
$ inspan harness list --server ADDR
! inspan: rpc error: code = Unimplemented desc = no method /agentsessions.v1.HarnessRegistry/ListHarnesses
! try: inspan serve --registry-addr 127.0.0.1:8081
? 1
"#,
    );
    let mut shell = Shell::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    let output = shell.run(&format!("inspan harness list --server {free}"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("code = Unavailable desc = no host answers"), "{said}");
    assert!(said.ends_with(&format!("\ntry: inspan serve --registry-addr {free}\n")), "{said}");
}

/// R-REG-2: a field that is not known is refused by name.
#[test]
fn a_spec_of_a_later_version_is_refused() {
    let output = host().run("inspan harness register --server REGISTRY --name mine --spec later.json");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(1) && said.contains("later.json is no harness spec") && said.contains("colour"),
        "{said}"
    );
}

/// R-REG-7: without a model a host starts, and says of what is registered why it cannot use it. So does a host in the command's
/// own process.
#[test]
fn a_host_without_a_model_starts_all_the_same() {
    let mut shell = host();
    shell.stdout("inspan harness register --server REGISTRY --name mine --spec spec.json");
    let uid = shell.stdout("inspan create --server ADDR --harness mine").trim().to_owned();
    let (code, log) = shell.stop_host();
    assert_eq!(code, Some(0));
    assert!(log.contains("msg=\"operator registry listening: plaintext and unauthenticated\""), "{log}");
    let refused = |shell: &mut Shell, line: &str| {
        let output = shell.run(line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("code = FailedPrecondition") && said.contains("start the host with --model"), "{said}");
    };
    refused(&mut shell, "inspan create --harness mine");
    shell.serve(&["--registry-addr", "127.0.0.1:0"]);
    refused(&mut shell, &format!("inspan exec --server ADDR --input hi --session {uid}"));
    let listed = shell.stdout("inspan harness list --server REGISTRY");
    assert!(
        listed.contains("\"unservable_reason\":\"its model calls go through this host, which has no model"),
        "{listed}"
    );
}
