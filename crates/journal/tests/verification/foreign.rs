//! Journals that other hosts wrote.

use std::path::PathBuf;

use inspan_journal::Journal as _;
use inspan_journal::foreign::{Foreign, ImportError};
use inspan_journal::verify::{self, FaultKind};
use inspan_wire::v1::{self, EventKind, event::Body};
use inspan_wire::{Digest, SessionUid, canon};
use prost::Message as _;
use rusqlite::Connection;

use crate::support::{Counter, Stage};

/// How another host keeps an event.
#[derive(Clone, Copy)]
enum Form {
    Protobuf,
    Canonical,
    /// JSON with white space and in another order.
    Loose,
}

fn events() -> Vec<v1::Event> {
    let start = v1::ExecutionStart { input_count: Some(1), ..Default::default() };
    vec![
        v1::Event::new("e", EventKind::EventExecutionStart, Body::ExecutionStart(start)),
        v1::Event::new("e", EventKind::EventInput, Body::Message(v1::Message::text("user", "hi <é>"))),
        v1::Event::new(
            "e",
            EventKind::EventModelCall,
            Body::Model(v1::ModelCall { input_hash: Digest::of(b"?").to_string(), ..Default::default() }),
        ),
        v1::Event::new("e", EventKind::EventError, Body::Error(v1::Error { code: 0, description: "boom".into() })),
    ]
}

fn stored(event: &v1::Event, form: Form) -> rusqlite::types::Value {
    let canonical = String::from_utf8(canon::event(event).expect("canonical")).expect("text");
    match form {
        Form::Protobuf => event.encode_to_vec().into(),
        Form::Canonical => canonical.into(),
        Form::Loose => {
            let value: serde_json::Value = serde_json::from_str(&canonical).expect("JSON");
            serde_json::to_string_pretty(&value).expect("JSON").into()
        }
    }
}

struct File {
    _folder: tempfile::TempDir,
    path: PathBuf,
    db: Connection,
}

impl File {
    fn new(columns: &str) -> File {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sessions.db");
        let db = Connection::open(&path).expect("a database");
        db.execute_batch(&format!("CREATE TABLE events ({columns})")).expect("a table");
        File { _folder: folder, path, db }
    }

    fn fill(&self, session: &str, form: Form) -> Option<Digest> {
        let mut prev = None;
        for (seq, event) in (1_i64..).zip(events()) {
            let hash = canon::content_hash(prev, seq, &canon::event(&event).expect("canonical"));
            let hex = |digest: Option<Digest>| digest.map(|d| d.to_string()).unwrap_or_default();
            self.db
                .execute(
                    "INSERT INTO events (session, seq, prev_hash, hash, event) VALUES (?, ?, ?, ?, ?)",
                    (session, seq, hex(prev), hash.to_string(), stored(&event, form)),
                )
                .expect("a row");
            prev = Some(hash);
        }
        prev
    }

    fn open(&self) -> Foreign {
        Foreign::open(&self.path).expect("a journal")
    }
}

const PLAIN: &str = "session TEXT, seq INTEGER, prev_hash TEXT, hash TEXT, event BLOB";

#[tokio::test]
async fn every_form_of_event_is_read_and_imported() {
    let file = File::new(PLAIN);
    let stage = Stage::new();
    for (uid, form) in [("a", Form::Protobuf), ("b", Form::Canonical), ("c", Form::Loose)] {
        let head = file.fill(uid, form);
        let uid = SessionUid::from(uid);
        let imported =
            file.open().import(&stage.journal, &uid, 77_000_000, Counter::default()).await.expect("imported");
        assert_eq!(imported.session.head.hash, head);
        assert_eq!((imported.session.fence, imported.session.create_ns), (0, 77_000_000));
        assert_eq!((imported.report.records, imported.report.requests_not_kept), (4, 1));
        assert!(imported.unknown.contains(&"harness") && imported.unknown.contains(&"fence"), "{:?}", imported.unknown);
        let records = stage.journal.records(&uid, 1, 9, 9).await.expect("readable");
        let canonical: Vec<_> = events().iter().map(|e| canon::event(e).expect("canonical")).collect();
        assert_eq!(records.iter().map(|r| r.event.to_vec()).collect::<Vec<_>>(), canonical);
        let report = verify::session(&stage.journal, &uid, None).await.expect("readable");
        assert_eq!(report, imported.report);
    }
    assert_eq!(file.open().sessions(), Ok(["a", "b", "c"].map(SessionUid::from).to_vec()));
}

#[tokio::test]
async fn what_the_file_tells_is_taken() {
    let file = File::new(&format!("{PLAIN}, fence INTEGER DEFAULT 3"));
    file.fill("a", Form::Protobuf);
    let sessions = "CREATE TABLE sessions (uid TEXT, project TEXT, harness TEXT, model INTEGER);
        INSERT INTO sessions VALUES ('a', 'p', 'echo', 7)";
    file.db.execute_batch(sessions).expect("a table");
    let stage = Stage::new();
    let uid = SessionUid::from("a");
    let imported = file.open().import(&stage.journal, &uid, 1, Counter::default()).await.expect("imported");
    assert_eq!(imported.session.fence, 3);
    assert_eq!(imported.session.info.harness, "echo");
    assert_eq!(imported.session.info.metadata.expect("metadata").project, "p");
    let unknown = ["name", "model", "identity", "origin", "labels", "annotations", "create_time", "update_time"];
    assert_eq!(imported.unknown, unknown);
}

#[tokio::test]
async fn damage_is_found_and_not_imported() {
    let cases = [
        ("UPDATE events SET hash = prev_hash WHERE seq = 3", 3, FaultKind::Hash),
        ("UPDATE events SET prev_hash = hash WHERE seq = 3", 3, FaultKind::Link),
        ("UPDATE events SET event = (SELECT event FROM events WHERE seq = 2) WHERE seq = 3", 3, FaultKind::Hash),
        ("DELETE FROM events WHERE seq = 3", 3, FaultKind::Gap),
        ("UPDATE events SET seq = 0 - seq WHERE seq = 1", 1, FaultKind::Gap),
        ("UPDATE events SET event = x'ffff' WHERE seq = 4", 4, FaultKind::Undecodable),
        ("UPDATE events SET event = '{' WHERE seq = 4", 4, FaultKind::Undecodable),
        ("UPDATE events SET event = 5 WHERE seq = 4", 4, FaultKind::Undecodable),
        ("UPDATE events SET hash = 'x' WHERE seq = 2", 2, FaultKind::Undecodable),
    ];
    let stage = Stage::new();
    let uid = SessionUid::from("a");
    for form in [Form::Protobuf, Form::Canonical] {
        for (damage, seq, kind) in cases {
            let file = File::new(PLAIN);
            file.fill("a", form);
            file.db.execute_batch(damage).expect("damaged");
            let refused = file.open().import(&stage.journal, &uid, 1, Counter::default()).await;
            let Err(ImportError::Fault(_, report)) = refused else { panic!("{damage}: {refused:?}") };
            let fault = report.fault.expect("a fault");
            assert_eq!((fault.seq, fault.kind, report.last_seq), (seq, kind, seq - 1), "{damage}: {}", fault.text);
        }
    }
    assert_eq!(stage.journal.session(&uid).await, Ok(None));
}

/// A chain does not show that its tail was cut; an anchor does.
#[test]
fn a_cut_tail_shows_with_an_anchor_only() {
    let file = File::new(PLAIN);
    let head = file.fill("a", Form::Protobuf);
    file.db.execute_batch("DELETE FROM events WHERE seq = 4").expect("cut");
    let uid = SessionUid::from("a");
    let report = file.open().verify(&uid, None).expect("readable");
    assert_eq!((report.last_seq, report.fault), (3, None));
    let anchor = inspan_journal::Head { seq: 4, hash: head };
    let fault = file.open().verify(&uid, Some(anchor)).expect("readable").fault.expect("a fault");
    assert_eq!((fault.seq, fault.kind), (3, FaultKind::Head));
}

#[test]
fn the_file_is_never_written_and_other_files_are_refused() {
    let file = File::new(PLAIN);
    file.fill("a", Form::Protobuf);
    let before = std::fs::read(&file.path).expect("readable");
    let foreign = file.open();
    assert_eq!(foreign.verify(&SessionUid::from("a"), None).expect("readable").records, 4);
    assert_eq!(std::fs::read(&file.path).expect("readable"), before);
    let refused = |columns| Foreign::open(&File::new(columns).path).err().expect("refused").to_string();
    assert!(refused("session TEXT, seq INTEGER").contains("no column prev_hash"));
    let folder = tempfile::tempdir().expect("a folder");
    assert!(Foreign::open(&folder.path().join("none.db")).is_err());
    let text = folder.path().join("text.db");
    std::fs::write(&text, "not a database, by a long way; SQLite wants its header first").expect("written");
    assert!(Foreign::open(&text).is_err());
}

#[tokio::test]
async fn a_session_without_records_is_not_found() {
    let file = File::new(PLAIN);
    let refused = file.open().import(&Stage::new().journal, &SessionUid::from("x"), 1, Counter::default()).await;
    assert!(matches!(refused, Err(ImportError::Journal(inspan_journal::Error::NotFound(_)))), "{refused:?}");
}
