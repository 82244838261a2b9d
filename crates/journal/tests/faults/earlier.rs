//! Stores of earlier schemas: opened, they hold what they held.

use std::sync::Arc;

use inspan_journal::{Append, Head, Journal as _, TurnMark, blob, sqlite};

use super::{file, folder, open};
use crate::suite::{HandClock, START_NS, append_to, child, head_after, kept, new_session, state};

/// Turns a store of version 6 into one of version 5.
const TO_VERSION_5: &str = "
    ALTER TABLE records RENAME TO records_6;
    ALTER TABLE turns RENAME TO turns_6;
    ALTER TABLE requests RENAME TO requests_6;
    DROP INDEX requests_base;
    CREATE TABLE records (id INTEGER PRIMARY KEY, session INTEGER NOT NULL, seq INTEGER NOT NULL, prev_id INTEGER NOT NULL,
      fence INTEGER NOT NULL, ts_ms INTEGER NOT NULL, prev_hash BLOB, content_hash BLOB NOT NULL, event BLOB NOT NULL) STRICT;
    INSERT INTO records SELECT id, session, seq, prev_id, fence, ts_ms, prev_hash, content_hash, event FROM records_6;
    CREATE TABLE turns (session INTEGER NOT NULL, first_seq INTEGER NOT NULL, execution_id TEXT NOT NULL,
      compute INTEGER NOT NULL, exec INTEGER NOT NULL, pending BLOB, scan BLOB NOT NULL, UNIQUE (session, first_seq)) STRICT;
    INSERT INTO turns SELECT r.session, t.first_seq, t.execution_id, t.compute, t.exec, t.pending, t.scan
      FROM turns_6 t JOIN records_6 r ON r.turn = t.id AND r.seq = t.first_seq;
    CREATE TABLE requests (key INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, size INTEGER NOT NULL, cost INTEGER NOT NULL,
      base INTEGER, prefix INTEGER NOT NULL, suffix INTEGER NOT NULL, middle BLOB NOT NULL) STRICT;
    CREATE INDEX requests_base ON requests (base) WHERE base IS NOT NULL;
    INSERT INTO requests SELECT key, digest, size, cost, base, prefix, suffix, middle FROM requests_6;
    INSERT INTO request_refs SELECT session, seq, request FROM records_6 WHERE request IS NOT NULL;
    DROP TABLE records_6;
    DROP TABLE turns_6;
    DROP TABLE requests_6;
    ALTER TABLE tool_keys ADD COLUMN result_seq INTEGER;
    DELETE FROM migrations WHERE version > 5;
";

/// A store that a version of every schema wrote opens and serves what it holds.
#[tokio::test]
async fn a_store_of_version_1_opens() {
    let folder = folder();
    let conn = rusqlite::Connection::open(file(folder.path())).unwrap();
    conn.execute_batch(include_str!("../fixtures/version_1.sql")).unwrap();
    drop(conn);
    let store = open(folder.path());
    for uid in ["a", "b"] {
        let session = store.session(&uid.into()).await.unwrap().unwrap();
        let records = store.records(&uid.into(), 1, 99, 99).await.unwrap();
        crate::suite::check_chain(&records, session.head);
        assert_eq!(records.len(), 4);
        store.append(append_to(uid, session.head, &["{}"])).await.unwrap();
    }
    let text = store.request(inspan_wire::Digest::of(b"[1,3]")).await.unwrap();
    assert_eq!(text.as_deref(), Some("[1,3]"));
    assert_eq!(store.turn_at(&"b".into(), 4).await.unwrap().unwrap().execution_id, "exec");
}

/// What earlier versions knew nothing of, keys were used for all the same: it is worked out when the store is opened.
#[tokio::test]
async fn a_store_of_version_2_learns_its_keys() {
    let folder = folder();
    let store = open(folder.path());
    for uid in ["a", "gone"] {
        store.create(new_session(uid, "p")).await.unwrap();
        crate::suite::keys::write_history(&store, &uid.into()).await;
    }
    assert_eq!(store.key_use(&"a".into(), "answered").await.unwrap(), None, "these appends said nothing of keys");
    drop(store);
    let conn = rusqlite::Connection::open(file(folder.path())).unwrap();
    conn.execute_batch(&format!("{TO_VERSION_5} DROP TABLE tool_keys; DELETE FROM migrations WHERE version > 4"))
        .unwrap();
    drop(conn);
    let store = open(folder.path());
    crate::suite::keys::check_history(&store, &"a".into()).await;
    store.delete(&"gone".into()).await.unwrap();
}

/// What version 1 found by an index, later ones find by links: they are made when the store is opened.
#[tokio::test]
async fn a_long_store_of_version_1_gets_its_links() {
    let folder = folder();
    let store = open(folder.path());
    for uid in ["a", "b", "empty"] {
        store.create(new_session(uid, "p")).await.unwrap();
    }
    for _ in 0..25 {
        for uid in ["a", "b"] {
            let head = store.session(&uid.into()).await.unwrap().unwrap().head;
            store.append(append_to(uid, head, &["{}"; 3])).await.unwrap();
        }
    }
    let before = store.records(&"b".into(), 1, 99, 99).await.unwrap();
    drop(store);
    let conn = rusqlite::Connection::open(file(folder.path())).unwrap();
    conn.execute_batch(&format!(
        "{TO_VERSION_5}
         ALTER TABLE records RENAME TO linked;
         CREATE TABLE records (id INTEGER PRIMARY KEY, session INTEGER NOT NULL, seq INTEGER NOT NULL,
           fence INTEGER NOT NULL, ts_ms INTEGER NOT NULL, prev_hash BLOB, content_hash BLOB NOT NULL,
           event BLOB NOT NULL, UNIQUE (session, seq)) STRICT;
         INSERT INTO records SELECT id, session, seq, fence, ts_ms, prev_hash, content_hash, event FROM linked;
         DROP TABLE linked; DROP TABLE landmarks; DROP TABLE registrations; DROP TABLE asks; DROP TABLE tool_keys;
         ALTER TABLE heads DROP COLUMN last_id;
         DELETE FROM migrations WHERE version > 1"
    ))
    .unwrap();
    drop(conn);
    let store = open(folder.path());
    assert_eq!(store.records(&"b".into(), 1, 99, 99).await.unwrap(), before);
    assert_eq!(store.records(&"b".into(), 40, 41, 99).await.unwrap(), before[39..41]);
    for uid in ["b", "empty"] {
        let head = store.session(&uid.into()).await.unwrap().unwrap().head;
        store.append(append_to(uid, head, &["{}"])).await.unwrap();
    }
    let whole = store.records(&"b".into(), 1, 99, 99).await.unwrap();
    assert_eq!((&whole[..75], whole.len()), (&before[..], 76));
    drop(store);
    let conn = rusqlite::Connection::open(file(folder.path())).unwrap();
    let count = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM landmarks"), 4, "two in each session: no read had to scan");
    assert_eq!(count("SELECT count(*) FROM records WHERE prev_id = 0"), 3);
}

/// What waits in a store of an earlier schema is listed when it is opened: by the time of the record that asks, the
/// one behind which its session was put to sleep.
#[tokio::test]
async fn an_earlier_store_lists_what_waits_in_it() {
    use inspan_journal::{Append, AskQuery, Asks, State};
    use inspan_wire::v1;
    let waits = |request_seq| State {
        pending: Some(v1::ApprovalRef { execution_id: "e".into(), tool_call_id: "c".into(), request_seq }),
        ..State::default()
    };
    let folder = folder();
    let clock = Arc::new(HandClock::at(START_NS));
    let blobs = Arc::new(blob::Memory::new());
    let options = || sqlite::Options::new(file(folder.path()), Arc::clone(&blobs) as _, Arc::clone(&clock) as _);
    let store = sqlite::Store::open(options()).unwrap();
    let asks = r#"{"approval":{"tool_call_id":"c"},"kind":"EVENT_APPROVAL_REQUEST"}"#;
    let sessions = ["quiet", "soon", "decided", "gone", "late"];
    let mut heads = Vec::new();
    for (n, uid) in (1..).zip(sessions) {
        store.create(new_session(uid, "p")).await.unwrap();
        clock.set(START_NS + n * 1_000_000);
        let append = append_to(uid, Head::default(), &["{}", asks]);
        heads.push(head_after(&append));
        let state = if uid == "quiet" { State::default() } else { waits(2) };
        store.append(Append { state, ..append }).await.unwrap();
    }
    clock.set(START_NS + 50_000_000);
    for (uid, head) in sessions.into_iter().zip(heads) {
        let state = if matches!(uid, "quiet" | "decided") { State::default() } else { waits(2) };
        store.append(Append { state, ..append_to(uid, head, &["{}"; 40]) }).await.unwrap();
    }
    store.delete(&"gone".into()).await.unwrap();
    drop(store);
    let conn = rusqlite::Connection::open(file(folder.path())).unwrap();
    conn.execute_batch(&format!(
        "{TO_VERSION_5} DROP TABLE asks; DROP TABLE tool_keys; DELETE FROM migrations WHERE version > 3"
    ))
    .unwrap();
    drop(conn);
    let store = sqlite::Store::open(options()).unwrap();
    for of in [Asks::All, Asks::Unannounced] {
        let page = store.asks(AskQuery { of, limit: 9, after: None }).await.unwrap();
        let found: Vec<_> = page.asks.iter().map(|ask| (ask.session.uid.as_str(), ask.since_ns - START_NS)).collect();
        assert_eq!(found, [("soon", 2_000_000), ("late", 5_000_000)]);
    }
    assert!(store.asks(AskQuery { of: Asks::Due, limit: 9, after: None }).await.unwrap().asks.is_empty());
    store.announced(&"soon".into(), 2).await.unwrap();
    let page = store.asks(AskQuery { of: Asks::Unannounced, limit: 9, after: None }).await.unwrap();
    assert_eq!(page.asks.len(), 1);
}

/// Turns and requests that version 5 found by session are found through the records, and go with the last of them.
#[tokio::test]
async fn turns_and_requests_of_version_5_are_found_and_dropped() {
    let folder = folder();
    let store = open(folder.path());
    for uid in ["a", "b"] {
        store.create(new_session(uid, "p")).await.unwrap();
    }
    let mark = |n: i64| TurnMark { execution_id: format!("e{n}"), first_seq: n, before: state(n) };
    let texts = ["[1]", "[1,2]", "[1,2,3]"];
    for (n, text) in (0..).zip(texts) {
        let head = store.session(&"a".into()).await.unwrap().unwrap().head;
        let base = (n > 0).then(|| texts[n - 1]);
        let (seq, requests) = (head.seq + 1, vec![kept(text, base)]);
        let append = Append { turn: Some(mark(seq)), requests, ..append_to("a", head, &["{}"; 20]) };
        store.append(append).await.unwrap();
    }
    // One record of another session carries two of them, and one of its own.
    let requests = [kept("[1]", None), kept("[1,2,3]", None), kept("[9]", None)].into();
    store.append(Append { requests, ..append_to("b", Head::default(), &["{}"]) }).await.unwrap();
    let at = store.records(&"a".into(), 30, 30, 1).await.unwrap();
    let children = vec![child("c", 30, Some(at[0].content_hash))];
    store.fork(inspan_journal::Fork { parent: "a".into(), at_seq: 30, children }).await.unwrap();
    let marks = async |store: &sqlite::Store| {
        let mut marks = Vec::new();
        for (uid, seq) in [("a", 1), ("a", 20), ("a", 21), ("a", 60), ("a", 99), ("c", 30), ("c", 31), ("b", 1)] {
            marks.push(store.turn_at(&uid.into(), seq).await.unwrap());
        }
        marks
    };
    let before = marks(&store).await;
    let found: Vec<i64> = before.iter().map(|mark| mark.as_ref().map_or(0, |mark| mark.first_seq)).collect();
    assert_eq!(found, [1, 1, 21, 41, 41, 21, 21, 0]);
    drop(store);

    rusqlite::Connection::open(file(folder.path())).unwrap().execute_batch(TO_VERSION_5).unwrap();
    let store = open(folder.path());
    assert_eq!(marks(&store).await, before);
    let texts = async |store: &sqlite::Store| {
        let mut found = Vec::new();
        for text in ["[1]", "[1,2]", "[1,2,3]", "[9]"] {
            let read = store.request(inspan_wire::Digest::of(text.as_bytes())).await.unwrap();
            found.extend(read.is_some_and(|read| &*read == text).then_some(text));
        }
        found
    };
    assert_eq!(texts(&store).await, ["[1]", "[1,2]", "[1,2,3]", "[9]"]);
    store.delete(&"a".into()).await.unwrap();
    let of_fork = store.turn_at(&"c".into(), 30).await.unwrap();
    assert_eq!(of_fork, before[5], "a fork still reads what it shares");
    assert_eq!(texts(&store).await, ["[1]", "[1,2]", "[1,2,3]", "[9]"]);
    store.delete(&"b".into()).await.unwrap();
    assert_eq!(texts(&store).await, ["[1]", "[1,2]"], "what nobody carries goes");
    store.delete(&"c".into()).await.unwrap();
    drop(store);
    let conn = rusqlite::Connection::open(file(folder.path())).unwrap();
    for table in ["records", "turns", "requests", "request_refs", "landmarks", "trash"] {
        let left: i64 = conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0, "{table}");
    }
}
