//! What goes out comes in again, and is checked on the way.

use std::io::Cursor;
use std::sync::Arc;

use bytes::Bytes;
use inspan_journal::export::{Fold as _, ImportError, Item, Reader, import};
use inspan_journal::verify::{self, FaultKind, Report};
use inspan_journal::{Blobs, Error, Head, Journal};
use inspan_wire::v1::{self, EventKind, event::Body};
use inspan_wire::{Digest, SessionUid};

use crate::support::{Counter, Stage, file};

async fn records(stage: &Stage, uid: &SessionUid) -> Vec<inspan_journal::Record> {
    stage.journal.records(uid, 1, i64::MAX, 10_000).await.expect("readable")
}

async fn verified(stage: &Stage, uid: &SessionUid) -> Report {
    verify::session(&stage.journal, uid, None).await.expect("readable")
}

/// R-HASH-8, R-HASH-9.
#[tokio::test]
async fn an_import_is_the_session_that_was_exported() {
    let (from, to) = (Stage::new(), Stage::new());
    let uid = from.create("sess-a").await;
    from.conversation(&uid, 3).await;
    let exported = from.export(&uid).await;
    let imported = to.import(&exported).await;

    assert_eq!(imported.report, verified(&from, &uid).await);
    assert_eq!(imported.report, verified(&to, &uid).await);
    assert_eq!((imported.report.records, imported.report.blobs, imported.report.requests), (15, 2, 3));
    assert_eq!(records(&to, &uid).await, records(&from, &uid).await, "hashes, fences and times included");
    let (there, here) = (from.journal.session(&uid).await.unwrap().unwrap(), imported.session);
    assert_eq!(
        (here.head, here.fence, here.create_ns, here.update_ns, &here.info),
        (there.head, there.fence, there.create_ns, there.update_ns, &there.info)
    );
    assert_eq!(here.state, Counter(15).state(), "the projections are those of the fold");
    let turn = to.journal.turn_at(&uid, 9).await.unwrap().expect("a turn");
    assert_eq!((turn.first_seq, turn.before), (6, Counter(5).state()));
    assert_eq!(to.blobs.digests(), from.blobs.digests());
    assert_eq!(to.export(&uid).await, exported, "and goes out as the same bytes");
}

#[tokio::test]
async fn an_empty_session_travels_too() {
    let (from, to) = (Stage::new(), Stage::new());
    let uid = from.create("sess-a").await;
    let imported = to.import(&from.export(&uid).await).await;
    assert_eq!(imported.report, Report::default());
    assert_eq!(imported.session.head, Head::default());
}

/// R-HASH-7: the records of a fork have the hashes of its parents, so written flat it stands alone.
#[tokio::test]
async fn a_fork_is_written_flat_and_names_its_parents() {
    let (from, to) = (Stage::new(), Stage::new());
    let root = from.create("sess-root").await;
    from.conversation(&root, 2).await;
    let child = from.fork(&root, 4, "sess-child").await;
    let grandchild = from.fork(&child, 5, "sess-grandchild").await;
    from.conversation(&grandchild, 1).await;
    let exported = from.export(&grandchild).await;
    let reader = Reader::open(Cursor::new(&exported)).expect("an export");
    assert_eq!(reader.session().lineage, [(child, 5), (root, 4)]);
    to.import(&exported).await;
    assert_eq!(records(&to, &grandchild).await, records(&from, &grandchild).await);
    assert_eq!(verified(&to, &grandchild).await.records, 11);
}

#[tokio::test]
async fn a_file_grows_with_the_session_and_not_with_its_square() {
    let size = |turns| async move {
        let stage = Stage::new();
        let uid = stage.create("sess-a").await;
        stage.conversation(&uid, turns).await;
        stage.export(&uid).await.len()
    };
    // The first two turns have the blobs.
    let (base, hundred, three_hundred) = (size(2).await, size(102).await, size(302).await);
    let (first, all) = (hundred - base, three_hundred - base);
    assert!(all < first * 305 / 100, "{first} bytes for 100 turns, {all} for 300");
}

#[tokio::test]
async fn lines_hold_no_more_than_a_chunk() {
    let stage = Stage::with_files([1024 * 1024 + 3, 1024 * 1024]);
    let uid = stage.create("sess-a").await;
    stage.conversation(&uid, 2).await;
    let file = stage.export(&uid).await;
    let longest = file.split(|b| *b == b'\n').map(<[u8]>::len).max().expect("lines");
    assert!(longest < 1_398_104 + 200, "{longest}");
    let mut reader = Reader::open(Cursor::new(&file)).expect("an export");
    let mut chunks = Vec::new();
    while let Some(item) = reader.next().expect("reads") {
        if let Item::Blob(chunk) = item {
            chunks.push((chunk.at, chunk.bytes.len(), chunk.is_last()));
        }
    }
    assert_eq!(chunks, [(0, 1 << 20, false), (1 << 20, 3, true), (0, 1 << 20, true)]);
}

#[tokio::test]
async fn an_import_under_a_taken_uid_is_refused_and_another_uid_is_free() {
    let stage = Stage::new();
    let uid = stage.create("sess-a").await;
    stage.conversation(&uid, 1).await;
    let exported = Cursor::new(stage.export(&uid).await);
    let refused = import(&stage.journal, exported.clone(), None, Counter::default()).await;
    assert!(matches!(refused, Err(ImportError::Journal(Error::Exists(_)))), "{refused:?}");
    let other = SessionUid::from("sess-b");
    let imported = import(&stage.journal, exported, Some(other.clone()), Counter::default()).await.expect("imported");
    assert_eq!(imported.session.uid, other);
    assert_eq!(records(&stage, &other).await, records(&stage, &uid).await);
}

#[tokio::test]
async fn a_blob_that_is_missing_stops_an_export_and_shows_in_the_verification() {
    let stage = Stage::new();
    let uid = stage.create("sess-a").await;
    stage.conversation(&uid, 1).await;
    let blob = stage.blobs.digests()[0];
    stage.blobs.remove(blob).await.expect("removed");
    let refused = inspan_journal::export::export(&stage.journal, &uid, &mut Vec::new()).await;
    let text = refused.expect_err("it would not stand alone").to_string();
    assert!(text.contains(&format!("record 4 names blob {blob}, which is missing")), "{text}");
    let report = verified(&stage, &uid).await;
    let fault = report.fault.expect("a fault");
    assert_eq!((fault.seq, fault.kind, report.last_seq), (4, FaultKind::Blob, 3));
}

/// A model call whose request was not kept is no fault, and no check either.
#[tokio::test]
async fn a_request_that_was_not_kept_is_said_so() {
    let stage = Stage::new();
    let uid = stage.create("sess-a").await;
    let call = v1::ModelCall { input_hash: Digest::of(b"?").to_string(), ..Default::default() };
    stage.append(&uid, &v1::Event::new("e", EventKind::EventModelCall, Body::Model(call)), None, vec![]).await;
    let report = verified(&stage, &uid).await;
    assert_eq!((report.requests, report.requests_not_kept, &report.fault), (0, 1, &None));
    assert!(report.to_string().contains("0 requests (1 not kept)"), "{report}");
    assert_eq!(Stage::new().import(&stage.export(&uid).await).await.report, report);
}

#[tokio::test]
async fn an_anchor_confirms_or_convicts() {
    let stage = Stage::new();
    let uid = stage.create("sess-a").await;
    stage.conversation(&uid, 1).await;
    let exported = stage.export(&uid).await;
    let all = records(&stage, &uid).await;
    let at = |seq: usize| Head { seq: all[seq - 1].seq, hash: Some(all[seq - 1].content_hash) };
    let cases = [
        (at(5), Some(5), None),
        (at(2), Some(2), None),
        (Head { seq: 3, hash: Some(Digest::of(b"x")) }, None, Some((3, "rewritten"))),
        (Head { seq: 6, hash: Some(Digest::of(b"x")) }, None, Some((5, "truncated after 5"))),
    ];
    for (anchor, anchored, fault) in cases {
        let reports = [
            verify::session(&stage.journal, &uid, Some(anchor)).await.expect("readable"),
            verify::export(Cursor::new(&exported), Some(anchor)).expect("readable"),
        ];
        for report in reports {
            assert_eq!(report.anchored, anchored);
            match (&report.fault, fault) {
                (None, None) => {}
                (Some(found), Some((seq, text))) => {
                    assert_eq!((found.seq, found.kind), (seq, FaultKind::Head));
                    assert!(found.text.contains(text), "{found}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(verified(&stage, &uid).await.to_string().contains("no anchor"));
}

#[tokio::test]
async fn a_whole_store_is_walked() {
    let stage = Stage::new();
    let parent = stage.create("sess-parent").await;
    stage.conversation(&parent, 1).await;
    let child = stage.fork(&parent, 3, "sess-child").await;
    stage.create("sess-empty").await;
    // A deleted parent is checked through the child that reads it.
    stage.journal.delete(&parent).await.expect("deleted");
    let mut found = Vec::new();
    verify::store(&stage.journal, &mut |uid, report| found.push((uid.clone(), report.records, report.fault.clone())))
        .await
        .expect("readable");
    assert_eq!(found, [(child, 4, None), (SessionUid::from("sess-empty"), 0, None)]);
}

/// An event of a newer host is kept, served, exported and verified as it is.
#[tokio::test]
async fn a_record_from_a_newer_host_travels_unchanged() {
    let (from, to) = (Stage::new(), Stage::new());
    let uid = from.create("sess-a").await;
    let event = Bytes::from_static(br#"{"hologram":{"x":[1,2]},"kind":"EVENT_OF_TOMORROW"}"#);
    let record = inspan_journal::NewRecord::seal(1, None, event.clone());
    let append = inspan_journal::Append {
        session: uid.clone(),
        expect_head: 0,
        fence: inspan_journal::FenceRule::Next,
        records: vec![record],
        turn: None,
        state: inspan_journal::State::default(),
        requests: vec![],
        blobs: vec![],
        keys: Vec::new(),
    };
    from.journal.append(append).await.expect("appended");
    to.import(&from.export(&uid).await).await;
    assert_eq!(records(&to, &uid).await[0].event, event);
}

/// A uri that only looks like one of ours, or whose digest field contradicts it, names nothing.
#[tokio::test]
async fn a_misnamed_blob_is_a_fault() {
    let stage = Stage::new();
    let digest = stage.journal.blobs().put(Bytes::from_static(b"x")).await.expect("kept");
    let blobs: Arc<dyn Blobs> = Arc::clone(stage.journal.blobs());
    assert!(blobs.get(digest).await.expect("readable").is_some());
    for (i, (uri, said)) in [
        (format!("inspan-blob:sha256:{digest}"), "sha256:aa".to_owned()),
        ("inspan-blob:md5:00".to_owned(), String::new()),
    ]
    .into_iter()
    .enumerate()
    {
        let uid = stage.create(&format!("sess-{i}")).await;
        let mut part = file(digest);
        if let Some(v1::part::Part::File(file)) = &mut part.part {
            file.source = Some(v1::file_part::Source::Uri(uri));
            file.digest = said;
        }
        let message = v1::Message { role: "user".into(), parts: vec![part] };
        let event = v1::Event::new("e", EventKind::EventInput, Body::Message(message));
        stage.append(&uid, &event, None, vec![]).await;
        let fault = verified(&stage, &uid).await.fault.expect("a fault");
        assert_eq!((fault.seq, fault.kind), (1, FaultKind::Blob));
    }
}
