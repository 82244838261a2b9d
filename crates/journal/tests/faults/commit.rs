//! Group commit: one fsync for many, and one that breaks it.

use std::sync::Arc;

use inspan_journal::{Error, Head, Journal, sqlite};
use inspan_testkit::vfs::Vfs;

use super::{file, folder, open, options};
use crate::suite::{append_to, new_session, together};

async fn sessions(store: &sqlite::Store, n: usize) -> Vec<String> {
    let uids: Vec<String> = (0..n).map(|n| format!("s{n:03}")).collect();
    for uid in &uids {
        store.create(new_session(uid, "p")).await.unwrap();
    }
    uids
}

/// Appends that wait together are durable with one fsync.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_that_wait_together_share_a_flush() {
    let (vfs, folder) = (Vfs::register(), folder());
    let store = sqlite::Store::open(sqlite::Options { vfs: Some(vfs.name().to_owned()), ..options(folder.path()) });
    let store = store.unwrap();
    let uids = sessions(&store, 200).await;
    let before = vfs.disk().syncs();
    let calls = uids.iter().map(|uid| store.append(append_to(uid, Head::default(), &["{}"])));
    assert!(together(calls).await.iter().all(Result::is_ok));
    let flushes = vfs.disk().syncs() - before;
    assert!(flushes <= 50, "200 appends took {flushes} flushes");
    // And one that waits alone has one of its own.
    let before = vfs.disk().syncs();
    for n in 0..10 {
        let uid = format!("s{n:03}");
        let head = store.session(&uid.as_str().into()).await.unwrap().unwrap().head;
        store.append(append_to(&uid, head, &["{}"])).await.unwrap();
    }
    assert!(vfs.disk().syncs() - before >= 10, "each was durable when it was acknowledged");
}

/// An append that breaks the transaction that it shares is the only one that fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_that_breaks_the_commit_fails_alone() {
    let folder = folder();
    drop(open(folder.path()));
    let trigger = "CREATE TRIGGER breaks BEFORE INSERT ON records WHEN NEW.event = CAST('{\"broken\":1}' AS BLOB) \
                   BEGIN SELECT RAISE(ABORT, 'broken'); END";
    rusqlite::Connection::open(file(folder.path())).unwrap().execute_batch(trigger).unwrap();
    let store = Arc::new(open(folder.path()));
    let uids = sessions(&store, 60).await;
    let calls = uids.iter().enumerate().map(|(n, uid)| {
        let texts = if n % 20 == 7 { ["{}", "{\"broken\":1}"] } else { ["{}", "{}"] };
        store.append(append_to(uid, Head::default(), &texts))
    });
    for (n, outcome) in together(calls).await.into_iter().enumerate() {
        let head = store.session(&uids[n].as_str().into()).await.unwrap().unwrap().head.seq;
        if n % 20 == 7 {
            assert!(matches!(&outcome, Err(Error::Io(text)) if text.contains("broken")), "{outcome:?}");
            assert_eq!(head, 0, "nothing of it is there");
        } else {
            outcome.unwrap();
            assert_eq!(head, 2);
        }
    }
}
