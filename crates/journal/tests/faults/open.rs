//! Opening: what is refused, what is left over, what a damaged record gives.

use std::fs;
use std::sync::Arc;

use inspan_journal::{Error, Head, Journal, blob, sqlite};

use super::{file, folder, open, options};
use crate::suite::{HandClock, START_NS, append_to, head_after, new_session};

/// One bit of a record in the database: the read says which record, the ones before it are
/// served.
#[tokio::test]
async fn a_flipped_bit_in_a_record_is_named() {
    let folder = folder();
    let store = open(folder.path());
    store.create(new_session("a", "p")).await.unwrap();
    let texts: Vec<String> = (1..=9).map(|n| format!("{{\"needle\":{n}}}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    store.append(append_to("a", Head::default(), &texts)).await.unwrap();
    drop(store);
    let mut db = fs::read(file(folder.path())).unwrap();
    let at = db.windows(11).position(|w| w == b"\"needle\":6}").expect("the record is in the file");
    db[at + 1] ^= 1;
    fs::write(file(folder.path()), db).unwrap();
    let store = open(folder.path());
    let damaged = store.records(&"a".into(), 1, 9, 99).await;
    let Err(Error::Damaged { session, seq: 6, .. }) = &damaged else { panic!("{damaged:?}") };
    assert_eq!(session.as_str(), "a");
    assert_eq!(store.records(&"a".into(), 1, 5, 99).await.unwrap().len(), 5);
    assert_eq!(store.records(&"a".into(), 7, 9, 99).await.unwrap().len(), 3);
}

/// Rows that are gone, swapped or cut off at the end are noticed too.
#[tokio::test]
async fn missing_and_foreign_records_are_named() {
    for (sql, seq) in [
        ("DELETE FROM records WHERE seq = 4", 4),
        ("DELETE FROM records WHERE seq = 9", 9),
        ("UPDATE records SET seq = seq + 1 WHERE seq = 9", 9),
        ("UPDATE records SET prev_hash = NULL WHERE seq = 5", 5),
        ("UPDATE records SET content_hash = (SELECT content_hash FROM records WHERE seq = 2) WHERE seq = 7", 7),
        ("UPDATE heads SET hash = (SELECT content_hash FROM records WHERE seq = 8)", 9),
    ] {
        let folder = folder();
        let store = open(folder.path());
        store.create(new_session("a", "p")).await.unwrap();
        store.append(append_to("a", Head::default(), &["{}"; 9])).await.unwrap();
        drop(store);
        rusqlite::Connection::open(file(folder.path())).unwrap().execute_batch(sql).unwrap();
        let damaged = open(folder.path()).records(&"a".into(), 1, 99, 99).await;
        assert!(matches!(&damaged, Err(Error::Damaged { seq: at, .. }) if *at == seq), "{sql}: {damaged:?}");
    }
}

#[tokio::test]
async fn a_second_host_is_refused_until_the_first_is_gone() {
    let folder = folder();
    let first = open(folder.path());
    let refused = sqlite::Store::open(options(folder.path())).map(drop).unwrap_err().to_string();
    assert!(refused.contains("open in another process") && refused.contains("journal.db.lock"), "{refused}");
    drop(first);
    open(folder.path());
}

#[tokio::test]
async fn what_is_no_journal_is_refused() {
    let folder = folder();
    fs::write(file(folder.path()), "this is not a database, but it is long enough to be looked at".repeat(100))
        .unwrap();
    let refused = sqlite::Store::open(options(folder.path())).map(drop).unwrap_err().to_string();
    assert!(refused.contains("journal.db") && refused.contains("is no journal"), "{refused}");

    let other = super::folder();
    rusqlite::Connection::open(file(other.path())).unwrap().execute_batch("CREATE TABLE events (session)").unwrap();
    let refused = sqlite::Store::open(options(other.path())).map(drop).unwrap_err().to_string();
    assert!(refused.contains("another program"), "{refused}");
}

/// A page of what waits costs the same with a hundred waiting sessions and with twenty thousand.
#[tokio::test]
async fn a_page_of_asks_costs_the_same_with_many() {
    use inspan_journal::{AskQuery, Asks};
    let reads = |sessions: i64| async move {
        let folder = folder();
        open(folder.path());
        let conn = rusqlite::Connection::open(file(folder.path())).unwrap();
        conn.execute_batch(&format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {sessions}) \
             INSERT INTO sessions (uid, life, project, create_ns, parent, fork_seq, reads_to, info) \
             SELECT 's' || i, 0, 'p', i, NULL, 0, 0, x'' FROM n; \
             INSERT INTO heads (session, seq, fence, update_ns, compute, exec, pending, scan) \
             SELECT key, 0, 0, 0, 0, 0, x'1801', x'' FROM sessions; \
             INSERT INTO asks SELECT key, uid, project, 1, key, key, 0 FROM sessions"
        ))
        .unwrap();
        drop(conn);
        let vfs = inspan_testkit::vfs::Vfs::register();
        let store = sqlite::Store::open(sqlite::Options { vfs: Some(vfs.name().to_owned()), ..options(folder.path()) });
        let store = store.unwrap();
        let before = vfs.disk().reads();
        for of in [Asks::All, Asks::Project("p".into()), Asks::Due, Asks::Unannounced] {
            assert_eq!(store.asks(AskQuery { of, limit: 50, after: None }).await.unwrap().asks.len(), 50);
        }
        vfs.disk().reads() - before
    };
    let (few, many) = (reads(100).await, reads(20_000).await);
    assert!(many <= few + 20, "{few} reads with a hundred, {many} with twenty thousand");
}

/// A copy that is taken while appends go on is one committed state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_a_consistent_copy() {
    let (folder, copy) = (folder(), folder());
    let store = Arc::new(open(folder.path()));
    store.create(new_session("a", "p")).await.unwrap();
    let (done, mut stop) = tokio::sync::oneshot::channel::<()>();
    let writer = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            let mut head = Head::default();
            while stop.try_recv().is_err() {
                let append = append_to("a", head, &["{}", "{}"]);
                head = head_after(&append);
                store.append(append).await.unwrap();
            }
        }
    });
    store.backup(file(copy.path())).await.unwrap();
    let again = store.backup(file(copy.path())).await;
    assert!(matches!(again, Err(Error::Invalid(_))), "a backup overwrites nothing");
    done.send(()).unwrap();
    writer.await.unwrap();
    let copied = open(copy.path());
    let session = copied.session(&"a".into()).await.unwrap().unwrap();
    let mut records = Vec::new();
    while (records.len() as i64) < session.head.seq {
        records.extend(copied.records(&"a".into(), records.len() as i64 + 1, i64::MAX, 10_000).await.unwrap());
    }
    crate::suite::check_chain(&records, session.head);
    assert_eq!(records.len() % 2, 0, "no half of an append");
}

/// The removal of a payload and of a deleted session's records survives a crash in between.
#[tokio::test]
async fn what_a_crash_left_over_is_removed() {
    let folder = folder();
    let blobs = Arc::new(blob::Memory::new());
    let clock = || Arc::new(HandClock::at(START_NS));
    let reopen =
        || sqlite::Store::open(sqlite::Options::new(file(folder.path()), Arc::clone(&blobs) as _, clock())).unwrap();
    let store = reopen();
    for uid in ["a", "b", "c"] {
        store.create(new_session(uid, "p")).await.unwrap();
    }
    let payload = inspan_journal::Blobs::put(&*blobs, "payload".into()).await.unwrap();
    let mut append = append_to("a", Head::default(), &["{}"]);
    append.blobs.push(payload);
    store.append(append).await.unwrap();
    store.append(append_to("b", Head::default(), &["{}"])).await.unwrap();
    drop(store);
    // As if the process had died right behind the first commit of each delete and in an import.
    let sql = "UPDATE sessions SET life = 2 WHERE uid = 'a'; \
               INSERT INTO trash SELECT key FROM sessions WHERE uid = 'a'; \
               UPDATE sessions SET life = 1 WHERE uid = 'b'; \
               INSERT INTO imports SELECT key FROM sessions WHERE uid = 'b'";
    rusqlite::Connection::open(file(folder.path())).unwrap().execute_batch(sql).unwrap();
    let store = reopen();
    store.create(new_session("b", "p")).await.unwrap();
    store.delete(&"c".into()).await.unwrap();
    assert_eq!(blobs.digests(), []);
    drop(store);
    let left: i64 = rusqlite::Connection::open(file(folder.path()))
        .unwrap()
        .query_row(
            "SELECT (SELECT count(*) FROM records) + (SELECT count(*) FROM trash) + (SELECT count(*) FROM orphans)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(left, 0);
}

/// Opening reads nothing of the sessions: the same number of pages for one and for twenty thousand.
#[tokio::test]
async fn opening_costs_the_same_with_many_sessions() {
    let reads = |sessions: i64| async move {
        let folder = folder();
        open(folder.path());
        let conn = rusqlite::Connection::open(file(folder.path())).unwrap();
        conn.execute_batch(&format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {sessions}) \
             INSERT INTO sessions (uid, life, project, create_ns, parent, fork_seq, reads_to, info) \
             SELECT 's' || i, 0, 'p', i, NULL, 0, 0, x'' FROM n; \
             INSERT INTO heads (session, seq, fence, update_ns, compute, exec, scan) SELECT key, 0, 0, 0, 0, 0, x'' FROM sessions"
        ))
        .unwrap();
        drop(conn);
        let vfs = inspan_testkit::vfs::Vfs::register();
        let store = sqlite::Store::open(sqlite::Options { vfs: Some(vfs.name().to_owned()), ..options(folder.path()) });
        assert!(store.unwrap().session(&"s1".into()).await.unwrap().is_some());
        vfs.disk().reads()
    };
    let (few, many) = (reads(1).await, reads(20_000).await);
    assert!(many <= few + 10, "{few} reads with one session, {many} with twenty thousand");
}
