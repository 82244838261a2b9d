//! Forks: nothing is copied, everything is read.

use inspan_journal::{Append, Error, Fork, TurnMark};
use inspan_wire::Digest;

use super::{Bed, append_to, child, new_session, state};

/// R-FORK-1, R-FORK-2, R-HASH-7: same seqs, events, hashes; then the marker; the parent unchanged.
pub(crate) async fn a_fork_reads_its_parents_records(bed: Bed) {
    bed.session_of("a", 9).await;
    let parent = (bed.get("a").await, bed.records("a").await);
    let made = bed.fork("a", 6, &["b", "c"]).await.unwrap();
    for (session, uid) in made.iter().zip(["b", "c"]) {
        assert_eq!(*session, bed.get(uid).await, "the answer and a read agree");
        assert_eq!(session.parent, Some(("a".into(), 6)));
        assert_eq!((session.head.seq, session.fence, &session.state), (7, 1, &state(7)));
        assert_eq!(session.info, new_session(uid, "p").info);
        let records = bed.records(uid).await;
        assert_eq!(records[..6], parent.1[..6]);
        assert_eq!((records[6].event.as_ref(), records[6].fence), (&br#"{"detail":"parent@6"}"#[..], 1));
    }
    assert_eq!((bed.get("a").await, bed.records("a").await), parent);
}

pub(crate) async fn a_fork_reads_across_every_boundary(bed: Bed) {
    bed.session_of("a", 4).await;
    bed.fork("a", 3, &["b"]).await.unwrap();
    bed.grow("b", 3).await;
    bed.fork("b", 6, &["c"]).await.unwrap();
    bed.grow("c", 2).await;
    let whole = bed.records("c").await;
    assert_eq!(whole.len(), 9);
    for from in 1..=9_usize {
        for to in from..=9 {
            let (first, last) = (from as i64, to as i64);
            let part = bed.journal.records(&"c".into(), first, last, 100).await.unwrap();
            assert_eq!(part, whole[from - 1..to], "{from} to {to}");
            let two = bed.journal.records(&"c".into(), first, last, 2).await.unwrap();
            assert_eq!(two, whole[from - 1..to.min(from + 1)], "two of {from} to {to}");
        }
    }
}

pub(crate) async fn a_fork_and_its_parent_part_ways(bed: Bed) {
    bed.session_of("a", 3).await;
    bed.fork("a", 3, &["b"]).await.unwrap();
    bed.grow("a", 4).await;
    bed.grow("b", 2).await;
    let (a, b) = (bed.records("a").await, bed.records("b").await);
    assert_eq!((a.len(), b.len()), (7, 6));
    assert_eq!(a[..3], b[..3]);
    assert_ne!(a[3].content_hash, b[3].content_hash);
}

pub(crate) async fn a_fork_at_nothing_starts_with_the_marker(bed: Bed) {
    bed.create("a").await;
    bed.fork("a", 0, &["b"]).await.unwrap();
    bed.grow("b", 1).await;
    bed.grow("a", 2).await;
    let records = bed.records("b").await;
    assert_eq!(records.len(), 2);
    assert_eq!(records[0].event.as_ref(), br#"{"detail":"parent@0"}"#);
}

/// R-FORK-2: an `at_seq` of 0 is the head; a head that moved meanwhile is a conflict, not a guess.
pub(crate) async fn a_fork_at_zero_is_at_the_head(bed: Bed) {
    bed.session_of("a", 5).await;
    let head = bed.head("a").await;
    let at_head = |uid: &str| Fork { parent: "a".into(), at_seq: 0, children: vec![child(uid, head.seq, head.hash)] };
    let made = bed.journal.fork(at_head("b")).await.unwrap();
    assert_eq!(made[0].parent, Some(("a".into(), 5)));
    bed.grow("a", 1).await;
    let moved = bed.journal.fork(at_head("c")).await;
    assert_eq!(moved, Err(Error::Conflict { session: "a".into(), expected: 5, actual: 6 }));
}

/// R-FORK-6.
pub(crate) async fn all_children_or_none(bed: Bed) {
    bed.session_of("a", 2).await;
    bed.create("taken").await;
    assert_eq!(bed.fork("a", 2, &["b", "taken", "c"]).await, Err(Error::Exists("taken".into())));
    assert_eq!(bed.fork("a", 2, &["b", "c", "b"]).await, Err(Error::Exists("b".into())));
    for uid in ["b", "c"] {
        assert_eq!(bed.journal.session(&uid.into()).await.unwrap(), None);
    }
    assert!(matches!(bed.fork("a", 2, &[]).await, Err(Error::Invalid(_))));
    bed.fork("a", 2, &["b", "c"]).await.unwrap();
}

pub(crate) async fn a_fork_beyond_the_head_is_refused(bed: Bed) {
    bed.session_of("a", 2).await;
    let hash = bed.hash_at("a", 2).await;
    let fork = Fork { parent: "a".into(), at_seq: 3, children: vec![child("b", 3, hash)] };
    let refused = bed.journal.fork(fork).await;
    assert!(matches!(&refused, Err(Error::Invalid(text)) if text.contains("ends at 2")), "{refused:?}");
}

pub(crate) async fn a_marker_that_does_not_link_is_refused(bed: Bed) {
    bed.session_of("a", 5).await;
    for (at, hash) in [(3, Some(Digest::of(b"other"))), (3, None), (4, bed.hash_at("a", 4).await)] {
        let fork = Fork { parent: "a".into(), at_seq: 3, children: vec![child("b", at, hash)] };
        assert!(matches!(bed.journal.fork(fork).await, Err(Error::Invalid(_))));
    }
    assert_eq!(bed.journal.session(&"b".into()).await.unwrap(), None);
}

pub(crate) async fn a_fork_below_the_fork_point_reads_the_grandparent(bed: Bed) {
    bed.session_of("a", 8).await;
    bed.fork("a", 6, &["b"]).await.unwrap();
    bed.fork("b", 3, &["c"]).await.unwrap();
    bed.grow("c", 2).await;
    assert_eq!(bed.get("c").await.parent, Some(("b".into(), 3)));
    let (a, c) = (bed.records("a").await, bed.records("c").await);
    assert_eq!(a[..3], c[..3]);
    assert_eq!(c.len(), 6);
}

/// A lineage is walked in a loop and read in one pass, however deep.
pub(crate) async fn a_thousand_generations_read_in_order(bed: Bed) {
    bed.session_of("g0", 1).await;
    let mut head = bed.head("g0").await;
    for n in 1..=1000 {
        let parent = format!("g{}", n - 1);
        let children = vec![child(&format!("g{n}"), head.seq, head.hash)];
        let made = bed.journal.fork(Fork { parent: parent.as_str().into(), at_seq: head.seq, children }).await.unwrap();
        head = made[0].head;
    }
    let uid = "g1000".into();
    let records = bed.journal.records(&uid, 1, i64::MAX, 2000).await.unwrap();
    super::check_chain(&records, head);
    assert_eq!(records.len(), 1001);
    assert_eq!(bed.journal.turn_at(&uid, 1001).await.unwrap(), None);
    assert!(!bed.journal.names_blob(&uid, Digest::of(b"x")).await.unwrap());
    // A fork near the root of the last generation finds its record far up.
    bed.fork("g1000", 2, &["late"]).await.unwrap();
    assert_eq!(bed.records("late").await.len(), 3);
}

pub(crate) async fn turns_are_found_through_the_lineage(bed: Bed) {
    bed.session_of("a", 1).await;
    for first_seq in [2, 4, 6] {
        let turn = TurnMark { execution_id: format!("e{first_seq}"), first_seq, before: state(first_seq) };
        bed.append(Append { turn: Some(turn), ..append_to("a", bed.head("a").await, &["{}", "{}"]) }).await.unwrap();
    }
    bed.fork("a", 5, &["b"]).await.unwrap();
    let turn = TurnMark { execution_id: "own".into(), first_seq: 7, before: state(0) };
    bed.append(Append { turn: Some(turn), ..append_to("b", bed.head("b").await, &["{}"]) }).await.unwrap();
    for (at, expect) in [(1, None), (3, Some("e2")), (5, Some("e4")), (6, Some("e4")), (7, Some("own"))] {
        let turn = bed.journal.turn_at(&"b".into(), at).await.unwrap();
        assert_eq!(turn.map(|t| t.execution_id).as_deref(), expect, "at {at}");
    }
}

/// A record that grows: 128 children of a session of 100,000 records, each read to its end. On disk they
/// add rows, not records.
pub(crate) async fn many_children_of_a_long_session_cost_little(bed: Bed) {
    const RECORDS: usize = 100_000;
    bed.create("a").await;
    let mut head = bed.head("a").await;
    let texts: Vec<String> = (0..RECORDS).map(|n| format!("{{\"n\":{n}}}")).collect();
    for part in texts.chunks(5000) {
        let part: Vec<&str> = part.iter().map(String::as_str).collect();
        let append = append_to("a", head, &part);
        head = super::head_after(&append);
        bed.append(append).await.unwrap();
    }
    let bed = bed.reopen();
    let before = bed.bytes();
    let uids: Vec<String> = (0..128).map(|n| format!("child{n:03}")).collect();
    let uids: Vec<&str> = uids.iter().map(String::as_str).collect();
    bed.fork("a", head.seq - 10, &uids).await.unwrap();
    let bed = bed.reopen();
    if let (Some(before), Some(after)) = (before, bed.bytes()) {
        assert!(after - before <= 200_000, "128 children added {} bytes", after - before);
    }
    let list = inspan_journal::ListQuery { project: "p".to_owned(), limit: 500, after: None };
    assert_eq!(bed.journal.list(list).await.unwrap().sessions.len(), 129);
    for uid in uids {
        let tail = bed.journal.records(&uid.into(), head.seq - 20, i64::MAX, 100).await.unwrap();
        assert_eq!(tail.len(), 12, "ten and one of the parent, and the marker");
    }
    let (mut seq, mut calls) = (0, 0);
    while seq < head.seq - 9 {
        let page = bed.journal.records(&"child127".into(), seq + 1, i64::MAX, 10_000).await.unwrap();
        seq = page.last().expect("there is more").seq;
        calls += 1;
    }
    assert_eq!(calls, 10, "ten answers of ten thousand records");
}
