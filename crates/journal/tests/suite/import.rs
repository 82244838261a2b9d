//! Importing sessions from elsewhere.

use std::sync::Arc;

use bytes::Bytes;
use inspan_journal::{Error, Head, Import, ImportBatch, Journal, NewRecord, NewSession, Record, TurnMark};
use inspan_wire::{Digest, SessionUid};

use super::{Bed, START_NS, kept, new_session, seal, state, text};

/// Records `head + 1 ..= to` as another store had them.
fn foreign(head: Head, to: i64) -> Vec<Record> {
    let texts: Vec<String> = (head.seq + 1..=to).map(text).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let sealed = seal(head, &texts);
    sealed
        .into_iter()
        .map(|NewRecord { seq, prev_hash, content_hash, event }| Record {
            seq,
            prev_hash,
            content_hash,
            fence: 40 + seq,
            ts_ms: 1000 + seq,
            event,
        })
        .collect()
}

fn batches(records: Vec<Record>, size: usize) -> Vec<ImportBatch> {
    records.chunks(size).map(|records| ImportBatch { records: records.to_vec(), ..Default::default() }).collect()
}

fn import(uid: &str, parent: Option<(SessionUid, i64)>, batches: Vec<Result<ImportBatch, Error>>) -> Import {
    let mut batches = batches.into_iter();
    Import {
        session: NewSession { state: state(77), ..new_session(uid, "p") },
        parent,
        times_ns: (START_NS - 500, START_NS - 400),
        fence: 99,
        next: Box::new(move || batches.next().unwrap_or_else(|| Ok(ImportBatch::default()))),
    }
}

fn fine(batches: Vec<ImportBatch>) -> Vec<Result<ImportBatch, Error>> {
    batches.into_iter().map(Ok).collect()
}

pub(crate) async fn an_import_appears_as_it_was(bed: Bed) {
    let records = foreign(Head::default(), 10);
    let payload = bed.journal.blobs().put(Bytes::from_static(b"payload")).await.unwrap();
    let mut parts = batches(records.clone(), 4);
    let turn = TurnMark { execution_id: "e".into(), first_seq: 5, before: state(4) };
    parts[1].turns.push(turn.clone());
    parts[1].requests.push(kept("[5]", None));
    parts[2].blobs.push(payload);
    parts[2].state = Some(state(10));
    let session = bed.journal.import(import("a", None, fine(parts))).await.unwrap();
    assert_eq!(session, bed.get("a").await);
    assert_eq!((session.create_ns, session.update_ns, session.fence), (START_NS - 500, START_NS - 400, 99));
    assert_eq!(session.state, state(10));
    assert_eq!(session.info, new_session("a", "p").info);
    let bed = bed.reopen();
    assert_eq!(bed.records("a").await, records, "fences and times are the original ones");
    assert_eq!(bed.journal.turn_at(&"a".into(), 9).await.unwrap(), Some(turn));
    let kept = bed.journal.request(Digest::of(b"[5]")).await.unwrap();
    assert_eq!(kept.as_deref(), Some("[5]"));
    assert!(bed.journal.names_blob(&"a".into(), payload).await.unwrap());
    let append = super::append_to("a", bed.head("a").await, &["{}"]);
    let refused = bed.append(append.clone()).await;
    assert_eq!(refused, Err(Error::Fenced { session: "a".into(), held: 1, current: 99 }));
    let taken = inspan_journal::FenceRule::Next;
    assert_eq!(bed.append(inspan_journal::Append { fence: taken, ..append }).await.unwrap().fence, 100);
}

pub(crate) async fn an_import_joins_its_parent(bed: Bed) {
    let parent: SessionUid = bed.session_of("a", 6).await;
    let head = Head { seq: 4, hash: bed.hash_at("a", 4).await };
    let parts = batches(foreign(head, 7), 2);
    let session = bed.journal.import(import("b", Some((parent.clone(), 4)), fine(parts))).await.unwrap();
    assert_eq!((session.parent, session.head.seq), (Some((parent.clone(), 4)), 7));
    let (a, b) = (bed.records("a").await, bed.records("b").await);
    assert_eq!(a[..4], b[..4]);
    // Its parent's records stay for it.
    bed.journal.delete(&parent).await.unwrap();
    assert_eq!(bed.records("b").await, b);

    let beyond = import("c", Some(("b".into(), 9)), Vec::new());
    assert!(matches!(bed.journal.import(beyond).await, Err(Error::Invalid(_))));
    let orphan = import("c", Some(("nobody".into(), 1)), Vec::new());
    assert_eq!(bed.journal.import(orphan).await, Err(Error::NotFound("nobody".into())));
    bed.create("c").await;
}

pub(crate) async fn an_import_is_hidden_until_its_last_batch(bed: Bed) {
    let bed = Arc::new(bed);
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let (at, reached) = tokio::sync::oneshot::channel::<()>();
    let mut parts = batches(foreign(Head::default(), 6), 3).into_iter();
    let mut at = Some(at);
    let mut import = import("a", None, Vec::new());
    import.next = Box::new(move || {
        if parts.len() == 1
            && let Some(at) = at.take()
        {
            at.send(()).unwrap();
            wait.recv().unwrap();
        }
        Ok(parts.next().unwrap_or_default())
    });
    let running = tokio::spawn({
        let bed = Arc::clone(&bed);
        async move { bed.journal.import(import).await }
    });
    reached.await.unwrap();
    assert_eq!(bed.journal.session(&"a".into()).await.unwrap(), None);
    assert_eq!(bed.journal.records(&"a".into(), 1, 9, 9).await, Err(Error::NotFound("a".into())));
    assert_eq!(bed.journal.uids(None, 9).await.unwrap(), []);
    let list = inspan_journal::ListQuery { project: "p".to_owned(), limit: 9, after: None };
    assert!(bed.journal.list(list).await.unwrap().sessions.is_empty());
    go.send(()).unwrap();
    running.await.unwrap().unwrap();
    assert_eq!(bed.records("a").await.len(), 6);
}

pub(crate) async fn a_failed_import_leaves_its_uid_free(bed: Bed) {
    let payload = bed.journal.blobs().put(Bytes::from_static(b"payload")).await.unwrap();
    let mut parts = fine(batches(foreign(Head::default(), 6), 2));
    if let Ok(first) = &mut parts[0] {
        first.blobs.push(payload);
        first.requests.push(kept("[1]", None));
    }
    parts[2] = Err(Error::Io("the file ends in the middle of a record".into()));
    let failed = bed.journal.import(import("a", None, parts)).await;
    assert_eq!(failed, Err(Error::Io("the file ends in the middle of a record".into())));
    assert_eq!(bed.journal.session(&"a".into()).await.unwrap(), None);
    let again = fine(batches(foreign(Head::default(), 5), 2));
    bed.journal.import(import("a", None, again)).await.unwrap();
    assert_eq!(bed.records("a").await.len(), 5);
    let taken = import("a", None, Vec::new());
    assert_eq!(bed.journal.import(taken).await, Err(Error::Exists("a".into())));
}

pub(crate) async fn an_import_that_does_not_link_is_refused(bed: Bed) {
    let mut records = foreign(Head::default(), 6);
    records.remove(3);
    let refused = bed.journal.import(import("a", None, fine(batches(records, 2)))).await;
    assert!(matches!(&refused, Err(Error::Invalid(text)) if text.contains("record 5")), "{refused:?}");
    for first_seqs in [[2, 2], [3, 2], [0, 1], [1, 7]] {
        let mut parts = batches(foreign(Head::default(), 6), 6);
        parts[0].turns =
            first_seqs.map(|first_seq| TurnMark { execution_id: String::new(), first_seq, before: state(0) }).into();
        let refused = bed.journal.import(import("a", None, fine(parts))).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "turns at {first_seqs:?}: {refused:?}");
    }
    let late = foreign(Head { seq: 2, hash: Some(Digest::of(b"x")) }, 4);
    let refused = bed.journal.import(import("a", None, fine(batches(late, 9)))).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    let journal: &dyn Journal = &*bed.journal;
    assert_eq!(journal.session(&"a".into()).await.unwrap(), None);
}
