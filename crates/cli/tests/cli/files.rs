//! Sessions as files: export, import, verify, and what is said of damage.

use std::process::Output;

use crate::shell::Shell;

/// A session of two turns, exported to `one.inspan`.
fn exported() -> (Shell, String) {
    let mut shell = Shell::new();
    let uid = shell.stdout("inspan create --name one --label team=blue").trim().to_owned();
    for text in ["hello", "and again"] {
        shell.stdout(&format!("inspan exec --session {uid} --input \"{text}\""));
    }
    shell.stdout(&format!("inspan export --session {uid} --out one.inspan"));
    shell.named(uid.as_bytes());
    (shell, uid)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_session_moves_to_another_journal_and_stays_the_same() {
    let (mut shell, uid) = exported();
    shell.check(
        "
$ inspan verify one.inspan
export one.inspan records=10 last_seq=10 head=hash-A blobs=0 requests=2: everything holds
checked: every record's hash, its link to the one before it, payloads and model requests by their digests
no anchor: records cut off after seq 10 would not show; keep this head and compare with --expect-head 10:hash-A
$ inspan import --journal other.db one.inspan
session sess-A imported last_seq=10
$ inspan get --journal other.db --session sess-A
session sess-A project=default name=one harness= last_seq=10 compute=LIVE
$ inspan verify --journal other.db --session sess-A --expect-head 10:hash-A
session sess-A records=10 last_seq=10 head=hash-A blobs=0 requests=2: everything holds
checked: every record's hash, its link to the one before it, payloads and model requests by their digests
anchor: the record at seq 10 has the expected hash
$ inspan rerun --journal other.db --session sess-A
output echo:hello
output echo:and again
session sess-A rerun executions=2 effects=4 outputs=2
$ inspan exec --journal other.db --session sess-A --input more --expected-seq 10
seq=11  EVENT_EXECUTION_START
seq=12  EVENT_INPUT  user: more
seq=13  EVENT_MODEL_CALL
seq=14  EVENT_OUTPUT  assistant: echo:more
seq=15  EVENT_END
",
    );
    let replay = |shell: &mut Shell, journal: &str| {
        shell.stdout(&format!("inspan replay --json --journal {journal} --session {uid} --to 10"))
    };
    assert_eq!(replay(&mut shell, "agentsessions.db"), replay(&mut shell, "other.db"));
}

#[test]
fn an_export_goes_through_a_pipe() {
    let (mut shell, uid) = exported();
    let file = shell.stdout(&format!("inspan export --session {uid} --out -"));
    assert_eq!(file, std::fs::read_to_string(shell.file("one.inspan")).expect("the file"));
    let json = shell.stdout(&format!("inspan export --json --session {uid} --out two.inspan"));
    let json: serde_json::Value = serde_json::from_str(&json).expect("one JSON object");
    assert_eq!(json["bytes"], file.len());
}

#[test]
fn a_uid_that_is_taken_is_refused() {
    let (mut shell, _) = exported();
    let output = shell.run("inspan import one.inspan");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("code = AlreadyExists"), "{}", said(&output));
}

#[test]
fn an_unknown_session_leaves_no_file() {
    let (mut shell, _) = exported();
    shell.check(
        "
$ inspan export --session nope --out nope.inspan
! inspan: rpc error: code = NotFound desc = no session nope
! try: inspan list
? 1
",
    );
    assert!(!shell.file("nope.inspan").exists() && !shell.file("nope.inspan.partial").exists());
}

/// R-HASH-9: a record that was changed is told from one that is fine, by number.
#[test]
fn a_changed_record_is_named() {
    let (mut shell, _) = exported();
    let text = std::fs::read_to_string(shell.file("one.inspan")).expect("the file");
    let damaged = text.replacen("echo:and again", "echo:and never", 1);
    assert_ne!(damaged, text);
    std::fs::write(shell.file("damaged.inspan"), damaged).expect("the file is written");
    let output = shell.run("inspan verify damaged.inspan");
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.starts_with("export damaged.inspan records=8 last_seq=8 "), "{told}");
    assert!(told.contains(": stops at seq 9: hash: tampered"), "{told}");
    assert!(said(&output).contains("does not hold at seq 9") && said(&output).contains("\ntry: "), "{}", said(&output));

    let output = shell.run("inspan import --journal other.db damaged.inspan");
    assert_eq!(output.status.code(), Some(1), "what does not hold is not imported");
    assert_eq!(shell.stdout("inspan list --journal other.db"), "");
}

#[test]
fn a_cut_file_is_told_from_a_whole_one() {
    let (mut shell, _) = exported();
    let text = std::fs::read_to_string(shell.file("one.inspan")).expect("the file");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    std::fs::write(shell.file("cut.inspan"), lines[..lines.len() - 3].concat()).expect("the file is written");
    let output = shell.run("inspan verify cut.inspan");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("truncated"), "{}", said(&output));
}

#[test]
fn an_anchor_shows_what_a_chain_cannot() {
    let (mut shell, uid) = exported();
    let hash = "0".repeat(64);
    for (anchor, want) in [(format!("4:{hash}"), "it was rewritten"), (format!("11:{hash}"), "truncated after 10")] {
        for target in ["one.inspan".to_owned(), format!("--session {uid}")] {
            let output = shell.run(&format!("inspan verify {target} --expect-head {anchor}"));
            assert_eq!(output.status.code(), Some(1), "{target}");
            assert!(said(&output).contains(want), "{target}: {}", said(&output));
        }
    }
}

#[test]
fn a_whole_journal_is_verified() {
    let (mut shell, _) = exported();
    shell.check(
        "
$ inspan fork --session sess-A --at 5
child sess-B parent=sess-A fork_seq=5 name=
",
    );
    let told = shell.stdout("inspan verify");
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 3, "{told}");
    assert!(lines[..2].iter().all(|l| l.ends_with("everything holds")), "{told}");
    assert_eq!(lines[2], "journal agentsessions.db sessions=2 records=16: everything holds");
    shell.check(
        "
$ inspan verify --journal missing.db
! inspan: there is no journal missing.db
! try: inspan verify --journal FILE, or inspan verify FILE for an export
? 1
",
    );
    assert!(!shell.file("missing.db").exists());
}

#[test]
fn what_is_no_export_is_told_so() {
    let mut shell = Shell::new();
    std::fs::write(shell.file("noise"), "hello\n").expect("the file is written");
    for verb in ["verify", "import"] {
        let output = shell.run(&format!("inspan {verb} noise"));
        assert_eq!(output.status.code(), Some(1), "{verb}");
        assert!(said(&output).contains("\ntry: "), "{verb}: {}", said(&output));
        let output = shell.run(&format!("inspan {verb} missing"));
        assert!(said(&output).starts_with("inspan: reading missing failed: "), "{verb}: {}", said(&output));
    }
}

/// Writes a journal as earlier hosts kept it: one table of events, hashes as hex.
fn write_foreign(shell: &Shell, uid: &str, last_text: &str) {
    let ours = rusqlite::Connection::open(shell.file("agentsessions.db")).expect("our journal");
    let theirs = rusqlite::Connection::open(shell.file("earlier.db")).expect("a new file");
    theirs
        .execute_batch("CREATE TABLE events (session TEXT, seq INTEGER, prev_hash TEXT, hash TEXT, event BLOB)")
        .expect("the table is made");
    let mut records = ours
        .prepare("SELECT seq, lower(hex(coalesce(prev_hash, ''))), lower(hex(content_hash)), event FROM records ORDER BY seq")
        .expect("our records");
    let rows = records.query_map([], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?, row.get::<_, Vec<u8>>(3)?))
    });
    for row in rows.expect("our records") {
        let (seq, prev, hash, event) = row.expect("a record");
        let event = String::from_utf8(event).expect("JSON").replace("and again", last_text);
        theirs
            .execute("INSERT INTO events VALUES (?1, ?2, ?3, ?4, ?5)", (uid, seq, prev, hash, event))
            .expect("the record is written");
    }
}

#[test]
fn a_journal_of_an_earlier_host_is_imported() {
    let (mut shell, uid) = exported();
    write_foreign(&shell, &uid, "and again");
    let told = shell.stdout("inspan verify earlier.db");
    assert!(told.ends_with("journal earlier.db sessions=1 records=10: everything holds\n"), "{told}");
    let output = shell.run("inspan import --journal other.db earlier.db");
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("session {uid} imported last_seq=10\n"));
    assert!(said(&output).starts_with("note: earlier.db tells nothing of "), "{}", said(&output));
    shell.check(
        "
$ inspan rerun --journal other.db --session sess-A
output echo:hello
output echo:and again
session sess-A rerun executions=2 effects=4 outputs=2
",
    );
}

#[test]
fn a_damaged_journal_of_an_earlier_host_is_refused() {
    let (mut shell, uid) = exported();
    write_foreign(&shell, &uid, "and never");
    let output = shell.run("inspan verify earlier.db");
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains(": stops at seq 7: ") && told.contains("not everything holds"), "{told}");
    let output = shell.run("inspan import --journal other.db earlier.db");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("does not hold"), "{}", said(&output));
    assert_eq!(shell.stdout("inspan list --journal other.db"), "");
}
