//! Files that were cut, flipped, reordered or written to deceive: our verdict, and that of a stranger.

use std::io::{Cursor, Write as _};
use std::process::Command;

use inspan_journal::Journal as _;
use inspan_journal::export::{ImportError, import};
use inspan_journal::verify::{self, FaultKind, Report};
use inspan_wire::{Digest, SessionUid};
use serde_json::{Value, json};

use crate::support::{Counter, Stage};

/// The lines of an export of two turns with blobs and requests.
async fn lines() -> Vec<String> {
    lines_of(&Stage::new()).await
}

async fn lines_of(stage: &Stage) -> Vec<String> {
    let uid = stage.create("sess-a").await;
    stage.conversation(&uid, 2).await;
    let file = String::from_utf8(stage.export(&uid).await).expect("text");
    file.lines().map(str::to_owned).collect()
}

fn join(lines: &[String]) -> Vec<u8> {
    lines.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect()
}

/// The lines with a last line that is true of them.
fn closed(lines: &[String]) -> Vec<u8> {
    let body = join(lines);
    let count = |kind: &str| lines.iter().filter(|l| l.starts_with(&format!("{{\"{kind}\""))).count();
    let blobs = lines
        .iter()
        .filter(|l| l.starts_with("{\"blob\""))
        .filter_map(|l| value(l)["blob"].as_object().cloned())
        .filter(|blob| blob.get("at") == Some(&json!(0)))
        .count();
    let end = json!({"end": {
        "lines": lines.len(), "records": count("record"), "blobs": blobs, "requests": count("request"),
        "sha256": Digest::of(&body).to_string(),
    }});
    [body, format!("{end}\n").into_bytes()].concat()
}

fn value(line: &str) -> Value {
    serde_json::from_str(line).expect("JSON")
}

fn position(lines: &[String], kind: &str, nth: usize) -> usize {
    let prefix = format!("{{\"{kind}\"");
    lines.iter().enumerate().filter(|(_, l)| l.starts_with(&prefix)).nth(nth).expect("such a line").0
}

fn change(lines: &mut [String], at: usize, change: impl FnOnce(&mut Value)) {
    let mut line = value(&lines[at]);
    change(&mut line);
    lines[at] = line.to_string();
}

/// Seals the records anew behind a change, as an owner of the file could.
fn reseal(lines: &mut [String]) {
    let mut prev = String::new();
    for line in lines {
        let mut parsed = value(line);
        if let Some(record) = parsed.get_mut("record").and_then(Value::as_object_mut) {
            let seq = record["seq"].as_i64().expect("a seq");
            let event = record["event"].as_str().expect("an event");
            let hash = inspan_wire::canon::content_hash(prev.parse().ok(), seq, event.as_bytes()).to_string();
            record.insert("prev_hash".into(), prev.into());
            record.insert("content_hash".into(), hash.clone().into());
            prev = hash;
            *line = parsed.to_string();
        }
    }
}

fn verdict(file: &[u8]) -> Report {
    verify::export(Cursor::new(file), None).expect("readable")
}

/// Exit code, valid-up-to line and fault line of the Python verifier.
fn stranger(file: &[u8], anchor: Option<&str>) -> (i32, String, String) {
    let mut kept = tempfile::NamedTempFile::new().expect("a file");
    kept.write_all(file).expect("written");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/verify.py");
    let output = Command::new("python3").arg(script).arg(kept.path()).args(anchor).output().expect("python3 runs");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let mut lines = text.lines().map(str::to_owned);
    (output.status.code().expect("a code"), lines.next().expect("a line"), lines.next().unwrap_or_default())
}

/// Our verdict and the stranger's must agree on how far it holds and on what stops it.
fn check(what: &str, file: &[u8], expected: Option<(i64, FaultKind)>) -> Report {
    let report = verdict(file);
    let found = report.fault.as_ref().map(|fault| (fault.seq, fault.kind));
    assert_eq!(found, expected, "{what}: {report}");
    let (code, valid, fault) = stranger(file, None);
    assert_eq!(code, i32::from(expected.is_some()), "{what}: {valid} {fault}");
    let head = report.head_hash.map_or_else(|| "-".to_owned(), |hash| hash.to_string());
    assert!(
        valid.starts_with(&format!("valid up to {}, head {head}: {} records", report.last_seq, report.records)),
        "{what}: {valid}, {report}"
    );
    if let Some((seq, kind)) = expected {
        assert!(fault.starts_with(&format!("fault at {seq}: {kind}: ")), "{what}: {fault}, {report}");
    } else {
        let counts =
            format!("{} blobs, {} requests ({} not kept)", report.blobs, report.requests, report.requests_not_kept);
        assert!(valid.contains(&counts), "{what}: {valid}, {report}");
    }
    report
}

#[tokio::test]
async fn good_files_hold_for_everybody() {
    let lines = lines().await;
    let report = check("as it was", &join(&lines), None);
    assert_eq!((report.records, report.blobs, report.requests), (10, 2, 2));
    let closed = String::from_utf8(closed(&lines[..lines.len() - 1])).expect("text");
    let last = closed.lines().next_back().expect("a line");
    assert_eq!(value(last), value(&lines[lines.len() - 1]), "the tests close a file as the writer does");
    let anchor = format!("10:{}", report.head_hash.expect("a head"));
    let (code, valid, _) = stranger(&join(&lines), Some(&anchor));
    assert!(code == 0 && valid.ends_with("anchored at 10"), "{valid}");
    let (code, _, fault) = stranger(&join(&lines), Some(&format!("11:{}", Digest::of(b"x"))));
    assert!(code == 1 && fault.starts_with("fault at 10: head: truncated"), "{fault}");
    let (code, _, fault) = stranger(&join(&lines), Some(&format!("9:{}", Digest::of(b"x"))));
    assert!(code == 1 && fault.starts_with("fault at 9: head: "), "{fault}");
    let empty = Stage::new();
    let uid = empty.create("sess-e").await;
    check("an empty session", &empty.export(&uid).await, None);
}

/// R-HASH-8, R-HASH-9: one change each, under a last line that is true.
#[tokio::test]
async fn changed_records_are_named() {
    let good = lines().await;
    let good = &good[..good.len() - 1];
    let with = |edit: &dyn Fn(&mut Vec<String>)| {
        let mut lines = good.to_vec();
        edit(&mut lines);
        closed(&lines)
    };
    let record = |n| position(good, "record", n);
    check(
        "a letter of an event",
        &with(&|l| l[record(3)] = l[record(3)].replace("antwort", "Antwort")),
        Some((4, FaultKind::Hash)),
    );
    check(
        "a hash",
        &with(&|l| {
            change(l, record(3), |r| r["record"]["content_hash"] = Digest::of(b"x").to_string().into());
        }),
        Some((4, FaultKind::Hash)),
    );
    check(
        "a link",
        &with(&|l| {
            change(l, record(3), |r| r["record"]["prev_hash"] = Digest::of(b"x").to_string().into());
        }),
        Some((4, FaultKind::Link)),
    );
    check(
        "a first record with a link",
        &with(&|l| {
            change(l, record(0), |r| r["record"]["prev_hash"] = Digest::of(b"x").to_string().into());
        }),
        Some((1, FaultKind::Link)),
    );
    check("a record left out", &with(&|l| drop(l.remove(record(4)))), Some((5, FaultKind::Gap)));
    check("two records swapped", &with(&|l| l.swap(record(0), record(1))), Some((1, FaultKind::Gap)));
    check("a record twice", &with(&|l| l.insert(record(1), l[record(1)].clone())), Some((3, FaultKind::Gap)));
    check("the last records left out", &with(&|l| drop(l.drain(record(8)..))), Some((8, FaultKind::Head)));
    check("all records left out", &with(&|l| l.truncate(2)), Some((0, FaultKind::Head)));
    check(
        "a head that the session does not have",
        &with(&|l| {
            change(l, 1, |s| s["session"]["head"]["hash"] = Digest::of(b"x").to_string().into());
        }),
        Some((10, FaultKind::Head)),
    );
}

/// A chain that was sealed anew holds; only the head in the session, or an anchor, tells.
#[tokio::test]
async fn a_rewritten_journal_holds_until_somebody_knows_its_head() {
    let mut lines = lines().await;
    lines.pop();
    let at = position(&lines, "record", 3);
    lines[at] = lines[at].replace("antwort", "Antwort");
    reseal(&mut lines);
    check("resealed, old head", &closed(&lines), Some((10, FaultKind::Head)));
    let last = value(&lines[position(&lines, "record", 9)]);
    change(&mut lines, 1, |s| s["session"]["head"]["hash"] = last["record"]["content_hash"].clone());
    let report = check("resealed, new head", &closed(&lines), None);
    assert!(report.to_string().contains("no anchor"));
}

/// R-HASH-9: what cannot be decoded is not tampered. A stranger stops at the same record.
#[tokio::test]
async fn an_event_that_cannot_be_decoded_is_no_tampering() {
    let mut lines = lines().await;
    lines.pop();
    let at = position(&lines, "record", 9);
    change(&mut lines, at, |r| r["record"]["event"] = "{\"kind\":".into());
    reseal(&mut lines);
    let fault = verdict(&closed(&lines)).fault.expect("a fault");
    assert_eq!((fault.seq, fault.kind), (10, FaultKind::Undecodable));
    let (code, valid, fault) = stranger(&closed(&lines), None);
    assert!(code == 1 && valid.starts_with("valid up to 9,") && fault.starts_with("fault at 10: "), "{valid} {fault}");
}

#[tokio::test]
async fn changed_blobs_and_requests_are_named() {
    let good = lines().await;
    let good = &good[..good.len() - 1];
    let with = |edit: &dyn Fn(&mut Vec<String>)| {
        let mut lines = good.to_vec();
        edit(&mut lines);
        closed(&lines)
    };
    let (blob, request) = (|n| position(good, "blob", n), |n| position(good, "request", n));
    check("a byte of a blob", &with(&|l| change(l, blob(0), flip)), Some((4, FaultKind::Blob)));
    check("a blob left out", &with(&|l| drop(l.remove(blob(1)))), Some((4, FaultKind::Blob)));
    check(
        "a blob that nobody names",
        &with(&|l| {
            let (digest, base64) = (Digest::of(b"x").to_string(), "eA==");
            l.push(json!({"blob": {"digest": digest, "at": 0, "size": 1, "base64": base64}}).to_string());
        }),
        Some((11, FaultKind::Blob)),
    );
    check(
        "a letter of a request",
        &with(&|l| l[request(1)] = l[request(1)].replace("Turn", "turn")),
        Some((8, FaultKind::Request)),
    );
    check("a request as the difference to nothing", &with(&|l| drop(l.remove(request(0)))), Some((8, FaultKind::File)));
    check("a request that was not kept", &with(&|l| drop(l.remove(request(1)))), None);
    check(
        "a request that nobody made",
        &with(&|l| {
            l.push(
                json!({"request": {"digest": Digest::of(b"x").to_string(), "prefix": 0, "suffix": 0, "middle": "x"}})
                    .to_string(),
            );
        }),
        Some((11, FaultKind::Request)),
    );
}

fn flip(line: &mut Value) {
    let text = line["blob"]["base64"].as_str().expect("base64");
    let other = if text.starts_with('A') { "B" } else { "A" };
    line["blob"]["base64"] = format!("{other}{}", &text[1..]).into();
}

/// A blob of two chunks is one blob.
#[tokio::test]
async fn changed_chunks_are_named() {
    let stage = Stage::with_files([1024 * 1024 + 3, 1]);
    let good = lines_of(&stage).await;
    let (first, second) = (position(&good, "blob", 0), position(&good, "blob", 1));
    let with = |edit: &dyn Fn(&mut Vec<String>)| {
        let mut lines = good[..good.len() - 1].to_vec();
        edit(&mut lines);
        closed(&lines)
    };
    check("as it was", &join(&good), None);
    check("a byte of its last chunk", &with(&|l| change(l, second, flip)), Some((4, FaultKind::Blob)));
    check("a chunk left out", &with(&|l| drop(l.remove(second))), Some((4, FaultKind::File)));
    check("chunks swapped", &with(&|l| l.swap(first, second)), Some((4, FaultKind::File)));
}

#[tokio::test]
async fn lines_that_may_not_stand_there_are_named() {
    let good = lines().await;
    let (good, end) = (&good[..good.len() - 1], &good[good.len() - 1]);
    let with = |edit: &dyn Fn(&mut Vec<String>)| {
        let mut lines = good.to_vec();
        edit(&mut lines);
        closed(&lines)
    };
    let file = |what: &str, bytes: &[u8], seq| check(what, bytes, Some((seq, FaultKind::File)));
    file("another format", &with(&|l| l[0] = l[0].replace("inspan-export", "tar")), 1);
    let report = file("another version", &with(&|l| l[0] = l[0].replace('1', "2")), 1);
    assert!(report.to_string().contains("version 2 of the export format"), "{report}");
    file("no header", &with(&|l| drop(l.remove(0))), 1);
    file("no session", &with(&|l| drop(l.remove(1))), 1);
    file("a second session", &with(&|l| l.insert(2, l[1].clone())), 1);
    file("an unknown kind", &with(&|l| l.push(r#"{"note":{}}"#.into())), 11);
    file("an empty line", &with(&|l| l.push(String::new())), 11);
    file("no object", &with(&|l| l.push("7".into())), 11);
    file("two kinds in a line", &with(&|l| l.push(r#"{"blob":{},"record":{}}"#.into())), 11);
    file(
        "an unknown field",
        &with(&|l| {
            change(l, position(good, "record", 0), |r| r["record"]["more"] = 1.into());
        }),
        1,
    );
    file(
        "a field that is missing",
        &with(&|l| {
            change(l, position(good, "record", 0), |r| {
                drop(r["record"].as_object_mut().expect("an object").remove("fence"))
            });
        }),
        1,
    );
    let whole = |end: &str| [join(good), end.as_bytes().to_vec(), b"\n".to_vec()].concat();
    file("more behind the last line", &[whole(end), b"{}\n".to_vec()].concat(), 11);
    file("another count", &whole(&end.replace("\"records\":10", "\"records\":11")), 11);
    let sha = value(end)["end"]["sha256"].as_str().expect("a digest").to_owned();
    file("another SHA-256", &whole(&end.replace(&sha, &Digest::of(b"x").to_string())), 11);
    file("no export at all", b"PK\x03\x04\n", 1);
}

async fn small() -> (Stage, SessionUid, Vec<u8>) {
    let stage = Stage::new();
    let uid = stage.create("sess-a").await;
    stage.turns(&uid, 2..3).await;
    let file = stage.export(&uid).await;
    (stage, uid, file)
}

/// How many of the records stand whole in the first `length` bytes.
fn whole_records(file: &[u8], length: usize) -> i64 {
    let ends = file[..length].split_inclusive(|b| *b == b'\n');
    let whole = ends.filter(|line| line.ends_with(b"\n") && line.starts_with(b"{\"record\"")).count();
    i64::try_from(whole).expect("a few")
}

/// A tail that was cut is cut, wherever; what is before it still counts.
#[tokio::test]
async fn a_cut_file_says_how_far_it_holds() {
    let (_, _, file) = small().await;
    for length in 0..file.len() {
        let report = verdict(&file[..length]);
        let records = whole_records(&file, length);
        let fault = report.fault.as_ref().expect("a fault");
        assert_eq!((report.last_seq, fault.seq, fault.kind), (records, records + 1, FaultKind::Truncated), "{length}");
    }
    let lines = file.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1);
    for length in lines.take_while(|length| *length < file.len()).step_by(2).flat_map(|at| [at, at + 7]) {
        check("cut", &file[..length], Some((whole_records(&file, length) + 1, FaultKind::Truncated)));
    }
    let text = verdict(&file[..file.len() - 1]).fault.expect("a fault").text;
    assert!(text.contains("truncated after line 8, at record 5"), "{text}");
}

/// Any flipped bit is found, and nothing behind it is vouched for.
#[tokio::test]
async fn a_flipped_bit_is_found_wherever_it_is() {
    let (stage, uid, file) = small().await;
    let all = stage.journal.records(&uid, 1, 100, 100).await.expect("readable");
    for at in 0..file.len() {
        let mut bad = file.clone();
        bad[at] ^= 1 << (at % 8);
        let report = verdict(&bad);
        assert!(report.fault.is_some(), "byte {at}: {report}");
        let hash =
            (report.last_seq > 0).then(|| all[usize::try_from(report.last_seq).expect("a seq") - 1].content_hash);
        assert_eq!(report.head_hash, hash, "byte {at}");
        if at % 401 == 0 {
            // The script reads no times and no names, so it may stop later: at the last line.
            let (code, valid, _) = stranger(&bad, None);
            assert_eq!(code, 1, "byte {at}: {valid}");
        }
    }
}

#[tokio::test]
async fn a_file_that_does_not_hold_leaves_no_trace_in_the_store() {
    let lines = lines().await;
    let mut bad = lines[..lines.len() - 1].to_vec();
    let at = position(&bad, "record", 9);
    bad[at] = bad[at].replace("COMPLETED", "FAILED");
    let stage = Stage::new();
    let refused = import(&stage.journal, Cursor::new(closed(&bad)), None, Counter::default()).await;
    let Err(ImportError::Fault(report)) = refused else { panic!("{refused:?}") };
    assert_eq!(report.last_seq, 9);
    assert_eq!(stage.journal.session(&SessionUid::from("sess-a")).await, Ok(None));
    assert!(stage.blobs.digests().is_empty());
}

#[test]
fn a_missing_file_is_another_exit_code() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/verify.py");
    for arguments in [&["/nowhere"][..], &[]] {
        let output = Command::new("python3").arg(script).args(arguments).output().expect("python3 runs");
        assert_eq!(output.status.code(), Some(2));
        assert!(!output.stderr.is_empty());
    }
}

/// The script has a hundred lines, so that somebody reads it.
#[test]
fn the_script_is_short_and_needs_nothing() {
    let script = include_str!("../../../../tools/verify.py");
    assert!(script.lines().count() <= 100);
    let imports = script.lines().filter(|l| l.starts_with("import ") || l.starts_with("from "));
    assert_eq!(imports.collect::<Vec<_>>(), ["import hashlib, json, sys", "from base64 import b64decode"]);
}
