//! `--json`: one object, or one to a line where records stream, with the protocol's names.

use crate::shell::Shell;

#[test]
fn the_names_are_the_protocols() {
    Shell::new().check(
        r#"
$ inspan create --json --name one --label team=blue
{"compute_state":"COMPUTE_NONE","exec_state":"EXEC_PENDING","labels":{"team":"blue"},"metadata":{"create_time":"TIME","name":"one","project":"default","uid":"sess-A","update_time":"TIME"}}
$ inspan exec --json --session sess-A --input hi
{"session":{"compute_state":"COMPUTE_NONE","exec_state":"EXEC_PENDING","labels":{"team":"blue"},"metadata":{"create_time":"TIME","name":"one","project":"default","uid":"sess-A","update_time":"TIME"}}}
{"record":{"content_hash":"hash-A","event":{"execution_id":"exec-A","execution_start":{"harness":"echo","harness_version":"1","input_count":"1"},"kind":"EVENT_EXECUTION_START"},"fence":"1","seq":"1"}}
{"record":{"content_hash":"hash-B","event":{"execution_id":"exec-A","kind":"EVENT_INPUT","message":{"parts":[{"text":{"text":"hi"}}],"role":"user"}},"fence":"1","prev_hash":"hash-A","seq":"2"}}
{"record":{"content_hash":"hash-C","event":{"execution_id":"exec-A","kind":"EVENT_MODEL_CALL","model":{"id":"exec-B","input_hash":"hash-D","model":"echo"}},"fence":"1","prev_hash":"hash-B","seq":"3"}}
{"record":{"content_hash":"hash-E","event":{"execution_id":"exec-A","kind":"EVENT_OUTPUT","message":{"parts":[{"text":{"text":"echo:hi"}}],"role":"assistant"}},"fence":"1","prev_hash":"hash-C","seq":"4"}}
{"record":{"content_hash":"hash-F","event":{"end":{"state":"COMPLETED"},"execution_id":"exec-A","kind":"EVENT_END"},"fence":"1","prev_hash":"hash-E","seq":"5"}}
$ inspan replay --json --session sess-A --from 5
{"content_hash":"hash-F","event":{"end":{"state":"COMPLETED"},"execution_id":"exec-A","kind":"EVENT_END"},"fence":"1","prev_hash":"hash-E","seq":"5"}
$ inspan rerun --json --session sess-A
{"effects":"2","executions":"1","outputs":["echo:hi"]}
$ inspan verify --json --session sess-A
{"head_hash":"hash-F","last_seq":"5","records":"5","requests":"1","session":"sess-A"}
$ inspan list --json --project empty
{}
"#,
    );
}

#[test]
fn every_verb_that_answers_with_a_session_gives_one() {
    let mut shell = Shell::new();
    let uid = shell.stdout("inspan create").trim().to_owned();
    for verb in ["get", "suspend", "resume", "delete"] {
        let json = shell.stdout(&format!("inspan {verb} --json --session {uid}"));
        let json: serde_json::Value = serde_json::from_str(&json).expect("one JSON object");
        assert_eq!(json["metadata"]["uid"], uid.as_str(), "{verb}");
    }
}
